"""Subsets of the judged queries: those of [D18] 4.1 and [D17] 5.2 ("Test Data Subsets", table 1), and any other.

* ``neg20+``, or any other number: at least 20 non-relevant documents hold all words of the query in their titles.
* ``one-new-word``: a word of the query occurs in no training or validation query; ``all-new-words``: all words do not.
* ``overlap0.3-0.5``, or any other range: the largest Jaccard coefficient of a query's relevant documents and those of
  a training query is at least 0.3 and below 0.5 (an end of 1 is included). This separates queries similar to training
  queries from others.
* a file with one query id per line.

Where the papers are silent: Words are the distinct tokens of `text.tokenizer`, with function words. The documents of a
query are its judged documents, relevant if the grade is above 0; with a run, its candidates, non-relevant if unjudged.
Documents outside the index are left out: their titles are unknown. A query without words is in none of the first three
subsets.

Titles are read from the forward index, without Java.
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
AT_LEAST = 20  # non-relevant documents, for neg20+


class Samples(NamedTuple):
    """The n documents of a query ([D18]: samples)."""

    relevant: np.ndarray  # bool [n], whether the grade is above 0
    in_title: np.ndarray  # bool [n], whether the title holds all words of the query


class Description(NamedTuple):
    """A column of [D18], table 1, as counts."""

    title: str
    queries: int
    positives: int  # relevant samples
    positives_without: int  # relevant samples without all query words in their titles
    negatives: int  # non-relevant samples
    negatives_with: int  # non-relevant samples with all query words in their titles

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
        run: run with the candidates to use; None for the judged documents.

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
        kind = "candidates" if run is not None else "judged documents"
        raise InputError(
            f"none of the {len(ids)} {kind} of {len(grades)} queries is in the index: give their collection's"
        )
    if missing:
        message = "%d of %d documents are not in the index and are left out, e.g. %s"
        log.warning(message, len(missing), len(ids), missing[0])
    result = {}
    for query in queries:
        known = [document for document in grades[query.id] if row_of[document] >= 0]
        rows = np.array([row_of[document] for document in known], np.int64)
        relevant = np.array([grades[query.id][document] > 0 for document in known], bool)
        candidates = Candidates(index, rows, np.zeros(len(rows), np.float32))
        result[query.id] = Samples(relevant, all_words_in_title(query.text, candidates))
    return result


def all_words_in_title(text: str, candidates: Candidates) -> np.ndarray:
    """Whether each candidate's title holds every word of a query, bool [C]; False for a query without words."""
    from rerank_plugin.inputs.matches import WordMatches  # numba takes half a second to load

    matches = WordMatches(candidates.index.query(text), candidates, titles_only=True)
    if not len(matches.ids):
        return np.zeros(len(candidates), bool)
    return (matches.counts[:, 0] > 0).all(axis=1)  # [C, m] to [C]


def some_word(text: str, candidates: Candidates) -> np.ndarray:
    """Whether each candidate's title or abstract holds a word of a query, bool [C]."""
    from rerank_plugin.inputs.matches import WordMatches

    return WordMatches(candidates.index.query(text), candidates).counts.any(axis=(1, 2))  # [C, 2, m] to [C]


def hard_count(name: str) -> int | None:
    """The 20 of ``neg20+``; None for the name of another subset."""
    match = re.fullmatch(r"neg([1-9]\d*)\+", name)
    return int(match[1]) if match else None


def hard_queries(of_queries: Mapping[str, Samples], at_least: int = AT_LEAST) -> list[str]:
    """The query ids of ``neg20+``, or another number.

    Raises:
        InputError: there are no non-relevant documents.
    """
    if all(documents.relevant.all() for documents in of_queries.values()):
        raise InputError(
            f"the subset neg{at_least}+ needs non-relevant documents, and no grade is 0 or below: give a run whose "
            "unjudged candidates count as non-relevant"
        )
    counts = {id: int((documents.in_title & ~documents.relevant).sum()) for id, documents in of_queries.items()}
    return [id for id, count in counts.items() if count >= at_least]


def overlap_range(name: str) -> tuple[float, float] | None:
    """The 0.3 and 0.5 of ``overlap0.3-0.5``; None for the name of another subset."""
    match = re.fullmatch(r"overlap([01](?:\.\d+)?)-([01](?:\.\d+)?)", name)
    return (float(match[1]), float(match[2])) if match else None


def overlapping(judgments: Judgments, seen: Judgments, low: float, high: float) -> list[str]:
    """The ids of queries with a largest overlap of at least ``low`` and below ``high`` (an end of 1 is included)."""
    largest = largest_overlaps(judgments, seen)
    return [id for id, overlap in largest.items() if low <= overlap and (overlap < high or high == overlap == 1)]


