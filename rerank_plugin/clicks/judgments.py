"""Judgments from clicks: relevance levels by the formulas of both papers, and their folder of three splits.

With c clicks to a document's summary page, f clicks to its full text, and m = 1 if the full text is missing, else 0:

    [D17] appendix A   level = mu c + (1 - mu) f + 1/lambda m c                mu = 0.33, lambda = 15
    [D18] 4.1          c_w = (mu + m lambda) c + (1 - mu) f                    mu = 0.333, lambda = 0.067
                       rel = c_w / (sum of c_w over the query's documents)
                       level = 1 + 99 rel, or 0 where rel = 0

Both reward clicks to the full text without penalizing documents that have none, and both weight clicks alike (0.067 is
1/15). D18's level is a share of the query's clicks, in (1, 100]; D17's levels grow with the number of clicks.

The folder:

    queries.jsonl       {"_id", "text"}, sorted by id
    qrels/train.tsv     query-id <TAB> corpus-id <TAB> score, with that header; dev.tsv and test.tsv likewise
    runs/train.run      the same documents as a TREC run, by decreasing id; dev.run and test.run likewise
    clicks.json         provenance: formula, queries left out by each filter, splits, seed

It is a BEIR folder without a corpus (:mod:`rerank_plugin.files.beir_folder`). The runs are for re-ranking the logged
documents only, as in the papers; their order is the papers' uninformed baseline ([D17] 6.1).

Random choices depend on the seed and the query ids, not on the order of the log's lines. Splits are drawn by query
([D18] 4.1: 60% training, 20% each for validation and testing); draws within a query depend on that query only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks.logs import ClickLog, LogFilter, LoggedQuery, merged
from rerank_plugin.files.beir_folder import write_queries_and_judgments
from rerank_plugin.files.outputs import FolderKind, check_free, replacing_folder
from rerank_plugin.files.runs import RankedList, write_run

MU, LAMBDA = {"d17": 0.33, "d18": 0.333}, {"d17": 15.0, "d18": 0.067}  # the papers' values


class Formula(NamedTuple):
    """A paper's formula with its parameters, which `formula` checks."""

    name: str
    mu: float
    lambda_: float

    def levels(self, summary: np.ndarray, full_text: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Relevance levels of a query's documents, float64 [n]; 0 without a click.

        Args:
            summary, full_text: clicks of each kind [n].
            missing: 1 or True for a document without an available full text [n].
        """
        bonus = 1 / self.lambda_ if self.name == "d17" else self.lambda_
        weighted = (self.mu + missing * bonus) * summary + (1 - self.mu) * full_text  # [n]
        if self.name == "d17" or not weighted.any():
            return weighted
        return np.where(weighted > 0, 1 + 99 * (weighted / weighted.sum()), 0.0)


def formula(name: str, mu: float | None = None, lambda_: float | None = None) -> Formula:
    """The formula ``d17`` or ``d18``; None stands for the paper's value of a parameter."""
    if name not in MU:
        raise InputError(f"unknown formula {name!r}; known: {', '.join(MU)}")
    mu, lambda_ = MU[name] if mu is None else mu, LAMBDA[name] if lambda_ is None else lambda_
    if not 0 < mu < 1:
        raise InputError(f"mu is {mu}: it must be between 0 and 1, otherwise one kind of clicks has no weight")
    if not 0 < lambda_ < float("inf"):
        raise InputError(f"lambda is {lambda_}: it must be above 0")
    return Formula(name, mu, lambda_)


def grades(query: LoggedQuery, full_text: set[str], formula: Formula) -> dict[str, float]:
    """The levels of a query's documents, ordered by document id. A level of 0 is an int, all others are floats."""
    ids = sorted(query.documents)
    counts = np.array([query.documents[id] for id in ids], np.float64).reshape(-1, 3)
    missing = np.array([id not in full_text for id in ids])
    levels = formula.levels(counts[:, 1], counts[:, 2], missing)
    return {id: level if level > 0 else 0 for id, level in zip(ids, levels.tolist())}


SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}
BALANCED = ("train", "dev")  # [D17] 3.1; the test split is never touched
DESCRIPTION = "clicks.json"
CLICKS = FolderKind(
    "a folder made of a click log", DESCRIPTION, ("log", "formula"), ("queries.jsonl", "qrels/*.tsv", "runs/*.run")
)


class FilteredQueries(NamedTuple):
    """The queries of a log that passed all filters."""

    queries: dict[str, LoggedQuery]  # by id
    left_out: dict[str, int]  # numbers of removed queries by the filter's reason, in the order of filters
    merged: int  # queries that were merged into another


