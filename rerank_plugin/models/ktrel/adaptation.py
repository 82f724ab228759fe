"""Adapts KTRel without a layer, as the bundled encoder is, to a collection: words get vectors of their contexts.

What a word means in a collection is what the documents that hold it are about. So each word gets a second vector,
the mean of the encodings of its documents times the word's IDF, and documents are encoded again as sums of those:
reflective random indexing (Cohen, Schvaneveldt and Widdows, Journal of Biomedical Informatics 43(2), 2010), which here
starts from a trained encoder and not from random vectors. After each of the two rounds the space is turned and
stretched so that all its directions matter alike for the documents; many rounds would end in latent semantic indexing.
The encoder's own space and the new one stand side by side (``space_weights`` of
:class:`~rerank_plugin.models.ktrel.config.KtrelConfig`).

Nothing is learned from judgments or queries. Letters in shapes: n documents, V vocabulary, D dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.forward import ForwardIndex, idf
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.encoded_path import weights_checksum
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.text.word_vectors import WordVectors, compact, with_words

SOURCE = "source"  # checksum of the encoder that was adapted
ROUNDS = 2
DOCUMENTS = 100_000  # of a larger collection so many are drawn
FEWEST = 500  # documents that have contexts to learn from
NEW_WORDS, SMALLEST_COUNT = 100_000, 3  # words of the collection that the encoder does not know: the most frequent
BATCH = 16_384  # documents that are read at once
SMALLEST = 1e-7  # share of the documents' length that a direction needs


def adapt(
    index: ForwardIndex,
    encoder: Path,
    output: Path,
    seed: int,
    weight: float = 1.0,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> None:
    """Write the encoder of a checkpoint, adapted to an index, as a checkpoint, atomically.

    Args:
        weight: of the new space; the encoder's own has 1.
        progress: wraps the iteration over batches of documents, for a progress bar.

    Raises:
        InputError: the checkpoint is no KTRel of words whose vectors are summed as they are, or is adapted already; the
            index has fewer than `FEWEST` documents, or was tokenized otherwise.
    """
    checkpoint = Checkpoint.open(encoder)
    model, vocabulary = checkpoint.module(), checkpoint.vocabulary
    if (
        not isinstance(model, Ktrel)
        or model.words is None
        or model.concepts
        or model.config.layers
        or len(model.config.space_weights) > 1
    ):
        raise InputError(f"{encoder} cannot be adapted: only a KTRel of words with layers=0 can, and once")
    if index.documents < FEWEST:
        raise InputError(f"{index.folder} has fewer than the {FEWEST} documents that an encoder is adapted to")
    config = replace(model.config, fixed_words=True, unit_vectors=False, space_weights=(1.0, weight))
    vectors = with_words_of(index, WordVectors(vocabulary, model.words.embeddings.detach().numpy()))
    builder = model.input_builder(index, vectors.vocabulary)
    rows = index.live_rows
    if len(rows) > DOCUMENTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, DOCUMENTS, replace=False))
    counts = []
    for start in progress(range(0, len(rows), BATCH)):
        some = rows[start : start + BATCH]
        words = builder.documents(Candidates(index, some, np.zeros(len(some), np.float32)))
        counts.append(_counts(words.ids, words.mask, len(vectors.vocabulary)))
    counts = sparse.vstack(counts, format="csr")
    known = np.flatnonzero(counts.sum(axis=0))  # the others have no contexts, and would take most of the memory
    contexts = np.zeros_like(vectors.matrix)
    if len(known):
        contexts[known] = context_vectors(counts[:, known], vectors.matrix[known])
    small = compact(WordVectors(vectors.vocabulary, np.hstack([vectors.matrix, contexts])))
    adapted = Ktrel(config, torch.from_numpy(small.matrix))
    adapted.a.data = model.a.data
    description = {"documents": len(rows), "rounds": ROUNDS, "seed": seed, SOURCE: weights_checksum(model, vocabulary)}
    save_checkpoint(output, adapted, small, {"adapted": description}, statistics=CollectionStatistics.of_index(index))


def source_of(folder: Path) -> str | None:
    """The checksum of the weights of the encoder that a checkpoint was adapted from; None if it is not adapted."""
    return Checkpoint.open(folder).description.get("adapted", {}).get(SOURCE)


def with_words_of(index: ForwardIndex, vectors: WordVectors) -> WordVectors:
    """The vectors, and those that an index's frequent words that are not among them have by their hashes."""
    frequency = np.asarray(index.document_frequency["text"])
    frequent = np.flatnonzero(frequency >= SMALLEST_COUNT)
    names = dict(zip(index.terms.take(frequent), frequency[frequent].tolist()))
    new = sorted((word for word in names if word not in vectors.vocabulary), key=lambda word: (-names[word], word))
    new = new[:NEW_WORDS] if vectors.vocabulary.hashed else []
    return with_words(vectors, new, vectors.matrix[vectors.vocabulary.lookup(new)])


def context_vectors(counts: sparse.csr_array, vectors: np.ndarray) -> np.ndarray:
    """Vectors of the words' contexts, float32 [V, D].

    Args:
        counts: how often each document holds each word, float32 [n, V]; each word is in some document.
        vectors: the encoder's, float32 [V, D].
    """
    held = counts.copy()
    held.data[:] = 1
    frequency = np.asarray(held.sum(axis=0)).ravel()  # [V]
    weights = (idf(frequency, counts.shape[0]) / frequency).astype(np.float32)
    contexts = vectors
    for _ in range(ROUNDS):
        contexts = weights[:, None] * (held.T @ _units(counts @ contexts))
        documents = _units(counts @ contexts).astype(np.float64)
        sizes, directions = np.linalg.eigh(documents.T @ documents / len(documents))
        contexts = contexts @ (directions / np.sqrt(np.maximum(sizes, SMALLEST))).astype(np.float32)
    lengths = [np.linalg.norm(some, axis=1).mean() for some in (vectors, contexts)]
    return contexts * np.float32(
        lengths[0] / max(lengths[1], SMALLEST)
    )  # of like length, as both share a word's 8-bit scale


def _counts(ids: np.ndarray, mask: np.ndarray, size: int) -> sparse.csr_array:
    """How often each document holds each word, float32 [n, size], by its ids int64 and mask bool [n, N]."""
    documents, words = np.repeat(np.arange(len(ids)), mask.sum(axis=1)), ids[mask]
    known = words > 0
    ones = np.ones(int(known.sum()), np.float32)
    return sparse.csr_array((ones, (documents[known], words[known])), shape=(len(ids), size))


def _units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
