"""Documents as JSON lines, and the problems of invalid lines."""

import gzip
import json
import zlib

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, documents


@pytest.fixture
def write(put):
    """Writes records as JSON lines, and texts as they are; the path of the file."""

    def write(*records, name="a.jsonl"):
        return put(
            name, "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)
        )

    return write


@pytest.mark.parametrize("id_key", ["_id", "id", "docid", "doc_id", "pmid"])
@pytest.mark.parametrize("text_key", ["text", "abstract", "contents", "body", "paragraphs", "answer"])
def test_every_id_and_text_key(write, id_key, text_key):
    spec = write({id_key: "d1", "title": "T", text_key: "words"})
    assert list(documents(spec)) == [Document("d1", "T", "words")]


@pytest.mark.parametrize(
    "record, expected",
    [
        # the first key that is not empty wins
        ({"pmid": 7, "id": "", "_id": None, "text": "", "body": "b", "abstract": "a"},
         ("7", "", "a", {"url": "https://pubmed.ncbi.nlm.nih.gov/7/"})),
        ({"id": 0, "title": None, "abstract": ["One.", "Two."]}, ("0", "", "One. Two.")),
        ({"id": "1", "title": 10**400}, ("1", str(10**400), "")),
        ({"id": "1", "title": [1.5], "text": 7}, ("1", "1.5", "7")),
        # inline markup is no text
        ({"id": "1", "title": "CO<sub>2</sub> &amp; <i>E. coli</i>", "text": ["TNF-&alpha; &lt; 5", "p<0.05"]},
         ("1", "CO2 & E. coli", "TNF-α < 5 p<0.05")),
        # half a surrogate pair becomes something that can be written
        ('{"id": "1", "title": "a \\ud83d b \\ud83d\\ude00"}', ("1", "a \ufffd b \U0001f600", "")),
        ('{"id": "1", "text": "\\uDC00"}', ("1", "", "\ufffd")),
    ],
)  # fmt: skip
def test_values_of_all_kinds(write, record, expected):
    [document] = documents(write(record, name="a.json"))
    assert document == Document(*expected)


def test_bom_blank_lines_line_separators_and_crlf(put):
    spec = put("a.jsonl", '\ufeff{"id": "1", "title": "a\u2028b"}\r\n\r\n{"id": "2", "title": "c"}')
    problems = Problems()
    assert list(documents(spec, problems)) == [Document("1", "a\u2028b", ""), Document("2", "c", "")]
    assert problems.total == 0


def test_a_folder_is_read_in_the_order_of_its_names(write, tmp_path):
    write({"id": "3", "title": "x"}, name="b.jsonl")
    write({"id": "1", "title": "x"}, {"id": "2", "title": "x"}, name="a.jsonl.gz")
    write({"id": "4", "title": "x"}, name=".hidden.jsonl")
    write("not a document", name="notes.txt")
    assert [d.id for d in documents(str(tmp_path))] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "line, problem",
    [
        ('{"id": "2", "title": ', "bad JSON line"),
        ('["3"]', "bad JSON line: expected an object, found list"),
        ('{"id": "4", "title": "\udce9"}', "bad JSON line"),  # a byte that is not UTF-8
        ('{"title": "no id"}', "missing id"),
        ('{"id": "6 6", "title": "x"}', "unusable id: '6 6'"),
        (r'{"id": "\ufeff6", "title": "x"}', r"unusable id: '\ufeff6'"),
        ('{"id": 7.5, "title": "x"}', "unusable id: 7.5"),
        ('{"id": 1e17, "title": "x"}', "unusable id: 1e+17"),
        ('{"id": true, "title": "x"}', "unusable id: True"),
        ('{"id": "8", "title": " ", "text": "\\n"}', "empty document: 8"),
        ("[" * 100_000, "bad JSON line"),
        ('{"id": "12", "title": "x", "score": NaN}', "bad JSON line"),
        *(
            (f'{{"id": "1", "{key}": {value}}}', f"bad JSON line: {message}")
            for key in ("title", "text")
            for value, message in {
                "NaN": "NaN is not JSON: write null for a missing value",
                "-Infinity": "-Infinity is not JSON: write null for a missing value",
                "true": "expected a text, found bool",
                '{"x": [-1], "y": {}}': "expected a text, found an object of x, y",
                "1e999": "expected a text, found float",
            }.items()
        ),
    ],
)
def test_unusable_lines_are_named_and_left_out(write, line, problem):
    spec, problems = write({"id": "first", "title": "x"}, line, {"id": "last", "text": "x"}), Problems()
    assert [document.id for document in documents(spec, problems)] == ["first", "last"]
    kind, _, reason = problem.partition(": ")
    assert problems.counts == {kind: 1}
    place, _, message = problems.examples[kind][0].partition(" ")
    assert place == f"{spec}:2" and reason in message


def test_ids_may_be_absent_where_only_words_matter(write):
    spec = write({"pmid": "", "title": "x"}, {"title": "y"}, {"id": 5, "text": "z"}, {"id": "6"})
    problems = Problems()
    assert [d[:3] for d in documents(spec, problems, ids_required=False)] == [
        ("", "x", ""), ("", "y", ""), ("5", "", "z")]  # fmt: skip
    assert problems.counts == {"empty document": 1}


