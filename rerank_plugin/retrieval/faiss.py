"""Dense retrieval from a Faiss index that Pyserini made, by its own encoder of queries.

The folder is one of ``pyserini.index.faiss`` or ``pyserini.encode --to-faiss``, or a prebuilt one; its ids are matched
with those of the index. A score is the one that Pyserini shows: the inner product, or for L2 the squared distance, here
with a minus before it, as a run ranks by decreasing score. A filter and deleted documents are left out by Faiss's own
selectors; where a kind of index has none, a longer list is searched and filtered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.faiss_folder import FaissFolder, NoSelectionError
from rerank_plugin.indexes.faiss_gpu import GPUS, ONE, Place
from rerank_plugin.retrieval.dense import MORE, NONE, QueryEncoder
from rerank_plugin.retrieval.query_vectors import EncodedQueries, FolderEncoder, QueryVectorsConfig
from rerank_plugin.retrieval.register import SHARED, FirstStageEntry, register, setting

log = logging.getLogger(__name__)

BATCH = 1 << 18  # ids that are looked up at once


@dataclass(frozen=True)
class FaissConfig(QueryVectorsConfig):
    """A Faiss index of Pyserini.

    Attributes:
        folder: with ``index`` and ``docid``.
        device: ``cpu``, or the GPU to which the index and the encoder are copied.
        nprobe: lists that an IVF index reads; None for its own number.
        float16, gpus: as in :class:`~rerank_plugin.indexes.faiss_gpu.Place`.
    """

    name: str = field(default="faiss", init=False)
    folder: str = ""
    nprobe: int | None = setting(None, SHARED, ge=1)
    ef_search: int | None = setting(
        None, "candidates that an HNSW index of faiss keeps (default: its own)", type=int, ge=1
    )
    device: str = setting("cpu", SHARED)
    float16: bool = setting(
        False, "hold vectors that Faiss searches on a GPU in half precision", option="faiss_float16"
    )
    gpus: str = setting(
        ONE,
        "GPUs that Faiss searches on: one (the device), or all: shards (each has a part of the documents) or "
        "replicas (each has all)",
        option="faiss_gpus",
        choices=GPUS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gpus not in GPUS:
            raise InputError(f"unknown use of GPUs '{self.gpus}'; known: {', '.join(GPUS)}")

    def open(self, index) -> FaissStage:
        return FaissStage(index, self)


class VectorQuery(NamedTuple):
    """A query's vector, float32 [D], or None to find nothing; and what may be found, bool [R], None for all."""

    vector: np.ndarray | None
    allowed: np.ndarray | None


