"""Damages to files, and the commands that read them, many to a process.

A command that reads a damaged file must refuse it with one line, or give the same result as before. Inputs of users
may give another result: there the input itself was what changed; so may resealed files of ours, whose checksums were
written again.
"""

import io
import json
import random
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

FAISS = {"dense-flat": "Flat", "dense-hnsw": "HNSW16,SQ8", "dense-ivf": "IVF8,PQ32x4", "dense-pca": "PCA32,IVF4,Flat"}
KINDS = ("flip", "flip", "word", "truncate", "empty", "extend", "zeros", "repeat")


@dataclass(frozen=True)
class Target:
    """Files, and a command that reads them in a folder where ``made`` is a copy of them, and ``in`` the inputs.

    Args:
        source: what is copied, relative to the inputs.
        line: the command; what it writes is ``read.*``, or its stdout.
        made: the copy's name, which tells the format of a file.
        ours: whether we wrote the files, so that a changed result is a fault.
        sealed: the description with the checksums of the other files, if there is one; a pattern.
        only: the beginning of the names of the files to damage.
    """

    name: str
    source: str
    line: str
    made: str = "made"
    ours: bool = True
    sealed: str | None = None
    only: str = ""


READ = "--queries in/queries.tsv --output read.run --overwrite"
TARGETS = (
    Target("index", "index", f"search --index made --reranker bm25-text {READ}", sealed="index.json"),
    Target("index, verified", "index", "index --verify --index made"),
    Target("updated index", "updated", f"search --index made --reranker bm25-text {READ}", sealed="index.json"),
    Target("index with concepts", "annotated", "index --verify --index made", sealed="index.json", only="segments"),
    Target("index of shards", "sharded", f"search --index made --first-stage hybrid {READ}", sealed="index.json"),
    Target(
        "encodings",
        "encoded",
        f"search --index made --first-stage dense:ktrel {READ}",
        sealed="encodings/**/encodings.json",
        only="encodings",
    ),
    Target(
        "judged queries",
        "encoded",
        f"search --index made --first-stage neighbours:ktrel {READ}",
        sealed="judged/**/judged.json",
        only="judged",
    ),
    *(
        Target(
            f"Faiss index {name}",
            name,
            f"search --index in/encoded --first-stage faiss:made --query-encoder ktrel {READ}",
            ours=False,
            only="index",
        )
        for name in FAISS
    ),
    Target("checkpoint", "delta", f"search --index in/index --reranker delta:made {READ}"),
    Target("word vectors", "words", "embed compact --words made --output read --overwrite"),
    Target("knowledge base", "kb", "knowledge annotate --knowledge made --text aspirin"),
    Target(
        "part of a search", "part", "search --index in/index --queries in/queries.tsv --output made/made.run --resume"
    ),
    Target(
        "corpus",
        "corpus.jsonl",
        "weak --corpus made.jsonl --queries 20 --held-out 5 --output read --overwrite",
        "made.jsonl",
        ours=False,
    ),
    Target(
        "packed corpus",
        "sample/corpus.jsonl.gz",
        "weak --corpus made.jsonl.gz --queries 20 --held-out 5 --output read --overwrite",
        "made.jsonl.gz",
        ours=False,
    ),
    Target(
        "queries",
        "queries.tsv",
        "search --index in/index --run in/runs/a.run --reranker docid --queries made.tsv --output read.run --overwrite",
        "made.tsv",
        ours=False,
    ),
    Target("collection", "sample", "evaluate --qrels made:test in/runs/a.run --format csv", ours=False),
    Target("run", "runs/a.run", "fuse made.run in/runs/b.run --output read.run --overwrite", "made.run", ours=False),
    Target(
        "packed run",
        "runs/c.run.gz",
        "fuse made.run.gz in/runs/b.run --output read.run --overwrite",
        "made.run.gz",
        ours=False,
    ),
    Target(
        "click log",
        "clicks.tsv",
        "clicks --log made.tsv --min-documents 1 --min-clicked 1 --output read --overwrite",
        "made.tsv",
        ours=False,
    ),
    Target(
        "word2vec text",
        "vectors.txt",
        "embed words --import made.txt --output read --overwrite",
        "made.txt",
        ours=False,
    ),
    Target("MeSH table", "mesh", "knowledge compile --source made --output read --overwrite", ours=False),
)


