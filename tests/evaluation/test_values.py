"""Values per query: ties, missing queries, and ids of any kind, for every measure."""

import ir_measures
import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.measures import Evaluator
from rerank_plugin.files.runs import RankedList, read_run, write_run
from tests.evaluation.runs import EVERY_MEASURE, by_chance, mean_measures, ranked

JUDGMENTS = {"q1": {"d1": 2, "d2": 1, "d3": 0, "d4": 3}, "q2": {"e1": 1, "e2": 1}}
RUN = {"q1": ranked("d2", "d9", "d1", "d4"), "q2": ranked("e7", "e2")}


@pytest.mark.parametrize(
    "measure, first, second",
    [
        ("AP", (1 / 1 + 2 / 3 + 3 / 4) / 3, (1 / 2) / 2),
        ("MAP", 0.8055555556, 0.25),
        ("P@5", 3 / 5, 1 / 5),
        ("Prec.5", 0.6, 0.2),
        ("R@3", 2 / 3, 1 / 2),
        ("RR", 1.0, 0.5),
        ("RR(rel=2)@10", 1 / 3, 0.0),
        # q1: (1 + 0 + 2/log2(4) + 3/log2(5)) / (3 + 2/log2(3) + 1/log2(4)) = 3.292030 / 4.761860
        # q2: 1/log2(3) of 1 + 1/log2(3) = 0.630930 / 1.630930
        ("nDCG@10", 0.691333, 0.386853),
        ("NDCG.20", 0.587125, 0.386853),  # q1: see test_graded; all grades 1: the same as nDCG
        ("ERR@20", 0.35400390625, 1 / 2 * 1 / 8),  # the scale of both ends at the 3 of q1
    ],
)
def test_by_hand(measure, first, second):
    values = Evaluator(JUDGMENTS, [measure]).values(RUN)[measure]
    assert values.tolist() == pytest.approx([first, second], abs=1e-6)
    assert mean_measures(RUN, JUDGMENTS, [measure])[measure] == pytest.approx((first + second) / 2, abs=1e-6)


@pytest.fixture(params=[0, 1])
def chance(request):
    return by_chance(["7", "12", "3", "40"], seed=request.param)


def test_equal_to_ir_measures_itself(chance):
    """On scores without ties, with all queries in the run, and one measure at a time."""
    judgments, run = chance
    names = [name for name in EVERY_MEASURE if not name.startswith(("ERR", "NDCG.", "nDCG(dcg"))]
    evaluator = Evaluator(judgments, names)
    values = evaluator.values(run)
    summary = evaluator.summary(values)
    distinct = {}
    for query, ranking in run.items():
        order = sorted(zip(ranking.scores.tolist(), ranking.doc_ids), reverse=True)
        distinct[query] = {document: 1000.0 - rank for rank, (_, document) in enumerate(order)}
    for name in names:
        measure = ir_measures.parse_measure("P@5" if name == "Prec.5" else name)
        expected = {metric.query_id: metric.value for metric in measure.iter_calc(judgments, distinct)}
        assert values[name].tolist() == [expected[query] for query in evaluator.queries], name
        assert summary[name] == pytest.approx(measure.calc_aggregate(judgments, distinct)), name


def test_a_constant_scorer_measures_like_decreasing_ids(chance):
    judgments, run = chance
    constant = {query: RankedList(ranking.doc_ids, np.zeros(len(ranking.doc_ids))) for query, ranking in run.items()}
    by_id = {query: ranked(*sorted(ranking.doc_ids, reverse=True)) for query, ranking in run.items()}
    evaluator = Evaluator(judgments, EVERY_MEASURE)
    tied, rule, other = (evaluator.values(each) for each in (constant, by_id, run))
    differing = 0
    for name in EVERY_MEASURE:
        assert tied[name].tolist() == rule[name].tolist(), name
        differing += tied[name].tolist() != other[name].tolist()
    assert differing > len(EVERY_MEASURE) / 2  # so the order does matter to these measures


