"""Subsets of the judged queries: those of [D18] 4.1 and [D17] 5.2 ("Test Data Subsets", table 1), and any other.

* ``neg20+``: at least 20 documents that are not relevant hold all words of the query in their titles; likewise with
  any other number.
* ``one-new-word``: a word of the query occurs in no training or validation query; ``all-new-words``: none of them does.
* ``overlap0.3-0.5``: the largest Jaccard coefficient of a query's relevant documents and those of a training query is
  at least 0.3 and below 0.5, or in any other range, whose end counts only if it is 1: how well a model ranks queries
  that are like those it was trained on, and how well others.
* a file with one query id a line.

What the papers leave open is decided here. Words are the distinct tokens of `text.tokenizer`, function words included.
The documents of a query are its judged ones, grades above 0 being the relevant ones; where a run is given they are the
candidates of the run, unjudged ones counting as not relevant. Documents that are not in the index are left out: their
titles are unknown. A query without a single word is in none of the three subsets.

Nothing here starts Java; the titles are read in the forward index.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin import InputError, Query, RankedList
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora import judged_queries
from rerank_plugin.files import tables
from rerank_plugin.files.text_files import lines
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.text.tokenizer import tokenize

log = logging.getLogger(__name__)

ONE_NEW_WORD, ALL_NEW_WORDS = "one-new-word", "all-new-words"
NAMES = ("neg20+", ONE_NEW_WORD, ALL_NEW_WORDS, "overlap0.3-0.5")
AT_LEAST = 20  # documents that are not relevant, for neg20+


class Samples(NamedTuple):
    """The documents of one query ([D18]: samples), n of them."""

    relevant: np.ndarray  # bool [n], whether the grade is above 0
    in_title: np.ndarray  # bool [n], whether the title holds all words of the query


class Description(NamedTuple):
    """A column of [D18], table 1, as counts."""

    title: str
    queries: int
    positives: int  # relevant samples
    positives_without: int  # those without all query words in their titles
    negatives: int  # the other samples
    negatives_with: int  # those with all query words in their titles

    @property
    def samples(self) -> int:
        return self.positives + self.negatives


def samples(
    queries: Sequence[Query],
    judgments: Judgments,
    index: ForwardIndex,
    run: Mapping[str, RankedList] | None = None,
) -> dict[str, Samples]:
    """The samples of each of the queries.

    Args:
        run: whose candidates are the documents; None for the judged documents.

    Raises:
        InputError: the index has none of the documents.
    """
    grades: dict[str, Mapping[str, float]] = {}
    for query in queries:
        judged = judgments.get(query.id, {})
        ranked = run[query.id].doc_ids if run is not None and query.id in run else ()
        grades[query.id] = judged if run is None else {document: judged.get(document, 0) for document in ranked}
    ids = list(dict.fromkeys(document for of_query in grades.values() for document in of_query))
    row_of = dict(zip(ids, index.rows(ids).tolist()))
    missing = [document for document in ids if row_of[document] < 0]
    if len(missing) == len(ids):
        what = "candidates" if run is not None else "judged documents"
        raise InputError(
            f"none of the {len(ids)} {what} of {len(grades)} queries is in the index: is it of another collection?"
        )
    if missing:
        said = "%d of %d documents are not in the index and are left out, as %s"
        log.warning(said, len(missing), len(ids), missing[0])
    found = {}
    for query in queries:
        known = [document for document in grades[query.id] if row_of[document] >= 0]
        rows = np.array([row_of[document] for document in known], np.int64)
        relevant = np.array([grades[query.id][document] > 0 for document in known], bool)
        candidates = Candidates(index, rows, np.zeros(len(rows), np.float32))
        found[query.id] = Samples(relevant, all_words_in_title(query.text, candidates))
    return found


def all_words_in_title(text: str, candidates: Candidates) -> np.ndarray:
    """Whether each candidate's title holds every word of a query, bool [C]; nowhere for a query without words."""
    from rerank_plugin.inputs.matches import Matches  # numba takes half a second to load

    matches = Matches(candidates.index.query(text), candidates, titles_only=True)
    if not len(matches.ids):
        return np.zeros(len(candidates), bool)
    return (matches.counts[:, 0] > 0).all(axis=1)  # [C, m] to [C]


def hard_count(name: str) -> int | None:
    """The 20 of ``neg20+``; None for the name of another subset."""
    found = re.fullmatch(r"neg([1-9]\d*)\+", name)
    return int(found[1]) if found else None


def hard_queries(of_queries: Mapping[str, Samples], at_least: int = AT_LEAST) -> list[str]:
    """The ids of ``neg20+``, or another number.

    Raises:
        InputError: no document of any query is not relevant, as where only relevant ones were judged.
    """
    if all(one.relevant.all() for one in of_queries.values()):
        raise InputError(
            f"the subset neg{at_least}+ needs documents that are not relevant, and no grade is 0 or below: give a "
            "run whose unjudged candidates count as not relevant"
        )
    return [id for id, one in of_queries.items() if int((one.in_title & ~one.relevant).sum()) >= at_least]


def overlap_range(name: str) -> tuple[float, float] | None:
    """The 0.3 and 0.5 of ``overlap0.3-0.5``; None for the name of another subset."""
    found = re.fullmatch(r"overlap([01](?:\.\d+)?)-([01](?:\.\d+)?)", name)
    return (float(found[1]), float(found[2])) if found else None


