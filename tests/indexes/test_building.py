"""Building an index folder, and opening damaged and other folders."""

import json
import shlex
import shutil

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.files.checksums import END, sealed
from rerank_plugin.indexes import lucene_writer
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.verification import verify
from rerank_plugin.retrieval.lucene import LuceneConfig

SMALL = [Document("a", "aspirin", "heart"), Document("b", "stroke", ""), Document("c", "", "kidney")]


def build(folder, documents=SMALL, problems=None, **options):
    return build_single(iter(documents), folder, "a test", problems or Problems(), **options)


def many(count):
    for number in range(count):
        yield Document(f"d{number}", f"word{number % 17} common", f"other{number % 5} words {number}")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_report_and_the_description(tmp_path):
    folder = tmp_path / "deep" / "index"
    report = build(folder)
    assert (report.documents, report.terms, report.tokens) == (3, 4, 4)
    assert names(tmp_path / "deep") == ["index"]  # nothing temporary stays
    assert names(folder) == ["commits", "index.json", "lucene", "segments"]
    description = Index(folder).description
    assert (description["documents"], description["terms"], description["source"]) == (3, 4, "a test")
    assert description["left_out"] == [] and description["format_version"] == 5
    assert description["number"] == 1
    below = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(description["files"]) == below - {"index.json", "commits/000001.json", "lucene/write.lock"}


def test_the_first_document_with_an_id_stays_and_the_others_are_counted(tmp_path):
    """Within a batch, and across batches of 1,000. Progress is told of every document, duplicates too."""
    more = [("x", "second"), ("d1", "third"), ("y", "fourth"), ("y", "fifth")]
    documents = [Document("x", "first", ""), *many(1200), *(Document(id, title, "") for id, title in more)]
    problems, seen = Problems(), []

    def progress(items):
        for item in items:
            seen.append(item.id)
            yield item

    assert build(tmp_path / "index", documents, problems, progress=progress).documents == 1202
    assert seen == [document.id for document in documents]
    assert problems.counts == {"duplicate id": 3} and problems.examples["duplicate id"] == ["x", "d1", "y"]
    index = Index(tmp_path / "index")
    assert index.description["left_out"] == ["3 duplicate ids: x, d1, y"]
    rows = index.forward.rows(["x", "d1", "y"])
    assert index.forward.titles.take(rows) == ["first", "word1 common", "fourth"]
    assert index.forward.terms.find(["second", "third", "fifth"]).tolist() == [-1, -1, -1]
    assert index.first_stage(LuceneConfig()).search(Query("q", "first second third fourth fifth"), 9).ids == ["y", "x"]


@pytest.mark.parametrize(
    "documents, strict, message",
    [([*SMALL, Document("b", "again", "")], True, "duplicate id: b"), ([], False, "no document to index in a test")],
)
def test_a_failed_build_leaves_nothing(tmp_path, documents, strict, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path / "index", documents, Problems(strict=strict))
    assert names(tmp_path) == []


def test_an_index_is_replaced_only_when_asked(tmp_path):
    build(tmp_path / "index")
    before = (tmp_path / "index" / "index.json").read_bytes()
    documents = many(5)
    with pytest.raises(InputError, match="exists already.*overwrite"):
        build(tmp_path / "index", documents)
    assert next(documents).id == "d0"  # it was found before the first document was read
    assert (tmp_path / "index" / "index.json").read_bytes() == before
    assert build(tmp_path / "index", many(5), overwrite=True).documents == 5
    index = Index(tmp_path / "index")
    verify(index)
    assert len(index.forward) == 5 and names(tmp_path) == ["index"]
    assert index.first_stage(LuceneConfig()).search(Query("q", "aspirin word3"), 5).ids == ["d3"]


class Stop(BaseException):
    """As an interrupt, no Exception."""


@pytest.mark.parametrize(
    "after, error", [(0, RuntimeError), (1, Stop), (999, Stop), (1000, RuntimeError), (2500, Stop)]
)
def test_an_exception_in_the_stream_keeps_the_old_index(tmp_path, after, error):
    def broken():
        yield from many(after)
        raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        build(tmp_path / "index", broken())
    assert names(tmp_path) == []
    build(tmp_path / "index")
    with pytest.raises(error, match="in the middle"):
        build(tmp_path / "index", broken(), overwrite=True)
    assert names(tmp_path) == ["index"]
    assert verify(Index(tmp_path / "index")) and Index(tmp_path / "index").description["documents"] == 3