def test_ties_by_hand():
    """Two documents tie; the relevant one has the smaller id and comes second, for every provider."""
    run = {"q": RankedList(["a", "b"], np.array([1, 1.00000001]))}
    names = ["RR", "RR@10", "P@1", "nDCG@1", "NDCG.1", "ERR", "Judged@1"]
    assert mean_measures(run, {"q": {"a": 1}}, names) == {
        "RR": 0.5, "RR@10": 0.5, "P@1": 0, "nDCG@1": 0, "NDCG.1": 0, "ERR": 0.25, "Judged@1": 0,
    }  # fmt: skip
    assert mean_measures(run, {"q": {"b": 1}}, ["RR", "RR@10", "P@1"]) == {"RR": 1, "RR@10": 1, "P@1": 1}


def test_a_written_run_measures_the_same(tmp_path, chance):
    judgments, run = chance
    write_run(tmp_path / "a.run", run, "t")
    assert mean_measures(read_run(tmp_path / "a.run"), judgments, EVERY_MEASURE) == mean_measures(
        run, judgments, EVERY_MEASURE
    )


@pytest.mark.parametrize("rename", ["PLAIN-{}", "q{}", "ü {} x", "2024-{}", "0{}"])
def test_any_query_ids_measure_like_numbers(chance, rename):
    judgments, run = chance
    renamed = [{rename.format(query): one for query, one in given.items()} for given in (judgments, run)]
    plain = Evaluator(judgments, EVERY_MEASURE).values(run)
    text = Evaluator(renamed[0], EVERY_MEASURE).values(renamed[1])
    for name in EVERY_MEASURE:
        assert plain[name].tolist() == text[name].tolist(), name


def test_a_missing_query_counts_as_zero_and_an_unjudged_one_does_not_count():
    for lacking in ({"q2": RUN["q2"]}, {"q1": ranked(), "q2": RUN["q2"]}):
        for name in EVERY_MEASURE:
            evaluator = Evaluator(JUDGMENTS, [name])
            values = evaluator.values({**lacking, "q9": ranked("d1", "e1")})[name]
            alone = Evaluator(JUDGMENTS, [name]).values(RUN)[name]
            assert values.tolist() == [0.0, alone[1]], name


def test_a_query_without_judged_documents_is_not_judged_and_one_without_relevant_ones_is():
    evaluator = Evaluator({"q1": {}, "q2": {"a": 0}, "q3": {"a": 1}}, ["AP", "NDCG.5", "ERR@5", "RR@10"])
    assert evaluator.queries == ["q2", "q3"]
    values = evaluator.values({"q2": ranked("a"), "q3": ranked("a")})
    assert {name: of_queries.tolist() for name, of_queries in values.items()} == {
        "AP": [0, 1], "NDCG.5": [0, 1], "ERR@5": [0, 0.5], "RR@10": [0, 1],
    }  # fmt: skip


@pytest.mark.parametrize("grades", [{"a": -1}, {"a": -2}, {"x": -7, "a": -1}, {"a": -2.5}, {"a": -(10**30)}])
def test_a_query_with_negative_grades_only_has_no_relevant_document(grades):
    """trec_eval ends the process by a signal."""
    run, judgments = {"q": ranked("a", "b"), "q1": RUN["q1"]}, {"q": grades, "q1": JUDGMENTS["q1"]}
    for name in ["nDCG@10", "AP", "RR@10", "P@5", "R@500", "Bpref", "infAP", "IPrec@0.1", "NDCG.20", "ERR@5", "Rprec"]:
        values = Evaluator(judgments, [name]).values(run)[name]
        assert values.tolist() == [0, Evaluator({"q1": judgments["q1"]}, [name]).values(run)[name][0]], name


def test_gains_stay_with_their_measure():
    """In one evaluator of ir-measures they can end up in plain nDCG as well."""
    names = ["nDCG(gains={1:9,2:1})@10", "nDCG@10", "nDCG(gains={1:1,2:50})@10"]
    judgments, run = {"q": {"a": 1, "b": 2}}, {"q": ranked("a", "b")}
    together = mean_measures(run, judgments, names)
    assert together == {name: mean_measures(run, judgments, [name])[name] for name in names}
    # (1 + 2/log2(3)) / (2 + 1/log2(3)) with the grades themselves; the best order with gains 9 and 1
    assert together["nDCG@10"] == pytest.approx(0.859719, abs=1e-6) and together[names[0]] == 1.0


