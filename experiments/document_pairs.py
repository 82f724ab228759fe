"""How often runs rank the more relevant of two documents higher: [P] 3.4 and 3.5, table 3 and figure 4.

A pair is two documents of one query with different labels. Labels are grades, with negative grades as 0, or names that
grades share. Where the paper is silent:

* Table 3 ("over individual queries") is the mean, over the queries with pairs of a combination of labels, of the share
  of correctly ranked pairs; its last row weighs combinations by their pairs, as the numbers of the paper do.
* Figure 4 is the same share over the pairs of all queries.
* Binary judgments (3.5) are a further combination, relevant vs not relevant; label 0 is not relevant.
* Runs are compared on the same pairs: pairs of documents that all runs hold. Documents that a run lacks are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from experiments import letters
from rerank_plugin import InputError, RankedList
from rerank_plugin.base.records import Judgments
from rerank_plugin.files.tables import Report, Table

RELEVANT, NOT_RELEVANT = "relevant", "not relevant"
MOST_LABELS = 20  # which have 190 combinations


@dataclass(frozen=True)
class Combination:
    """The pairs of documents with two labels."""

    higher: str  # the more relevant label
    lower: str  # the less relevant label
    pairs: np.ndarray  # number of pairs, int64 [Q], of each of the Q queries that have such pairs
    right: dict[str, np.ndarray]  # by run, number of correctly ranked pairs, int64 [Q]

    @property
    def name(self) -> str:
        return f"{self.higher} vs {self.lower}"

    def accuracies(self, run: str) -> np.ndarray:
        """The accuracy of each query, float64 [Q]; table 3 has their mean."""
        return self.right[run] / self.pairs

    def accuracy(self, run: str) -> float:
        return float(self.accuracies(run).mean())

    def pooled(self, run: str) -> float:
        """The accuracy over the pairs of all queries: figure 4."""
        return float(self.right[run].sum() / self.pairs.sum())


@dataclass(frozen=True)
class DocumentPairs:
    """The pairs of all queries, and the accuracy of runs."""

    runs: list[str]  # their names
    combinations: list[Combination]  # of labels that occur, the best label first
    binary: Combination | None  # relevant vs not relevant; None if there is no such pair
    queries: int  # number of judged queries
    documents: int  # number of documents of all queries
    compared: int  # number of documents in all runs
    lacking: dict[str, int]  # by run, number of documents that it lacks

    def volume(self, combination: Combination) -> float:
        """The share of a combination among all pairs."""
        return float(combination.pairs.sum() / sum(each.pairs.sum() for each in self.combinations))

    def weighted_accuracy(self, run: str) -> float:
        """Mean of the combinations' accuracies, weighted by volume: the last row of table 3."""
        return sum(self.volume(each) * each.accuracy(run) for each in self.combinations)

    def pooled(self, run: str) -> float:
        """The share of all pairs that a run ranks correctly."""
        return sum(self.volume(each) * each.pooled(run) for each in self.combinations)