def test_texts_cross_to_java_unharmed(tmp_path):
    """Quotes, backslashes, line ends, control characters, and characters beyond the first 65,536 in text and id.

    Text that was cut within a character (JSON may spell it so) is indexed without it."""
    documents = [
        Document('q"\\u0041', 'a "quoted" \\n title', "line\none\ttwo\r\nthree"),
        Document("𝐀🙂", "🙂 smile \x00 zero", "𝐀 bold"),
        Document("é", "\u2028 separators \u2029", "{'id': 'é'}"),
        Document("cut", "half \ud83d", "an abstract \ud83d"),
    ]
    build(tmp_path / "index", documents)
    search = Index(tmp_path / "index").first_stage(LuceneConfig()).search
    expected = [("quoted", 'q"\\u0041'), ("three", 'q"\\u0041'), ("smile", "𝐀🙂"), ("separators", "é"), ("🙂", "𝐀🙂")]
    for text, id in [*expected, ("half", "cut")]:
        assert search(Query("q", text), 5).ids == [id]


@pytest.fixture
def copy(index_folder, tmp_path):
    """A copy of the shared index that a test may damage."""
    return shutil.copytree(index_folder, tmp_path / "copy")


def refusal(folder):
    with pytest.raises(InputError) as raised:
        Index(folder)
    assert "\n" not in str(raised.value) and str(folder) in str(raised.value)
    return str(raised.value)


def test_other_folders_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for name in ("nowhere", "file"):
        assert "no index at" in refusal(tmp_path / name) and "rerank-plugin index" in refusal(tmp_path / name)
    assert "holds no index.json" in refusal(tmp_path)
    (tmp_path / "segments_1").touch()  # as Pyserini's command makes them
    assert f"rerank-plugin index --lucene {tmp_path}" in refusal(tmp_path)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"format_version": 2},
            "of format 2, this program reads 5; build it again with: rerank-plugin index --corpus ",
        ),
        ({"files": None}, "files is null, expected an object"),
        ({"number": "1"}, 'number is "1", expected a whole number'),
        ({"number": 2}, "commits/000002.json cannot be opened"),
        ({"files": {}, "tokenizer": {"name": "d18", "version": 0}}, "was tokenized with"),
        *(({"files": {}, "normalization": version}, f"was normalized by version {version}") for version in (99, "x")),
    ],
)
def test_an_index_of_another_format_or_tokenizer_is_refused(copy, changes, message):
    description = json.loads((copy / "index.json").read_text(encoding="utf-8"))
    (copy / "index.json").write_text(json.dumps(sealed({**description, **changes})), encoding="utf-8")
    assert message in refusal(copy)


@pytest.mark.parametrize(
    "content", ['{"format_version": 1', "", "\xff", "[]", "null", "7", "{}", '{"format_version": 1}']
)
def test_a_description_that_cannot_be_read_is_refused(copy, content):
    (copy / "index.json").write_text(content, encoding="latin-1")
    refusal(copy)


def files(folder):
    others = {"index.json", "000001.json", "write.lock"}
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in others)


def test_a_missing_or_shortened_file_and_changed_ends_are_noticed_at_opening_and_any_changed_byte_by_verify(copy):
    index = Index(copy)
    for path in files(copy):
        content = path.read_bytes()
        for place in {0, len(content) // 2, len(content) - 1} if content else ():
            changed = bytearray(content)
            changed[place] ^= 1
            path.write_bytes(changed)
            with pytest.raises(InputError, match="does not match its checksum") as raised:
                verify(index)
            assert str(path) in str(raised.value)
            if min(place, len(content) - 1 - place) < END:
                assert f"{path} has changed" in refusal(copy)
            path.write_bytes(content[:-1])
            assert f"{path} has {len(content) - 1} bytes, expected {len(content)}" in refusal(copy)
        path.write_bytes(content + b"x")
        assert f"{path} has {len(content) + 1} bytes" in refusal(copy)
        path.unlink()
        assert f"{path} is missing" in refusal(copy)
        path.write_bytes(content)
    verify(Index(copy))


@pytest.mark.parametrize("names", [["a.jsonl", "b c.jsonl"], ["b c.jsonl"], ["*.jsonl"]])
def test_the_command_that_builds_an_index_again_names_its_corpora_as_a_shell_reads_them(
    index_command, put, tmp_path, monkeypatch, names
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b c.jsonl"):
        put(name, f'{{"_id": "{name[0]}", "text": "a text"}}\n')
    assert index_command("--corpus", *names, "--index", "my index")[0] == 0
    program, command, *rest = shlex.split(Index("my index").rebuild)
    assert rest == ["--corpus", *names, "--index", str(tmp_path / "my index"), "--overwrite"]


@pytest.mark.parametrize("up_to, is_one", [(1199, False), (1200, True)])
def test_few_documents_are_one_segment_of_lucene(tmp_path, monkeypatch, up_to, is_one):
    monkeypatch.setattr(lucene_writer, "RAM_BUFFER_MB", 0.1)  # many are written
    monkeypatch.setattr(lucene_writer, "ONE_SEGMENT", up_to)
    build(tmp_path / "index", many(1200))
    assert (len(list((tmp_path / "index" / "lucene").glob("*.si"))) == 1) == is_one
