"""Judgments in TREC and BEIR files, and queries together with theirs."""

import itertools

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query, judgments, queries_and_judgments
from rerank_plugin.corpora.formats import qrels


@pytest.mark.parametrize("name", ["qrels.txt", "qrels.gz", "test.2-1-0.qrel"])
def test_trec_qrels(put, name):
    spec = put(name, "301 0 D1 2\n301\t0\tD2\t0\n\n302 Q0 D1 -1\r\n301 0 D1 2\n")  # one pair is repeated
    assert judgments(spec) == {"301": {"D1": 2, "D2": 0}, "302": {"D1": -1}}


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore\n", ""])
def test_beir_qrels(put, header):
    assert judgments(put("test.tsv", f"{header}q1\td1\t1\nq1\td2\t2\n")) == {"q1": {"d1": 1, "d2": 2}}


def test_grades_that_are_not_integers(put):
    judged = judgments(put("a.tsv", "q1\td1\t1.25\nq1\td2\t0\nq1\td3\t2.0\nq1\td4\t1e2\nq1\td5\t-0.5\n"))
    assert judged == {"q1": {"d1": 1.25, "d2": 0, "d3": 2, "d4": 100, "d5": -0.5}}
    assert [type(grade) for grade in judged["q1"].values()] == [float, int, int, int, float]


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 0 d 1\n1 0 e high\n", r"q\.txt:2: the grade 'high' is not a number"),
        ("1 0 d 1\n1 0 e ١\n", r"q\.txt:2: the grade '١' is not a number"),
        ("1 0 d 1\n1 0 e nan\n", r"q\.txt:2: the grade 'nan' is not finite"),
        ("1 0 d 0.5\n1 0 e -inf\n", r"q\.txt:2: the grade '-inf' is not finite"),
        (f"1 0 d {'9' * 4400}\n", r"q\.txt:1: the grade '9{40,60} is not finite"),
        (f"1 0 d 1\n1 0 e {'9' * 300}\n", r"q\.txt:2: the grade '9{40,60} is above 2,147,483,647"),
        ("1 0 d 0.5\n2 0 d 1\n1 0 d 0.25\n", r"q\.txt:3: query 1, document d was judged 0\.5 before and 0\.25 here"),
        ("1 0 d 1\n1 0 d 2\n", r"q\.txt:2: query 1, document d was judged 1 before and 2 here"),
        ("1 0 d 1\n1 d 1\n", r"q\.txt:2: expected 4 columns, found 3"),
        ("1 d\n", r"q\.txt:1: expected 4 .* or 3 .* columns, found 2"),
        ("1 0 d 1 tag 0.3\n", r"q\.txt:1: expected 4 .* columns, found 6"),
        ("query-id\tcorpus-id\tscore\n", r"q\.txt: holds no judgments"),
        ("", r"q\.txt: holds no judgments"),
    ],
)
def test_bad_judgments_are_named(put, text, message):
    with pytest.raises(InputError, match=message):
        judgments(put("q.txt", text))


def test_judgments_without_end_are_refused(monkeypatch, put):
    monkeypatch.setattr(qrels, "MOST", 2)
    with pytest.raises(InputError, match="^-:3: more than 2 judgments: give those of the queries that you evaluate$"):
        qrels.collected("-", ((f"-:{number}", ["q1", f"d{number}", "1"]) for number in itertools.count()))
    question = '{"id": "q1", "body": "x", "documents": ["1", "2"]}'
    with pytest.raises(InputError, match="more than 2 judgments"):
        judgments(put("a.json", f'{{"questions": [{question}, {question}]}}'))


def test_two_files_joined_by_a_comma(put, caplog):
    topics = put("q.tsv", "3\tc\n1\ta\n2\tb\n")
    qrels = put("qrels.txt", "1 0 d 1\n3 0 d 0\n4 0 d 1\n")
    judged_queries, judged = queries_and_judgments(f"{topics},{qrels}")
    assert judged_queries == [Query("3", "c"), Query("1", "a")]
    assert judged == {"1": {"d": 1}, "3": {"d": 0}, "4": {"d": 1}}
    assert caplog.messages == [f"{topics},{qrels}: 1 judged queries have no text: 4"]


def test_a_comma_may_be_part_of_a_name(tmp_path, put):
    put("a,b/queries.jsonl", '{"_id": "1", "text": "a"}\n')
    put("a,b/qrels/test.tsv", "1\td\t1\n")
    assert queries_and_judgments(f"{tmp_path / 'a,b'}:test") == ([Query("1", "a")], {"1": {"d": 1}})


@pytest.mark.parametrize("spec", ["{q}", "{q},", "{q},{j},{j}", "{q},{missing}"])
def test_half_a_pair_is_an_error(tmp_path, put, spec):
    names = dict(q=put("q.tsv", "1\ta\n"), j=put("j.txt", "1 0 d 1\n"), missing=tmp_path / "nope")
    with pytest.raises(InputError) as error:
        queries_and_judgments(spec.format(**names))
    assert "\n" not in str(error.value)


def test_queries_and_judgments_of_different_collections(put):
    q, j = put("q.tsv", "1\ta\n"), put("j.txt", "PLAIN-1 0 d 1\n")
    with pytest.raises(InputError, match=r"none of the 1 queries has a judgment: .*\(1, .*\(PLAIN-1, "):
        queries_and_judgments(f"{q},{j}")
