"""The value of every measure for every judged query of a run."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from rerank_plugin.corpora.records import Judgments
from rerank_plugin.errors import InputError
from rerank_plugin.evaluation import graded
from rerank_plugin.evaluation.measures import HIGHEST_GRADE, is_ours, parse, provider
from rerank_plugin.runs import RankedList, sort_order

Values = dict[str, np.ndarray]  # by measure name: float64 [Q], in the order of Evaluator.queries


class Evaluator:
    """Measures runs against judgments.

    Every query with a judgment counts. One that a run does not have scores 0, or what the measure gives when nothing
    is found; queries without judgments are left out. Ties are resolved here, once ([D18] 4.4), and all providers get
    the same ranks as scores, because they resolve ties differently.

    Args:
        names: measures, as `measures.parse` takes them; values come back under these names.
    """

    def __init__(self, judgments: Judgments, names: Sequence[str]):
        self.judgments = {query: judged for query, judged in judgments.items() if judged}
        if not self.judgments:
            raise InputError("there are no judgments to measure against")
        self.queries = list(self.judgments)
        self.measures = {name: parse(name) for name in names}
        self.highest = max(max(judged.values()) for judged in self.judgments.values())
        # One evaluator a measure: in a shared one, the gains of a measure can end up in another, and two that print the
        # same (NumRet, NumRet(rel=1)) in one value.
        theirs = {name: measure for name, measure in self.measures.items() if not is_ours(measure)}
        if theirs:
            self._check_grades()
        self._evaluators = {name: provider().evaluator([one], self.judgments) for name, one in theirs.items()}

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
        return graded.ndcg(grades, self.judgments[query].values(), cutoff)

    def _check_grades(self) -> None:
        for query, judged in self.judgments.items():
            for document, grade in judged.items():
                if not isinstance(grade, (int, np.integer)) or grade > HIGHEST_GRADE:
                    raise InputError(
                        f"query {query}, document {document}: the grade {grade} must be a whole number up to "
                        f"{HIGHEST_GRADE:,}; only NDCG.k and ERR@k take others"
                    )


def _ranked(query: str, ranking: RankedList) -> list[str]:
    """Document ids by the rule for ties, whichever order a ranking came in."""
    doc_ids, scores = list(ranking.doc_ids), np.asarray(ranking.scores)
    if np.isnan(scores).any():
        raise InputError(f"query {query}, document {doc_ids[int(np.isnan(scores).argmax())]}: the score is NaN")
    if len(set(doc_ids)) != len(doc_ids):
        raise InputError(f"query {query}: a document is ranked twice")
    return [doc_ids[at] for at in sort_order(doc_ids, scores).tolist()]
