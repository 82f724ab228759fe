"""Agreement of two runs, independent of judgments: Kendall's tau, and the overlap of the top documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rerank_plugin.files.runs import RankedList

TOP = 10


class Agreement(NamedTuple):
    """Means over the queries that both runs have with at least two documents in common.

    Attributes:
        queries: the number of these queries.
        tau: Kendall's tau over the common documents, 1 for the same order and -1 for the reverse; NaN for no query.
        top: share of the first :data:`TOP` documents that are among the first of the other run, too.
    """

    queries: int
    tau: float
    top: float


def agreement(run: Mapping[str, RankedList], other: Mapping[str, RankedList]) -> Agreement:
    """How much ``run`` agrees with ``other``."""
    from scipy.stats import kendalltau

    taus, tops = [], []
    for query, ranking in run.items():
        if query not in other:
            continue
        places = {document: place for place, document in enumerate(other[query].doc_ids)}
        common = [places[document] for document in ranking.doc_ids if document in places]
        if len(common) < 2:
            continue
        taus.append(kendalltau(np.arange(len(common)), common).statistic)
        first, other_first = set(ranking.doc_ids[:TOP]), set(other[query].doc_ids[:TOP])
        tops.append(len(first & other_first) / max(len(first), len(other_first)))
    if not taus:
        return Agreement(0, float("nan"), float("nan"))
    return Agreement(len(taus), float(np.mean(taus)), float(np.mean(tops)))
