"""How a collection's relevant candidates match their queries, beside the others: what models of matches can go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import rerank_plugin as rp
from rerank_plugin.files import tables
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs import matches

OFTEN = (2, 8)  # occurrences of a query word: more of them than n_s are not seen by PACRR as unigrams


class Counts(NamedTuple):
    """The C candidates of one query of W distinct words."""

    counts: np.ndarray  # how often each word occurs in each candidate, int64 [C, W]
    lengths: np.ndarray  # words of the candidates, int64 [C]
    relevant: np.ndarray  # bool [C]


def counted(query: rp.Query, found: rp.RankedList, judged: Mapping[str, float], index: ForwardIndex) -> Counts:
    """Exact matches as the models see them: of the forward index's words."""
    rows = index.rows(found.doc_ids)
    candidates = Candidates(index, rows, np.zeros(len(rows), np.float32))
    counts = matches.Matches(index.query(query.text), candidates).counts.sum(axis=1)  # [C, W]
    relevant = np.array([judged.get(id, 0) > 0 for id in found.doc_ids], bool)
    return Counts(counts, candidates.lengths, relevant)


def markdown(
    queries: Sequence[rp.Query],
    run: Mapping[str, rp.RankedList],
    judgments: Mapping[str, Mapping[str, float]],
    index: ForwardIndex,
) -> str:
    """A table of the relevant candidates beside the others, all of all queries together."""
    found = [counted(query, run[query.id], judgments[query.id], index) for query in queries if query.id in run]
    found = [one for one in found if one.counts.size]
    relevant = np.concatenate([one.relevant for one in found])

    def split(value) -> list[np.ndarray]:
        """Values [C] of the relevant candidates of all queries, and of the others."""
        values = np.concatenate([value(one) for one in found])
        return [values[relevant], values[~relevant]]

    def shares(holds) -> list[str]:
        return [f"{one.mean():.1%}" if len(one) else "-" for one in split(holds)]

    rows = [
        ["", "relevant", "others"],
        ["candidates", *(f"{len(one):,}" for one in split(lambda one: one.lengths))],
        ["words, median", *(f"{np.median(one):.0f}" for one in split(lambda one: one.lengths))],
        ["with all query words", *shares(lambda one: (one.counts > 0).all(axis=1))],
        ["with none of them", *shares(lambda one: (one.counts == 0).all(axis=1))],
    ]
    for often in OFTEN:
        most = shares(lambda one: one.counts.max(axis=1) > often)
        rows.append([f"with one of them more than {often} times", *most])
    lengths = [len(index.query(query.text).terms) for query in queries]
    judged = sum(sum(grade > 0 for grade in judgments.get(query.id, {}).values()) for query in queries)
    return (
        f"{len(queries):,} queries of {np.median(lengths):.0f} words in the median; {relevant.sum():,} of their "
        f"{judged:,} relevant documents are candidates.\n\n{tables.markdown(rows)}"
    )