@dataclass(frozen=True)
class Summary:
    """The numbers of queries and documents in a folder."""

    read: int  # queries in the log
    merged: int  # queries that differ from another only in letter case
    left_out: dict[str, int]  # numbers of queries by the reason of the first filter that removed them
    splits: dict[str, dict[str, int]]  # by name: queries, documents (pairs with a query), relevant documents


def filtered(log: ClickLog, texts: Iterable[LogFilter], counts: Iterable[LogFilter]) -> FilteredQueries:
    """The log's queries after the filters of texts, merging (unless the log has ids) and the filters of counts."""
    left_out: dict[str, int] = {}

    def remaining(queries: Mapping[str, LoggedQuery], filters: Iterable[LogFilter]) -> dict[str, LoggedQuery]:
        for filter in filters:
            kept = {id: query for id, query in queries.items() if not filter.removes(query)}
            left_out[filter.reason] = len(queries) - len(kept)
            queries = kept
        return dict(queries)

    queries = remaining(log.queries, texts)
    distinct = queries if log.ids_given else merged(queries)
    return FilteredQueries(remaining(distinct, counts), left_out, len(queries) - len(distinct))


def split(ids: Iterable[str], seed: int) -> dict[str, list[str]]:
    """The sorted query ids of train, dev and test, drawn at random; an InputError if a split would be empty."""
    shuffled = sorted(ids)
    Random(seed).shuffle(shuffled)
    first, second = (round(len(shuffled) * share) for share in (SHARES["train"], SHARES["train"] + SHARES["dev"]))
    parts = dict(zip(SHARES, map(sorted, (shuffled[:first], shuffled[first:second], shuffled[second:]))))
    empty = [name for name, part in parts.items() if not part]
    if empty:
        raise InputError(
            f"{len(shuffled)} queries are left, too few for the splits {', '.join(SHARES)}: "
            "give a longer log or loosen the filters"
        )
    return parts


def balanced(judged: Mapping[str, float], at_most: int, seed: int, query_id: str) -> dict[str, float]:
    """The ``at_most`` most relevant documents of a query, and as many non-relevant documents ([D17] 3.1).

    The choice among documents of equal relevance, and among non-relevant documents, is random. Too few non-relevant
    documents do not reduce the number of relevant documents.
    """
    ids = sorted(judged)
    Random(f"{seed} {query_id}").shuffle(ids)
    relevant = sorted((id for id in ids if judged[id] > 0), key=lambda id: -judged[id])[:at_most]
    non_relevant = [id for id in ids if judged[id] <= 0][: len(relevant)]
    return {id: judged[id] for id in sorted(relevant + non_relevant)}


def write(
    folder: Path,
    log: ClickLog,
    formula: Formula,
    texts: Iterable[LogFilter],
    counts: Iterable[LogFilter],
    seed: int,
    balance: int | None = None,
    source: str = "",
    overwrite: bool = False,
) -> Summary:
    """Write the folder atomically.

    Args:
        balance: the largest number of relevant documents of a query in train and dev, see `balanced`; None for all.
        source: the name of the log in clicks.json.
        overwrite: replace an existing folder of this kind.

    Raises:
        InputError: the folder exists and must not be replaced, or too few queries pass the filters.
    """
    check_free(folder, CLICKS, overwrite)
    kept = filtered(log, texts, counts)
    parts = {}
    sizes = {}
    for name, ids in split(kept.queries, seed).items():
        judged = {id: grades(kept.queries[id], log.full_text, formula) for id in ids}
        if balance is not None and name in BALANCED:
            judged = {id: balanced(of_query, balance, seed, id) for id, of_query in judged.items()}
        parts[name] = judged
        levels = [level for of_query in judged.values() for level in of_query.values()]
        relevant = sum(level > 0 for level in levels)
        sizes[name] = {"queries": len(judged), "documents": len(levels), "relevant": relevant}
    summary = Summary(len(log.queries), kept.merged, kept.left_out, sizes)
    settings = {
        "log": source, "formula": formula.name, "mu": formula.mu, "lambda": formula.lambda_, "balance": balance,
        "seed": seed, **asdict(summary),
    }  # fmt: skip
    with replacing_folder(folder, CLICKS, overwrite) as writing:
        write_queries_and_judgments(
            writing,
            ((id, kept.queries[id].text) for id in sorted(kept.queries)),
            {
                name: ((id, document, level) for id, levels in judged.items() for document, level in levels.items())
                for name, judged in parts.items()
            },
        )
        for name, judged in parts.items():
            by_id = {
                id: RankedList(sorted(levels, reverse=True), np.arange(len(levels), 0, -1, dtype=np.float32))
                for id, levels in judged.items()
            }
            write_run(writing / "runs" / f"{name}.run", by_id, "docid")
        (writing / DESCRIPTION).write_text(json.dumps(settings, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary
