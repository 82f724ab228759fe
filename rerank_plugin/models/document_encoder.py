"""Encodes the documents of an index once, for rerankers that score from encodings.

Their vectors come from the model's module, or from a compiled sum of word vectors where the model is one. What scores
from them is in :mod:`rerank_plugin.models.encoded_path`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import check_free
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import gathered_words
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.indexes.term_ids import TermIds
from rerank_plugin.indexes.vector_store import VECTOR_STORE, encodings_folder
from rerank_plugin.indexes.vector_store_writer import ListsConfig, Spills, write_store
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.inputs.text_builder import TextBuilder
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import Codes
from rerank_plugin.models.encoded_path import encoding_scorer, weights_checksum
from rerank_plugin.models.ranking_model import EncodingModel, RankingModel
from rerank_plugin.models.register import MODELS

SPILL = 16_384  # documents that are sorted by length, held in memory at once and kept when encoding is interrupted
TEXT_SPILL = 256  # the same of a model that reads texts, which takes longer
CPU_BATCH, DEVICE_BATCH = 16, 512  # on a CPU, what lies between two layers should stay in its cache


EncodedBatch = tuple[np.ndarray, Codes]  # rows int64 [n], and their codes


def check_encodes(model: RankingModel) -> None:
    """An `InputError` if the model has no encodings."""
    if not isinstance(model, EncodingModel):
        known = ", ".join(entry.name for entry in MODELS.built_in() if entry.encoder is not None and not entry.requires)
        raise InputError(
            f"the model '{model.name}' compares a document's words with the query's, so there is nothing to encode; "
            f"models that encode documents: {known}"
        )


def encode_index(
    model: RankingModel,
    builder: InputBuilder,
    device: str = "cpu",
    batch_size: int | None = None,
    description: dict | None = None,
    overwrite: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    lists: ListsConfig = ListsConfig(),
    threads: int | None = None,
    encode_batches: Callable[[Iterable[np.ndarray]], Iterable[EncodedBatch]] | None = None,
) -> Path:
    """Encode all documents of the builder's index, and write the store of their vectors in the index folder.

    Documents that an interrupted call has encoded are not encoded again.

    Args:
        model: in eval mode, on ``device``.
        batch_size: how many documents are encoded at once; by default 16 on a CPU and 512 elsewhere.
        description: further metadata to store, as JSON values.
        overwrite: replace encodings of this index by the same weights.
        progress: wraps the documents, for a progress bar.
        threads: by default all available.
        encode_batches: encodes batches of rows int64 [n] by the same model, and gives them in their order; None encodes
            them here.

    Returns:
        the folder of the store.

    Raises:
        InputError: the model has no encodings, they exist already, or are not finite; there is not enough memory; or as
            :func:`rerank_plugin.indexes.vector_store_writer.write_store`.
    """
    check_encodes(model)
    index, key = builder.index, weights_checksum(model, builder.vocabulary)
    spaces = encoding_scorer(model, builder, 1).spaces
    spills = Spills(index, key, spaces, TEXT_SPILL if model.reads_texts else SPILL)
    check_free(encodings_folder(index, key), VECTOR_STORE, overwrite)
    done = iter(progress(range(len(index))))

    def lacking() -> Iterator[np.ndarray]:
        for rows in spills:
            if not spills.has(rows):
                yield rows
            else:
                deque(islice(done, len(rows)), maxlen=0)

    if encode_batches is None:
        encode = document_encoder(model, builder, device, batch_size, threads)
        for rows in lacking():
            spills.keep(rows, encode(rows, done))
    else:
        for rows, codes in encode_batches(lacking()):
            spills.keep_codes(rows, codes)
            deque(islice(done, len(rows)), maxlen=0)
    next(done, None)  # ends the progress bar
    return write_store(spills, {"model": model.name, **(description or {})}, lists, overwrite, threads)


def unknown_words(builder: InputBuilder, rows: np.ndarray) -> tuple[int, int]:
    """The number of words of documents that a model does not know by themselves, and of all, by rows int64 [n]."""
    index, known = builder.index, TermIds(builder.index, builder.vocabulary, by_hash=False).array > 0
    unknown, words = 0, 0
    for some in chunks(rows, SPILL):
        tokens = gathered_words(index, some).tokens
        unknown, words = unknown + len(tokens) - int(known[tokens].sum()), words + len(tokens)
    return unknown, words


def document_encoder(
    model: EncodingModel,
    builder: InputBuilder,
    device: str = "cpu",
    batch_size: int | None = None,
    threads: int | None = None,
) -> Callable[..., np.ndarray]:
    """A function that encodes documents by their rows as :func:`encode_rows` does, with its argument ``done``.

    It is the model's compiled sum of word vectors, or its module.
    """
    sums = model.vector_sums(builder)
    if sums is None:
        return partial(encode_rows, model, builder, device=device, batch_size=batch_size)

    def encode(rows: np.ndarray, done: Iterator[int] = iter(())) -> np.ndarray:
        vectors = sums.encode(*builder.index.words(rows), threads or available_threads())
        deque(islice(done, len(rows)), maxlen=0)
        return vectors

    return encode


@torch.inference_mode()
def encode_rows(
    model: EncodingModel,
    builder: InputBuilder,
    rows: np.ndarray,
    done: Iterator[int] = iter(()),
    device: str = "cpu",
    batch_size: int | None = None,
) -> np.ndarray:
    """Encodings of documents ``rows`` int64 [n], float32 [n, E], in batches of similar lengths.

    Args:
        done: an iterator that is advanced once for each document, for progress bars.
        batch_size: by default 16 on a CPU and 512 elsewhere.
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
                assert isinstance(builder, TextBuilder), "the model's own"
                return model.encode_texts(builder.stored(rows))
            return model.encode_documents(*_words(builder, rows, longest, device)).float().cpu().numpy()
    except torch.OutOfMemoryError:
        raise InputError(f"{len(rows)} documents do not fit into {device}'s memory: lower the batch size") from None


def _words(builder: InputBuilder, rows: np.ndarray, longest: int, device: str) -> list[torch.Tensor]:
    """The words of documents, int64 and bool [B, longest], and their concepts, if the model reads them."""
    words = builder.documents(Candidates(builder.index, rows, np.zeros(len(rows), np.float32)))
    parts = [words.ids[:, :longest], words.mask[:, :longest]]
    if words.concepts is not None and words.concept_mask is not None:
        most = max(1, int(words.concept_mask.sum(axis=1).max()))
        parts += [words.concepts[:, :most], words.concept_mask[:, :most]]
    return [torch.from_numpy(part.copy()).to(device) for part in parts]
