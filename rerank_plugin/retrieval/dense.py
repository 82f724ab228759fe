"""Dense retrieval: maximum inner product search over the stored encodings of all documents of an index.

It needs encodings (``rerank-plugin index --encode``) by a model whose score is the inner product of a query's
and a document's encoding, as KTRel's. A fast search finds the documents and the model's own arithmetic scores them, so
that the scores are bit-identical to those of re-ranking.

With a flat index the order is exact. The search sums products in another order than the model, so documents are fetched
until the bound of the rounding errors (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1) shows that
none is missing.

Pseudo-relevance feedback adds the mean encoding of the top documents to the query and searches again, as RM3 does for
BM25 (Rocchio 1971 without its negative part; for dense retrieval Li et al., ACM TOIS 41(3), 2023). The scores are then
those of the modified query, not the model's.

Letters in shapes: C candidates, E numbers of an encoding.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.nearest import FLAT, HNSW, KINDS, AnnSearch, FlatSearch
from rerank_plugin.indexes.stored_encodings import encodings_folder, find_encodings
from rerank_plugin.retrieval.register import FirstStageEntry, register, setting

ENCODER = "ktrel"  # the one that comes along, and that can be adapted to a collection

log = logging.getLogger(__name__)

MORE = 64  # documents fetched beyond the depth at first
UNIT_ROUNDOFF = 2.0**-24  # of float32
PIECE = 1 << 16  # vectors that are read at once


@dataclass(frozen=True)
class DenseConfig:
    """Dense retrieval with one model.

    Attributes:
        checkpoint: folder of the model that has encoded the index, a checkpoint or an encoder of texts; or the name of
            a bundled one (``ktrel``) or of one in a package (``minilm``).
        kind: type of the vector index (see :mod:`rerank_plugin.indexes.nearest`).
        ef_search: at least the depth is used.
    """

    name: str = field(default="dense", init=False)
    checkpoint: str
    kind: str = setting(
        FLAT,
        "search of the vectors: flat (exact, all documents), ivf or hnsw (approximate; built by the index command)",
        option="dense_index",
    )
    nprobe: int = setting(32, "inverted lists that ivf probes")
    ef_search: int = setting(128, "candidates that hnsw keeps while searching")
    device: str = setting(
        "cpu",
        "device that compares the vectors: cpu, or cuda with faiss for GPUs (default: that of the reranker)",
        option="dense_device",
        otherwise="device",
    )
    feedback: int = setting(
        0,
        "pseudo-relevance feedback: search again with the query vector moved towards the N best documents; 0 for none",
        option="dense_feedback",
        metavar="N",
    )
    feedback_weight: float = setting(
        0.6, "weight of those documents; that of the query is 1", option="dense_feedback_weight"
    )

    def __post_init__(self) -> None:
        if not self.checkpoint:
            raise InputError("dense retrieval needs a model's checkpoint: dense:CHECKPOINT")
        if self.kind not in KINDS:
            raise InputError(f"unknown index of vectors '{self.kind}'; known: {', '.join(KINDS)}")
        if min(self.nprobe, self.ef_search) < 1:
            raise InputError("nprobe and ef_search must be at least 1")
        if self.feedback < 0 or not 0 <= self.feedback_weight < math.inf:
            raise InputError("the documents of the feedback and their weight must not be below 0")

    def open(self, index) -> DenseStage:
        return DenseStage(index, self)


def opened_encoder(forward, checkpoint: str | Path, **options):
    """The `NeuralReranker` of a model that encodes texts; ``checkpoint`` is as in :class:`DenseConfig`."""
    from rerank_plugin.models.register import checkpoint_folder, foreign_model
    from rerank_plugin.rerankers import RerankerOptions
    from rerank_plugin.rerankers.neural import from_checkpoint

    folder = checkpoint_folder(checkpoint)
    return from_checkpoint(forward, folder, RerankerOptions(**options), foreign_model(folder, encodes=True))


class QueryEncoder:
    """Encodes queries, and computes inner products with other encodings, with the model's own arithmetic.

    Args:
        forward: the index whose documents the encodings are compared with.
        checkpoint: as in :class:`DenseConfig`.

    Raises:
        InputError: the checkpoint cannot be used, or its score is no inner product of encodings.

    Attributes:
        key: checksum of the weights. size: E.
    """

    def __init__(self, forward, checkpoint: str | Path):
        from rerank_plugin.models.classes import has_inner_products
        from rerank_plugin.models.encoded_documents import encoding_scorer, encodings_key

        self.forward, self.reranker = forward, opened_encoder(forward, checkpoint, threads=1)
        model, builder = self.reranker.model, self.reranker.builder
        if not has_inner_products(model.name):
            raise InputError(
                f"{checkpoint}: the score of the model '{model.name}' is no inner product of a query's and a "
                "document's encoding, so it cannot retrieve; ktrel can"
            )
        self.scorer = encoding_scorer(model, builder, 1)
        self.key, self.size = encodings_key(forward, model, builder.vocabulary), self.scorer.encoding_size
        self.said: set[str] = set()

    def encode(self, text: str) -> np.ndarray | None:
        """The encoding of a plain-text query, float32 [E]; None if the model knows none of its words."""
        terms = self.forward.query(text)
        words = self.reranker.builder.query(terms)
        if words.cut:
            self._say("cut", "'%.60s' is longer than the model reads: the rest is cut, here and later", text)
        if not self.reranker.can_read(words):
            self._say("unknown", "'%.60s': the model knows none of its words and finds nothing, here and later", text)
            return None
        return self.scorer.encode(terms, words)

    def _say(self, what: str, message: str, text: str) -> None:
        if what not in self.said:
            self.said.add(what)
            log.warning("dense retrieval: query " + message, text)

    def inner_products(self, encoding: np.ndarray, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """``vectors[rows] @ encoding``, float32 [n], of vectors float32 or float16 [any, E] and rows int64 [n]."""
        if vectors.dtype != np.float32:
            vectors, rows = vectors[rows].astype(np.float32), np.arange(len(rows))
        return self.scorer.inner_products(encoding, vectors, rows)


def encode_command(index, checkpoint: str | Path) -> str:
    """The command that encodes the documents of an index."""
    return f"rerank-plugin index --encode {checkpoint} --index {index.folder}"


class Asked(NamedTuple):
    """A query's encoding, float32 [E], None for nothing to search by; what fits its filter, bool [R], None for all."""

    encoding: np.ndarray | None
    fits: np.ndarray | None


