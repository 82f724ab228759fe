"""Encodes the documents of an index once, for rerankers that score from encodings, by the module of a model.

What scores from them is in :mod:`rerank_plugin.models.encoded_documents`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.stored_encodings import DTYPES, KeptPieces, write_encodings
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.models.encoded_documents import encodings_key
from rerank_plugin.models.ranking_model import EncodingModel, RankingModel
from rerank_plugin.models.register import MODELS

PIECE = 16_384  # documents that are sorted by length, held in memory at once and kept when encoding is interrupted
TEXT_PIECE = 256  # the same of a model that reads texts, which takes longer
CPU_BATCH, DEVICE_BATCH = 16, 512  # on a CPU, what lies between two layers should stay in its cache


def check_encodes(model: RankingModel) -> None:
    """An `InputError` if the model has no encodings."""
    if not isinstance(model, EncodingModel):
        known = ", ".join(entry.name for entry in MODELS.ours() if entry.encoder is not None and not entry.requires)
        raise InputError(
            f"the model '{model.name}' compares a document's words with the query's, so there is nothing to encode; "
            f"models that encode documents: {known}"
        )


def encode_index(
    model: RankingModel,
    builder: InputBuilder,
    device: str = "cpu",
    batch_size: int | None = None,
    dtype: str = "float32",
    description: dict | None = None,
    overwrite: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Path:
    """Encode all documents of the builder's index and keep the vectors in the index folder.

    What an interrupted call has encoded is not encoded again.

    Args:
        model: in eval mode, on ``device``.
        batch_size: how many documents are encoded at once; by default 16 on a CPU and 512 elsewhere.
        dtype: of the stored vectors: float32, or float16, which halves the file and keeps about three digits.
        description: further metadata to store, as JSON values.
        overwrite: replace encodings of this index by the same weights.
        progress: wraps the documents, for a progress bar.

    Returns:
        the folder with the vectors.

    Raises:
        InputError: the model has no encodings, they exist already, or there is not enough memory.
    """
    check_encodes(model)
    if dtype not in DTYPES:
        raise InputError(f"encodings are kept as {' or '.join(DTYPES)}, not {dtype}")

    checksum = encodings_key(builder.index, model, builder.vocabulary)
    kept = KeptPieces(builder.index, checksum)

    def pieces() -> Iterator[np.ndarray]:
        documents, piece = len(builder.index), TEXT_PIECE if model.reads_texts else PIECE
        done = iter(progress(range(documents)))
        for start in range(0, documents, piece):
            rows = np.arange(start, min(start + piece, documents))
            vectors = kept.find(rows, model.encoding_size)
            if vectors is None:
                vectors = encode_rows(model, builder, rows, device, batch_size, done)
                kept.keep(rows, vectors)
            else:
                deque(islice(done, len(rows)), maxlen=0)
            yield vectors
        next(done, None)  # ends the progress bar

    metadata = {"model": model.name, **(description or {})}
    folder = write_encodings(builder.index, checksum, pieces(), model.encoding_size, dtype, metadata, overwrite)
    kept.remove()
    return folder


@torch.inference_mode()
def encode_rows(
    model: EncodingModel,
    builder: InputBuilder,
    rows: np.ndarray,
    device: str = "cpu",
    batch_size: int | None = None,
    done: Iterator[int] = iter(()),
) -> np.ndarray:
    """Encodings of documents ``rows`` int64 [n], float32 [n, E], in batches of similar lengths.

    Args:
        batch_size: by default 16 on a CPU and 512 elsewhere.
        done: an iterator that is advanced once for each document, for progress bars.
    """
    batch_size = batch_size or (CPU_BATCH if device == "cpu" else DEVICE_BATCH)
    lengths = Candidates(builder.index, rows, np.zeros(len(rows), np.float32)).lengths
    vectors = np.empty((len(rows), model.encoding_size), np.float32)
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(rows), batch_size):
        batch = order[first : first + batch_size]
        longest = max(1, min(int(lengths[batch[-1]]), builder.document_words))
        vectors[batch] = encode_batch(model, builder, rows[batch], longest, device)
        deque(islice(done, len(batch)), maxlen=0)
    return vectors


def encode_batch(
    model: EncodingModel, builder: InputBuilder, rows: np.ndarray, longest: int, device: str
) -> np.ndarray:
    """Encodings float32 [B, E] of some rows of the index, none of which has more than ``longest`` words to read."""
    try:
        # Tensor cores round a convolution's inputs to ten bits: scores would differ in the third digit.
        with torch.backends.cudnn.flags(allow_tf32=False):
            if model.reads_texts:
                return model.encode_texts(builder.stored(rows))
            return model.encode_documents(*_words(builder, rows, longest, device)).float().cpu().numpy()
    except torch.OutOfMemoryError:
        raise InputError(f"{len(rows)} documents do not fit into {device}'s memory: lower the batch size") from None


def _words(builder: InputBuilder, rows: np.ndarray, longest: int, device: str) -> list[torch.Tensor]:
    """The words of documents, int64 and bool [B, longest], and their concepts, if the model reads them."""
    words = builder.documents(Candidates(builder.index, rows, np.zeros(len(rows), np.float32)))
    parts = [words.ids[:, :longest], words.mask[:, :longest]]
    if words.concepts is not None:
        most = max(1, int(words.concept_mask.sum(axis=1).max()))
        parts += [words.concepts[:, :most], words.concept_mask[:, :most]]
    return [torch.from_numpy(part.copy()).to(device) for part in parts]
