"""Dense retrieval: maximum inner product search over the stored encodings of all documents of an index.

It needs encodings (``rerank-plugin index --encode``) by a model whose score is the inner product of a query's
and a document's encoding, as KTRel's. A score is that of the stored 8-bit codes, to the last bit the same as that of
re-ranking. Collections of 50,000 documents and more are divided into inverted lists, of which a search reads the
nearest: it may miss documents (:mod:`rerank_plugin.indexes.vector_store`).

Pseudo-relevance feedback adds the mean encoding of the top documents to the query and searches again, as RM3 does for
BM25 (Rocchio 1971 without its negative part; for dense retrieval Li et al., ACM TOIS 41(3), 2023). The scores are then
those of the modified query, not the model's.

Letters in shapes: C candidates, E numbers of an encoding.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.devices import usable
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.faiss_gpu import CAGRA, FAISS, ONE, Place
from rerank_plugin.indexes.vector_search import Fitting, VectorSearch
from rerank_plugin.indexes.vector_store import encode_command, open_store
from rerank_plugin.retrieval.register import SHARED, FirstStageEntry, check_bounds, register, setting

log = logging.getLogger(__name__)

FLAT, IVF = "flat", "ivf"
KINDS = (FLAT, IVF)
TORCH = "torch"
ENGINES = (TORCH, FAISS, CAGRA)
MORE = 64  # documents fetched beyond the depth at first
NONE: np.ndarray = np.zeros(0, np.int64)  # rows
ROWS_AT_ONCE = 10_000  # whose vectors are decoded together


@dataclass(frozen=True)
class DenseConfig:
    """Dense retrieval with one model.

    Attributes:
        checkpoint: folder of the model that has encoded the index, a checkpoint or an encoder of texts; or the name of
            a bundled one (``ktrel``) or of one in a package (``minilm``).
        device: torch device that searches all vectors; the CPU reads the nearest inverted lists.
        kind: ``flat`` reads all inverted lists of the store of vectors, ``ivf`` the nearest.
        nprobe: lists that ``ivf`` reads; None for the number that the store was made with.
        engine: what searches all vectors in the place of the store, of `ENGINES`; None for `TORCH` on a device.
        float16, gpus: of Faiss, as in :class:`~rerank_plugin.indexes.faiss_gpu.Place`.
    """

    name: str = field(default="dense", init=False)
    checkpoint: str
    kind: str = setting(
        IVF,
        "search of the vectors: ivf (of the nearest inverted lists, in collections of 50,000 documents and more) or "
        "flat (of all documents)",
        option="dense_index",
    )
    nprobe: int | None = setting(
        None, "inverted lists that ivf reads (default: as the index was encoded)", type=int, ge=1
    )
    feedback: int = setting(
        0,
        "pseudo-relevance feedback: search again with the query vector moved towards the N best documents; 0 for none",
        option="dense_feedback",
        metavar="N",
        ge=0,
    )
    feedback_weight: float = setting(
        0.6, "weight of those documents; that of the query is 1", option="dense_feedback_weight", ge=0
    )
    device: str = setting("cpu", SHARED)
    engine: str | None = setting(
        None,
        "search of all stored vectors: torch, faiss or, with a graph on a GPU, cagra (default: torch on a GPU; on the "
        "CPU the store itself)",
        option="dense_engine",
        choices=ENGINES,
        type=str,
    )
    float16: bool = setting(False, SHARED, option="faiss_float16")
    gpus: str = setting(ONE, SHARED, option="faiss_gpus")

    def __post_init__(self) -> None:
        if not self.checkpoint:
            raise InputError("dense retrieval needs a model's checkpoint: dense:CHECKPOINT")
        if self.kind not in KINDS:
            raise InputError(f"unknown index of vectors '{self.kind}'; known: {', '.join(KINDS)}")
        if self.engine not in (None, *ENGINES):
            raise InputError(f"unknown engine '{self.engine}'; known: {', '.join(ENGINES)}")
        check_bounds(self)

    def open(self, index) -> DenseStage:
        return DenseStage(index, self)


def opened_encoder(forward, checkpoint: str | Path, device: str = "cpu", **options):
    """The `NeuralReranker` of a model that encodes texts; ``checkpoint`` is as in :class:`DenseConfig`.

    Args:
        device: of a foreign encoder; a model of ours encodes a query on the CPU sooner than a device starts to.
    """
    from rerank_plugin.models.register import checkpoint_folder, foreign_model
    from rerank_plugin.rerankers import RerankerOptions
    from rerank_plugin.rerankers.neural import from_checkpoint

    folder = checkpoint_folder(checkpoint)
    foreign = foreign_model(folder, encodes=True)
    running = RerankerOptions(device if foreign else "cpu", **options)
    return from_checkpoint(forward, folder, running, foreign)


class QueryEncoder:
    """Encodes queries.

    Args:
        forward: the index whose documents the encodings are compared with.
        checkpoint: as in :class:`DenseConfig`.
        device: as in :func:`opened_encoder`.

    Raises:
        InputError: the checkpoint cannot be used, or its score is no inner product of encodings.

    Attributes:
        key: checksum of the weights. spaces: of its encodings.
    """

    def __init__(self, forward, checkpoint: str | Path, device: str = "cpu"):
        from rerank_plugin.models.encoded_path import encoding_scorer, weights_checksum
        from rerank_plugin.models.fast_paths import InnerProductScorer

        self.forward, self.reranker = forward, opened_encoder(forward, checkpoint, device, threads=1)
        model, builder = self.reranker.model, self.reranker.builder
        if not self.reranker.entry.has_inner_products:
            raise InputError(
                f"{checkpoint}: the score of the model '{model.name}' is no inner product of a query's and a "
                "document's encoding, so it cannot retrieve; ktrel can"
            )
        scorer = encoding_scorer(model, builder, 1)
        assert isinstance(scorer, InnerProductScorer), "checked above"
        self.scorer = scorer
        self.key, self.spaces = weights_checksum(model, builder.vocabulary), self.scorer.spaces
        self.warned: set[str] = set()

    def encode(self, text: str) -> np.ndarray | None:
        """The encoding of a plain-text query, float32 [E]; None if the model knows none of its words."""
        terms = self.forward.query(text)
        words = self.reranker.builder.query(terms)
        if words.cut:
            self._warn("cut", "'%.60s' is longer than the model reads: the rest is cut, here and later", text)
        if not self.reranker.can_read(words):
            self._warn("unknown", "'%.60s': the model knows none of its words and finds nothing, here and later", text)
            return None
        return self.scorer.encode(terms, words)

    def _warn(self, kind: str, message: str, text: str) -> None:
        """Warn about a kind of queries once."""
        if kind not in self.warned:
            self.warned.add(kind)
            log.warning("dense retrieval: query " + message, text)


class EncodedQuery(NamedTuple):
    """A query's encoding, float32 [E], None where nothing can be searched, and what fits its filter, None for all."""

    encoding: np.ndarray | None
    fitting: Fitting | None


