"""The rerankers to measure, each on its plain and its fast path.

A name without a checkpoint gets random weights at the sizes of its paper, saved and loaded like any other checkpoint:
speed does not depend on the weights, and so needs no training.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np

from rerank_plugin import rerankers
from rerank_plugin.benchmark.collection import Collection
from rerank_plugin.benchmark.random_encodings import stored_encodings
from rerank_plugin.benchmark.rows import FAST, PLAIN
from rerank_plugin.features.lexical_features import LEX3
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import scratch_folder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.retrieval.dense import has_inner_products
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors

DIMENSION = 200  # of the random word vectors
MOST_WORDS = 100_000  # the most frequent ones of a collection that a model knows
CHECKED = 2  # queries whose scores are compared between the paths
SMALLEST_SCALE = 1e-3  # differences are relative to the largest score, or to this

# Known names and what differs from the defaults of their configurations; the others take them as they are.
RANDOM_WEIGHTS: dict[str, dict] = {
    "delta": {"lexical_features": LEX3},  # Delta-32-Lex3
    "delta-classifier": {},
    "pacrr": {},  # PACRR-firstk
    "knrm": {},
    "conv-knrm": {},
    "drmm": {},
    "duet": {},
    "matchpyramid": {},
    "sevmos": {"convolutions": 3},  # SevMos-C3
    "ktrel-w": {},
    "wmd-title": {},
}
WORD_VECTORS_ONLY = ("wmd-title", "wmd-title-nostop", "wmd-title-top20")
NOTHING_TO_LOAD = ("bm25-abstract", "bm25-text", "bm25-title", "docid", "qld-title")  # and one path


class Subject(NamedTuple):
    """A reranker on its paths: {plain: Reranker, fast: Reranker}, or the plain one alone where there is no choice.

    Attributes:
        largest_difference: between the paths' scores, relative to the largest plain score.
        checkpoint: its folder, where it has one.
    """

    name: str
    paths: dict[str, rerankers.Reranker]
    largest_difference: float | None
    checkpoint: Path | None = None

    @property
    def retrieves(self) -> bool:
        """Whether dense search works with it."""
        model = getattr(self.paths[PLAIN], "model", None)
        return self.checkpoint is not None and model is not None and has_inner_products(model.name)


def check_spec(spec: str) -> None:
    """
    Raises:
        InputError: no reranker of this name, or one that needs a checkpoint, or whose checkpoint is missing.
    """
    name, _, rest = spec.partition(":")
    if rest and name in rerankers.BUILT_IN and not Path(rest).is_dir():
        raise InputError(f"{spec}: there is no checkpoint folder {rest}")
    if (
        spec in RANDOM_WEIGHTS
        or spec in NOTHING_TO_LOAD
        or (spec and Path(spec).is_dir())
        or (rest and (name in rerankers.known_names() or "." in name))
    ):
        return
    if name in rerankers.known_names():
        raise InputError(f"'{spec}' has no random weights here: give it as NAME:CHECKPOINT")
    raise InputError(
        f"unknown reranker '{spec}'; known: {', '.join(RANDOM_WEIGHTS)} (with random weights), NAME:CHECKPOINT, "
        "a checkpoint folder, or package.module:Class"
    )


@contextmanager
def opened(
    spec: str,
    collection: Collection,
    depth: int,
    options: rerankers.RerankerOptions,
    seed: int,
    encoded: bool = False,
) -> Iterator[Subject]:
    """Load a reranker on both of its paths and compare their scores, which also compiles what is to be compiled.

    Args:
        options: of the fast path; the plain one takes device, threads and batch size from them.
        encoded: whether the collection's encodings are there in any case, also where the fast path does not use them.

    Raises:
        InputError: it cannot be used.
    """
    with ExitStack() as stack:
        loadable, forward, checkpoint = spec, collection.forward, Path(spec.partition(":")[2] or spec)
        if spec in RANDOM_WEIGHTS:
            folder = stack.enter_context(scratch_folder())
            checkpoint = random_weights(spec, forward, folder / "weights", seed)
            loadable = f"{spec}:{checkpoint}"
        plain = replace(options, fast=False, precision="float32", compile=False)
        paths = {PLAIN: rerankers.load(loadable, forward, plain)}
        if spec in RANDOM_WEIGHTS:
            stack.enter_context(stored_encodings(paths[PLAIN], collection, CHECKED, depth, seed, encoded))
        if _takes_options(spec):
            paths[FAST] = rerankers.load(loadable, forward, options)
        difference = largest_difference(paths, collection, depth)
        yield Subject(_label(spec), paths, difference, checkpoint if checkpoint.is_dir() else None)


def random_weights(name: str, index: ForwardIndex, folder: Path, seed: int) -> Path:
    """Write a checkpoint with random weights over the words of an index, or its word vectors where they are all."""
    import torch

    from rerank_plugin.models import checkpoints
    from rerank_plugin.text import word_vectors

    vectors = random_vectors(index, seed)
    if name in WORD_VECTORS_ONLY:
        word_vectors.save(vectors, folder, {"made_by": "bench, at random"})
        return folder
    model_class, config_class = checkpoints.model_classes(name)
    torch.manual_seed(seed)
    model = model_class(config_class(**RANDOM_WEIGHTS[name]), torch.from_numpy(vectors.matrix))
    checkpoints.save_checkpoint(folder, model, vectors, {"made_by": "bench, with random weights", "seed": seed})
    return folder


def random_vectors(index: ForwardIndex, seed: int) -> WordVectors:
    """Random vectors for the most frequent words of an index, leaving out those of a single document."""
    frequency = index.document_frequency["text"].astype(np.int64)
    terms = np.argsort(-frequency, kind="stable")[:MOST_WORDS]
    words = index.terms.take(terms[frequency[terms] > 1])
    matrix = np.random.default_rng(seed).standard_normal((len(words) + 1, DIMENSION), dtype=np.float32)
    return WordVectors(Vocabulary(words, index.tokenizer.settings), matrix)


def _takes_options(spec: str) -> bool:
    """Whether it can have two paths: a ``package.module:Class`` is called with the index alone."""
    name = spec.partition(":")[0]
    return (name in rerankers.known_names() and name not in NOTHING_TO_LOAD) or Path(spec).is_dir()


def _label(spec: str) -> str:
    """A short name for tables: that of the folder, where a folder alone was given."""
    return Path(spec).name if Path(spec).is_dir() and spec not in RANDOM_WEIGHTS else spec


def largest_difference(paths: dict[str, rerankers.Reranker], collection: Collection, depth: int) -> float | None:
    """Between the paths' scores of the first queries, relative to the largest plain score of each."""
    if FAST not in paths:
        return None
    differences = [0.0]
    for number, query in enumerate(collection.queries[:CHECKED]):
        plain, fast = (
            np.asarray(paths[path].score(query, collection.candidates(number, depth)), np.float64)
            for path in (PLAIN, FAST)
        )
        scale = max(np.abs(plain).max(initial=0.0), SMALLEST_SCALE)
        differences.append(float(np.abs(plain - fast).max(initial=0.0)) / scale)
    return max(differences)
