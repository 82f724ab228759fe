"""The value of every measure for every judged query of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation import graded
from rerank_plugin.evaluation.measures import HIGHEST_GRADE, is_ours, parse, provider
from rerank_plugin.files.runs import RankedList, sort_order

# Besides those with a parameter rel, they do not ask how relevant a document is.
UNGRADED = ("Judged", "NumQ", "NumRet")

Values = dict[str, np.ndarray]  # by measure name: float64 [Q], in the order of Evaluator.queries


class Evaluator:
    """Measures runs against judgments.

    Every query with a judgment counts. One that a run does not have scores 0, or what the measure gives when nothing
    is found. Ties are resolved here, once ([D18] 4.4), and all providers get the same ranks as scores.

    Grades may be any numbers. Where some are no whole ones, or beyond what trec_eval takes, linear nDCG is computed
    here and measures that only ask whether a document is relevant get judgments that say just that (see `_decided`).

    Args:
        names: measures, as `measures.parse` takes them; values come back under these names.
        highest: the top of ERR's scale of grades, at least the highest grade in the judgments, which it is where none
            is given. The script of TREC has 4.
    """

    def __init__(self, judgments: Judgments, names: Sequence[str], highest: float | None = None):
        self.judgments = {query: judged for query, judged in judgments.items() if judged}
        if not self.judgments:
            raise InputError("there are no judgments to measure against")
        self.queries = list(self.judgments)
        self.measures = {name: parse(name) for name in names}
        of_judgments = max(max(judged.values()) for judged in self.judgments.values())
        if highest is not None and not of_judgments <= highest < math.inf:
            raise InputError(f"the highest grade cannot be {highest:g}: the judgments have {of_judgments:g}")
        self.highest = of_judgments if highest is None else highest
        self._unusual = _unusual_grade(self.judgments)
        # One evaluator a measure: in a shared one, the gains of a measure can end up in another, and two that print the
        # same (NumRet, NumRet(rel=1)) in one value.
        theirs = {name: measure for name, measure in self.measures.items() if not self._is_graded_here(measure)}
        self._evaluators = {
            name: provider().evaluator([measure], self._readable_judgments(name, measure))
            for name, measure in theirs.items()
        }

    def values(self, run: Mapping[str, RankedList]) -> Values:
        """The value of each measure for each judged query."""
        ranked = {query: _ranked(query, run[query]) for query in self.queries if query in run}
        # Whole numbers below 2^24 are exact in float32, too: no provider can see a tie or another order.
        scores = {query: dict(zip(ids, map(float, range(len(ids), 0, -1)))) for query, ids in ranked.items() if ids}
        grades = {query: [self.judgments[query].get(document, 0) for document in ids] for query, ids in ranked.items()}
        result = {}
        for name, measure in self.measures.items():
            if name in self._evaluators:
                found = {metric.query_id: metric.value for metric in self._evaluators[name].iter_calc(scores)}
                of_queries = [float(found.get(query, measure.DEFAULT)) for query in self.queries]
            else:
                of_queries = [self._graded(measure, query, grades.get(query, [])) for query in self.queries]
            result[name] = np.array(of_queries)
        return result

    def summary(self, values: Values) -> dict[str, float]:
        """One number a measure: the mean over the judged queries, or the sum for measures that count."""
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
            return graded.err(grades, self.highest, cutoff)
        return graded.ndcg(grades, self.judgments[query].values(), cutoff, linear=not is_ours(measure))

    def _is_graded_here(self, measure) -> bool:
        linear_ndcg = measure.NAME == "nDCG" and not measure.params.keys() - {"dcg", "cutoff"}
        return is_ours(measure) or bool(self._unusual and linear_ndcg and measure["dcg"] == "log2")

    def _readable_judgments(self, name: str, measure) -> Judgments:
        """Judgments that a provider can read: as they are, if it can, else those of `_decided`."""
        if not self._unusual:
            return self.judgments
        level = _lowest_relevant(measure)
        if level is None:
            raise InputError(
                f"{self._unusual}, which {name} cannot take: it must be a whole number up to {HIGHEST_GRADE:,}, or "
                "measure nDCG@k, NDCG.k, ERR@k, AP, P@k and other measures of relevant or not"
            )
        return {query: _decided(judged, level) for query, judged in self.judgments.items()}


def _lowest_relevant(measure) -> int | None:
    """The lowest whole grade that a measure counts as relevant; None if it asks for more than relevant or not."""
    level = measure["rel"] if "rel" in measure.SUPPORTED_PARAMS else None
    if isinstance(level, int):
        return level
    return 1 if measure.NAME in UNGRADED else None


def _unusual_grade(judgments: Judgments) -> str:
    """The first grade that is no whole number or beyond what trec_eval takes, in words; "" if there is none."""
    for query, judged in judgments.items():
        for document, grade in judged.items():
            if not isinstance(grade, (int, np.integer)) or grade > HIGHEST_GRADE:
                return f"query {query}, document {document}: the grade is {grade}"
    return ""


def _decided(judged: Mapping[str, float], level: int) -> dict[str, int]:
    """Grades replaced by ``level`` where a document is relevant, else 0, or -1 where it was below 0.

    Relevant is a grade of at least ``level``; at level 1, which says no more than "relevant", any above 0.
    """
    lowest = math.ulp(0.0) if level == 1 else level
    return {document: level if grade >= lowest else -1 if grade < 0 else 0 for document, grade in judged.items()}


def _ranked(query: str, ranking: RankedList) -> list[str]:
    """Document ids by the rule for ties, whichever order a ranking came in."""
    doc_ids, scores = list(ranking.doc_ids), np.asarray(ranking.scores)
    if np.isnan(scores).any():
        raise InputError(f"query {query}, document {doc_ids[int(np.isnan(scores).argmax())]}: the score is NaN")
    if len(set(doc_ids)) != len(doc_ids):
        raise InputError(f"query {query}: a document is ranked twice")
    return [doc_ids[at] for at in sort_order(doc_ids, scores).tolist()]