def damaged(content: bytes, kind: str, generator: random.Random) -> bytes:
    """Bytes with one damage; never the same as before."""
    at = generator.randrange(len(content)) if content else 0
    if kind == "flip" and content:
        return content[:at] + bytes([content[at] ^ (1 << generator.randrange(8))]) + content[at + 1 :]
    if kind == "word" and len(content) >= 8:
        at = min(at, len(content) - 8) // 4 * 4
        word = generator.choice([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\xff", generator.randbytes(4)])
        changed = content[:at] + word + content[at + 4 :]
        return changed if changed != content else content + b"\0"
    if kind == "truncate" and content:
        return content[:at]
    if kind == "empty" and content:
        return b""
    if kind == "zeros" and content.strip(b"\0"):
        return bytes(len(content))
    if kind == "repeat" and content:
        return content[: at + 1] + content[at:]
    return content + generator.choice([b"\0", b"\n", b"x", generator.randbytes(100)])


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def is_of(name: Path, target: Target) -> bool:
    return name.as_posix().startswith(target.only)


def digest(folder: Path, out: str) -> str:
    """A checksum of what a reader left: its files, or its stdout if there are none."""
    found = [file for path in sorted(folder.glob("read*")) for file in files_of(path)]
    found += sorted(folder.glob("made/made.run*"))
    state = blake2b(digest_size=16)
    for file in found:
        state.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    if not found:
        state.update(out.encode())
    return state.hexdigest()


def try_all(request: dict, run_command) -> None:
    """Try the damages of a request one after the other in this process; a line of JSON on stdout for each.

    A request has target (its name), copy (a folder made/ is copied from) and damages: [number, seed, resealed].
    """
    folder, original = Path(request["folder"]), Path(request["copy"])
    target = next(one for one in TARGETS if one.name == request["target"])
    place = folder / target.made
    copy = shutil.copytree if original.is_dir() else shutil.copyfile
    report = sys.__stdout__

    def read():
        for path in folder.glob("read*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = run_command(target.line.split())
        return status, digest(folder, out.getvalue()), err.getvalue()

    def restore():
        if place.is_dir():
            shutil.rmtree(place)
        copy(original, place)

    restore()
    status, expected, err = read()
    print(json.dumps({"expected": expected, "status": status, "err": err[-500:]}), file=report, flush=True)
    for number, seed, resealed in request["damages"]:
        generator = random.Random(seed)
        restore()
        file = generator.choice([path for path in files_of(place) if is_of(path.relative_to(place), target)])
        kind = generator.choice(KINDS)
        name = file.relative_to(folder).as_posix()
        print(json.dumps({"trying": number, "file": name, "kind": kind}), file=report, flush=True)
        file.write_bytes(damaged(file.read_bytes(), kind, generator))
        if resealed and target.sealed:
            reseal(next(place.glob(target.sealed), place))
        status, found, err = read()
        entry = {"number": number, "file": name, "kind": kind, "status": status, "same": found == expected}
        print(json.dumps({**entry, "err": err[-6000:]}), file=report, flush=True)
    restore()
    status, found, err = read()
    print(json.dumps({"again": found == expected, "status": status, "err": err[-500:]}), file=report, flush=True)


def reseal(description: Path) -> None:
    """Write the checksums of a description of ours again, as whoever changes files on purpose would."""
    from rerank_plugin.files.checksums import CHECKSUM, SEAL, describe_file, describe_parts, sealed

    def seal(path: Path, entry: str) -> dict:
        described = json.loads(path.read_bytes())
        files = {name: path.parent / name for name in described["files"] if (path.parent / name).is_file()}
        of_files = {
            name: describe_file(file) | describe_parts(file, file.stat().st_size) for name, file in files.items()
        }
        segments = {one.parent.name: seal(one, SEAL)[SEAL] for one in path.parent.glob("*/vectors.json")}
        described = sealed(described | {"files": of_files} | ({"segments": segments} if segments else {}), entry)
        path.write_text(json.dumps(described, indent=1, ensure_ascii=False), "utf-8")
        return described

    with suppress(ValueError, KeyError, TypeError, AttributeError):  # the description itself is damaged
        seal(description, CHECKSUM)
