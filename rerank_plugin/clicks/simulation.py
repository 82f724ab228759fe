"""Simulation of a click log with the position-based model, for collections without a real log.

The position-based model (examination hypothesis: Richardson et al., WWW 2007; PBM in Chuklin, Markov and de Rijke,
Click Models for Web Search, 2015, chapter 3): the probability that a user looks at rank r depends on r alone, and the
probability of a click on an examined document on its relevance alone:

    P(look at r)       = (1 / r) ^ eta                             as Joachims et al., WSDM 2017
    P(click | look)    = noise + (1 - noise) (2^rel - 1) / (2^highest - 1)
    P(full text | click, available) = P(click | look)              our own choice

A session is one search of one user. As in [D18] 4.1, only sessions with a click are logged. A session logs the first
PAGE documents as shown, and documents below only if clicked.

The ranking is the run's. Without a run, the judged documents are shuffled for every session: in sum, there is no
position bias, and no unjudged document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.clicks.logs import COLUMNS, OPTIONAL
from rerank_plugin.files.outputs import FileKind, replacing
from rerank_plugin.files.runs import RankedList, sort_order
from rerank_plugin.files.text_files import first_line

SIMULATED = "simulated"  # a column that marks simulated logs
HEADER = ("\t".join((OPTIONAL, *COLUMNS, SIMULATED)) + "\n").encode()
CLICK_LOG = FileKind("a simulated click log", lambda path: first_line(path) == HEADER)

PAGE = 20  # documents of a first page ([D18] 4.1)
FULL_TEXT = 0.5  # share of documents with an available full text


@dataclass(frozen=True)
class ClickModel:
    """The click model of simulated users.

    Attributes:
        sessions: the number of sessions of each query.
        eta, noise: parameters of the model.
        depth: the cutoff of the run.

    Raises:
        InputError: a value is invalid.
    """

    sessions: int = 50
    eta: float = 1.0
    noise: float = 0.03
    depth: int = 100

    def __post_init__(self) -> None:
        if self.sessions < 1 or self.depth < 1:
            raise InputError("sessions and depth must be at least 1")
        if not 0 <= self.noise <= 1 or not 0 <= self.eta < float("inf"):
            raise InputError("noise must be from 0 to 1, and eta 0 or more")


class Simulated(NamedTuple):
    """The logged documents of a query and their counts, int64 [n] each."""

    documents: list[str]
    impressions: np.ndarray
    summary_clicks: np.ndarray
    full_text_clicks: np.ndarray


def all_judgments(spec: str) -> tuple[list[Query], Judgments]:
    """The judged queries and the judgments of a spec; a folder without a split gives those of all its splits."""
    from rerank_plugin.corpora import QUERIES, judged_queries, queries_and_judgments
    from rerank_plugin.corpora.formats import beir
    from rerank_plugin.corpora.specs import Dataset, exists, resolve

    if "," in spec and not exists(spec):
        return queries_and_judgments(spec)
    source = resolve(spec, QUERIES)
    if isinstance(source, Dataset) or not source.path.is_dir() or source.split:
        return queries_and_judgments(spec)
    judged: Judgments = {}
    for name in beir.splits(source.path):
        for query, of_query in beir.judgments(source.path, name).items():
            judged.setdefault(query, {}).update(of_query)
    return judged_queries(beir.queries(source.path), judged, spec), judged


def attractiveness(grades: np.ndarray, highest: float, noise: float) -> np.ndarray:
    """P(click | look) of each grade, float64 of the same shape; ``highest`` is the highest grade, above 0."""
    levels = np.clip(grades, 0, highest)
    return noise + (1 - noise) * np.expm1(levels * np.log(2)) / np.expm1(highest * np.log(2))


def sessions(
    ranks: np.ndarray, attractive: np.ndarray, available: np.ndarray, users: ClickModel, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Impressions, summary clicks and full-text clicks of n documents over all logged sessions, int64 [n] each.

    Args:
        ranks: the rank of each document in each of S sessions, starting at 1, [S, n].
        attractive: P(click | look), float [n].
        available: whether the full text is available, bool [n].
    """
    clicks = generator.random(ranks.shape) < ranks ** -float(users.eta) * attractive  # [S, n]
    full_text = clicks & available & (generator.random(ranks.shape) < attractive)  # [S, n]
    shown = (clicks | (ranks <= PAGE)) & clicks.any(axis=1, keepdims=True)  # [S, n]
    return shown.sum(0), clicks.sum(0), full_text.sum(0)


def simulate(
    queries: Sequence[Query], judgments: Judgments, run: Mapping[str, RankedList] | None, users: ClickModel, seed: int
) -> Iterator[tuple[Query, Simulated, np.ndarray]]:
    """The queries, each with its logged documents and the availability of their full texts (bool [n]).

    Queries without a click or a ranking in the run are left out.
    """
    generator = np.random.default_rng(seed)
    highest = max((grade for of_query in judgments.values() for grade in of_query.values()), default=0)
    if highest <= 0:
        raise InputError("no document is judged relevant, so users would not click: use other judgments")
    has_full_text: dict[str, bool] = {}
    for query in queries:
        judged = judgments.get(query.id, {})
        documents = _ranked(run, query.id, users.depth) if run is not None else sorted(judged)
        if not documents:
            continue
        coins = generator.random(len(documents)) < FULL_TEXT  # [n]
        available = np.array([has_full_text.setdefault(id, bool(coin)) for id, coin in zip(documents, coins)])
        ranks = np.tile(np.arange(1, len(documents) + 1, dtype=np.float64), (users.sessions, 1))  # [S, n]
        if run is None:
            ranks = generator.permuted(ranks, axis=1)
        attractive = attractiveness(np.array([judged.get(id, 0) for id in documents]), highest, users.noise)
        counts = sessions(ranks, attractive, available, users, generator)
        logged = np.flatnonzero(counts[0])
        if len(logged):
            logged_documents = [documents[i] for i in logged.tolist()]
            yield query, Simulated(logged_documents, *(count[logged] for count in counts)), available[logged]


def _ranked(run: Mapping[str, RankedList], query_id: str, depth: int) -> list[str]:
    if query_id not in run:
        return []
    ranking = run[query_id]
    order = sort_order(ranking.doc_ids, np.asarray(ranking.scores))[:depth]
    return [ranking.doc_ids[i] for i in order.tolist()]


def write_log(
    path: Path, simulated: Iterable[tuple[Query, Simulated, np.ndarray]], overwrite: bool = False
) -> tuple[int, int]:
    """Write a log with query ids; returns its numbers of queries and of lines."""
    queries = rows = 0
    with replacing(path, CLICK_LOG, overwrite) as file:
        file.write(HEADER)
        for query, counts, available in simulated:
            text = " ".join(query.text.split())
            if not text:
                continue
            queries += 1
            rows += len(counts.documents)
            columns = (column.tolist() for column in (*counts[1:], available.astype(np.int64)))
            for document, *numbers in zip(counts.documents, *columns):
                file.write("\t".join((query.id, text, document, *map(str, numbers), "1")).encode() + b"\n")
    return queries, rows