def document_pairs(
    judgments: Judgments,
    runs: Mapping[str, Mapping[str, RankedList]],
    unjudged_as_nonrelevant: bool = False,
    labels: Mapping[float, str] | None = None,
) -> DocumentPairs:
    """Count the pairs of the judged queries, and the pairs that each run ranks correctly.

    Args:
        unjudged_as_nonrelevant: whether unjudged documents of the runs have grade 0, for judgments of relevant
            documents only; otherwise they are left out.
        labels: names of grades; neighbouring grades may share a name. By default a grade is its own name.

    Raises:
        InputError: invalid labels, no judgments, a run without a judged query, or no pairs at all.
    """
    judgments = {query: judged for query, judged in judgments.items() if judged}
    if not judgments:
        raise InputError("there are no judgments to compare runs on")
    for name, run in runs.items():
        if run and run.keys().isdisjoint(judgments):
            raise InputError(f"{name}: none of its {len(run)} queries is judged: give judgments of the run's queries")
    grades = {max(grade, 0) for judged in judgments.values() for grade in judged.values()}
    names, level_of = _levels(grades | {0} if unjudged_as_nonrelevant else grades, labels or {})
    documents = compared = 0
    lacking = dict.fromkeys(runs, 0)
    counts, right = [], {name: [] for name in runs}
    for query, judged in judgments.items():
        held = {name: set(run[query].doc_ids) if query in run else set() for name, run in runs.items()}
        pooled = set(judged).union(*held.values()) if unjudged_as_nonrelevant else set(judged)
        common = pooled.intersection(*held.values())
        documents += len(pooled)
        compared += len(common)
        levels = {document: level_of[max(judged.get(document, 0), 0)] for document in common}
        counts.append(np.bincount(list(levels.values()), minlength=len(names)))
        for name, run in runs.items():
            lacking[name] += len(pooled - held[name])
            order = [levels[document] for document in run[query].doc_ids if document in common] if common else []
            right[name].append(_right(np.array(order, np.int64), len(names)))
    in_order = {name: np.stack(of_run) for name, of_run in right.items()}
    combinations, binary = _combinations(names, level_of, np.stack(counts), in_order)
    if not combinations:
        raise InputError(
            f"no query has two documents with different labels ({', '.join(names)}) that all runs hold; if only "
            "relevant documents are judged, count unjudged ones as not relevant"
        )
    return DocumentPairs(list(runs), combinations, binary, len(judgments), documents, compared, lacking)


def parse_labels(values: list[str]) -> dict[float, str]:
    """``GRADE=NAME ...`` as {grade: name}."""
    result: dict[float, str] = {}
    for value in values:
        grade, _, name = value.partition("=")
        try:
            number = float(grade)
        except ValueError:
            number = -1.0
        if not name or not number >= 0 or number in result:
            raise InputError(
                f"the label {value}: expected a grade of at least 0, =, and its name, once per grade; give the runs "
                "before the labels"
            )
        result[number] = name
    return result


def _levels(grades: set[float], labels: Mapping[float, str]) -> tuple[list[str], dict[float, int]]:
    """The L labels, the best first, and the level of each grade among them."""
    ordered = sorted(grades, reverse=True)
    grouped = [(name, list(of_name)) for name, of_name in groupby(ordered, lambda grade: labels.get(grade, str(grade)))]
    names = [name for name, _ in grouped]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the grades of the label {name} are not neighbours: give each group its own label")
    if len(names) > MOST_LABELS:
        raise InputError(f"the judgments have {len(names)} grades: give at most {MOST_LABELS} labels")
    return names, {grade: level for level, (_, of_name) in enumerate(grouped) for grade in of_name}


def _right(levels: np.ndarray, count: int) -> np.ndarray:
    """Number of pairs of each two labels in this order, int64 [L, L]; levels are from rank 1 on, int64 [n]."""
    is_level = (levels[:, None] == np.arange(count)).astype(np.int64)  # [n, L]
    below = is_level.sum(axis=0) - is_level.cumsum(axis=0)  # [n, L], documents of each label at lower ranks
    return is_level.T @ below


def _combinations(
    names: list[str], level_of: Mapping[float, int], counts: np.ndarray, right: Mapping[str, np.ndarray]
) -> tuple[list[Combination], Combination | None]:
    """The combinations of labels and of binary judgments, from documents by label [Q, L] and pairs [Q, L, L]."""

    def combination(higher: str, lower: str, pairs: np.ndarray, right: dict[str, np.ndarray]) -> list[Combination]:
        """The combination over the queries that have such pairs; [] if there are none."""
        has = pairs > 0
        return [Combination(higher, lower, pairs[has], {n: r[has] for n, r in right.items()})] if has.any() else []

    combinations = []
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            in_order = {name: of_run[:, a, b] for name, of_run in right.items()}
            combinations += combination(names[a], names[b], counts[:, a] * counts[:, b], in_order)
    if 0 not in level_of:  # the last label, then
        return combinations, None
    in_order = {name: of_run[:, :-1, -1].sum(axis=1) for name, of_run in right.items()}
    binary = combination(RELEVANT, NOT_RELEVANT, counts[:, :-1].sum(axis=1) * counts[:, -1], in_order)
    return combinations, binary[0] if binary else None


