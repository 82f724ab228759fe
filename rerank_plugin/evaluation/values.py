"""The value of every measure for every judged query of a run.

ir-measures computes most. Exponential NDCG and ERR, which it leaves to a script, are computed here, as is linear nDCG
(gain rel, that of trec_eval) where grades are not whole numbers, which trec_eval does not take. The script (gdeval.pl)
takes only numeric query ids and grades up to 4; with others it fails or silently gives another mean.

NDCG and ERR have gain 2^rel - 1. The relevance levels of the click logs ([D18] 4.1) reach 100 and more, where 2^rel
outgrows exact numbers and then floats. Both measures are ratios, so gains are divided by 2^highest beforehand, which is
exact in floating point and cannot overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.measures import HIGHEST_GRADE, is_own_measure, parse, provider
from rerank_plugin.files.runs import RankedList, sort_order


def scaled_gains(grades: Iterable[float], highest: float) -> np.ndarray:
    """(2^rel - 1) / 2^highest, float64 [n]; 0 for grades of 0 and below."""
    levels = np.maximum(np.fromiter(grades, np.float64), 0.0)
    return np.exp2(levels - highest) - np.exp2(-float(highest))


def ndcg(ranked: Sequence[float], judged: Iterable[float], cutoff: int | None = None, linear: bool = False) -> float:
    """NDCG(n) = DCG(n) / IDCG(n) with DCG(n) = sum over ranks i <= n of (2^rel(i) - 1) / log2(i + 1): [D18] 4.4.1.

    Args:
        ranked: the grades of the ranked documents from rank 1 on, 0 where not judged.
        judged: the grades of all judged documents of the query, for the ideal ranking.
        cutoff: n; None for the whole ranking.
        linear: whether the gain is the grade itself, 0 if negative (Järvelin and Kekäläinen, TOIS 2002).

    Returns:
        0 for a query without relevant documents.
    """
    ideal = sorted(judged, reverse=True)[:cutoff]
    if not ideal or ideal[0] <= 0:
        return 0.0
    gains, ideal_gains = (
        np.maximum(np.array(grades, np.float64), 0.0) if linear else scaled_gains(grades, ideal[0])
        for grades in (ranked[:cutoff], ideal)
    )
    return _discounted(gains) / _discounted(ideal_gains)


def _discounted(gains: np.ndarray) -> float:
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())


def err(ranked: Sequence[float], highest: float, cutoff: int | None = None) -> float:
    """Expected reciprocal rank (Chapelle et al., CIKM 2009, equation 4).

    ERR(n) = sum over ranks r <= n of 1/r * R(r) * product over i < r of (1 - R(i)); the user stops at a document with
    probability R = (2^rel - 1) / 2^highest.

    Args:
        ranked: the grades of the ranked documents from rank 1 on, 0 where not judged.
        highest: the highest grade of the scale.
    """
    stops = scaled_gains(ranked[:cutoff], highest)  # [n]
    arrives = np.concatenate([[1.0], np.cumprod(1.0 - stops)[:-1]])[: len(stops)]
    return float((stops * arrives / np.arange(1, len(stops) + 1)).sum())


# Measures without a parameter rel that do not depend on the grade of a document.
UNGRADED = ("Judged", "NumQ", "NumRet")

Values = dict[str, np.ndarray]  # by measure name: float64 [Q], in the order of Evaluator.queries


class Evaluator:
    """Measures runs against judgments.

    Every query with a judgment counts. A query that a run lacks scores 0, or the measure's value of an empty ranking.
    Ties are resolved here, once ([D18] 4.4), and all providers get the same ranks as scores.

    Grades may be any numbers. If some are not whole or exceed the limit of trec_eval, linear nDCG is computed here, and
    binary measures get binary judgments (see `_binary`).

    Args:
        names: measures, as `parse` takes them; the keys of the values.
        highest: highest grade of ERR's scale, at least that of the judgments (the default). TREC's script has 4.

    Raises:
        InputError: no judgments, an unknown measure, or grades that a measure or ``highest`` does not allow.
    """

    def __init__(self, judgments: Judgments, names: Sequence[str], highest: float | None = None):
        self.judgments = {query: judged for query, judged in judgments.items() if judged}
        if not self.judgments:
            raise InputError("there are no judgments to measure against")
        self.queries = list(self.judgments)
        self.measures = {name: parse(name) for name in names}
        highest_judged = max(max(judged.values()) for judged in self.judgments.values())
        if highest is not None and not highest_judged <= highest < math.inf:
            raise InputError(f"the highest grade cannot be {highest:g}: the judgments have {highest_judged:g}")
        self.highest = highest_judged if highest is None else highest
        self._unusual = _unusual_grade(self.judgments)
        # One evaluator per measure: a shared evaluator can mix up the gains of measures, and gives one value to two
        # measures that print the same (NumRet, NumRet(rel=1)).
        provided = {name: measure for name, measure in self.measures.items() if not self._is_graded_here(measure)}
        self._evaluators = {
            name: provider().evaluator([measure], self._readable_judgments(name, measure))
            for name, measure in provided.items()
        }

    def values(self, run: Mapping[str, RankedList]) -> Values:
        """The value of each measure for each judged query."""
        ranked = {query: _ranked(query, run[query]) for query in self.queries if query in run}
        # Whole numbers below 2^24 are exact in float32, too: no provider sees a tie or another order.
        scores = {query: dict(zip(ids, map(float, range(len(ids), 0, -1)))) for query, ids in ranked.items() if ids}
        grades = {query: [self.judgments[query].get(document, 0) for document in ids] for query, ids in ranked.items()}
        result = {}
        for name, measure in self.measures.items():
            if name in self._evaluators:
                by_query = {metric.query_id: metric.value for metric in self._evaluators[name].iter_calc(scores)}
                of_queries = [float(by_query.get(query, measure.DEFAULT)) for query in self.queries]
            else:
                of_queries = [self._graded(measure, query, grades.get(query, [])) for query in self.queries]
            result[name] = np.array(of_queries)
        return result

    def summary(self, values: Values) -> dict[str, float]:
        """One number per measure: the mean over the judged queries, or the sum for measures that count."""
        result = {}
        for name, of_queries in values.items():
            aggregator = self.measures[name].aggregator()
            for value in of_queries.tolist():
                aggregator.add(value)
            result[name] = float(aggregator.result())
        return result

    def _graded(self, measure, query: str, grades: list) -> float:
        cutoff = measure.params.get("cutoff")
        if measure.NAME == "ERR":
            return err(grades, self.highest, cutoff)
        return ndcg(grades, self.judgments[query].values(), cutoff, linear=not is_own_measure(measure))

    def _is_graded_here(self, measure) -> bool:
        linear_ndcg = measure.NAME == "nDCG" and not measure.params.keys() - {"dcg", "cutoff"}
        return is_own_measure(measure) or bool(self._unusual and linear_ndcg and measure["dcg"] == "log2")

    def _readable_judgments(self, name: str, measure) -> Judgments:
        """Judgments that a provider can read: unchanged if possible, otherwise binary."""
        if not self._unusual:
            return _without_crash(self.judgments)
        level = _lowest_relevant(measure)
        if level is None:
            raise InputError(
                f"{self._unusual}, which {name} cannot take: give whole grades up to {HIGHEST_GRADE:,}, or measure "
                "nDCG@k, NDCG.k, ERR@k, AP, P@k or another binary measure"
            )
        return _without_crash({query: _binary(judged, level) for query, judged in self.judgments.items()})


def _lowest_relevant(measure) -> int | None:
    """The lowest whole grade that a measure counts as relevant; None if the measure is not binary."""
    level = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else None
    if isinstance(level, int):
        return level
    return 1 if measure.NAME in UNGRADED else None


def _unusual_grade(judgments: Judgments) -> str:
    """The first grade that is not whole or exceeds the limit of trec_eval, in words; "" if there is none."""
    for query, judged in judgments.items():
        for document, grade in judged.items():
            if not isinstance(grade, (int, np.integer)) or abs(grade) > HIGHEST_GRADE:
                return f"query {query}, document {document}: the grade is {grade}"
    return ""


def _without_crash(judgments: Judgments) -> Judgments:
    """Judgments with 0 for the grades of queries that have negative ones only, for which trec_eval ends the process.

    No measure has another value then: no document of these queries is relevant.
    """
    return {
        query: judged if max(judged.values()) >= 0 else dict.fromkeys(judged, 0) for query, judged in judgments.items()
    }


def _binary(judged: Mapping[str, float], level: int) -> dict[str, float]:
    """Binary grades: ``level`` for a relevant document, otherwise 0, or -1 for a negative grade.

    A document is relevant from the grade ``level`` on; at level 1, from any grade above 0 on.
    """
    lowest = math.ulp(0.0) if level == 1 else level
    return {document: level if grade >= lowest else -1 if grade < 0 else 0 for document, grade in judged.items()}


def _ranked(query: str, ranking: RankedList) -> list[str]:
    """Document ids sorted by score and the rule for ties."""
    doc_ids, scores = list(ranking.doc_ids), np.asarray(ranking.scores)
    if np.isnan(scores).any():
        raise InputError(f"query {query}, document {doc_ids[int(np.isnan(scores).argmax())]}: the score is NaN")
    if len(set(doc_ids)) != len(doc_ids):
        raise InputError(f"query {query}: a document is ranked twice")
    return [doc_ids[place] for place in sort_order(doc_ids, scores).tolist()]
