"""NDCG with gain 2^rel - 1, and ERR: by hand, and against the script where it can be trusted."""

import math

import ir_measures
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.measures import Evaluator, err, ndcg
from tests.evaluation.runs import by_chance, ranked

# Grades of the ranking 1 0 2 3; judged are 3 2 1 0.
RANKED, JUDGED = [1, 0, 2, 3], [2, 0, 1, 3]


def test_ndcg_by_hand():
    # DCG(4)  = 1/log2(2) + 0/log2(3) + 3/log2(4) + 7/log2(5) = 1 + 0 + 1.5 + 3.014736 = 5.514736
    # IDCG(4) = 7/log2(2) + 3/log2(3) + 1/log2(4) + 0         = 7 + 1.892789 + 0.5     = 9.392789
    assert ndcg(RANKED, JUDGED, 4) == pytest.approx(0.587125, abs=1e-6)
    assert ndcg(RANKED, JUDGED) == ndcg(RANKED, JUDGED, 20) == ndcg(RANKED, JUDGED, 4)
    # DCG(2) = 1, IDCG(2) = 7 + 1.892789
    assert ndcg(RANKED, JUDGED, 2) == pytest.approx(0.112451, abs=1e-6)
    assert ndcg([3, 2, 1, 0], JUDGED, 4) == 1.0


def test_ndcg_without_relevant_or_found_documents():
    pairs = [([0, 0.0], [0, -0.5]), ([0, 0], [0, 0, -1]), ([], [1]), ([0], [1]), ([], []), ([], [0.5])]
    for grades, judged in pairs:
        assert ndcg(grades, judged) == ndcg(grades, judged, linear=True) == 0.0
    assert ndcg([-1, 1], [1, -1]) == pytest.approx(1 / math.log2(3))  # a negative grade gains nothing, loses nothing


def test_err_by_hand():
    # R = (2^rel - 1) / 2^3 = 1/8, 0, 3/8, 7/8
    # ERR = 1/1 * 1/8 + 0 + 1/3 * 7/8 * 3/8 + 1/4 * 7/8 * 5/8 * 7/8 = 0.125 + 0.109375 + 0.11962890625
    assert err(RANKED, 3) == 0.35400390625
    assert err(RANKED, 3, 3) == 0.234375
    assert err(RANKED, 3, 1) == 0.125
    # A longer scale: R = 1/16, 0, 3/16, 7/16: 0.0625 + 1/3 * 15/16 * 3/16 + 1/4 * 15/16 * 13/16 * 7/16
    assert err(RANKED, 4) == pytest.approx(0.0625 + 0.05859375 + 0.083312988, abs=1e-9)
    assert err([], 3) == err([0, -1], 3) == err([0], 0) == 0.0


def test_large_and_real_levels():
    # Where 2^rel is beyond float64 only the documents of the highest grade count, each half or less of the one above.
    assert ndcg([5000, 4999], [5000, 4999]) == 1.0
    # (1/2 + 1/log2(3)) / (1 + 1/2/log2(3)), in units of 2^5000
    assert ndcg([4999, 5000], [5000, 4999]) == pytest.approx((0.5 + 0.63092975) / (1 + 0.31546488))
    assert err([5000, 0, 4999], 5000) == 1.0
    assert err([4999, 5000], 5000) == 0.5 + 0.5 * 0.5
    # 21.5 and 4.4 are levels of [D18] 5.2: 2^21.5 - 1 = 2965819.8, 2^4.4 - 1 = 20.112
    ideal = 2965819.8 + 20.112 / 1.5849625
    assert ndcg([4.4, 21.5], [21.5, 4.4]) == pytest.approx((20.112 + 2965819.8 / 1.5849625) / ideal)


@pytest.mark.parametrize("highest", [4, 2])  # in the judgments; the script's scale always ends at 4
@pytest.mark.parametrize("cutoff", [1, 5, 20])
def test_equal_to_the_script_on_numeric_ids(cutoff, highest):
    if not ir_measures.gdeval.is_available():
        pytest.skip("needs perl")
    judgments, run = by_chance([str(number) for number in range(1, 9)], highest=highest)
    evaluator = Evaluator(judgments, [f"ERR@{cutoff}", f"NDCG.{cutoff}"], highest=4)
    values = evaluator.values(run)
    script = [ir_measures.ERR @ cutoff, ir_measures.nDCG(dcg="exp-log2") @ cutoff]
    plain = {query: dict(zip(ranking.doc_ids, map(float, ranking.scores))) for query, ranking in run.items()}
    expected = {(m.measure, m.query_id): m.value for m in ir_measures.gdeval.iter_calc(script, judgments, plain)}
    for measure, name in zip(script, values):
        for at, query in enumerate(evaluator.queries):
            assert values[name][at] == pytest.approx(expected[measure, query], abs=6e-6)  # it prints five digits
        assert len(set(values[name].tolist())) > 1


@pytest.mark.parametrize("cutoff", [1, 5, 20])
def test_ndcg_is_equal_to_ir_measures_with_these_gains(cutoff):
    judgments, run = by_chance(["a", "b", "c"], highest=5)
    gains = ",".join(f"{grade}:{2**grade - 1}" for grade in range(1, 6))
    evaluator = Evaluator(judgments, [f"NDCG.{cutoff}", f"nDCG(gains={{{gains}}})@{cutoff}"])
    exponential, by_gains = evaluator.values(run).values()
    assert exponential.tolist() == pytest.approx(by_gains.tolist(), abs=1e-12) and exponential.max() > 0


def test_a_higher_scale_of_err():
    judgments, run = {"q1": {"a": 1}, "q2": {"b": 2}}, {"q1": ranked("a"), "q2": ranked("b")}
    found = Evaluator(judgments, ["ERR@5", "AP"], highest=4).values(run)  # R = (2^rel - 1) / 16
    assert found["ERR@5"].tolist() == [1 / 16, 3 / 16] and found["AP"].tolist() == [1, 1]
    for bad in (1.5, math.inf, math.nan):
        with pytest.raises(InputError, match=f"the highest grade cannot be {bad}: the judgments have 2"):
            Evaluator(judgments, ["ERR@5"], highest=bad)


def test_linear_ndcg_equals_trec_eval_on_whole_grades():
    judgments, run = by_chance(["q"], seed=4)
    order = sorted(run["q"].doc_ids)
    scores = {"q": {document: float(-place) for place, document in enumerate(order)}}
    assert min(judgments["q"].values()) < 0
    grades = [judgments["q"].get(document, 0) for document in order]
    for cutoff in (1, 3, 10, None):
        measure = ir_measures.nDCG @ cutoff if cutoff else ir_measures.nDCG
        expected = measure.calc_aggregate(judgments, scores)
        assert ndcg(grades, judgments["q"].values(), cutoff, linear=True) == pytest.approx(expected, abs=1e-12)