def test_large_grades():
    judgments, run = {"q": {"a": 9000, "b": 20000}}, {"q": ranked("a", "b")}
    # 2^9000 is nothing beside 2^20000
    found = mean_measures(run, judgments, ["NDCG.5", "ERR@5"])
    assert found == pytest.approx({"NDCG.5": 0.63093, "ERR@5": 0.5}, abs=1e-5)
    # linear: (9000 + 20000/log2(3)) / (20000 + 9000/log2(3))
    assert mean_measures(run, judgments, ["nDCG@5"])["nDCG@5"] == pytest.approx(21618.595 / 25678.368, abs=1e-7)


FRACTIONS = {"q": {"a": 0.25, "b": 0, "c": 33.5, "d": 1.0, "e": -0.5}}


@pytest.mark.parametrize(
    "measure, value",
    [
        # ranked e, a, x, c, b: gains 0, 0.25, 0, 33.5, 0; ideal 33.5, 1, 0.25
        ("nDCG@5", (0.25 / 1.5849625 + 33.5 / 2.3219281) / (33.5 + 1 / 1.5849625 + 0.25 / 2)),
        ("nDCG@2", (0.25 / 1.5849625) / (33.5 + 1 / 1.5849625)),
        ("nDCG(dcg='log2')@2", (0.25 / 1.5849625) / (33.5 + 1 / 1.5849625)),
        # every grade above 0 is relevant: a at rank 2 and c at rank 4, of three
        ("AP", (1 / 2 + 2 / 4) / 3),
        ("P@4", 2 / 4),
        ("R@3", 1 / 3),
        ("RR", 1 / 2),
        ("Success@1", 0),
        ("Rprec", 1 / 3),
        ("NumRel", 3),
        ("NumRet", 5),
        ("NumRet(rel=1)", 2),
        ("Judged@4", 3 / 4),
        # at least 2: only c
        ("AP(rel=2)", 1 / 4),
        ("RR(rel=2)@10", 1 / 4),
        ("AP(rel=34)", 0),
    ],
)
def test_fractional_grades(measure, value):
    assert mean_measures({"q": ranked(*"eaxcb")}, FRACTIONS, [measure])[measure] == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("measure", ["nDCG(gains={1:1,2:3})@10", "nDCG(judged_only=True)@10", "Compat"])
def test_measures_that_need_whole_grades(measure):
    with pytest.raises(InputError, match=r"query q, document a: the grade is 0\.25, which .* cannot take"):
        mean_measures({"q": ranked("a")}, FRACTIONS, [measure])
    with pytest.raises(InputError, match=r"document b: the grade is 20000, which .* up to 10,000"):
        mean_measures({"q": ranked("a")}, {"q": {"b": 20000}}, [measure])


def test_one_fractional_grade_changes_only_its_own_query(chance):
    """With it every query goes the other way; the queries whose grades are whole must not notice."""
    judgments, run = chance
    names = [name for name in EVERY_MEASURE if not name.startswith(("nDCG(gains", "Compat", "ERR"))]
    whole = Evaluator(judgments, names).values(run)
    fractional = Evaluator({**judgments, "one more": {"d0": 0.5}}, names).values(run)
    for name in names:
        assert fractional[name][:-1].tolist() == pytest.approx(whole[name].tolist(), abs=1e-12), name


@pytest.mark.parametrize(
    "ranking, message",
    [
        (RankedList(["a", "b"], np.array([1, np.nan])), "query q, document b: the score is NaN"),
        (RankedList(["a", "a"], np.array([1, 2])), "query q: a document is ranked twice"),
    ],
)
def test_rankings_that_cannot_be_measured(ranking, message):
    with pytest.raises(InputError, match=message):
        mean_measures({"q": ranking}, {"q": {"a": 1}}, ["AP"])


def test_no_judgments():
    with pytest.raises(InputError, match="no judgments"):
        mean_measures(RUN, {"q1": {}}, ["AP"])
