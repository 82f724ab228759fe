"""Commands keep users' files, do not disturb each other, and notice an index that is replaced meanwhile."""

import json
import os
import shutil
import stat
import threading

import numpy as np
import pytest

from rerank_plugin import options as commandline
from rerank_plugin import search
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.run_writer import RunWriter
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import (
    INDEX,
    Index,
    IndexReplacedError,
    checksum_of,
    retry_if_replaced,
)
from rerank_plugin.indexes.vector_store_writer import Spills, write_store
from rerank_plugin.indexes.verification import verify
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.retrieval.lucene import LuceneConfig
from tests.processes import inside, start, status_of

QUERIES = "q1\taspirin and the heart\nq2\tvitamin\n"
SEARCH = "search --index index --queries queries.tsv --output"
MEASURE = "evaluate --qrels qrels.txt"


@pytest.fixture
def work(tmp_path, monkeypatch, index_folder):
    """The test's folder, with what the commands read; the shared index has the name ``index``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commandline, "set_up_logging", lambda verbose: None)
    files = {
        "queries.tsv": QUERIES,
        "qrels.txt": "q1 0 MED-1 2\nq1 0 MED-10 1\nq1 0 MED-100 0\n",
        "corpus.jsonl": '{"_id": "d1", "title": "aspirin", "text": "heart"}\n',
        "a.run": "q1 Q0 MED-1 1 2.0 t\nq1 Q0 MED-10 2 1.0 t\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "index").symlink_to(index_folder)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "index --corpus corpus.jsonl --index V --overwrite",
        "index --corpus V --index V --overwrite",
        "embed words --corpus corpus.jsonl --min-count 1 --epochs 1 --output V --overwrite",
        "knowledge compile --source sample --output V --overwrite",
        "train --index index --words none --train q --validation q --output V --overwrite",
        "weak --corpus corpus.jsonl --output V --overwrite",
        "clicks --simulate sample --output V/corpus.jsonl --overwrite",
        f"{SEARCH} V/corpus.jsonl --overwrite",
        f"{SEARCH} V/corpus.jsonl --resume",
        "fuse a.run a.run --output V/corpus.jsonl --overwrite",
    ],
)
def test_a_users_folder_or_file_is_never_replaced(work, refused, line):
    mine = {"corpus.jsonl": '{"_id": "d1", "title": "mine", "text": "all of it"}\n', "thesis.tex": "mine"}
    (work / "V").mkdir()
    for name, text in mine.items():
        (work / "V" / name).write_text(text)
    assert "it is left as it is" in refused(line)
    assert {path.name: path.read_text() for path in (work / "V").iterdir()} == mine


CLICKS = (
    "query_id\tquery\tdocument\timpressions\tsummary_clicks\tfull_text_clicks\tfull_text\nq\taspirin\td\t5\t3\t2\t1\n"
)


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        *(
            ("notes", text, f"{MEASURE} a.run --output notes", "is not a table of measures")
            for text in (
                '{\n  "name": "my-package"\n}\n', '{\n "queries": 1\n}\n',
                "| my | table |\n|---|---|\n| precious | notes |\n", "run the following by hand: precious\n",
                "run,by,hand\n", "labels and notes\n", QUERIES,
            )
        ),
        ("log.tsv", CLICKS, "clicks --simulate sample:test --output log.tsv", "is not a simulated click log"),
        ("folds/folds.tsv", "q1\t1\n", "train --index index --words w --train q --folds 5 --output folds",
         "is not a cross-validation"),
        ("p.run.part", "mine", f"{SEARCH} p.run", "p.run.part was not left by an interrupted search"),
        ("p.run.part.journal", "mine", f"{SEARCH} p.run", "part.journal was not left by an interrupted search"),
    ],
)  # fmt: skip
def test_a_file_that_looks_like_an_output_is_kept(work, refused, name, text, line, message):
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text(text)
    before = sorted(work.rglob("*"))
    assert message in refused(f"{line} --overwrite")
    assert (work / name).read_text() == text and sorted(work.rglob("*")) == before


def test_a_foreign_file_in_an_index_keeps_it(work, refused, index_folder):
    shutil.copytree(index_folder, work / "V")
    (work / "V" / "lucene" / "thesis.tex").write_text("mine")
    assert "holds lucene/thesis.tex" in refused("index --corpus corpus.jsonl --index V --overwrite")
    (work / "V" / "lucene" / "thesis.tex").unlink()
    inside(work, "index --corpus corpus.jsonl --index V --overwrite")
    assert len(Index(work / "V").forward) == 1


@pytest.mark.parametrize(
    "line",
    [
        *(f"{MEASURE} a.run --format {form}" for form in ("table", "markdown", "csv", "json")),
        f"{MEASURE} a.run --per-query --format csv",
        f"{MEASURE} a.run b.run --baseline b.run",
        "fuse a.run b.run",
        "clicks --simulate sample:test --sessions 2",
    ],
)
def test_an_output_is_recognized_and_replaced_only_when_asked(work, refused, line):
    shutil.copy("a.run", "b.run")
    (work / "made").write_text("")  # as mktemp makes it: nothing is lost
    inside(work, f"{line} --output made")
    assert "made exists already: choose another place, or overwrite it" in refused(f"{line} --output made")
    inside(work, f"{line} --output made --overwrite")


def test_a_run_is_replaced_only_when_asked(work, refused):
    inside(work, f"{SEARCH} o.run")
    before = (work / "o.run").read_text().splitlines()
    assert "o.run exists already: choose another place, or overwrite it" in refused(f"{SEARCH} o.run")
    inside(work, f"{SEARCH} o.run --depth 1 --overwrite")
    inside(work, f"{SEARCH} o.run --resume")  # it is finished
    assert len(before) > len((work / "o.run").read_text().splitlines()) == 2
    assert "with the tag bm25 instead of other" in refused(f"{SEARCH} o.run --resume --tag other")


@pytest.mark.parametrize("planted", ["o.run.part", "o.run.part.journal"])
def test_nothing_is_written_through_a_planted_link(work, refused, planted):
    (work / "thesis.tex").write_text("mine")
    (work / planted).symlink_to("thesis.tex")
    assert f"{planted}: cannot be written" in refused(f"{SEARCH} o.run")
    assert (work / "thesis.tex").read_text() == "mine"


def test_the_second_search_at_one_output_is_refused(work, refused):
    with RunWriter("o.run", "bm25", {}) as writer:
        assert "o.run.part is being written by another process" in refused(f"{SEARCH} o.run --overwrite")
        writer.write_ranked("q1", ["MED-1"], np.array([1.0], np.float32))
    assert (work / "o.run").read_text() == "q1 Q0 MED-1 1 1 bm25\n"


WRITER = """
import sys, numpy as np
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.run_writer import RunWriter