def test_a_truncated_gzip_keeps_what_came_before_and_the_other_files(write, tmp_path):
    lines = b"".join(b'{"id": "%d", "title": "%s"}\n' % (i, str(i * 7919).encode() * 9) for i in range(20_000))
    packed = gzip.compress(lines)
    packed = packed[: len(packed) // 2]
    readable = zlib.decompressobj(wbits=31).decompress(packed).count(b"\n")
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    write({"id": "last", "title": "x"}, name="b.jsonl")
    (tmp_path / "c.jsonl.gz").write_bytes(b"no gzip at all")
    problems = Problems()
    ids = [d.id for d in documents(str(tmp_path), problems)]
    assert ids[-1] == "last" and ids[:-1] == [str(i) for i in range(len(ids) - 1)]
    assert len(ids) - 1 == readable > 5_000  # nothing that could be decompressed is thrown away
    assert problems.counts == {"damaged gzip file": 1, "bad JSON line": 1}  # the last is read by its content
    assert problems.examples["damaged gzip file"][0].startswith(f"{tmp_path / 'a.jsonl.gz'}:{len(ids)} ")


def test_strict_stops_at_the_first_problem(write):
    spec = write({"id": "1", "title": "x"}, "oops", {"id": "2", "title": "x"})
    stream = documents(spec, Problems(strict=True))
    assert next(stream).id == "1"
    with pytest.raises(InputError, match=r"bad JSON line: .*a\.jsonl:2 "):
        next(stream)


def test_without_a_collector_problems_are_logged(write, caplog):
    spec = write("oops", {"id": "1", "title": "x"})
    assert len(list(documents(spec))) == 1
    assert caplog.messages == [f"1 bad JSON line: {spec}:1 (Expecting value: line 1 column 1 (char 0))"]


def test_summary_counts_all_and_names_the_first_few():
    problems = Problems()
    for number in range(1, 8):
        problems.add("bad JSON line", f"a.jsonl:{number}")
    problems.add("malformed XML", "a.xml:3")
    problems.add("malformed XML", "b.xml:4")
    problems.add("duplicate id", "42")
    problems.add("unexpanded entity", "c.xml")
    assert problems.summary() == [
        "7 bad JSON lines: a.jsonl:1, a.jsonl:2, a.jsonl:3, a.jsonl:4, a.jsonl:5, ...",
        "2 malformed XML: a.xml:3, b.xml:4",
        "1 duplicate id: 42",
        "1 unexpanded entity: c.xml",
    ]
    assert problems.summary(kept=True) == ["1 unexpanded entity: c.xml"]
    assert problems.summary(kept=False) == problems.summary()[:3] and problems.total == 11


@pytest.mark.parametrize(
    "record, expected",
    [
        (
            {"metadata": {"url": "http://www.ncbi.nlm.nih.gov/pubmed/ 25329299"}},
            "http://www.ncbi.nlm.nih.gov/pubmed/25329299",
        ),
        ({"pmid": 123, "doi": "10.1000/x", "url": "https://example.org"}, "https://pubmed.ncbi.nlm.nih.gov/123/"),
        (
            {"metadata": {"doi": "doi:10.1002/(SICI)1<2::A>3"}, "pmid": None},
            "https://doi.org/10.1002/%28SICI%291%3C2%3A%3AA%3E3",
        ),
        *(
            ({"doi": "10.1000/x", "url": url}, url)
            for url in ("https://pubmed.ncbi.nlm.nih.gov/12/", "http://www.ncbi.nlm.nih.gov/pubmed/12")
        ),
        ({"doi": "10.1000/x", "url": "https://example.org/12"}, "https://doi.org/10.1000/x"),
        ({"doi": "https://dx.doi.org/10.1000/x", "pmid": "PMC1"}, "https://doi.org/10.1000/x"),
        *(
            ({"url": url}, None)
            for url in ("javascript:alert(1)", "JavaScript://doi.org/%0aalert(1)", "//doi.org/10.1/x", "https://", 7)
        ),
    ],
)
def test_the_address_of_a_document(write, record, expected):
    problems = Problems()
    [document] = documents(write({"id": "1", "title": "x", **record}), problems)
    assert (document.metadata or {}).get("url") == expected
    assert problems.counts == ({} if expected else {"unusable metadata entry": 1})


def test_metadata(write):
    """At the top or inside ``metadata``, which wins; a text for a list of one, a year for a date; unusable entries."""
    outer = {"journal": " The  Lancet ", "mesh": "Aspirin", "types": ["Review", "Letter"], "authors": [], "color": "x"}
    inner = {"date": "2015-03-02T10:00", "retracted": False, "languages": ["eng"]}
    spec = write(
        {"id": "1", "title": "x", **outer, "journal": "Lancet", "metadata": {**inner, "journal": outer["journal"]}},
        {"id": "2", "title": "x", "year": 1999, "metadata": {"mesh": None}},
        {"id": "3", "title": "x", "metadata": {"year": "2001", "journal": 7, "retracted": "no"}},
        {"id": "4", "title": "x", "date": "soon", "authors": [["Smith"]], "journal": "J" * 1001},
        {"id": "5", "title": "x", "metadata": "nothing", "journal": "J" * 1000},
    )
    problems = Problems()
    metadata = [document.metadata for document in documents(spec, problems)]
    assert metadata[0] == {
        "date": "2015-03-02", "journal": "The Lancet", "languages": ["eng"], "mesh": ["Aspirin"], "retracted": False,
        "types": ["Review", "Letter"],
    }  # fmt: skip
    assert metadata[1:] == [{"date": "1999"}, {"date": "2001"}, None, {"journal": "J" * 1000}]
    assert problems.counts == {"unusable metadata entry": 5}
    assert problems.examples["unusable metadata entry"][:2] == [f"{spec}:3 (journal)", f"{spec}:3 (retracted)"]
