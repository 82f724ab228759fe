"""Queries as TSV, JSON lines, TREC topics and in BEIR folders."""

import gzip
import itertools

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query, format_files, queries

TOPICS = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate.

<narr> Narrative:
Not relevant.
</top>

<top>
<num> Number: 051
<title>  Topic:  Airbus &amp; Co, where p < 0.05
 and more of it
<desc> Description: words
"""


@pytest.mark.parametrize(
    "name, text, expected",
    [
        *(
            (name, "\ufeff1\tbreast cancer\r\n\nPLAIN-2\t p53 & <i> \n", {"1": "breast cancer", "PLAIN-2": "p53 & <i>"})
            for name in ("q.tsv", "q.tsv.gz", "test.titles.queries")
        ),
        *(
            ("q.jsonl", f'{{"{id}": 12, "{text}": "words", "metadata": {{}}}}\n', {"12": "words"})
            for id in ("_id", "id", "qid", "query_id")
            for text in ("text", "query", "title")
        ),
        ("q.jsonl", '{"id": "1", "text": "TNF-&alpha; and CO<sub>2</sub>"}\n', {"1": "TNF-α and CO2"}),
        ("topics.txt", TOPICS, {"301": "International Organized Crime",
                                "051": "Airbus & Co, where p < 0.05 and more of it"}),
        # closed fields on one line, and tags in capitals
        ("topics.gz", "<TOP><Num>7</num><TITLE>one line</title><desc>d</desc></top>", {"7": "one line"}),
        # without titles
        ("t.txt", "<top>\n<num> Number: 202\n<desc> Description:\nStatus of\nthe treaty.\n</top>\n",
         {"202": "Status of the treaty."}),
    ],
)  # fmt: skip
def test_the_queries_of_a_file(put, name, text, expected):
    assert queries(put(name, text)) == [Query(*item) for item in expected.items()]


@pytest.mark.parametrize(
    "name, text, message",
    [
        *(
            ("q.tsv", f"1\tgood\n{line}\n", r"q\.tsv:2: ")
            for line in ("no tab", "2\ttoo\tmany", "\tno id", "2 2\tspace in the id")
        ),
        *(
            ("q.jsonl", f'{{"_id": "1", "text": "x"}}\n{line}\n', r"q\.jsonl:2: ")
            for line in (
                '{"_id": "2"', '["2"]', '{"text": "x"}', '{"_id": "2"}', '{"_id": "2", "text": 5}',
                '{"_id": 1.5, "text": "x"}', '{"_id": "2", "text": "good", "weight": NaN}',
                *(f'{{"_id": "2", "text": {value}}}' for value in ("NaN", "true", "[true]", "Infinity", "1e999")),
            )
        ),
        ("t.txt", "<topics><query>x</query></topics>", "holds no queries"), ("t.txt", "<html/>", "no <top> found"),
        ("t.txt", "\n<top>\n<title> x\n</top>", r"t\.txt:2: a topic without a <num>"),
        ("t.txt", "<top>\n<num> 5\n</top>", r"t\.txt:1: topic 5 has neither"),
        *((name, "\n \n", f"{name}: holds no queries") for name in ("q.tsv", "q.jsonl", "q.txt")),
        ("q.tsv", "1\ta\n2\tb\n1\tc\n", r"q\.tsv:3: the query id 1 was used before \(.*q\.tsv:1\)"),
        ("q.tsv", "1\tgood\n2\tcaf\udce9\n", r"q\.tsv:2: not UTF-8 text"),
    ],
)  # fmt: skip
def test_unreadable_queries_are_named_in_one_line(put, name, text, message):
    with pytest.raises(InputError, match=message) as error:
        queries(put(name, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("most", ["MOST_QUERIES", "MOST_CHARACTERS"])
def test_queries_without_end_are_refused(monkeypatch, most):
    monkeypatch.setattr(format_files, most, 7)
    with pytest.raises(InputError, match="^-:7: more than .* give them in several files$"):
        format_files.checked((f"-:{number}", f"q{number}", "a") for number in itertools.count())


def test_a_damaged_gzip_file_is_named(tmp_path):
    path = tmp_path / "q.tsv.gz"
    path.write_bytes(gzip.compress(b"1\tgood\n" * 1000, mtime=0)[:-20])
    with pytest.raises(InputError, match=r"q\.tsv\.gz:\d+: damaged gzip file"):
        queries(str(path))


def test_queries_without_text_are_kept_and_named(put, caplog):
    spec = put("q.tsv", "1\t \n2\tb\n3\t\n")
    assert queries(spec) == [Query("1", ""), Query("2", "b"), Query("3", "")]
    assert caplog.messages == ["queries without text, which get no hits (2): 1, 3"]


TYPED = """{"_id": "q1", "type": "titles", "split": "train", "text": "one", "year": 2020}
{"_id": "q1", "type": "descriptions", "split": "train", "text": "one in more words", "year": 2020}
{"_id": "q2", "type": "titles", "split": "dev", "text": "two"}
"""


@pytest.mark.parametrize(
    "selection, expected",
    [
        (":type=titles", [Query("q1", "one"), Query("q2", "two")]),
        (":split=train:type=descriptions", [Query("q1", "one in more words")]),
        (":year=2020:type=titles", [Query("q1", "one")]),
    ],
)
def test_some_queries_of_a_json_lines_file(put, selection, expected):
    """Texts of one query may share an id in the file, as long as one of them is selected."""
    assert queries(put("typed.jsonl", TYPED) + selection) == expected


@pytest.mark.parametrize(
    "name, text, selection, message",
    [
        ("typed.jsonl", TYPED, "", "q1 was used before"),
        ("typed.jsonl", TYPED, ":type=title", "no query has type=title"),
        ("typed.jsonl", TYPED, ":kind=", "no query has kind="),
        ("plain.tsv", "q1\tone", ":type=titles", "in a JSON lines file only.*type=titles"),
    ],
)
def test_an_invalid_selection(put, name, text, selection, message):
    with pytest.raises(InputError, match=message):
        queries(put(name, text) + selection)


def test_a_file_whose_name_looks_like_a_selection(put):
    put("a.jsonl", TYPED)
    assert queries(put("a.jsonl:type=titles", '{"_id": "q9", "text": "nine"}')) == [Query("q9", "nine")]


COVID = """<?xml version="1.0"?><topics task="T"><!-- x --><topic number="1"><query>aspirin &amp; stroke</query>
<question>does aspirin <i>prevent</i> stroke</question><narrative>n</narrative></topic></topics>"""
MEDICINE = """<topics><topic number="1"><disease>Liposarcoma</disease><gene>CDK4</gene>
<demographic>38-year-old male</demographic></topic></topics>"""
TRIALS = '<topics task="2021">\n<topic number="1">\nPatient is a 45-year-old man.\n</topic></topics>'
DECISIONS = (
    '<topics><topic number="1" type="d"><note>n</note><description>d</description><summary>s</summary></topic></topics>'
)
NUMBERED = "<topics><topic><number>1</number><title>t</title></topic></topics>"


@pytest.mark.parametrize(
    "text, field, expected",
    [
        (COVID, "", "aspirin & stroke"),
        (COVID, "question", "does aspirin prevent stroke"),
        (COVID, "query+narrative", "aspirin & stroke n"),
        (MEDICINE, "", "Liposarcoma CDK4"),
        (MEDICINE, "demographic", "38-year-old male"),
        (TRIALS, "", "Patient is a 45-year-old man."),
        (DECISIONS, "", "s"),
        (DECISIONS, "description", "d"),
        (NUMBERED, "", "t"),
        ("<top><num> Number: 1 <title> t <desc> Description: d <narr> Narrative: n </top>", "desc", "d"),
        ("<top><num> Number: 1 <title> t <desc> Description: d <narr> Narrative: n </top>", "narrative", "n"),
    ],
)
def test_topics_of_later_tracks_and_a_choice_of_the_field(put, text, field, expected):
    for name in ("topics.xml", "topics.txt.gz"):
        assert queries(put(name, text) + (f":field={field}" if field else "")) == [Query("1", expected)]


@pytest.mark.parametrize(
    "text, field, message",
    [
        (COVID, ":field=title", "topic 1 has no field title: name one of query, question, narrative"),
        (COVID, ":type=x", "in a JSON lines file only"),
        (COVID.replace(' number="1"', ""), "", "a topic without a number"),
        (COVID[:-20], "", r"t\.xml:\d+: malformed XML"),
    ],
)
def test_topics_that_cannot_be_read(put, text, field, message):
    with pytest.raises(InputError, match=message):
        queries(put("t.xml", text) + field)


@pytest.mark.parametrize(
    "header, columns",
    [
        ("query_id\tquery", "q1\ttext"),
        ("qid\ttitle\tdescription", "q1\ttext\tx"),
        ("Text\tID", "text\tq1"),
        ("qid\tutterance", "q1\ttext"),
    ],
)
def test_a_header_is_no_query(put, header, columns):
    assert queries(put("q.tsv", f"{header}\n{columns}\n")) == [Query("q1", "text")]
    with pytest.raises(InputError, match=r"q\.tsv: holds no queries"):
        queries(put("q.tsv", header))


def test_a_column_is_chosen(put):
    spec = put("q.tsv", "qid\ttitle\tdescription\nq1\tt\td\n")
    assert queries(f"{spec}:field=description") == [Query("q1", "d")]
    with pytest.raises(InputError, match="no header of the columns has other"):
        queries(f"{spec}:field=other")
