"""The rerankers to measure, each on its plain and its fast path.

A name without a checkpoint gets random weights at the sizes of its paper, saved and loaded like any other checkpoint:
speed does not depend on the weights.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.rows import FAST, PLAIN
from rerank_plugin.files.outputs import scratch_folder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models import register
from rerank_plugin.models.register import ModelEntry
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors

log = logging.getLogger(__name__)

DIMENSION = 200  # of the random word vectors
MOST_WORDS = 100_000  # size of a random model's vocabulary, the most frequent words of a collection
CHECKED = 2  # queries whose scores are compared between the paths
BATCH = 256  # documents encoded at once
SMALLEST_SCALE = 1e-3  # of the largest score, to which differences are relative


class MeasuredReranker(NamedTuple):
    """A reranker on its plain and fast path, or on the plain path alone if it has no other."""

    name: str
    paths: dict[str, rerankers.Scorer]
    largest_difference: float | None  # between the paths' scores, relative to the largest plain score
    checkpoint: Path | None = None  # its folder, if it has one
    spec: str = ""  # for `rerankers.load`

    @property
    def retrieves(self) -> bool:
        """Whether it supports dense search."""
        plain = self.paths[PLAIN]
        return self.checkpoint is not None and isinstance(plain, NeuralReranker) and plain.entry.has_inner_products


def measured_by_default() -> list[str]:
    """Names of the rerankers that get random weights, except unusable models of other packages."""
    names = [name for name, entry in rerankers.UNTRAINED.items() if entry.benched]
    for name in {*register.names(), *register.MODELS.installed()}:
        try:
            names += [name] if has_random_weights(name) else []
        except InputError as error:
            log.warning("left out %s: %s", name, error)
    return sorted(names)


def has_random_weights(name: str) -> bool:
    """Whether a name alone can be measured, with random weights or random word vectors.

    Raises:
        InputError: another package declares the name, but cannot be used.
    """
    if name in rerankers.UNTRAINED:
        return rerankers.UNTRAINED[name].reads_vectors
    entry = register.MODELS.find(name)
    return isinstance(entry, ModelEntry) and entry.bench is not None


def check_spec(spec: str) -> None:
    """Raise an `InputError` if there is no such reranker, it needs a checkpoint, or its checkpoint is missing."""
    name, _, rest = spec.partition(":")
    known = name in rerankers.known_names()
    if rest and known and name not in register.MODELS.installed() and not register.packaged_folder(rest).is_dir():
        raise InputError(f"{spec}: there is no checkpoint folder {rest}")
    if (rest and (known or "." in name)) or (spec and Path(spec).is_dir()):
        return
    if not known:
        raise InputError(
            f"unknown reranker '{spec}'; known: {', '.join(measured_by_default())} (with random weights), "
            "NAME:CHECKPOINT, a checkpoint folder, or package.module:Class"
        )
    if has_random_weights(name) or name in rerankers.UNTRAINED:
        return
    if name not in register.MODELS.installed() or isinstance(register.MODELS.find(name), ModelEntry):
        raise InputError(f"'{spec}' has no random weights: give NAME:CHECKPOINT")


@contextmanager
def open_measured(
    spec: str,
    collection: Collection,
    depth: int,
    options: rerankers.RerankerOptions,
    seed: int,
) -> Iterator[MeasuredReranker]:
    """Load a reranker on both of its paths and compare their scores, which also compiles the kernels.

    Args:
        options: options of the fast path; the plain path takes device, threads and batch size from them.

    Raises:
        InputError: the reranker cannot be used.
    """
    with ExitStack() as stack:
        loadable, forward = spec, collection.forward
        checkpoint = register.packaged_folder(spec.partition(":")[2] or spec)
        random = has_random_weights(spec)
        if random:
            folder = stack.enter_context(scratch_folder())
            checkpoint = random_weights(spec, forward, folder / "weights", seed)
            loadable = f"{spec}:{checkpoint}"
        plain = replace(options, fast=False, precision="float32", compile=False)
        paths = {PLAIN: rerankers.load(loadable, forward, plain)}
        if random:
            stack.enter_context(stored_encodings(paths[PLAIN], collection, depth, seed))
        if _has_two_paths(paths[PLAIN], options):
            paths[FAST] = rerankers.load(loadable, forward, options)
        difference = largest_difference(paths, collection, depth)
        yield MeasuredReranker(_label(spec), paths, difference, checkpoint if checkpoint.is_dir() else None, loadable)


def random_weights(name: str, index: ForwardIndex, folder: Path, seed: int) -> Path:
    """Write a checkpoint with random weights over the words of an index; word vectors alone for untrained rerankers."""
    import torch

    from rerank_plugin.models.checkpoint import save_checkpoint
    from rerank_plugin.text import word_vectors

    vectors = random_vectors(index, seed)
    if name in rerankers.UNTRAINED:
        word_vectors.save(vectors, folder, {"made_by": "bench, at random"})
        return folder
    entry = register.entry_of(name)
    torch.manual_seed(seed)
    config = entry.load("config")(**entry.bench or {})
    model = entry.load("module")(config, torch.from_numpy(vectors.matrix))
    save_checkpoint(folder, model, vectors, {"made_by": "bench, with random weights", "seed": seed})
    return folder


def random_vectors(index: ForwardIndex, seed: int) -> WordVectors:
    """Random vectors for the most frequent words of an index, without words of a single document."""
    frequency = index.document_frequency["text"].astype(np.int64)
    terms = np.argsort(-frequency, kind="stable")[:MOST_WORDS]
    words = index.terms.take(terms[frequency[terms] > 1])
    matrix = np.random.default_rng(seed).standard_normal((len(words) + 1, DIMENSION), dtype=np.float32)
    return WordVectors(Vocabulary(words, index.tokenizer.settings), matrix)


def _has_two_paths(reranker: rerankers.Scorer, options: rerankers.RerankerOptions) -> bool:
    """Whether the reranker has a plain and a fast path, as most models do."""
    if not isinstance(reranker, NeuralReranker):
        return False
    entry = reranker.entry
    return not options.on_fast_path or entry.load("fast", of_module=True) is not None or entry.encoder is not None


def _label(spec: str) -> str:
    """A short name for tables: the folder's name for a folder."""
    return Path(spec).name if spec not in rerankers.known_names() and Path(spec).is_dir() else spec


