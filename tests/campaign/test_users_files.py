"""What the commands do to files that are not theirs, to each other, and to an index that is replaced meanwhile."""

import json
import os
import shutil
import stat
import threading

import numpy as np
import pytest

from rerank_plugin import clicks, embed, evaluate, fuse, search, train, weak
from rerank_plugin import index as index_command
from rerank_plugin import options as commandline
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.files.run_writer import RunWriter
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.building import build_index
from rerank_plugin.indexes.index_folder import Index, IndexReplacedError, checksum_of, open_whole, write_description
from rerank_plugin.indexes.stored_encodings import write_encodings
from rerank_plugin.indexes.verification import verify
from rerank_plugin.knowledge import __main__ as knowledge
from rerank_plugin.retrieval.lucene import LuceneConfig
from tests.processes import start

QUERIES = "q1\taspirin and the heart\nq2\tvitamin\n"


@pytest.fixture
def work(tmp_path, monkeypatch, index_folder):
    """A folder to work in, with queries, a small corpus and the shared index under the name ``index``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commandline, "set_up_logging", lambda verbose: None)
    (tmp_path / "queries.tsv").write_text(QUERIES)
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "title": "aspirin", "text": "heart"}) + "\n")
    (tmp_path / "index").symlink_to(index_folder)
    return tmp_path


def run(module, line):
    """A command in this process: its status and what it printed to stderr is left to ``capsys``."""
    try:
        commandline.run(module.main, line.split())
    except SystemExit as stopped:
        return stopped.code
    return 0


def refused(module, line, capsys, said):
    capsys.readouterr()
    assert run(module, line) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and not out, err


SEARCH = "--index index --queries queries.tsv --output"


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (index_command, "--corpus corpus.jsonl --index V --overwrite"),
        (index_command, "--corpus V --index V --overwrite"),
        (embed, "words --corpus corpus.jsonl --min-count 1 --epochs 1 --output V --overwrite"),
        (knowledge, "compile --source sample --output V --overwrite"),
        (train, "--model delta --index index --words none --train q --validation q --output V --overwrite"),
        (weak, "--corpus corpus.jsonl --output V --overwrite"),
        (clicks, "--simulate sample --output V/corpus.jsonl --overwrite"),
        (search, f"{SEARCH} V/corpus.jsonl --overwrite"),
        (search, f"{SEARCH} V/corpus.jsonl --resume"),
        (fuse, "a.run b.run --output V/corpus.jsonl --overwrite"),
    ],
)  # fmt: skip
def test_a_users_folder_or_file_is_never_replaced(work, capsys, module, line):
    (work / "V").mkdir()
    for name in ("corpus.jsonl", "thesis.tex"):
        (work / "V" / name).write_text('{"_id": "d1", "title": "mine", "text": "all of it"}\n')
    for name in ("a.run", "b.run"):
        (work / name).write_text("q1 Q0 d1 1 1.0 t\n")
    refused(module, line, capsys, "it is left as it is")
    assert sorted(path.name for path in (work / "V").iterdir()) == ["corpus.jsonl", "thesis.tex"]
    assert all("mine" in path.read_text() for path in (work / "V").iterdir())


def test_a_foreign_file_in_an_index_keeps_it(work, capsys):
    assert run(index_command, "--corpus corpus.jsonl --index V") == 0
    (work / "V" / "lucene" / "thesis.tex").write_text("mine")
    refused(index_command, "--corpus corpus.jsonl --index V --overwrite", capsys, "holds lucene/thesis.tex")
    (work / "V" / "lucene" / "thesis.tex").unlink()
    assert run(index_command, "--corpus corpus.jsonl --index V --overwrite") == 0


def test_a_run_is_replaced_only_when_asked(work, capsys):
    assert run(search, f"{SEARCH} o.run") == 0
    before = (work / "o.run").read_bytes()
    refused(search, f"{SEARCH} o.run", capsys, "o.run exists already: choose another place, or overwrite it")
    assert run(search, f"{SEARCH} o.run --depth 1 --overwrite") == 0
    assert len(before.splitlines()) > len((work / "o.run").read_text().splitlines()) == 2
    assert run(search, f"{SEARCH} o.run --resume") == 0  # it is finished
    assert len((work / "o.run").read_text().splitlines()) == 2
    refused(search, f"{SEARCH} o.run --resume --tag other", capsys, "with the tag bm25 instead of other")
    assert run(fuse, "o.run o.run --output fused.run") == 0
    refused(fuse, "o.run o.run --output fused.run", capsys, "exists already")
    assert run(fuse, "o.run o.run --output fused.run --overwrite") == 0


def test_what_an_interrupted_search_left_is_replaced_only_when_asked(work, capsys):
    with pytest.raises(KeyboardInterrupt), RunWriter("o.run", "bm25", {}) as writer:
        writer.write_ranked("q1", ["MED-1"], np.array([1.0], np.float32))
        raise KeyboardInterrupt
    refused(search, f"{SEARCH} o.run", capsys, "o.run.part holds 1 queries of an interrupted search")
    assert run(search, f"{SEARCH} o.run --overwrite") == 0 and read_run("o.run").keys() == {"q1", "q2"}
    (work / "o.run.part.journal").write_text("mine")
    refused(search, f"{SEARCH} o.run --overwrite", capsys, "o.run.part.journal was not left by an interrupted search")
    assert (work / "o.run.part.journal").read_text() == "mine" and not (work / "o.run.part").exists()
    (work / "p.run.part").write_text("mine")
    refused(search, f"{SEARCH} p.run --overwrite", capsys, "p.run.part was not left by an interrupted search")
    assert (work / "p.run.part").read_text() == "mine" and not (work / "p.run.part.journal").exists()


def test_nothing_is_written_through_a_planted_link(work, capsys):
    (work / "thesis.tex").write_text("mine")
    for planted in ("o.run.part", "o.run.part.journal"):
        (work / planted).symlink_to("thesis.tex")
        refused(search, f"{SEARCH} o.run", capsys, f"{planted}: cannot be written")
        (work / planted).unlink()
    assert (work / "thesis.tex").read_text() == "mine"


def test_the_second_search_at_one_output_is_refused(work, capsys):
    with RunWriter("o.run", "bm25", {}) as writer:
        refused(search, f"{SEARCH} o.run --overwrite", capsys, "o.run.part is being written by another process")
        writer.write_ranked("q1", ["MED-1"], np.array([1.0], np.float32))
    assert (work / "o.run").read_text() == "q1 Q0 MED-1 1 1 bm25\n"


def test_many_processes_at_one_output_leave_one_whole_run(work):
    """Each of them either writes the whole run, or is refused; their lines never mix."""
    line = """if True:
        import sys, numpy as np
        from rerank_plugin.files.errors import InputError
        from rerank_plugin.files.run_writer import RunWriter
        tag = sys.argv[1]
        try:
            with RunWriter("o.run", tag, {"tag": tag}, overwrite=True) as writer:
                for q in range(300): writer.write_ranked(f"q{q}", ["a", "b"], np.array([2.0, 1.0], np.float32))
        except InputError: sys.exit(2)
    """
    processes = [start(work, "-c", line, f"t{number}") for number in range(6)]
    statuses = [process.wait(60) for process in processes]
    assert set(statuses) <= {0, 2} and 0 in statuses
    tags = {line.split()[-1] for line in (work / "o.run").read_text().splitlines()}
    assert len(tags) == 1 and len((work / "o.run").read_text().splitlines()) == 600
    assert statuses[int(tags.pop()[1:])] == 0


def test_a_device_is_written_into(work, capsys):
    try:
        os.mknod(work / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root can make a device")
    for line in (f"{SEARCH} null", f"{SEARCH} null --overwrite"):
        assert run(search, line) == 0
    assert stat.S_ISCHR((work / "null").stat().st_mode)
    assert "null: 2 queries" in capsys.readouterr().err


def test_a_run_into_a_pipe(work):
    os.mkfifo(work / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((work / "pipe").read_text()), daemon=True)
    reader.start()
    assert run(search, f"{SEARCH} pipe") == 0
    reader.join(60)
    assert run(search, f"{SEARCH} o.run") == 0 and read == [(work / "o.run").read_text()]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "name": "my-package"\n}\n', '{\n "queries": 1\n}\n', "| my | table |\n|---|---|\n| precious | notes |\n",
        "run the following by hand: precious\n", "run,by,hand\n", "labels and notes\n", QUERIES, "",
    ],
)  # fmt: skip
def test_only_tables_of_measures_are_replaced_by_them(work, capsys, text):
    (work / "qrels.txt").write_text("q1 0 MED-1 1\n")
    (work / "o.run").write_text("q1 Q0 MED-1 1 1.0 t\n")
    (work / "notes").write_text(text)
    line = "--qrels qrels.txt o.run --output notes --overwrite"
    if not text:
        assert run(evaluate, line) == 0
        return
    refused(evaluate, line, capsys, "is not a table of measures")
    assert (work / "notes").read_text() == text


def test_what_evaluate_writes_in_any_form_is_replaced_only_when_asked(work, capsys):
    """Written twice, so each is recognized as its own."""
    (work / "qrels.txt").write_text("q1 0 MED-1 2\nq1 0 MED-10 1\nq1 0 MED-100 0\n")
    for folder in ("before", "after"):
        (work / folder).mkdir()
    for name in ("before/a.run", "after/a.run", "o.run", "p.run"):
        (work / name).write_text("q1 Q0 MED-1 1 2.0 t\nq1 Q0 MED-10 2 1.0 t\n")
    forms = [
        *(f"o.run --format {form}" for form in ("table", "markdown", "csv", "json")),
        "o.run p.run --format paper --against o.run=p.run", "o.run p.run --format letters --letters P=p.run",
        "--before before after", "o.run p.run --pairs", "o.run --per-query --format csv",
        "o.run p.run --baseline p.run", "--describe-subsets --queries queries.tsv --index index",
    ]  # fmt: skip
    for number, form in enumerate(forms):
        line = f"--qrels qrels.txt {form} --output table{number}"
        assert run(evaluate, line) == 0, form
        refused(evaluate, line, capsys, "exists already")
        assert run(evaluate, f"{line} --overwrite") == 0, form


def test_a_real_click_log_is_not_replaced_by_a_simulated_one(work, capsys):
    (work / "qrels").mkdir()
    columns = "query_id\tquery\tdocument\timpressions\tsummary_clicks\tfull_text_clicks\tfull_text\n"
    (work / "real.tsv").write_text(columns + "q\taspirin\td1\t5\t3\t2\t1\n")
    refused(clicks, "--simulate sample:test --output real.tsv --overwrite", capsys, "is not a simulated click log")
    assert run(clicks, "--simulate sample:test --output log.tsv --sessions 2") == 0
    assert run(clicks, "--simulate sample:test --output log.tsv --sessions 2 --overwrite") == 0
    assert run(clicks, "--log log.tsv --min-documents 1 --min-clicked 1 --output judged") == 0


def test_folds_made_by_hand_are_kept(work, capsys):
    (work / "folds").mkdir()
    (work / "folds" / "folds.tsv").write_text("q1\t1\n")
    line = "--model delta --index index --words w --train q --folds 5 --output folds --overwrite"
    refused(train, line, capsys, "is not a cross-validation")


# One generation of an index is one thing.

OLD = [Document(f"a{n}", f"aspirin {n}", "heart attack " * (n % 7)) for n in range(60)]
NEW = [Document(f"b{n}", f"vitamin {n}", "aspirin deficiency " * (n % 5)) for n in range(60)][::-1]


def build(folder, documents):
    build_index(iter(documents), folder, "test", Problems(), overwrite=True, threads=1)


@pytest.fixture(scope="module")
def two_builds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("builds")
    build(folder / "old", OLD)
    build(folder / "new", NEW)
    return folder


@pytest.fixture
def copy(two_builds, tmp_path):
    return shutil.copytree(two_builds / "old", tmp_path / "index")


def exchange(build, place):
    shutil.rmtree(place)
    shutil.copytree(build, place)


def test_an_index_that_is_replaced_between_its_parts_is_not_mixed(two_builds, copy):
    index = Index(copy)
    assert len(index.forward) == 60
    exchange(two_builds / "new", copy)
    with pytest.raises(IndexReplacedError, match="was replaced while it was being opened"):
        index.first_stage(LuceneConfig())
    other = Index(copy)
    exchange(two_builds / "old", copy)
    with pytest.raises(IndexReplacedError):
        other.forward


def test_what_is_replaced_while_it_is_opened_is_opened_again(two_builds, copy):
    builds = ["new", "old", "new"]

    def opening():
        index = Index(copy)
        index.forward
        if builds:
            exchange(two_builds / builds.pop(), copy)
        return index.forward, index.first_stage(LuceneConfig())

    forward, first_stage = open_whole(opening)
    assert not builds and forward is first_stage.forward
    assert {id[0] for id in first_stage.search(Query("q", "aspirin"), 5).ids} == {"b"}


def test_lucene_of_another_build_is_refused(two_builds, copy):
    """Of as many documents and with a description that fits: only the recorded generation tells."""
    exchange(two_builds / "new" / "lucene", copy / "lucene")
    write_description(copy / "index.json", json.loads((copy / "index.json").read_text()))
    with pytest.raises(InputError, match="is of another build"):
        Index(copy).first_stage(LuceneConfig())


SEARCHER = """
import sys
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.index_folder import Index, open_whole
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.files.java import start_jvm

start_jvm()
for _ in range(int(sys.argv[2])):
    def opening():
        index = Index(sys.argv[1])
        index.forward
        return index.first_stage(LuceneConfig())
    try:
        stage = open_whole(opening)
    except InputError as error:
        print("refused", error)
        continue
    found = stage.search(Query("q", "aspirin"), 60)
    titles = stage.forward.titles.take(found.rows)
    whole = {id[0] for id in found.ids}, {title.split()[0] for title in titles}
    print("whole" if whole in (({"a"}, {"aspirin"}), ({"b"}, {"vitamin"})) else f"mixed {whole}")
    stage.close()
"""


def test_searches_while_an_index_is_replaced_again_and_again(copy, tmp_path):
    """Real processes: whatever the moment, what is opened is one build."""
    searching = start(tmp_path, "-c", SEARCHER, copy, 150)
    replaced = 0
    while searching.poll() is None:
        build(copy, (NEW, OLD)[replaced % 2])
        replaced += 1
    out, err = searching.communicate()
    said = out.splitlines()
    assert searching.returncode == 0 and len(said) == 150, err
    assert all(line == "whole" or "replaced while" in line for line in said), set(said)
    assert said.count("whole") > 100 and replaced > 5


# Verification.


def change(path, **changes):
    """Write changes into a description; None removes an entry. Returns the description as it was."""
    description = json.loads(path.read_text())
    changed = {name: value for name, value in {**description, **changes}.items() if value is not None}
    path.write_text(json.dumps(changed))
    return description


def test_verification_notices_a_changed_description(copy):
    path = copy / "index.json"
    description = change(path)
    fields = {**description["fields"], "text": {**description["fields"]["text"], "mean_length": 7.5}}
    name = next(name for name in description["files"] if name.startswith("lucene/"))
    files = {one: file for one, file in description["files"].items() if one != name}
    for changes, said in (
        ({"fields": fields}, "the field text has .*7.5"),
        ({"files": files}, f"{name} is not on the list of index.json: rebuild the index"),
        ({"documents": 61}, "does not say that there are 60 documents"),
    ):
        change(path, **changes)
        with pytest.raises(InputError, match="index.json does not match its checksum"):
            verify(Index(copy))
        change(path, checksum=None)  # as older descriptions are
        with pytest.raises(InputError, match=said):
            verify(Index(copy))
        path.write_text(json.dumps(description))


@pytest.fixture
def encoded(copy):
    """The folder of encodings that is added to an index."""
    forward = Index(copy).forward
    folder = write_encodings(forward, "key", [np.ones((len(forward), 3), np.float32)], 3)
    assert verify(Index(copy)) == len(json.loads((copy / "index.json").read_text())["files"]) + 2
    return folder


def test_verification_notices_damaged_encodings(copy, encoded, capsys, monkeypatch):
    monkeypatch.setattr(commandline, "set_up_logging", lambda verbose: None)
    assert run(index_command, f"--verify --index {copy}") == 0 and "files match" in capsys.readouterr().out
    path = encoded / "000001.npy"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    refused(index_command, f"--verify --index {copy}", capsys, "000001.npy does not match its checksum")
    path.unlink()
    refused(index_command, f"--verify --index {copy}", capsys, "000001.npy does not match its checksum")


def other_index(folder):
    change(folder / "encodings.json", forward_index="0" * 32, checksum=None)
    described = change(folder / "encodings.json")
    change(folder / "encodings.json", checksum=checksum_of(described))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "encodings.json").unlink(), "encodings.json cannot be read"),
        (lambda folder: change(folder / "encodings.json", files={}), "encodings.json is damaged, or of another index"),
        (other_index, "encodings.json is damaged, or of another index"),
        (lambda folder: folder.rename(folder.with_name("other")), "encodings.json is damaged, or of another index"),
        (lambda folder: (folder / "more.npy").write_text("mine"), "more.npy is not on the list of encodings.json"),
    ],
)
def test_verification_notices_encodings_that_do_not_belong(copy, encoded, spoil, said):
    spoil(encoded)
    with pytest.raises(InputError, match=said):
        verify(Index(copy))


def test_damaged_terms_of_a_knowledge_base_are_made_again(work, capsys):
    """Compiled code follows their offsets, so what is damaged must not be read."""
    assert run(knowledge, "compile --source sample --output kb") == 0
    line = ["annotate", "--knowledge", "kb", "--text", "colorectal cancer and migraine with heart failure"]
    said = []
    for name in ("", "concepts", "concept_offsets", "character_offsets", "gram_offsets"):
        if name:
            path = work / "kb" / "annotation" / f"{name}.npy"
            array = np.load(path)
            np.save(path, np.roll(array, 7))
        capsys.readouterr()
        knowledge.main(line)
        said.append(capsys.readouterr().out)
    assert "colorectal" in said[0] and said == [said[0]] * len(said)


# Going on with what was read.


def killed_after(monkeypatch, count):
    """Let the writing of a run stop, as by Ctrl-C, after so many queries."""
    write, done = RunWriter.write_ranked, []

    def stopping(self, *ranking):
        if len(done) == count:
            raise KeyboardInterrupt
        done.append(ranking)
        write(self, *ranking)

    monkeypatch.setattr(RunWriter, "write_ranked", stopping)


CHANGES = {
    "index": lambda work: build(work / "V", NEW),
    "queries": lambda work: (work / "queries.tsv").write_text("q1\tsomething else\nq2\tvitamin\n"),
    "run": lambda work: (work / "a.run").write_text("q1 Q0 a2 1 1.0 t\nq2 Q0 a1 1 1.0 t\n"),
}


@pytest.mark.parametrize("replace", CHANGES.values(), ids=CHANGES)
def test_a_search_goes_on_only_with_what_it_began_with(work, capsys, monkeypatch, two_builds, replace):
    """Otherwise one run would be made of two collections, exit 0."""
    shutil.copytree(two_builds / "old", work / "V")
    (work / "a.run").write_text("q1 Q0 a1 1 1.0 t\nq2 Q0 a2 1 1.0 t\n")
    line = "--index V --queries queries.tsv --output o.run --run a.run --reranker bm25-title"
    with monkeypatch.context() as patched:
        killed_after(patched, 1)
        assert run(search, line) == 130
    replace(work)
    refused(search, f"{line} --resume", capsys, "was begun with other settings")
    assert not (work / "o.run").exists() and (work / "o.run.part").stat().st_size
