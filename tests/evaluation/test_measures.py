"""Names of measures; NDCG with gain 2^rel - 1 and ERR by hand and against the script; values of runs."""

import math

import ir_measures
import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.measures import DEFAULTS, is_own_measure, parse, provider
from rerank_plugin.evaluation.values import Evaluator, err, ndcg
from rerank_plugin.files.runs import RankedList, read_run, write_run
from tests.evaluation.runs import EVERY_MEASURE, by_chance, mean_measures, ranked


def test_the_papers_names():
    assert parse("NDCG.20") == ir_measures.nDCG(dcg="exp-log2") @ 20
    assert parse("NDCG@20") == parse("nDCG@20") == ir_measures.nDCG @ 20 != parse("NDCG.20")
    assert parse("Prec.5") == ir_measures.P @ 5
    assert parse("MAP") == ir_measures.AP
    assert parse("ERR@7") == ir_measures.ERR @ 7


@pytest.mark.parametrize(
    "name, measure",
    [
        ("ndcg_cut_10", "nDCG@10"), ("ndcg_cut.10", "nDCG@10"), ("ndcg", "nDCG"), ("map", "AP"), ("map_cut_9", "AP@9"),
        ("recip_rank", "RR"), ("P_5", "P@5"), ("P.5", "P@5"), ("recall_1000", "R@1000"), ("success_1", "Success@1"),
        ("bpref", "Bpref"), ("Rprec", "Rprec"), ("num_rel_ret", "NumRet(rel=1)"), ("num_q", "NumQ"),
        ("iprec_at_recall_0.10", "IPrec@0.1"), ("set_recall", "SetR"), ("set_F", "SetF"), ("infAP", "infAP"),
    ],
)  # fmt: skip
def test_trec_evals_names(name, measure):
    assert parse(name) == parse(measure)


@pytest.mark.parametrize("name", [*DEFAULTS, *EVERY_MEASURE])
def test_known(name):
    assert parse(name).NAME


@pytest.mark.parametrize(
    "name",
    [
        "", "nDGC@10", "ndcg@10", "P", "R", "nDCG@ten", "nDCG@1.5", "P@5@6", "P(5)", "P(cut=5)",
        "a b", "AP; AP", "NDCG.", "NDCG.x",
        "ndcg_cut", "ndcg_cut_", "ndcg_cut_5,10", "ndcg_cut_0", "P_x", "recip_rank_10", "gm_map", "official",
        "P@0", "NDCG.0", "Prec.0", "ERR@0", "RR@0", "RR@-1", "nDCG(cutoff=0)", "AP(rel=0)", "RR(rel=0)@3",
        "nDCG(gains={1:2.5})@5", "nDCG(gains={1:100000})@5", "nDCG(gains=3)@5",
        "nDCG(dcg='exp-log2',gains={1:2})@5",
        "nDCG(dcg='exp-log2',judged_only=True)@5", "IPrec@0.123", "IPrec@1.5", "Accuracy",
        "__import__('os')", "runs/bm25.run",
    ],
)  # fmt: skip
def test_refused_with_its_name_and_examples(name):
    with pytest.raises(InputError) as caught:
        parse(name)
    message = str(caught.value)
    assert message.startswith(f"measure {name!r}: ") and message.endswith("AP(rel=2)") and "\n" not in message


def test_a_measure_whose_provider_is_not_installed_says_how_to_install_it():
    if ir_measures.pyndeval.is_available():
        pytest.skip("pyndeval is installed")
    with pytest.raises(InputError, match="pip install ir-measures"):
        parse("alpha_nDCG@20")


def test_the_script_is_never_asked():
    assert "gdeval" in [one.NAME for one in ir_measures.DefaultPipeline.providers]
    assert "gdeval" not in [one.NAME for one in provider().providers]
    for name in ("ERR", "ERR@5", "NDCG.20", "nDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')"):
        assert is_own_measure(parse(name))
    for name in ("nDCG@20", "nDCG(gains={1:1,2:3})@20", "AP"):
        assert not is_own_measure(parse(name))


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
