"""Reports in the four formats."""

import csv
import json

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation import report
from rerank_plugin.evaluation.evaluation import evaluate
from tests.evaluation.runs import ranked

JUDGMENTS = {f"q{number}": {"a": 1} for number in range(6)}
FIRST = {query: ranked("a", "b") for query in JUDGMENTS}  # AP 1, P@1 1
SECOND = {query: ranked("b", "a") for query in JUDGMENTS}  # AP 0.5, P@1 0
MIXED = {query: ranked("a", "b") if query in ("q0", "q1") else ranked("b", "a") for query in JUDGMENTS}  # AP 4/6
RUNS = {"x/first": FIRST, "second": SECOND, "mi|xed": MIXED}
MEASURES = ["AP", "P@1", "P@2"]


@pytest.fixture
def evaluation():
    return evaluate(JUDGMENTS, RUNS, MEASURES, "second")


def text_of(evaluation, format="table", alpha=0.05, **more):
    return report.report(evaluation, alpha, **more).text(format)


def test_table(evaluation):
    # second to mixed: AP differs by 0.5 0.5 0 0 0 0: mean 1/6, t = 1.58, p = 0.175, times 2
    assert text_of(evaluation) == (
        "run           AP      P@1      P@2\n"
        "x/first  1.0000+  1.0000+  0.5000=\n"
        "second   0.5000   0.0000   0.5000\n"
        "mi|xed   0.6667=  0.3333=  0.5000=\n"
        "\n"
        "+ higher, - lower, = no significant difference from second: two-tailed paired t-test over 6 queries, "
        "p < 0.05 after Bonferroni correction for 2 comparisons a measure\n"
    )


def test_without_a_baseline_there_are_no_marks():
    evaluation = evaluate(JUDGMENTS, {"first": FIRST}, ["AP"])
    assert text_of(evaluation) == "run        AP\nfirst  1.0000\n"
    assert text_of(evaluation, "markdown") == "| run | AP |\n| --- | ---: |\n| first | 1.0000 |\n"


def test_markdown(evaluation):
    lines = text_of(evaluation, "markdown", alpha=0.01).splitlines()
    assert lines[:2] == ["| run | AP | P@1 | P@2 |", "| --- | ---: | ---: | ---: |"]
    assert lines[3:5] == ["| second | 0.5000 | 0.0000 | 0.5000 |", "| mi\\|xed | 0.6667= | 0.3333= | 0.5000= |"]
    assert lines[5] == "" and "p < 0.01 after Bonferroni" in lines[6] and len(lines) == 7


def test_lower_and_the_level(evaluation):
    lower = evaluate(JUDGMENTS, {"first": FIRST, "mixed": MIXED}, ["AP"], "first")
    # AP differs by 0 0 -0.5 x 4: mean -1/3, s = 0.2582, t = -3.1623, p = 0.025
    assert "0.6667-" in text_of(lower) and "0.6667=" in text_of(lower, alpha=0.02)
    assert "for 1 comparison a measure" in text_of(lower)


def test_csv(evaluation):
    rows = list(csv.DictReader(text_of(evaluation, "csv", per_query=True).splitlines()))
    assert [row["run"] for row in rows[:3]] == list(RUNS) and len(rows) == 3 + 3 * 6
    assert {row["query"] for row in rows[:3]} == {"all"}
    assert float(rows[2]["AP"]) == pytest.approx(4 / 6, abs=1e-15)
    assert float(rows[2]["AP difference"]) == pytest.approx(1 / 6)
    # t = 1.581139 with 5 degrees of freedom: theta = atan(t / sqrt(5)) = 0.615480, p = 1 - 2/pi * (theta + sin(theta) *
    # (cos(theta) + 2/3 * cos(theta)^3)) = 1 - 2/pi * (0.615480 + 0.680918) = 0.174687, twice for two comparisons
    assert float(rows[2]["AP p"]) == pytest.approx(0.349375, abs=2e-6)
    assert rows[1]["AP p"] == rows[3]["P@2 t"] == ""
    assert (rows[-1]["run"], rows[-1]["query"], rows[-1]["AP"], rows[-1]["P@1"]) == ("mi|xed", "q5", "0.5", "0.0")
    plain = text_of(evaluate(JUDGMENTS, {"first": FIRST}, ["AP"]), "csv")
    assert plain == "run,query,AP\nfirst,all,1.0\n"


