"""Queries as TSV, JSON lines, TREC topics and in BEIR folders."""

import gzip

import pytest

from rerank_plugin.corpora import Query, queries
from rerank_plugin.files.errors import InputError


def file(tmp_path, name, text):
    path = tmp_path / name
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


@pytest.mark.parametrize("name", ["q.tsv", "q.tsv.gz", "test.titles.queries"])
def test_tsv(tmp_path, name):
    spec = file(tmp_path, name, "\ufeff1\tbreast cancer\r\n\nPLAIN-2\t p53 & <i> \n")
    assert queries(spec) == [Query("1", "breast cancer"), Query("PLAIN-2", "p53 & <i>")]


@pytest.mark.parametrize("value", ["NaN", "true", "[true]", "Infinity", "1e999"])
def test_a_json_query_whose_text_is_no_text_is_named(tmp_path, value):
    spec = file(tmp_path, "q.jsonl", f'{{"_id": "1", "text": "good"}}\n{{"_id": "2", "text": {value}}}\n')
    with pytest.raises(InputError, match=r"q\.jsonl:2: "):
        queries(spec)


def test_a_json_query_with_nan_elsewhere_is_no_json(tmp_path):
    spec = file(tmp_path, "q.jsonl", '{"_id": "1", "text": "good", "weight": NaN}\n')
    with pytest.raises(InputError, match=r"q\.jsonl:1: bad JSON line \(NaN is not JSON: "):
        queries(spec)


@pytest.mark.parametrize("line", ["no tab", "2\ttoo\tmany", "\tno id", "2 2\tspace in the id"])
def test_a_malformed_tsv_line_is_named(tmp_path, line):
    spec = file(tmp_path, "q.tsv", f"1\tgood\n{line}\n")
    with pytest.raises(InputError, match=r"q\.tsv:2: ") as error:
        queries(spec)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("id_key", ["_id", "id", "qid", "query_id"])
@pytest.mark.parametrize("text_key", ["text", "query", "title"])
def test_json_lines(tmp_path, id_key, text_key):
    spec = file(tmp_path, "q.jsonl", f'{{"{id_key}": 12, "{text_key}": "words", "metadata": {{}}}}\n')
    assert queries(spec) == [Query("12", "words")]


@pytest.mark.parametrize(
    "line",
    ['{"_id": "2"', '["2"]', '{"text": "x"}', '{"_id": "2"}', '{"_id": "2", "text": 5}', '{"_id": 1.5, "text": "x"}'],
)
def test_a_bad_json_line_is_named(tmp_path, line):
    spec = file(tmp_path, "q.jsonl", f'{{"_id": "1", "text": "x"}}\n{line}\n')
    with pytest.raises(InputError, match=r"q\.jsonl:2: "):
        queries(spec)


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


def test_trec_topics(tmp_path):
    spec = file(tmp_path, "topics.txt", TOPICS)
    assert queries(spec) == [
        Query("301", "International Organized Crime"), Query("051", "Airbus & Co, where p < 0.05 and more of it")
    ]  # fmt: skip


def test_trec_topics_with_closed_fields_on_one_line(tmp_path):
    spec = file(tmp_path, "topics.gz", "<top><num>7</num><title>one line</title><desc>d</desc></top>")
    assert queries(spec) == [Query("7", "one line")]


def test_trec_topics_without_titles_give_their_descriptions(tmp_path):
    spec = file(tmp_path, "t.txt", "<top>\n<num> Number: 202\n<desc> Description:\nStatus of\nthe treaty.\n</top>\n")
    assert queries(spec) == [Query("202", "Status of the treaty.")]


@pytest.mark.parametrize(
    "text, message",
    [
        ("<topics><query>x</query></topics>", "no <top> found"),
        ("\n<top>\n<title> x\n</top>", r"t\.txt:2: a topic without a <num>"),
        ("<top>\n<num> 5\n</top>", r"t\.txt:1: topic 5 has neither"),
    ],
)
def test_topics_that_are_none(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        queries(file(tmp_path, "t.txt", text))


@pytest.mark.parametrize("name", ["q.tsv", "q.jsonl", "q.txt"])
def test_an_empty_file(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}: holds no queries"):
        queries(file(tmp_path, name, "\n \n"))


def test_two_queries_with_one_id(tmp_path):
    spec = file(tmp_path, "q.tsv", "1\ta\n2\tb\n1\tc\n")
    with pytest.raises(InputError, match=r"q\.tsv:3: the query id 1 was used before \(.*q\.tsv:1\)"):
        queries(spec)


def test_queries_without_text_are_kept_and_named(tmp_path, caplog):
    spec = file(tmp_path, "q.tsv", "1\t \n2\tb\n3\t\n")
    assert queries(spec) == [Query("1", ""), Query("2", "b"), Query("3", "")]
    assert caplog.messages == ["queries without text, for which nothing is ranked (2): 1, 3"]


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "q.tsv").write_bytes(b"1\tgood\n2\tcaf\xe9\n")
    with pytest.raises(InputError, match=r"q\.tsv:2: not UTF-8 text"):
        queries(str(tmp_path / "q.tsv"))


def test_a_damaged_gzip(tmp_path):
    (tmp_path / "q.tsv.gz").write_bytes(gzip.compress(b"1\tgood\n" * 1000)[:-20])
    with pytest.raises(InputError, match=r"q\.tsv\.gz:\d+: damaged gzip file"):
        queries(str(tmp_path / "q.tsv.gz"))


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
def test_some_queries_of_a_json_lines_file(tmp_path, selection, expected):
    """Texts of one query may share an id in the file, as long as one of them is selected."""
    path = file(tmp_path, "typed.jsonl", TYPED)
    assert queries(f"{path}{selection}") == expected
    with pytest.raises(InputError, match="q1 was used before"):
        queries(str(path))


@pytest.mark.parametrize(
    "selection, said", [(":type=title", "no query has type=title"), (":kind=", "no query has kind=")]
)
def test_a_selection_without_queries(tmp_path, selection, said):
    with pytest.raises(InputError, match=said):
        queries(f"{file(tmp_path, 'typed.jsonl', TYPED)}{selection}")


def test_a_selection_of_a_file_without_keys(tmp_path):
    path = file(tmp_path, "plain.tsv", "q1\tone")
    with pytest.raises(InputError, match="only of a JSON lines file.*type=titles"):
        queries(f"{path}:type=titles")


def test_a_file_whose_name_looks_like_a_selection(tmp_path):
    (tmp_path / "a.jsonl:type=titles").write_text('{"_id": "q9", "text": "nine"}')
    file(tmp_path, "a.jsonl", TYPED)
    assert queries(str(tmp_path / "a.jsonl:type=titles")) == [Query("q9", "nine")]
