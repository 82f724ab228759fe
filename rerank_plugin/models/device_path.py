"""Scoring on a torch device: many candidates of several queries at once, from words that stay there.

A batch is copied to the device at once: rows of the index, the words of queries, and what their features read.
The device gathers the words of the documents and compares the model's whole vocabulary with the words of the queries:
one matrix product, and less work than finding the distinct words of the candidates. Models read tables of the result.
On a GPU the work of a batch of few queries is recorded once for its shape and replayed as a CUDA graph: one launch for
some hundred kernels. The code is plain torch and also runs on a CPU (``--device cpu:0``), where the tests compare it
with the modules.

In shapes Q are queries, n documents of a batch (of all its queries), N words of a document, M words of a query, and V
words of the model's vocabulary.

Scores from stored encodings are inner products on the device.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.indexes.device_tokens import PADDING, DeviceTokens, resident_tokens, tokens_of
from rerank_plugin.indexes.device_vectors import vectors_on
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.inputs.device_features import DeviceFeatures
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.models.base import C, RerankerOptions
from rerank_plugin.models.encoded_path import EncodedDocuments
from rerank_plugin.models.fast_paths import FastPath, InnerProductScorer, ModulePath, ScoringTask
from rerank_plugin.models.ranking_model import FixedVectorModel, RankingModel, in_precision

log = logging.getLogger(__name__)

DOCUMENTS_STEP, WORDS_STEP, QUERY_STEP = 256, 64, 8  # shapes are rounded up to multiples, so that few occur
BATCH_SIZE = 32_768  # candidates that are scored at once: 64 queries of 500
CELLS = 1 << 27  # numbers of an intermediate result; larger batches are divided
RECORDED_QUERIES = 4  # batches of more queries keep a GPU busy without a CUDA graph
PARTS, LONG = 4, 256  # a model that reads more words than these scores as many parts of documents of similar length
MOST_WORDS = 32_767  # documents of more words are taken as equally long
MOST_GRAPHS = 32  # that are kept
WARM_UP = 3  # runs before one is recorded


class DocumentRange(NamedTuple):
    """Documents ``first`` to ``last`` of a batch, of which none has more than ``width`` words."""

    first: int
    last: int
    width: int


@dataclass
class Batch:
    """Queries and their candidates on a device.

    Attributes:
        queries: the model's ids, int64 [Q, M]. query_mask: bool [Q, M]. query_terms: terms of the index, int64 [Q, M],
            `PADDING` where padded and for a word of no document. query_idf: float32 [Q, M].
        query: of each document, int64 [n].
        places: of the documents in ``tokens``, int64 [n]; `PADDING` for documents that fill up the shape.
        arrays: what the features read of queries and candidates.
        static: what they read of the documents of ``tokens``.
    """

    queries: Tensor
    query_mask: Tensor
    query_terms: Tensor
    query_idf: Tensor
    query: Tensor
    places: Tensor
    arrays: dict[str, Tensor]
    static: dict[str, Tensor]
    tokens: DeviceTokens


class PaddedWords(NamedTuple):
    """The first words of documents."""

    ids: Tensor  # the model's, int64 [n, N], 0 where padded
    terms: Tensor  # of the index, int64 [n, N], `PADDING` where padded
    mask: Tensor  # bool [n, N]


class DevicePath(ModulePath, Generic[C]):
    """The base of models' paths on a device.

    A subclass declares what it computes once for the queries of a batch (:meth:`read`), and how it scores documents
    with it (:meth:`score`). It is thread-safe.

    Args:
        model: the module, in eval mode, on ``options.device``.
        builder: the input builder of the candidates' index.
        options: ``batch_size`` limits the candidates scored at once; it is halved permanently when memory runs out.

    """

    def __init__(self, model: FixedVectorModel[C], builder: InputBuilder, options: RerankerOptions):
        self.model, self.builder, self.options = model, builder, options
        self.config, self.device = model.config, torch.device(options.device)
        self.batch_size, self.lock = options.batch_size or BATCH_SIZE, Lock()
        self.features = DeviceFeatures(builder, model.vectors)
        self.tokens = resident_tokens(builder.index, self.device)
        self.model_ids = self._model_ids()
        if options.compile:
            self.read, self.score = torch.compile(self.read), torch.compile(self.score)  # type: ignore[method-assign]
        self.graphs: OrderedDict[Any, Graph] = OrderedDict()

    @property
    def of_index(self) -> bool:  # type: ignore[override]  # texts bring their words with every call
        return not self.builder.index.in_memory

    def _model_ids(self) -> Tensor:
        """The model's id of each term of the index, int32 [terms]."""
        ids = self.builder.model_ids
        return torch.from_numpy(np.array(ids if len(ids) else [0], np.int32)).to(self.device)

    @abstractmethod
    def read(self, batch: Batch) -> Any:
        """What scores read of all queries of a batch."""

    @abstractmethod
    def score(self, batch: Batch, read: Any, part: DocumentRange, words: PaddedWords, features: Tensor) -> Tensor:
        """Scores of the documents of a part, float [n], from :meth:`read`, their words and features float32 [n, F]."""

    def numbers(self, words: int, query_words: int) -> int:
        """Numbers of the largest intermediate result of a document with its query."""
        return words * query_words

    # ------------------------------------------------------------------------------------------------------- batches

    @torch.inference_mode()
    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        scores = [np.zeros(len(task.candidates), np.float32) for task in tasks]
        found = [self.features.of_candidates(task) for task in tasks]
        pending = deque((place, 0, len(task.candidates)) for place, task in enumerate(tasks) if len(task.candidates))
        with self.lock:
            while pending:
                spans = self._next(pending, tasks)
                try:
                    values = self._score([(tasks[at], found[at], slice(*bounds)) for at, *bounds in spans])
                except torch.OutOfMemoryError:
                    if self.batch_size == 1:
                        raise
                    self.batch_size //= 2
                    self.graphs.clear()
                    torch.cuda.empty_cache()
                    log.warning("out of memory on %s: scoring %d candidates at once", self.device, self.batch_size)
                    continue
                start = 0
                for at, first, last in spans:
                    pending.popleft()
                    scores[at][first:last] = values[start : start + last - first]
                    start += last - first
        return scores

    def _next(self, pending: deque[tuple[int, int, int]], tasks: Sequence[ScoringTask]) -> list[tuple[int, int, int]]:
        """The first spans (task, first and last candidate) that fit into a batch; a span that does not is divided."""
        at, first, last = pending[0]
        if last - first > self.batch_size:
            pending[0] = (at, first, first + self.batch_size)
            pending.insert(1, (at, first + self.batch_size, last))
        spans: list[tuple[int, int, int]] = []
        documents, most_queries = 0, max(1, CELLS // (len(self.model.vectors) * self.builder.query_words))
        for span in pending:
            documents += span[2] - span[1]
            if spans and (documents > self.batch_size or len(spans) == most_queries):
                break
            spans.append(span)
        return spans

    def _score(self, spans: list[tuple[ScoringTask, dict[str, np.ndarray], slice]]) -> np.ndarray:
        """The scores of all spans, one after the other, float32 [documents]."""
        tasks, index = [task for task, _, _ in spans], self.builder.index
        rows = np.concatenate([task.candidates.rows[part] for task, _, part in spans])
        query = np.repeat(np.arange(len(spans)), [part.stop - part.start for *_, part in spans])
        lengths = np.concatenate([task.candidates.lengths[part] for task, _, part in spans])
        order = np.argsort(-np.minimum(lengths, MOST_WORDS).astype(np.int16), kind="stable")  # 16 bits are sorted fast
        tokens = self.tokens or tokens_of(index, rows, self.device)
        if index.in_memory:
            self.model_ids = self._model_ids()
        count, queries = round_up(len(rows), DOCUMENTS_STEP), len(spans)
        longest = max(int(task.words.mask.sum()) for task in tasks)
        width = min(round_up(max(longest, 1), QUERY_STEP), self.builder.query_words)
        arrays = {
            "places": np.full(count, PADDING), "query": np.zeros(count, np.int64),
            "queries": np.stack([task.words.ids[:width] for task in tasks]),
            "query mask": np.stack([task.words.mask[:width] for task in tasks]).astype(np.int64),
            "query terms": np.stack([task.words.terms[:width] for task in tasks]),
            "query idf": np.stack([task.words.idf[:width] for task in tasks]).astype(np.float64),
            **self.features.of_queries(tasks),
        }  # fmt: skip
        arrays["places"][: len(rows)], arrays["query"][: len(rows)] = tokens.places(rows)[order], query[order]
        for name in spans[0][1]:
            values = np.concatenate([columns[name][part] for _, columns, part in spans])
            arrays[name] = np.zeros(count)
            arrays[name][: len(rows)] = values[order]
        parts = self._parts(count, lengths[order], width, queries)
        scores = np.empty(len(rows), np.float32)
        static = self.features.of_documents(tokens, self.model_ids)
        scores[order] = self._run(arrays, parts, tokens, static)[: len(rows)]
        return scores

    def _parts(self, count: int, lengths: np.ndarray, query_words: int, queries: int) -> tuple[DocumentRange, ...]:
        """A batch of ``count`` documents, the first of which have ``lengths``, in parts of similar length."""
        parts: list[DocumentRange] = []
        step = round_up(-(-count // (PARTS if self.builder.document_words > LONG else 1)), DOCUMENTS_STEP)
        while not parts or parts[-1].last < count:
            first = parts[-1].last if parts else 0
            longest = max(int(lengths[min(first, len(lengths) - 1) :].max()), 1)
            read = max(min(longest, self.builder.document_words), self.features.width(longest))
            width = min(round_width(read), max(self.builder.document_words, self.features.width(round_width(longest))))
            most = max(1, CELLS // max(self.numbers(width, query_words), 2 * width * query_words))
            parts.append(DocumentRange(first, min(first + min(most, max(step, 1)), count), width))
        return tuple(parts)

    def _run(
        self,
        arrays: dict[str, np.ndarray],
        parts: tuple[DocumentRange, ...],
        tokens: DeviceTokens,
        static: dict[str, Tensor],
    ) -> np.ndarray:
        """The scores of a batch, float32 [n], by a CUDA graph where one pays."""
        layout = tuple((name, array.shape, array.dtype.kind) for name, array in arrays.items())
        if self.device.type != "cuda" or tokens.rows is not None or len(arrays["queries"]) > RECORDED_QUERIES:
            packed = torch.from_numpy(pack(arrays)).to(self.device, non_blocking=True)
            return self._compute(packed, layout, parts, tokens, static).cpu().numpy()
        key = layout, parts
        graph = self.graphs.pop(key, None) or Graph(self, pack(arrays), layout, parts, tokens, static)
        self.graphs[key] = graph
        if len(self.graphs) > MOST_GRAPHS:
            self.graphs.popitem(last=False)
        return graph.replay(pack(arrays))

    def _compute(
        self,
        packed: Tensor,
        layout: tuple,
        parts: tuple[DocumentRange, ...],
        tokens: DeviceTokens,
        static: dict[str, Tensor],
    ) -> Tensor:
        """The scores of a batch, float32 [n]."""
        arrays = unpack(packed, layout)
        batch = Batch(
            arrays["queries"], arrays["query mask"].bool(), arrays["query terms"], arrays["query idf"].float(),
            arrays["query"], arrays["places"], arrays, static, tokens,
        )  # fmt: skip
        table = self.features.tables(batch.queries, batch.query_mask)
        scores = []
        with in_precision(self.options):
            read = self.read(batch)
            for part in parts:
                terms = tokens.terms(batch.places[part.first : part.last], part.width)  # [n, N]
                ids = torch.where(terms >= 0, self.model_ids[terms.clamp_min(0)].long(), 0)  # [n, N]
                features = self.features(batch, table, part.first, part.last, terms, ids)  # [n, F]
                words = self.builder.document_words
                shown = PaddedWords(ids[:, :words], terms[:, :words], terms[:, :words] >= 0)
                scores.append(self.score(batch, read, part, shown, features).float())
        return torch.cat(scores)


class Graph:
    """The scoring of batches of one shape, recorded as a CUDA graph with both copies."""

    def __init__(
        self, path: DevicePath, packed: np.ndarray, layout: tuple, parts: tuple[DocumentRange, ...], *documents: Any
    ):
        self.packed = torch.from_numpy(packed.copy()).pin_memory()
        self.scores = torch.zeros(parts[-1].last, pin_memory=True)
        on_device = self.packed.to(path.device)
        stream = torch.cuda.Stream(path.device)
        stream.wait_stream(torch.cuda.current_stream(path.device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                path._compute(on_device, layout, parts, *documents)
        torch.cuda.current_stream(path.device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            on_device.copy_(self.packed, non_blocking=True)
            self.scores.copy_(path._compute(on_device, layout, parts, *documents), non_blocking=True)
        self.on_device = on_device

    def replay(self, packed: np.ndarray) -> np.ndarray:
        """The scores of a batch, float32 [n]."""
        self.packed.numpy()[:] = packed
        self.graph.replay()
        torch.cuda.current_stream(self.on_device.device).synchronize()
        return self.scores.numpy()


def round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def round_width(words: int) -> int:
    """A number of words, rounded up so that few widths occur."""
    step = WORDS_STEP
    while words > 8 * step:
        step *= 2
    return round_up(words, step)


def pack(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Arrays of numbers of 8 bytes as one, int64 [all numbers]."""
    return np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.int64) for array in arrays.values()])


def unpack(packed: Tensor, layout: tuple[tuple[str, tuple[int, ...], str], ...]) -> dict[str, Tensor]:
    """The arrays of :func:`pack` by name, with shapes and kinds as in ``layout``."""
    arrays = packed.split([int(np.prod(shape)) for _, shape, _ in layout])
    return {
        name: (array if kind == "i" else array.view(torch.float64)).view(shape)
        for (name, shape, kind), array in zip(layout, arrays)
    }


class EncodedOnDevice(ModulePath):
    """Scores candidates by the inner products of queries with their stored encodings, which are held on the device.

    The queries, a few words each, are encoded on the CPU: that takes less than to start the kernels of a layer.
    """

    of_index = False

    def __init__(self, path: EncodedDocuments, scorer: InnerProductScorer, device: str):
        self.scorer, self.vectors = scorer, vectors_on(path.store, device)

    @classmethod
    def open(cls, model: RankingModel, builder: InputBuilder, options: RerankerOptions) -> FastPath | ModulePath | None:
        """The path; that on the CPU for a model whose score is more than a product; None without stored encodings."""
        path = EncodedDocuments.open(model, builder, options.threads or available_threads())
        if path is None or not isinstance(path.scorer, InnerProductScorer):
            return path
        return cls(path, path.scorer, options.device)

    def score_many(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        encoded = np.stack([self.scorer.encode(task.terms, task.words) for task in tasks])
        counts = [len(task.candidates) for task in tasks]
        rows = np.concatenate([task.candidates.rows for task in tasks])
        query = np.repeat(np.arange(len(tasks)), counts)
        scores = self.vectors.scores(self.vectors.store.quantize(encoded), query, rows)
        return np.split(scores, np.cumsum(counts)[:-1])
