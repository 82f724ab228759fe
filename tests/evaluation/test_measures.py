"""Names of measures: what each means, and what is refused before it can go wrong."""

import ir_measures
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.evaluation.measures import DEFAULTS, is_own_measure, parse, provider
from tests.evaluation.runs import EVERY_MEASURE


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