def overlapping(judgments: Judgments, seen: Judgments, low: float, high: float) -> list[str]:
    """The ids of queries with a largest overlap of at least ``low`` and below ``high``, or up to it where it is 1."""
    largest = largest_overlaps(judgments, seen)
    return [id for id, overlap in largest.items() if low <= overlap and (overlap < high or high == overlap == 1)]


def largest_overlaps(judgments: Judgments, seen: Judgments) -> dict[str, float]:
    """By query, the largest Jaccard coefficient of its relevant documents and those of a query in ``seen``."""
    queries_of: dict[str, list[str]] = {}  # the seen queries that a document is relevant for
    sizes = {query: len(relevant) for query, relevant in _relevant(seen)}
    for query, relevant in _relevant(seen):
        for document in relevant:
            queries_of.setdefault(document, []).append(query)
    found = {}
    for query, relevant in _relevant(judgments):
        common = Counter(other for document in relevant for other in queries_of.get(document, ()))
        shares = (count / (len(relevant) + sizes[other] - count) for other, count in common.items())
        found[query] = max(shares, default=0.0)
    return found


def _relevant(judgments: Judgments) -> Iterable[tuple[str, list[str]]]:
    for query, judged in judgments.items():
        yield query, [document for document, grade in judged.items() if grade > 0]


def words_of(queries: Iterable[Query]) -> set[str]:
    """All words of some queries."""
    return {word for query in queries for word in tokenize(query.text)}


def one_new_word(queries: Iterable[Query], seen: set[str]) -> list[str]:
    """The ids of queries with at least one word that is not among the ``seen`` ones."""
    return [query.id for query in queries if not seen.issuperset(tokenize(query.text))]


def all_new_words(queries: Iterable[Query], seen: set[str]) -> list[str]:
    """The ids of queries that have words, none of them among the ``seen`` ones."""
    words = ((query.id, tokenize(query.text)) for query in queries)
    return [id for id, of_query in words if of_query and seen.isdisjoint(of_query)]


def read_ids(path: str | Path) -> list[str]:
    """The query ids of a file, one a line.

    Raises:
        InputError: there is no such file, a line is no id, or there is none.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: is neither a subset ({', '.join(NAMES)}) nor a file with one query id a line")
    found = []
    for number, line in lines(Path(path)):
        if len(line.split()) != 1:
            raise InputError(f"{path}:{number}: expected one query id, found {line!r:.80}")
        found.append(line.strip())
    if not found:
        raise InputError(f"{path}: holds no query id; put one on each line")
    return found


def restricted(judgments: Judgments, ids: Iterable[str], name: str) -> Judgments:
    """The judgments of the queries of a subset; an `InputError` if none of them is judged."""
    chosen = set(ids)
    kept = {query: judged for query, judged in judgments.items() if query in chosen and judged}
    if not kept:
        raise InputError(f"the subset {name} is empty: it has none of the {len(judgments)} judged queries")
    if unjudged := sorted(chosen - kept.keys()):
        log.warning("subset %s: %d of its queries are not judged, as %s", name, len(unjudged), unjudged[0])
    return kept


def without_others(run: Mapping[str, RankedList], judgments: Judgments, kept: Judgments) -> dict[str, RankedList]:
    """A run without the judged queries outside a subset; queries that nobody judged stay, to be reported as ever."""
    return {query: ranking for query, ranking in run.items() if query in kept or query not in judgments}


def describe(
    queries: Sequence[Query],
    judgments: Judgments,
    index: ForwardIndex,
    seen: set[str] | None = None,
    run: Mapping[str, RankedList] | None = None,
    at_least: int = AT_LEAST,
) -> list[Description]:
    """The columns of [D18], table 1: all judged queries, and each subset.

    Without ``seen`` words (see `words_of`) those of new words are left out, and without documents that are not relevant
    the one of at least 20. Other arguments and errors are those of `samples`.
    """
    judged = judged_queries(queries, judgments, "the queries")
    of_queries = samples(judged, judgments, index, run)
    subsets = {"Full test data": list(of_queries)}
    if not all(one.relevant.all() for one in of_queries.values()):
        subsets[f"Neg{at_least}+"] = hard_queries(of_queries, at_least)
    if seen is not None:
        subsets["OneNewWord"] = one_new_word(judged, seen)
        subsets["AllNewWords"] = all_new_words(judged, seen)
    described = []
    for title, ids in subsets.items():
        relevant = np.concatenate([np.zeros(0, bool), *(of_queries[id].relevant for id in ids)])
        in_title = np.concatenate([np.zeros(0, bool), *(of_queries[id].in_title for id in ids)])
        counts = (relevant, relevant & ~in_title, ~relevant, ~relevant & in_title)
        described.append(Description(title, len(ids), *(int(one.sum()) for one in counts)))
    return described


def markdown(descriptions: Sequence[Description]) -> str:
    """[D18], table 1, in Markdown; a share of nothing is a dash."""
    rows = [
        ["", *(one.title for one in descriptions)],
        ["Number of queries", *(f"{one.queries:,}" for one in descriptions)],
        ["Number of samples", *(f"{one.samples:,}" for one in descriptions)],
    ]
    shares = {
        "Proportion of samples +ive": ("positives", "samples"),
        "Proportion of samples -ive": ("negatives", "samples"),
        "+ives without all query terms in title": ("positives_without", "positives"),
        "-ives with all query terms in title": ("negatives_with", "negatives"),
    }
    for name, (part, whole) in shares.items():
        counts = [(getattr(one, part), getattr(one, whole)) for one in descriptions]
        rows.append([name, *(f"{some / every:.1%}" if every else "-" for some, every in counts)])
    return tables.markdown(rows)
