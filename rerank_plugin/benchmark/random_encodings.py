"""Encodings for models that score from them (SevMos, KTRel), made where an index has none by random weights.

Encoding a million documents takes longer than all measurements together, and times do not depend on vectors' values.
So only the candidates of the first queries, on which the two paths' scores are compared, are encoded; the other vectors
are random.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from rerank_plugin.benchmark.collection import Collection

PIECE = 16_384  # vectors in memory at once
AT_ONCE = 256  # documents encoded at once


@contextmanager
def stored_encodings(
    reranker, collection: Collection, queries: int, depth: int, seed: int, always: bool = False
) -> Iterator[None]:
    """Write encodings for a neural reranker into the index, and remove them in the end; nothing where its model has
    none, or does not use them on its device.

    Args:
        queries, depth: the candidates that are encoded, rather than at random.
        always: also where its device does not use them.
    """
    from rerank_plugin.indexes.stored_encodings import encodings_folder, write_encodings
    from rerank_plugin.models.document_encodings import weights_checksum
    from rerank_plugin.models.ranking_model import EncodingModel
    from rerank_plugin.rerankers.neural import NeuralReranker

    encodes = isinstance(reranker, NeuralReranker) and isinstance(reranker.model, EncodingModel)
    if not encodes or not (reranker.on_cpu or always):
        yield
        return
    model = reranker.model
    index, key = collection.forward, weights_checksum(model, reranker.builder.vocabulary)
    count = min(queries, len(collection.queries))
    rows = np.unique(np.concatenate([collection.candidates(number, depth).rows for number in range(count)]))
    folder = encodings_folder(index, key)
    try:
        pieces = _pieces(len(index), rows, _encode(reranker, rows), seed)
        write_encodings(index, key, pieces, model.encoding_size, description={"made_by": "bench"}, overwrite=True)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _encode(reranker, rows: np.ndarray) -> np.ndarray:
    """Encodings of some documents, float32 [n, E]."""
    import torch

    from rerank_plugin.models.document_encodings import encode_batch

    builder, device = reranker.builder, reranker.options.device
    with torch.inference_mode():
        pieces = (rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE))
        encoded = [encode_batch(reranker.model, builder, piece, builder.document_words, device) for piece in pieces]
    return np.concatenate(encoded)


def _pieces(documents: int, rows: np.ndarray, encoded: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Vectors of all documents in order, float32 [n, E]: random but for ``rows``, which are sorted."""
    random = np.random.default_rng(seed)
    for start in range(0, documents, PIECE):
        stop = min(start + PIECE, documents)
        piece = random.standard_normal((stop - start, encoded.shape[1]), dtype=np.float32)
        inside = slice(*np.searchsorted(rows, [start, stop]))
        piece[rows[inside] - start] = encoded[inside]
        yield piece