class NotEncodedError(InputError):
    """An index holds no encodings by an encoder."""


class DenseStage:
    """A first stage over stored encodings. It is thread-safe and needs no Java, but for filters.

    Raises:
        InputError: the checkpoint cannot be used, its score is no inner product of encodings, or, as a
            `NotEncodedError`, the index holds no encodings by it.
    """

    filters = True

    def __init__(self, index, config: DenseConfig):
        self.index, self.forward, self.config, self.name = index, index.forward, config, config.name
        self.encoder = QueryEncoder(self.forward, config.checkpoint, config.device)
        store = open_store(self.forward, self.encoder.key, self.encoder.spaces)
        if store is None:
            encode = encode_command(index, config.checkpoint)
            raise NotEncodedError(f"{index.folder} holds no encodings by {config.checkpoint}; encode it with: {encode}")
        self.store = store
        self.vectors: VectorSearch = store
        self.live: Fitting | None = None  # of an index with deleted documents, which the store itself leaves out
        if config.device != "cpu" or config.engine is not None:
            self.vectors = self._on_engine()
            if self.vectors is not store:
                self.live = store.fitting(self.forward.live)
        self.probes = store.inverted_lists if config.kind == FLAT else config.nprobe

    def _on_engine(self) -> VectorSearch:
        """What searches the vectors in the place of the store; the store itself, if that is on other machines."""
        config = self.config
        if config.engine in (None, TORCH):
            require("torch", f"searching on {config.device}")
            from rerank_plugin.indexes.device_vectors import vectors_on

            with usable(config.device):
                return self.store.on(config.device, vectors_on)
        from rerank_plugin.indexes.faiss_vectors import FaissVectors

        place = Place(config.device, config.float16, config.gpus)
        return self.store.on(config.device, lambda store, device: FaissVectors(store, place, str(config.engine)))

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents that fit the query's filter.

        There are none where the model knows no word of the query (a warning says so once).
        """
        encoded = self.read(query)
        best = self.nearest(encoded, self.config.feedback).rows if self.config.feedback else NONE
        return self.nearest(encoded, depth, best, self.config.feedback_weight)

    def lacking_words(self, query: Query) -> list[str]:
        return self.encoder.reranker.lacking_words(query)

    def read(self, query: Query) -> EncodedQuery:
        """The query as it is searched for, so that several searches encode it once."""
        encoding = self.encoder.encode(query.text) if len(self.store) else None
        if encoding is None or query.filter is None:
            return EncodedQuery(encoding, self.live)
        return EncodedQuery(encoding, self.store.fitting(self.index.fitting(query.filter)))

    def nearest(
        self,
        query: EncodedQuery,
        depth: int,
        feedback: np.ndarray = NONE,
        weight: float = 0.0,
        candidates: np.ndarray = NONE,
    ) -> Candidates:
        """The best ``depth`` of the documents that a search finds and of some candidates.

        Args:
            feedback: rows of the documents that the query is moved towards, int64 [n]. weight: theirs.
            candidates: rows that fit the query's filter, int64 [C].
        """
        if query.encoding is None:
            return Candidates(self.forward, NONE, NONE)
        moved, reach = self.store.quantize(self._moved(query.encoding, feedback, weight)), depth + MORE
        while True:
            rows, scores, others, their_scores = self.store.search_and_score(
                moved, reach, candidates, query.fitting, self.probes, self.vectors
            )
            if len(rows) < reach or scores[-1] < scores[depth - 1]:  # or documents that tie with the last are missing
                break
            reach *= 4
        scores = np.concatenate([scores, their_scores])
        return Candidates(self.forward, np.concatenate([rows, others]), scores).best(depth)

    def neighbours(self, row: int, depth: int) -> Candidates:
        """The documents with the largest cosine of their vector and that of a document, which is left out."""
        vector = self.store.decode(np.array([row]))[0]
        rows, products = self.vectors.search(vector, depth + 1, self.live, self.probes)
        lengths = np.linalg.norm(self.store.decode(rows), axis=1) * np.linalg.norm(vector)
        cosines = np.divide(products, lengths, out=np.zeros(len(rows), np.float32), where=lengths > 0)
        others = rows != row
        return Candidates(self.forward, rows[others], cosines[others]).best(depth)

    def mean_cosines(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The mean cosine of the vector of each of the rows, int64 [n], to those of others, int64 [m]; float32 [n]."""
        mean = _unit(self.store.decode(others)).mean(axis=0)  # [E]
        blocks = range(0, len(rows), ROWS_AT_ONCE)
        cosines = [_unit(self.store.decode(rows[first : first + ROWS_AT_ONCE])) @ mean for first in blocks]
        return np.concatenate([np.zeros(0, np.float32), *cosines])

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """The stored vectors of documents, float32 [n, E]."""
        return self.store.decode(rows)

    def _moved(self, encoding: np.ndarray, rows: np.ndarray, weight: float) -> np.ndarray:
        """The encoding of a query after pseudo-relevance feedback, float32 [E].

        The weighted mean of the documents is added to each part's vector before the part's factor applies.
        """
        if not len(rows):
            return encoding
        mean = self.store.decode(rows).mean(axis=0, dtype=np.float32)
        return encoding + np.float32(weight) * self.encoder.scorer.factors * mean


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of length 1, float32 [n, E]; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


register(FirstStageEntry(DenseConfig, "the best documents by this model's encodings of the index", "checkpoint"))