def largest_overlaps(judgments: Judgments, seen: Judgments) -> dict[str, float]:
    """By query, the largest Jaccard coefficient of its relevant documents and those of a query in ``seen``."""
    queries_of: dict[str, list[str]] = {}  # the seen queries that a document is relevant for
    sizes = {query: len(relevant) for query, relevant in _relevant(seen)}
    for query, relevant in _relevant(seen):
        for document in relevant:
            queries_of.setdefault(document, []).append(query)
    largest = {}
    for query, relevant in _relevant(judgments):
        common = Counter(other for document in relevant for other in queries_of.get(document, ()))
        shares = (count / (len(relevant) + sizes[other] - count) for other, count in common.items())
        largest[query] = max(shares, default=0.0)
    return largest


def _relevant(judgments: Judgments) -> Iterable[tuple[str, list[str]]]:
    for query, judged in judgments.items():
        yield query, [document for document, grade in judged.items() if grade > 0]


def words_of(queries: Iterable[Query]) -> set[str]:
    """All words of some queries."""
    return {word for query in queries for word in tokenize(query.text)}


def one_new_word(queries: Iterable[Query], seen: set[str]) -> list[str]:
    """The ids of queries with at least one word that is not in ``seen``."""
    return [query.id for query in queries if not seen.issuperset(tokenize(query.text))]


def all_new_words(queries: Iterable[Query], seen: set[str]) -> list[str]:
    """The ids of queries that have words, none of them in ``seen``."""
    words = ((query.id, tokenize(query.text)) for query in queries)
    return [id for id, of_query in words if of_query and seen.isdisjoint(of_query)]


def read_ids(path: str | Path) -> list[str]:
    """The query ids of a file, one per line.

    Raises:
        InputError: there is no such file, it is empty, or a line is not an id.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: is neither a subset ({', '.join(NAMES)}) nor a file with one query id per line")
    ids = []
    for number, line in lines(Path(path)):
        if len(line.split()) != 1:
            raise InputError(f"{path}:{number}: expected one query id, found {line!r:.80}")
        ids.append(line.strip())
    if not ids:
        raise InputError(f"{path}: holds no query id; put one on each line")
    return ids


def restricted(judgments: Judgments, ids: Iterable[str], name: str) -> Judgments:
    """The judgments of the queries of a subset; an `InputError` if none of them is judged."""
    chosen = set(ids)
    kept = {query: judged for query, judged in judgments.items() if query in chosen and judged}
    if not kept:
        raise InputError(f"the subset {name} is empty: it has none of the {len(judgments)} judged queries")
    if unjudged := sorted(chosen - kept.keys()):
        log.warning("subset %s: %d of its queries are not judged, e.g. %s", name, len(unjudged), unjudged[0])
    return kept


def without_others(run: Mapping[str, RankedList], judgments: Judgments, kept: Judgments) -> dict[str, RankedList]:
    """A run without the judged queries outside a subset; unjudged queries stay, to be reported."""
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

    Without ``seen`` words (see `words_of`), the subsets of new words are left out, and without non-relevant documents
    neg20+. Other arguments and errors are those of `samples`.
    """
    judged = judged_queries(queries, judgments, "the queries")
    of_queries = samples(judged, judgments, index, run)
    subsets = {"Full test data": list(of_queries)}
    if not all(documents.relevant.all() for documents in of_queries.values()):
        subsets[f"Neg{at_least}+"] = hard_queries(of_queries, at_least)
    if seen is not None:
        subsets["OneNewWord"] = one_new_word(judged, seen)
        subsets["AllNewWords"] = all_new_words(judged, seen)
    description = []
    for title, ids in subsets.items():
        relevant = np.concatenate([np.zeros(0, bool), *(of_queries[id].relevant for id in ids)])
        in_title = np.concatenate([np.zeros(0, bool), *(of_queries[id].in_title for id in ids)])
        counts = (relevant, relevant & ~in_title, ~relevant, ~relevant & in_title)
        description.append(Description(title, len(ids), *(int(count.sum()) for count in counts)))
    return description


def markdown(descriptions: Sequence[Description]) -> str:
    """[D18], table 1, in Markdown; a share of nothing is a dash."""
    rows = [
        ["", *(column.title for column in descriptions)],
        ["Number of queries", *(f"{column.queries:,}" for column in descriptions)],
        ["Number of samples", *(f"{column.samples:,}" for column in descriptions)],
    ]
    shares = {
        "Proportion of samples +ive": ("positives", "samples"),
        "Proportion of samples -ive": ("negatives", "samples"),
        "+ives without all query terms in title": ("positives_without", "positives"),
        "-ives with all query terms in title": ("negatives_with", "negatives"),
    }
    for name, (part, whole) in shares.items():
        counts = [(getattr(column, part), getattr(column, whole)) for column in descriptions]
        rows.append([name, *(f"{count / total:.1%}" if total else "-" for count, total in counts)])
    return tables.markdown(rows)
