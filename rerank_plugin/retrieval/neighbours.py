"""Nearest-neighbour retrieval: documents that are relevant for similar judged queries, as in collaborative filtering.

The similarity of two queries is the cosine of their encodings by a model for
:mod:`dense retrieval <rerank_plugin.retrieval.dense>`. With the k nearest judged queries n, and R(n), the documents
relevant for n, the score of a document d is ::

    sum of max(0, cos(q, n)) ** power * share(n) / sqrt(|R(n)|), over the n for which d is relevant.

Of similar queries those count that want what other rankings have first: that of the hybrid for the bundled encoder, of
the model itself otherwise. With s(e), a ranking's score of a document e, and s(1), its highest, ::

    share(n) = sum over e in R(n) of p(e),    p(e) ~ exp((s(e) - s(1)) / (|s(1)| temperature)),

where p adds up to 1 over the best documents; of several rankings it is the mean of their shares. If no best documents
are asked for, every share is 1.

A document that is relevant for no judged query is never found, so fuse this stage with another one. A judged query
finds its own relevant documents, so evaluate on other queries, or without ``itself``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.files.arrays import ranges
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.judged_queries import judged_folder, read_judged
from rerank_plugin.indexes.vector_store import ENCODER, encode_command
from rerank_plugin.retrieval.dense import DenseStage, QueryEncoder
from rerank_plugin.retrieval.hybrid import HYBRID, HybridStage
from rerank_plugin.retrieval.register import FirstStage, FirstStageEntry, check_bounds, configure, register, setting

TINY = np.finfo(np.float64).tiny
SAME = 1 - 1e-5  # cosine, float32, from which on two queries are taken to have the same words


@dataclass(frozen=True)
class NeighboursConfig:
    """Retrieval by judged queries; ``checkpoint`` is the folder of the model that encodes queries."""

    name: str = field(default="neighbours", init=False)
    checkpoint: str
    neighbours: int = setting(1000, "nearest judged queries to use (k)", ge=1)
    power: float = setting(
        3.0, "power of their cosines; a high one weights the closest queries alone", option="neighbour_power", gt=0
    )
    documents: int = setting(
        100,
        "top N of other rankings by which similar queries are weighted; 0 for no weights",
        option="neighbour_documents",
        metavar="N",
        ge=0,
    )
    temperature: float = setting(
        0.1,
        "softmax temperature of the scores of those documents; a low one uses the best alone",
        option="neighbour_temperature",
        gt=0,
    )
    rankings: tuple[str, ...] = setting(
        (),
        "first stages that give these rankings; several different ones work best (default: hybrid for ktrel, otherwise "
        "that of the model)",
        option="neighbour_ranking",
        metavar="STAGE",
        type=str,
    )
    itself: bool = setting(
        True,
        "use judged queries with the same words, too; without, a judged query is ranked as if it were not judged",
        option="neighbour_itself",
    )

    def __post_init__(self) -> None:
        if not self.checkpoint:
            raise InputError("retrieval by judged queries needs a model's checkpoint: neighbours:CHECKPOINT")
        check_bounds(self)

    def open(self, index) -> NeighboursStage:
        return NeighboursStage(index, self)


def unit(vector: np.ndarray | None) -> np.ndarray | None:
    """The vector normalized to length 1, float32 [E]; None for None or a zero vector."""
    if vector is None:
        return None
    length = math.sqrt(float(np.sum(vector.astype(np.float64) ** 2)))
    return (vector / length).astype(np.float32) if length else None


class NeighboursStage:
    """A first stage that ranks by the judgments of the nearest queries. It is thread-safe.

    Raises:
        InputError: the checkpoint cannot be used, or no judged queries are kept for it, or they are damaged.
    """

    def __init__(self, index, config: NeighboursConfig):
        self.forward, self.config, self.name = index.forward, config, config.name
        self.rankings, self.encoder = self._open(index)
        folder = judged_folder(self.forward, self.encoder.key)
        again = f"{encode_command(index, config.checkpoint)} --judged QJ"
        if not folder.is_dir():
            raise InputError(f"{index.folder} holds no judged queries for {config.checkpoint}; keep them with: {again}")
        repair = f"make it again with: {again} --overwrite"
        judged, _ = read_judged(folder, self.forward, self.encoder.spaces.size, repair)
        judged = judged.of_live(self.forward)
        self.vectors, self.starts, self.rows, self.counts = *judged, judged.counts

    def _open(self, index) -> tuple[list[FirstStage], QueryEncoder]:
        """The first stages that say whom to listen to, none to listen to all, and what encodes queries."""
        config, own = self.config, f"dense:{self.config.checkpoint}"
        usual = HYBRID if config.checkpoint == ENCODER else own
        names = (config.rankings or (usual,)) if config.documents else ()
        opened = {name: configure(name).open(index) for name in names}
        dense, hybrid = opened.get(own), opened.get(HYBRID)
        if isinstance(dense, DenseStage):
            encoder = dense.encoder
        elif isinstance(hybrid, HybridStage) and (part := hybrid.dense_by(config.checkpoint)) is not None:
            encoder = part.encoder
        else:
            encoder = QueryEncoder(index.forward, config.checkpoint)
        return list(opened.values()), encoder

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents, by float32 score, then by decreasing document id."""
        from rerank_plugin.kernels.inner_products import inner_products  # numba is slow to import

        encoding = unit(self.encoder.encode(query.text))
        if encoding is None:
            return Candidates(self.forward, [], [])
        cosines = inner_products(encoding, self.vectors)
        # By cosine, of equal ones the first: the same neighbours whatever their order in memory.
        nearest = np.argsort(-cosines, kind="stable")
        nearest = nearest[(cosines[nearest] > 0) & (self.config.itself | (cosines[nearest] < SAME))]
        nearest = nearest[: self.config.neighbours]
        counts = self.counts[nearest]
        relevant = self.rows[ranges(self.starts[nearest], counts)]  # of one query after the other
        shares = [self._shares(ranking, query, relevant, counts) for ranking in self.rankings] or [np.ones(len(counts))]
        weights = cosines[nearest].astype(np.float64) ** self.config.power * np.mean(shares, axis=0) / np.sqrt(counts)
        of_each = np.repeat(weights, counts)
        rows, places = np.unique(relevant[of_each > 0], return_inverse=True)
        scores = np.bincount(places, of_each[of_each > 0], minlength=len(rows))
        return Candidates(self.forward, rows, scores).best(depth)

    def lacking_words(self, query: Query) -> list[str]:
        return self.encoder.reranker.lacking_words(query)

    def _shares(self, ranking: FirstStage, query: Query, relevant: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Of judged queries float64 [n], by the rows of what is relevant for them, and how many that are, int [n]."""
        best = ranking.search(query, self.config.documents)
        if not len(best):
            return np.zeros(len(counts))
        scores = best.first_stage_scores.astype(np.float64)
        likely = np.exp((scores - scores.max()) / max(abs(scores.max()) * self.config.temperature, TINY))
        order = np.argsort(best.rows)
        places = order[np.minimum(np.searchsorted(best.rows, relevant, sorter=order), len(order) - 1)]
        parts = np.where(best.rows[places] == relevant, likely[places], 0) / likely.sum()
        return np.bincount(np.repeat(np.arange(len(counts)), counts), parts, len(counts))


register(
    FirstStageEntry(
        NeighboursConfig,
        "documents relevant to similar judged queries, which the index keeps encoded by this model",
        "checkpoint",
    )
)
