"""Names of measures: those of ir-measures, of trec_eval, and the names that the papers use for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras

if TYPE_CHECKING:
    import ir_measures

DEFAULTS = ("nDCG@10", "nDCG@20", "NDCG.20", "AP", "P@5", "R@500")
EXAMPLES = "nDCG@10, ndcg_cut_10, NDCG.20, AP, map, P@5, Prec.5, R@500, RR@10, ERR@20, AP(rel=2)"

# [D18] 4.4 writes NDCG.20 (gain 2^rel - 1; nDCG@20 has gain rel) and Prec.5.
PAPER_NAMES = ((r"NDCG\.(\d+)", "nDCG(dcg='exp-log2')@{}"), (r"Prec\.(\d+)", "P@{}"))

# trec_eval's names (ndcg_cut_10, also ndcg_cut.10, map, recip_rank), as far as ir-measures has the measures.
TREC_NAMES = re.compile(
    r"(?:ndcg|map|recip_rank|Rprec|bpref|infAP|num_(?:q|ret|rel|rel_ret)|set_(?:P|recall|F|map|relative_P)"
    r"|(?:ndcg_cut|map_cut|P|recall|success|iprec_at_recall|set_F)[._][\d.]+)"
)

# trec_eval keeps counts per grade, and its nDCG takes time quadratic in the highest one: 10,000 is still instant.
HIGHEST_GRADE = 10_000


def parse(name: str) -> ir_measures.Measure:
    """The measure of a name.

    Raises:
        InputError: there is no such measure, or no installed provider can compute it.
    """
    with naming_extras("a measure"):
        import ir_measures

    standard_name = name
    for pattern, template in PAPER_NAMES:
        if match := re.fullmatch(pattern, name):
            standard_name = template.format(int(match[1]))
    try:
        if TREC_NAMES.fullmatch(name):
            (measure,) = ir_measures.parse_trec_measure(name)
        else:
            measure = ir_measures.parse_measure(standard_name)
        measure.validate_params()
    except Exception as error:  # of many kinds, TypeError and AssertionError among them
        detail = f" ({error})" if isinstance(error, AssertionError) else ""
        raise _invalid(name, f"no such measure{detail}") from error
    for parameter in ("cutoff", "rel"):  # below 1, trec_eval crashes the process or counts every document
        value = measure.params.get(parameter)
        if isinstance(value, int) and value < 1:
            raise _invalid(name, f"its {parameter} must be at least 1")
    recall = measure.params.get("recall", 0.0)
    if not 0 <= recall <= 1 or round(recall, 2) != recall:  # the provider would silently round it
        raise _invalid(name, "its recall must be from 0.0 to 1.0 with at most two decimals")
    gains = measure.params.get("gains", {})
    if not all(type(number) is int and number <= HIGHEST_GRADE for pair in gains.items() for number in pair):
        raise _invalid(name, f"gains must be whole numbers up to {HIGHEST_GRADE:,}; NDCG.20 takes any grades")
    _check_computable(name, measure)
    return measure


def is_own_measure(measure: ir_measures.Measure) -> bool:
    """Whether :mod:`~rerank_plugin.evaluation.values` computes a measure, instead of a provider of ir-measures."""
    if measure.NAME == "nDCG":
        return measure["dcg"] == "exp-log2" and "gains" not in measure.params and not measure["judged_only"]
    return measure.NAME == "ERR"


def provider() -> ir_measures.providers.Provider:
    """All providers of ir-measures except the script for ERR and exponential nDCG, which `values` computes."""
    import ir_measures
    from ir_measures.providers import FallbackProvider

    return FallbackProvider([each for each in ir_measures.DefaultPipeline.providers if each.NAME != "gdeval"])


def _check_computable(name: str, measure: ir_measures.Measure) -> None:
    """Compute the measure for one document: some providers report an unsupported measure only then."""
    if is_own_measure(measure):
        return
    try:
        list(provider().iter_calc([measure], {"q": {"d": 1}}, {"q": {"d": 1.0}}))
    except Exception as error:
        raise _invalid(name, f"cannot be computed here ({type(error).__name__}: {error})") from error


def _invalid(name: str, problem: str) -> InputError:
    return InputError(f"measure {name!r}: {' '.join(problem.split())}; for example {EXAMPLES}")