def largest_difference(paths: dict[str, rerankers.Scorer], collection: Collection, depth: int) -> float | None:
    """The largest difference of the paths' scores, over some queries, relative to a query's largest plain score."""
    if FAST not in paths:
        return None
    return relative_difference(
        [paths[path].score(query, collection.candidates(number, depth)) for path in (PLAIN, FAST)]
        for number, query in enumerate(collection.queries[:CHECKED])
    )


def relative_difference(scores: Iterable[Sequence[np.ndarray]]) -> float:
    """The largest difference of plain and fast scores, [C] each, relative to the largest plain score of their query."""
    largest = 0.0
    for plain, fast in scores:
        plain, fast = np.asarray(plain, np.float64), np.asarray(fast, np.float64)
        scale = max(np.abs(plain).max(initial=0.0), SMALLEST_SCALE)
        largest = max(largest, float(np.abs(plain - fast).max(initial=0.0)) / scale)
    return largest


@contextmanager
def stored_encodings(reranker, collection: Collection, depth: int, seed: int) -> Iterator[None]:
    """Write encodings of a neural reranker into the index, and remove them at the end.

    Nothing is written for a model without encodings.

    Encoding a million documents takes longer than all measurements, and times do not depend on the vectors' values. So
    only the top ``depth`` candidates of the compared queries are encoded; the other vectors are random.
    """
    from rerank_plugin.indexes.vector_store import encodings_folder
    from rerank_plugin.indexes.vector_store_writer import ListsConfig, Spills, write_store
    from rerank_plugin.models.encoded_path import encoding_scorer, weights_checksum

    encodes = isinstance(reranker, NeuralReranker) and reranker.entry.encoder is not None
    if not encodes:
        yield
        return
    model = reranker.module
    index, key = collection.forward, weights_checksum(model, reranker.builder.vocabulary)
    count = len(collection.queries[:CHECKED])
    rows = np.unique(np.concatenate([collection.candidates(number, depth).rows for number in range(count)]))
    folder = encodings_folder(index, key)
    try:
        spills = Spills(index, key, encoding_scorer(reranker.model, reranker.builder, 1).spaces)
        for spill, vectors in zip(spills, _chunks(spills, rows, _encode(reranker, rows), seed)):
            spills.keep(spill, vectors)
        write_store(spills, {"made_by": "bench"}, ListsConfig(floor=0), overwrite=True)  # random vectors have no lists
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _encode(reranker, rows: np.ndarray) -> np.ndarray:
    """Encodings of some documents, float32 [n, E]."""
    import torch

    from rerank_plugin.models.document_encoder import encode_batch

    builder, device = reranker.builder, reranker.options.device
    with torch.inference_mode():
        batches = (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))
        encoded = [encode_batch(reranker.module, builder, batch, builder.document_words, device) for batch in batches]
    return np.concatenate(encoded)


def _chunks(batches: Iterable[np.ndarray], rows: np.ndarray, encoded: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Vectors of the documents of each batch, float32 [n, E]: random except those of the sorted ``rows``."""
    random = np.random.default_rng(seed)
    for batch in batches:
        chunk = random.standard_normal((len(batch), encoded.shape[1]), dtype=np.float32)
        inside = slice(*np.searchsorted(rows, [batch[0], batch[-1] + 1]))
        chunk[rows[inside] - batch[0]] = encoded[inside]
        yield chunk