class DenseStage:
    """A first stage over stored encodings. It is thread-safe and needs no Java, but for filters.

    Raises:
        InputError: the checkpoint cannot be used, its score is no inner product of encodings, or the index holds no
            encodings by it.
    """

    filters = True

    def __init__(self, index, config: DenseConfig):
        self.index, self.forward, self.config, self.name = index, index.forward, config, config.name
        self.encoder = QueryEncoder(self.forward, config.checkpoint)
        vectors = find_encodings(self.forward, self.encoder.key, self.encoder.size)
        encode = encode_command(index, config.checkpoint)
        if vectors is None:
            raise InputError(f"{index.folder} holds no encodings by {config.checkpoint}; encode it with: {encode}")
        self.vectors = vectors
        self.longest = self._longest()
        if config.kind == FLAT:
            self.searcher = FlatSearch(self.vectors, config.device)
        else:
            effort = config.ef_search if config.kind == HNSW else config.nprobe
            folder = encodings_folder(self.forward, self.encoder.key)
            self.searcher = AnnSearch(folder, config.kind, effort, config.device, f"{encode} --ann {config.kind}")

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` documents that fit the query's filter.

        There are none where the model knows no word of the query (a warning says so once).

        Raises:
            InputError: the depth is more than a GPU can return, or a filter is more than it can do.
        """
        asked = self.read(query)
        best = self.nearest(asked, self.config.feedback).rows if self.config.feedback else ()
        return self.nearest(asked, depth, best, self.config.feedback_weight)

    def lacking_words(self, query: Query) -> list[str]:
        return self.encoder.reranker.lacking_words(query)

    def read(self, query: Query) -> Asked:
        """The query as it is searched for, so that several searches encode it once."""
        encoding = self.encoder.encode(query.text) if len(self.vectors) else None
        if encoding is None or query.filter is None:
            return Asked(encoding, None)
        if self.config.device != "cpu":
            raise InputError("faiss cannot filter on a GPU: keep the vectors on the CPU, or search without a filter")
        return Asked(encoding, self.index.fitting(query.filter))

    def nearest(self, asked: Asked, depth: int, rows: Sequence[int] = (), weight: float = 0.0) -> Candidates:
        """The best ``depth`` documents for a query that is moved towards some, by their rows int64 [n]."""
        if asked.encoding is None:
            return Candidates(self.forward, [], [])
        encoding, fits = self._moved(asked.encoding, rows, weight), asked.fits
        documents = len(self.forward) if fits is None else int(fits.sum())
        most = min(documents, self.searcher.most or documents)
        if min(depth, documents) > most:
            raise InputError(f"faiss returns at most {most} documents from a GPU: lower the depth, or use the CPU")
        reach, bound = min(depth + MORE, most), self._rounding(encoding)
        while True:
            rows, products = self.searcher.search(encoding, reach, fits)
            scores = self.encoder.inner_products(encoding, self.vectors, rows)
            best = Candidates(self.forward, rows, scores).best(depth)
            if reach == most or len(rows) < reach or products[-1] + bound < best.first_stage_scores[-1]:
                return best
            reach = min(4 * reach, most)

    def neighbours(self, row: int, depth: int) -> Candidates:
        """The documents with the largest cosine of their vector and that of a document, which is left out."""
        vector = self.vectors[row].astype(np.float32)
        rows, products = self.searcher.search(vector, min(depth + 1, self.searcher.most or len(self.forward)))
        lengths = np.linalg.norm(self.vectors[rows].astype(np.float32), axis=1) * np.linalg.norm(vector)
        cosines = np.divide(products, lengths, out=np.zeros(len(rows), np.float32), where=lengths > 0)
        others = rows != row
        return Candidates(self.forward, rows[others], cosines[others]).best(depth)

    def _moved(self, encoding: np.ndarray, rows: Sequence[int], weight: float) -> np.ndarray:
        """The encoding of a query after pseudo-relevance feedback, float32 [E].

        The weighted mean of the documents is added to each part's vector before the part's factor applies.
        """
        if not len(rows):
            return encoding
        mean = self.vectors[rows].mean(axis=0, dtype=np.float32)
        return encoding + np.float32(weight) * self.encoder.scorer.factors * mean

    def _longest(self) -> float:
        """An upper bound of the Euclidean norm of the documents' encodings; computed if the model knows none."""
        if math.isfinite(known := self.encoder.scorer.longest_encoding):
            return known
        longest = 0.0
        for start in range(0, len(self.vectors), PIECE):
            piece = self.vectors[start : start + PIECE].astype(np.float32)
            longest = max(longest, float(np.linalg.norm(piece, axis=1).max()))
        return 1.001 * longest

    def _rounding(self, encoding: np.ndarray) -> float:
        """An upper bound of the difference between the search's and the model's inner product of two vectors."""
        if not self.searcher.exact:
            return 0.0
        roundings = len(encoding) * UNIT_ROUNDOFF
        size = float(np.linalg.norm(encoding.astype(np.float64))) * self.longest
        return 2 * roundings / (1 - roundings) * size


register(FirstStageEntry(DenseConfig, "the best documents by this model's encodings of the index", "checkpoint"))
