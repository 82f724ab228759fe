"""Matches of queries and candidates, relevant and not: the evidence of models of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

import rerank_plugin as rp
from rerank_plugin.files import tables
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs import matches

OFTEN = (2, 8)  # occurrences of a query word; as unigrams, PACRR sees only n_s of them


class Counts(NamedTuple):
    """The C candidates of a query with W distinct words."""

    counts: np.ndarray  # term frequency of each word in each candidate, int64 [C, W]
    lengths: np.ndarray  # words of the candidates, int64 [C]
    relevant: np.ndarray  # bool [C]


def counted(query: rp.Query, ranking: rp.RankedList, judged: Mapping[str, float], index: ForwardIndex) -> Counts:
    """Exact matches of the forward index's words, as the models see them."""
    rows = index.rows(ranking.doc_ids)
    candidates = Candidates(index, rows, np.zeros(len(rows), np.float32))
    counts = matches.WordMatches(index.query(query.text), candidates).counts.sum(axis=1)  # [C, W]
    relevant = np.array([judged.get(id, 0) > 0 for id in ranking.doc_ids], bool)
    return Counts(counts, candidates.lengths, relevant)


def markdown(
    queries: Sequence[rp.Query],
    run: Mapping[str, rp.RankedList],
    judgments: Mapping[str, Mapping[str, float]],
    index: ForwardIndex,
) -> str:
    """A table of the relevant and the other candidates of all queries together."""
    every = [counted(query, run[query.id], judgments[query.id], index) for query in queries if query.id in run]
    every = [counts for counts in every if counts.counts.size]
    relevant = np.concatenate([counts.relevant for counts in every])

    def split(value) -> list[np.ndarray]:
        """Values [C] of the relevant candidates of all queries, and of the others."""
        values = np.concatenate([value(counts) for counts in every])
        return [values[relevant], values[~relevant]]

    def shares(holds) -> list[str]:
        return [f"{part.mean():.1%}" if len(part) else "-" for part in split(holds)]

    rows = [
        ["", "relevant", "others"],
        ["candidates", *(f"{len(part):,}" for part in split(lambda counts: counts.lengths))],
        ["words, median", *(f"{np.median(part):.0f}" for part in split(lambda counts: counts.lengths))],
        ["with all query words", *shares(lambda counts: (counts.counts > 0).all(axis=1))],
        ["with none of them", *shares(lambda counts: (counts.counts == 0).all(axis=1))],
    ]
    for often in OFTEN:
        most = shares(lambda counts: counts.counts.max(axis=1) > often)
        rows.append([f"with one of them more than {often} times", *most])
    lengths = [len(index.query(query.text).terms) for query in queries]
    judged = sum(sum(grade > 0 for grade in judgments.get(query.id, {}).values()) for query in queries)
    return (
        f"{len(queries):,} queries of {np.median(lengths):.0f} words in the median; {relevant.sum():,} of their "
        f"{judged:,} relevant documents are candidates.\n\n{tables.markdown(rows)}"
    )