def pooled_accuracies(pairs: DocumentPairs) -> dict[str, dict[str, float]]:
    """The bars of figure 4: by combination and run, the accuracy over the pairs of all queries."""
    return {each.name: {run: each.pooled(run) for run in pairs.runs} for each in pairs.combinations}


def report(pairs: DocumentPairs, against: letters.Against) -> Report:
    """[P], table 3, with a row for binary judgments, and below it the numbers of figure 4.

    Shares are in percent; in JSON they are from 0 to 1. Letters are by run.
    """
    every = [*pairs.combinations, *([pairs.binary] if pairs.binary else [])]
    notes = [letters.letters({run: each.accuracies(run) for run in each.right}, against) for each in every]
    by_query, pooled = [["labels", "volume", "queries", *pairs.runs]], [["labels", "pairs", *pairs.runs]]
    for each, marks in zip(every, notes):
        accuracies = [f"{each.accuracy(run):.1%} {marks[run]}".strip() for run in pairs.runs]
        by_query.append([each.name, f"{pairs.volume(each):.1%}", str(len(each.pairs)), *accuracies])
        pooled.append([each.name, f"{each.pairs.sum():,}", *(f"{each.pooled(run):.1%}" for run in pairs.runs)])
    at = 1 + len(pairs.combinations)  # the averages stand before the row of binary judgments
    by_query.insert(at, ["weighted average", "", "", *(f"{pairs.weighted_accuracy(run):.1%}" for run in pairs.runs)])
    total = sum(each.pairs.sum() for each in pairs.combinations)
    pooled.insert(at, ["all", f"{total:,}", *(f"{pairs.pooled(run):.1%}" for run in pairs.runs)])
    legend = letters.legend(against, "these queries")
    explained = f"Share of document pairs in the right order, mean over the queries with such pairs. {legend}".rstrip()
    objects = [_as_object(pairs, each, marks) for each, marks in zip(every, notes)]
    values = {
        "queries": pairs.queries,
        "documents": {"all": pairs.documents, "compared": pairs.compared, "lacking": pairs.lacking},
        "combinations": objects[: at - 1],
        "weighted_average": {run: pairs.weighted_accuracy(run) for run in pairs.runs},
        "pooled": {run: pairs.pooled(run) for run in pairs.runs},
        "binary": objects[-1] if pairs.binary else None,
    }
    said = "The same share over the pairs of all queries.\n"
    return Report([Table(by_query), f"{explained}\n", Table(pooled), said], values)


def _as_object(pairs: DocumentPairs, combination: Combination, marks: Mapping[str, str]) -> dict:
    return {
        "higher": combination.higher,
        "lower": combination.lower,
        "pairs": int(combination.pairs.sum()),
        "volume": pairs.volume(combination),
        "queries": len(combination.pairs),
        "runs": {
            run: {"accuracy": combination.accuracy(run), "pooled": combination.pooled(run), "letters": marks[run]}
            for run in pairs.runs
        },
    }


def warnings(pairs: DocumentPairs) -> Iterator[str]:
    """Warnings about the numbers, one per line."""
    if pairs.compared < pairs.documents:
        yield f"{pairs.compared:,} of {pairs.documents:,} documents are in all runs; the pairs are of these"
    for run, lacking in pairs.lacking.items():
        if lacking:
            yield f"{run}: lacks {lacking:,} of {pairs.documents:,} documents"