class FaissStage:
    """A first stage over a Faiss index. It is thread-safe.

    Raises:
        InputError: the folder or the encoder cannot be read, they do not fit, or the index has none of its documents.
    """

    filters = True

    def __init__(self, index, config: FaissConfig):
        self.index, self.forward, self.config, self.name = index, index.forward, config, config.name
        self.faiss = FaissFolder(config.folder, Place(config.device, config.float16, config.gpus), config.nprobe)
        self.rows = self._matched()  # int64 [R], -1 for a document that the index lacks
        self.positions = np.full(len(self.forward), -1)  # of each row; -1 for a document that the folder lacks
        self.positions[self.rows[self.rows >= 0][::-1]] = np.flatnonzero(self.rows >= 0)[::-1]
        self.encoder = self._encoder()
        self._told = False

    def _matched(self) -> np.ndarray:
        ids = self.faiss.ids
        batches = [self.forward.rows(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]
        rows = np.concatenate(batches) if batches else NONE
        live = self.forward.live
        if live is not None:
            rows = np.where((rows >= 0) & live[rows], rows, -1)
        strange, lacking = np.flatnonzero(rows < 0), self.forward.documents - len(np.unique(rows[rows >= 0]))
        if len(strange) == len(rows):
            first = f", such as '{ids[0]}'," if ids else ""
            raise InputError(
                f"{self.faiss.folder}: none of its {len(ids):,} documents{first} is in {self.index.folder}: the two "
                "are of other collections, or their ids are written in other ways"
            )
        if len(strange):
            log.warning(
                "%s: %s of %s documents, such as '%s', are not in %s, and are left out",
                self.faiss.folder, f"{len(strange):,}", f"{len(ids):,}", ids[strange[0]], self.index.folder,
            )  # fmt: skip
        if lacking:
            held = np.zeros(len(self.forward), bool)
            held[rows[rows >= 0]] = True
            row = next(int(row) for row in self.forward.live_rows if not held[row])
            log.warning(
                "%s has no vector of %s of %s documents of %s, such as '%s': only other first stages find them",
                self.faiss.folder, f"{lacking:,}", f"{self.forward.documents:,}", self.index.folder,
                self.forward.ids.take(np.array([row]))[0],
            )  # fmt: skip
        return rows

    def _encoder(self) -> EncodedQueries | FolderEncoder | CheckpointEncoder:
        from rerank_plugin.models.register import checkpoint_folder, foreign_model

        config, dimension = self.config, self.faiss.header.dimension
        if config.encoded_queries:
            return EncodedQueries(config.encoded_queries, dimension)
        name = config.query_encoder or self.faiss.query_encoder
        if not name:
            raise InputError(
                f"{self.faiss.folder} needs the encoder of its queries, by which its documents were encoded: give a "
                "query encoder, or a file of encoded queries"
            )
        folder = checkpoint_folder(name)
        foreign = foreign_model(folder, encodes=True)
        encoder = FolderEncoder(folder, config, config.device) if foreign else CheckpointEncoder(self.forward, name)
        vector = encoder.encode(Query("", "treatment"))
        if vector is not None and len(vector) != dimension:
            raise InputError(
                f"{name} gives queries {len(vector)} numbers, the vectors of {self.faiss.folder} have {dimension}: it "
                "is not the encoder of these documents"
            )
        return encoder

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents that fit the query's filter."""
        return self.nearest(self.read(query), depth)

    def read(self, query: Query) -> VectorQuery:
        """The query's vector, and whether each document of the folder may be found, bool [R]; None for all."""
        allowed = self.rows >= 0
        if query.filter is not None:
            allowed = allowed & self.index.fitting(query.filter)[self.rows]
        return VectorQuery(self.encoder.encode(query), None if allowed.all() else allowed)

    def nearest(
        self,
        query: VectorQuery,
        depth: int,
        feedback: np.ndarray = NONE,
        weight: float = 0.0,
        candidates: np.ndarray = NONE,
    ) -> Candidates:
        """As :meth:`rerank_plugin.retrieval.dense.DenseStage.nearest`; candidates without a vector are left out."""
        if query.vector is None or not len(self.rows):
            return Candidates(self.forward, NONE, NONE)
        vector = query.vector
        feedback = feedback[self.positions[feedback] >= 0]
        if len(feedback):
            vector = vector + np.float32(weight) * self.decode(feedback).mean(axis=0, dtype=np.float32)
        positions, scores = self._search(vector, depth, query.allowed)
        rows, first = np.unique(self.rows[positions], return_index=True)  # a document may have several vectors
        scores = scores[first]
        others = np.setdiff1d(candidates[self.positions[candidates] >= 0], rows)
        if len(others):
            rows, scores = np.concatenate([rows, others]), np.concatenate([scores, self._scores(vector, others)])
        return Candidates(self.forward, rows, scores).best(depth)

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """The stored vectors of documents, float32 [n, D]; zeros for a document that the folder lacks."""
        vectors = np.zeros((len(rows), self.faiss.header.dimension), np.float32)
        some = self.positions[rows] >= 0
        if some.any():
            vectors[some] = self.faiss.vectors(self.positions[rows[some]])
        return vectors

    def lacking_words(self, query: Query) -> list[str]:
        return self.encoder.lacking_words(query) if isinstance(self.encoder, CheckpointEncoder) else []

    def _scores(self, vector: np.ndarray, rows: np.ndarray) -> np.ndarray:
        vectors = self.decode(rows)
        return vectors @ vector if self.faiss.header.metric == 0 else -np.square(vectors - vector).sum(axis=1)

    def _search(self, vector: np.ndarray, depth: int, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Positions and scores of at least ``depth`` allowed documents, and of those that tie with the last."""
        reach, most = depth + MORE, len(self.rows)
        selected = allowed
        while True:
            try:
                positions, scores = self.faiss.search(vector, min(reach, most), selected, self.config.ef_search)
            except NoSelectionError as error:
                if not self._told:
                    self._told = True
                    log.warning("%s: a longer list is searched, and filtered", error)
                selected = None
                continue
            complete = reach >= most or len(positions) < min(reach, most)
            if allowed is not None and selected is None:
                fits = allowed[positions]
                positions, scores = positions[fits], scores[fits]
            if complete or len(scores) > depth and scores[-1] < scores[depth - 1]:
                return positions, scores
            reach *= 4


class CheckpointEncoder:
    """Encodes queries by a checkpoint of this package."""

    def __init__(self, forward, checkpoint: str):
        self._encoder = QueryEncoder(forward, checkpoint)

    def encode(self, query: Query) -> np.ndarray | None:
        """The vector of a query, float32 [D]; None if the model knows none of its words."""
        return self._encoder.encode(query.text)

    def lacking_words(self, query: Query) -> list[str]:
        return self._encoder.reranker.lacking_words(query)


register(FirstStageEntry(FaissConfig, "the best documents of a dense index of Pyserini (index and docid)", "folder"))
