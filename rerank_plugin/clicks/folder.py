"""From a click log to a folder of queries and judgments, in three splits.

    queries.jsonl       {"_id", "text"}, sorted by id
    qrels/train.tsv     query-id <TAB> corpus-id <TAB> score, with that header; dev.tsv and test.tsv likewise
    runs/train.run      the same documents as a TREC run, by decreasing id; dev.run and test.run likewise
    clicks.json         how it was made: formula, filters and what they left out, splits, seed

It is a BEIR folder without a corpus (see `beir`). The runs are for re-ranking just what was logged, as the papers do;
their order is the papers' uninformed baseline ([D17] 6.1).

Everything random depends on the seed and on query ids, never on the order of the log's lines. A split is drawn by query
([D18] 4.1: 60% training, 20% each for validation and testing); what is drawn within a query depends on that query only.
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
from rerank_plugin.clicks.filters import Filter
from rerank_plugin.clicks.logs import ClickLog, LoggedQuery, merged
from rerank_plugin.clicks.relevance import Formula, grades
from rerank_plugin.files.beir import write_queries_and_judgments
from rerank_plugin.files.outputs import FolderKind, check_free, replacing_folder
from rerank_plugin.files.runs import RankedList, write_run

SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}
BALANCED = ("train", "dev")  # [D17] 3.1; the test split is never touched
DESCRIPTION = "clicks.json"
CLICKS = FolderKind(
    "a folder made of a click log", DESCRIPTION, ("log", "formula"), ("queries.jsonl", "qrels/*.tsv", "runs/*.run")
)


class Kept(NamedTuple):
    """The queries of a log that passed all filters."""

    queries: dict[str, LoggedQuery]  # by id
    left_out: dict[str, int]  # how many each filter left out, by its reason, in the order of filters
    merged: int  # how many queries merging took away


@dataclass(frozen=True)
class Summary:
    """The numbers of queries and documents in a folder."""

    read: int  # queries in the log
    merged: int  # how many of them differ from another only in letter case
    left_out: dict[str, int]  # queries by the reason of the first filter that removed them
    splits: dict[str, dict[str, int]]  # by name, the numbers of queries, documents (pairs with a query), relevant ones


def filtered(log: ClickLog, texts: Iterable[Filter], counts: Iterable[Filter]) -> Kept:
    """The log's queries after the filters of texts, merging (unless the log has ids) and the filters of counts."""
    left_out: dict[str, int] = {}

    def remaining(queries: Mapping[str, LoggedQuery], filters: Iterable[Filter]) -> dict[str, LoggedQuery]:
        for one in filters:
            rest = {id: query for id, query in queries.items() if not one.removes(query)}
            left_out[one.reason] = len(queries) - len(rest)
            queries = rest
        return dict(queries)

    queries = remaining(log.queries, texts)
    distinct = queries if log.ids_given else merged(queries)
    return Kept(remaining(distinct, counts), left_out, len(queries) - len(distinct))


def split(ids: Iterable[str], seed: int) -> dict[str, list[str]]:
    """Query ids of train, dev and test, drawn at random, each sorted; an InputError where a split would be empty."""
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
    """A query's most relevant documents, ``at_most`` of them, and as many non-relevant ones ([D17] 3.1).

    Among documents of equal relevance, and among non-relevant ones, the choice is random. If there are fewer
    non-relevant than relevant documents, all of them are taken, and the relevant ones are not reduced to their number.
    """
    ids = sorted(judged)
    Random(f"{seed} {query_id}").shuffle(ids)
    relevant = sorted((id for id in ids if judged[id] > 0), key=lambda id: -judged[id])[:at_most]
    others = [id for id in ids if judged[id] <= 0][: len(relevant)]
    return {id: judged[id] for id in sorted(relevant + others)}


def write(
    folder: Path,
    log: ClickLog,
    formula: Formula,
    texts: Iterable[Filter],
    counts: Iterable[Filter],
    seed: int,
    balance: int | None = None,
    source: str = "",
    overwrite: bool = False,
) -> Summary:
    """Write the folder atomically.

    Args:
        balance: at most so many relevant documents a query of train and dev, see `balanced`; None for all.
        source: what clicks.json says the log was.
        overwrite: replace a folder of this kind that is there already; any other is an InputError.
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
    how = {
        "log": source, "formula": formula.name, "mu": formula.mu, "lambda": formula.lambda_, "balance": balance,
        "seed": seed, **asdict(summary),
    }  # fmt: skip
    with replacing_folder(folder, CLICKS, overwrite) as writing:
        write_queries_and_judgments(
            writing,
            ((id, kept.queries[id].text) for id in sorted(kept.queries)),
            {
                name: ((id, document, level) for id, of in judged.items() for document, level in of.items())
                for name, judged in parts.items()
            },
        )
        for name, judged in parts.items():
            by_id = {
                id: RankedList(sorted(of, reverse=True), np.arange(len(of), 0, -1, dtype=np.float32))
                for id, of in judged.items()
            }
            write_run(writing / "runs" / f"{name}.run", by_id, "docid")
        (writing / DESCRIPTION).write_text(json.dumps(how, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return summary