tag = sys.argv[1]
try:
    with RunWriter("o.run", tag, {"tag": tag}, overwrite=True) as writer:
        for number in range(300):
            writer.write_ranked(f"q{number}", ["a", "b"], np.array([2.0, 1.0], np.float32))
except InputError:
    sys.exit(2)
"""


def test_many_processes_at_one_output_leave_one_whole_run(tmp_path):
    """Each of them either writes the whole run, or is refused; their lines never mix."""
    processes = [start(tmp_path, "-c", WRITER, number) for number in range(6)]
    statuses = [process.wait(60) for process in processes]
    lines = (tmp_path / "o.run").read_text().splitlines()
    [tag] = {line.split()[-1] for line in lines}
    assert set(statuses) <= {0, 2} and statuses[int(tag)] == 0 and len(lines) == 600


def test_a_device_is_written_into(work, capsys):
    try:
        os.mknod(work / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        pytest.skip("only root can make a device")
    for line in (f"{SEARCH} null", f"{SEARCH} null --overwrite"):
        inside(work, line)
    assert stat.S_ISCHR((work / "null").stat().st_mode)
    assert "null: 2 queries" in capsys.readouterr().err


def test_a_run_into_a_pipe(work):
    os.mkfifo(work / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((work / "pipe").read_text()), daemon=True)
    reader.start()
    inside(work, f"{SEARCH} pipe")
    reader.join(60)
    inside(work, f"{SEARCH} o.run")
    assert read == [(work / "o.run").read_text()]


# One commit of an index is one thing.

OLD = [Document(f"a{n}", f"aspirin {n}", "heart attack " * (n % 7)) for n in range(60)]
NEW = [Document(f"b{n}", f"vitamin {n}", "aspirin deficiency " * (n % 5)) for n in range(60)][::-1]


def build(folder, documents):
    build_single(iter(documents), folder, "test", Problems(), overwrite=True)


@pytest.fixture(scope="module")
def two_builds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("builds")
    build(folder / "old", OLD)
    build(folder / "new", NEW)
    return folder


@pytest.fixture
def copy(two_builds, tmp_path):
    return shutil.copytree(two_builds / "old", tmp_path / "copy")


def describe_again(folder):
    """Write the checksums of the files of an index as they are now."""
    described = json.loads((folder / "index.json").read_text())
    kept = {name: file for name, file in described["files"].items() if (folder / name).is_file()}
    written = INDEX.seal(folder, described, INDEX.describe(folder, kept))
    (folder / "commits/000001.json").write_text(json.dumps(written))


def exchange(build, place):
    shutil.rmtree(place)
    shutil.copytree(build, place)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda index: index.description, lambda index: index.forward),
        (lambda index: index.forward, lambda index: index.first_stage(LuceneConfig())),
    ],
    ids=["the forward index", "Lucene"],
)
def test_an_index_that_is_replaced_between_its_parts_is_not_mixed(two_builds, copy, before, after):
    index = Index(copy)
    before(index)
    exchange(two_builds / "new", copy)
    with pytest.raises(IndexReplacedError, match="was replaced while it was being opened"):
        after(index)


def test_an_index_replaced_during_opening_is_opened_again(two_builds, copy):
    builds = ["new", "old", "new"]

    def opening():
        index = Index(copy)
        index.forward
        if builds:
            exchange(two_builds / builds.pop(), copy)
        return index.forward, index.first_stage(LuceneConfig())

    forward, first_stage = retry_if_replaced(copy, opening)
    assert not builds and forward is first_stage.forward
    assert {id[0] for id in first_stage.search(Query("q", "aspirin"), 5).ids} == {"b"}


def test_lucene_of_another_build_is_refused(two_builds, copy):
    """Of as many documents and with a description that fits: only the recorded commit tells."""
    exchange(two_builds / "new" / "lucene", copy / "lucene")
    describe_again(copy)
    with pytest.raises(InputError, match="is of another build"):
        Index(copy).first_stage(LuceneConfig())


SEARCHER = """
import sys
from rerank_plugin.base.errors import InputError
from rerank_plugin.java.jvm import start_jvm
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.index_folder import Index, retry_if_replaced
from rerank_plugin.retrieval.lucene import LuceneConfig

def opening():
    index = Index(sys.argv[1])
    return index.forward, index.first_stage(LuceneConfig())

start_jvm()
for _ in range(150):
    try:
        forward, stage = retry_if_replaced(sys.argv[1], opening)
    except InputError as error:
        print("refused", error)
        continue
    found = stage.search(Query("q", "aspirin"), 60)
    titles = forward.titles.take(found.rows)
    whole = {id[0] for id in found.ids}, {title.split()[0] for title in titles}
    print("whole" if whole in (({"a"}, {"aspirin"}), ({"b"}, {"vitamin"})) else f"mixed {whole}")
    stage.close()
"""


def test_searches_while_an_index_is_replaced_again_and_again(copy, tmp_path):
    """Real processes: whatever the moment, what is opened is one build."""
    searching = start(tmp_path, "-c", SEARCHER, copy)
    replaced = 0
    while searching.poll() is None:
        build(copy, (NEW, OLD)[replaced % 2])
        replaced += 1
    out, err = searching.communicate()
    lines = out.splitlines()
    assert searching.returncode == 0 and len(lines) == 150, err
    assert all(line == "whole" or "replaced while" in line for line in lines), set(lines)
    assert lines.count("whole") > 100 and replaced > 5


# Verification.


def change(path, **changes):
    """Write changes into a description; None removes an entry. Returns the description as it is then."""
    changed = {**json.loads(path.read_text()), **changes}
    changed = {name: value for name, value in changed.items() if value is not None}
    path.write_text(json.dumps(changed))
    return changed


def without_lucene(described):
    return {"files": {name: file for name, file in described["files"].items() if not name.startswith("lucene/")}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda old: {"fields": {**old["fields"], "text": {**old["fields"]["text"], "mean_length": 7.5}}},
         "the field text has .*7.5"),
        (without_lucene, "lucene/.* is not on the list of index.json: rebuild the index"),
        (lambda old: {"documents": 61}, "has 61 documents, but its files 60"),
    ],
    ids=["statistics", "files", "documents"],
)  # fmt: skip
def test_verification_notices_a_changed_description(copy, changes, message):
    path = copy / "index.json"
    change(path, **changes(change(path)))
    with pytest.raises(InputError, match="index.json was changed since it was written"):
        verify(Index(copy))
    change(path, checksum=None)  # as older descriptions are
    with pytest.raises(InputError, match=message):
        verify(Index(copy))


def damage(folder):
    path = folder / "000001/codes.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def give_to_another_index(folder):
    path = folder / "encodings.json"
    change(path, checksum=checksum_of(change(path, forward_index="0" * 32, checksum=None)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (damage, "codes.npy has changed"),
        (lambda folder: (folder / "000001/codes.npy").unlink(), "codes.npy is missing"),
        (lambda folder: (folder / "encodings.json").unlink(), "it holds no encodings.json"),
        (lambda folder: change(folder / "encodings.json", files={}), "encodings.json was changed since"),
        (give_to_another_index, "is of other weights or of another index"),
        (lambda folder: folder.rename(folder.with_name("other")), "is of other weights or of another index"),
        (lambda folder: (folder / "more.npy").write_text("mine"), "more.npy is not listed in encodings.json"),
    ],
)
def test_verification_notices_encodings_that_are_damaged_or_do_not_belong(copy, refused, spoil, message):
    forward = Index(copy).forward
    spills = Spills(forward, "key", Spaces([3]))
    for rows in spills:
        spills.keep(rows, np.ones((len(rows), 3), np.float32))
    folder = write_store(spills)
    assert verify(Index(copy)) == len(json.loads((copy / "index.json").read_text())["files"]) + 9
    spoil(folder)
    assert message in refused("index --verify --index copy")


def test_damaged_terms_of_a_knowledge_base_are_made_again(work):
    """Compiled code follows their offsets, so what is damaged must not be read."""
    inside(work, "knowledge compile --source sample --output kb")
    line = "knowledge annotate --knowledge kb --text migraine"
    expected = inside(work, line)
    assert "migraine" in expected
    for name in ("concepts", "concept_offsets", "character_offsets", "gram_offsets"):
        path = work / "kb" / "annotation" / f"{name}.npy"
        np.save(path, np.roll(np.load(path), 7))
        assert inside(work, line) == expected


# Resuming with the same inputs.

CHANGES = {
    "index": lambda work: build(work / "V", NEW),
    "queries": lambda work: (work / "queries.tsv").write_text("q1\tsomething else\nq2\tvitamin\n"),
    "run": lambda work: (work / "a.run").write_text("q1 Q0 a2 1 1.0 t\nq2 Q0 a1 1 1.0 t\n"),
}


@pytest.mark.parametrize("replace", CHANGES.values(), ids=CHANGES)
def test_a_search_resumes_only_with_the_same_inputs(work, refused, monkeypatch, two_builds, replace):
    """Otherwise one run would be made of two collections, exit 0."""
    shutil.copytree(two_builds / "old", work / "V")
    (work / "a.run").write_text("q1 Q0 a1 1 1.0 t\nq2 Q0 a2 1 1.0 t\n")
    line = "--index V --queries queries.tsv --output o.run --run a.run --reranker bm25-title"
    write = RunWriter.write_ranked

    def stopping(self, *ranking):
        if self.finished:
            raise KeyboardInterrupt
        write(self, *ranking)

    with monkeypatch.context() as patched:
        patched.setattr(RunWriter, "write_ranked", stopping)
        assert status_of(search.main, line.split()) == 130
    replace(work)
    assert "was begun with other settings" in refused(f"search {line} --resume")
    assert not (work / "o.run").exists() and (work / "o.run.part").stat().st_size


# Arrays that compiled code follows.

BEYOND = {
    "a word that no term is": ("tokens", 100, 2**31),
    "a text that ends beyond the words": ("offsets", -1, 2**40),
    "a text that ends before it begins": ("offsets", 5, 2**40),
    "a text that begins late": ("offsets", 0, 1),
    "a title longer than its text": ("title_lengths", 3, 2**20),
    "a string that ends beyond the bytes": ("titles.offsets", 7, 2**63),
    "a row of an id that no document has": ("ids.rows", 0, 60),
    "hashes that are not sorted": ("terms.hashes", 0, 2**64 - 1),
}


@pytest.mark.parametrize(("name", "place", "value"), BEYOND.values(), ids=BEYOND)
def test_no_array_leads_outside_another(copy, refused, name, place, value):
    """Even if the checksums are written again; found once, and as long as the file is as it is."""
    path = copy / "segments" / "000001" / f"{name}.npy"
    array = np.load(path)
    array[place] = value
    np.save(path, array)
    describe_again(copy)
    for _ in range(2):
        assert "do not fit together" in refused("search --index copy --query aspirin --reranker bm25-text")


@pytest.mark.parametrize("name", ["tokens", "unique_text", "df_text", "titles.bytes"])
def test_arrays_of_another_type_or_length_are_refused(copy, refused, name):
    path = copy / "segments" / "000001" / f"{name}.npy"
    array = np.load(path)
    for changed in (array.astype(np.float32), array[None], array[:-1]):
        np.save(path, changed)
        describe_again(copy)
        found = refused("search --index copy --query aspirin --reranker bm25-text")
        assert f"{name}.npy is " in found or "do not fit together" in found