def test_json(evaluation):
    result = json.loads(text_of(evaluation, "json"))
    assert set(result) == {"queries", "runs", "tests", "reported"}
    assert result["queries"] == 6
    assert result["runs"]["x/first"] == {"AP": 1.0, "P@1": 1.0, "P@2": 0.5}
    assert list(result["runs"]) == list(RUNS)
    tests = result["tests"]
    assert (tests["baseline"], tests["correction"]) == ("second", "bonferroni")
    assert list(tests["runs"]) == ["x/first", "mi|xed"]
    assert tests["runs"]["x/first"]["AP"] == {"p": 0.0, "t": None, "difference": 0.5}
    mixed = tests["runs"]["mi|xed"]["AP"]
    assert set(mixed) == {"p", "t", "difference"}
    # differences 0.5 0.5 0 0 0 0: t = (1/6) / sqrt(1/15 / 6) = 1.581139
    assert mixed["t"] == pytest.approx(1.581139, abs=1e-6) and mixed["difference"] == pytest.approx(1 / 6)


def test_json_without_a_baseline_and_with_queries():
    evaluation = evaluate(JUDGMENTS, {"mixed": MIXED}, ["AP"])
    result = json.loads(text_of(evaluation, "json", per_query=True))
    assert "tests" not in result
    assert result["per_query"] == {"mixed": {"AP": {"q0": 1, "q1": 1, "q2": 0.5, "q3": 0.5, "q4": 0.5, "q5": 0.5}}}


def test_missing_and_unjudged_queries_are_reported():
    run = {"q9": ranked("a"), **{query: FIRST[query] for query in list(FIRST)[:4]}}
    first, *_ = judged = list(JUDGMENTS["q0"])
    renamed = {**FIRST, "q0": ranked(*(f"PMID:{id}" for id in judged)), "q1": ranked()}
    evaluation = evaluate(JUDGMENTS, {"some": run, "all": FIRST, "renamed": renamed}, ["AP"])
    assert evaluation.summaries["some"]["AP"] == pytest.approx(4 / 6)
    assert json.loads(text_of(evaluation, "json"))["reported"] == {
        "some": {"missing": ["q4", "q5"], "unjudged": ["q9"], "unmatched": []},
        "all": {"missing": [], "unjudged": [], "unmatched": []},
        "renamed": {"missing": [], "unjudged": [], "unmatched": ["q0"]},
    }
    assert list(report.warnings(evaluation)) == [
        "some: 2 of 6 judged queries are missing and count as 0: q4, q5",
        "some: 1 queries without judgments are left out: q9",
        f"renamed: 1 of 6 judged queries have hits, but none that is judged for them: q0 (hit PMID:{first}, judged "
        f"{first}); if run and judgments name documents differently, name them alike",
    ]


def test_per_query_tables(evaluation):
    assert "\nmi|xed   q1     1.0000  1.0000  0.5000\n" in text_of(evaluation, per_query=True)
    row = "\n| mi\\|xed | q2 | 0.5000 | 0.0000 | 0.5000 |\n"
    assert row in text_of(evaluation, "markdown", per_query=True)


def test_invalid_runs_and_baselines():
    with pytest.raises(InputError, match="the baseline x is not among the runs: a"):
        evaluate(JUDGMENTS, {"a": FIRST}, ["AP"], "x")
    with pytest.raises(InputError, match=r"a: none of its 1 queries \(101, ...\) is judged \(q0, ...\)"):
        evaluate(JUDGMENTS, {"a": {"101": ranked("a")}}, ["AP"])
    named_otherwise = {query: ranked(*(f"PMID:{id}" for id in run.doc_ids)) for query, run in FIRST.items()}
    with pytest.raises(InputError, match=r"b: none of its documents \(PMID:\w+, ...\) is judged \(\w+, ...\): run and"):
        evaluate(JUDGMENTS, {"a": FIRST, "b": named_otherwise}, ["AP"])
    nothing_found = {query: ranked() for query in FIRST}
    for run in ({}, nothing_found):
        assert evaluate(JUDGMENTS, {"a": run}, ["AP"]).summaries == {"a": {"AP": 0.0}}
