"""The public function that updates an index, and its parts, with the models that encode added documents."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora import Problems
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes import updating
from rerank_plugin.indexes.corpus_index import records_of
from rerank_plugin.indexes.derived import DocumentEncoder, Renumbered, carry_judged, stores
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.layout import ADAPTED, derived_folder
from rerank_plugin.indexes.updating import UpdateReport
from rerank_plugin.indexes.vector_store import ENCODER, SOURCE, encode_command
from rerank_plugin.indexes.vector_store_writer import divide_again, lists_config

log = logging.getLogger(__name__)


def update_index(
    index: str | Path | Index,
    *,
    delete: Iterable[str] = (),
    add: str | Path | Iterable[Document] = (),
    merge: bool = False,
    adapt: bool = False,
    threads: int | None = None,
) -> Index:
    """Delete documents from an index, add documents, and merge, in this order; opens the index as it is then.

    Each of the three is one commit, which appears when everything of it is written. Indexes and searchers that are
    open keep theirs. Added documents are encoded by every model that the index holds encodings of.

    Args:
        index: the index folder, or an index that is open, which does not change.
        delete: ids of documents.
        add: as in `build_index`. A document whose id the index holds replaces the older one.
        merge: remove deleted documents for good, so that the index equals a new one of the documents that are left.
        adapt: with ``merge``, adapt the bundled encoder to the documents anew, and encode them all.
        threads: of annotation and encoding; by default the number of CPU cores.

    Raises:
        InputError: the index is missing, damaged, of another version, or beside a Lucene index of another program; it
            is being updated by another process; it has no document with an id to delete, or no other documents;
            ``adapt`` without ``merge``, or without encodings by ``ktrel``; or as in `build_index`.
    """
    folder = index.folder if isinstance(index, Index) else Path(index)
    if adapt and not merge:
        raise InputError("an encoder is adapted anew by a merge: give merge, too")
    if ids := _ids(delete):
        updating.delete(folder, ids)
    if isinstance(add, (str, os.PathLike)) or not isinstance(add, Sized) or len(add):
        problems = Problems()
        records, source = records_of(add, problems)
        added = add_documents(folder, records, source, problems, threads)
        for line in [*problems.summary(), *added.notes()]:
            log.warning("%s", line)
    if merge:
        merge_index(folder, adapt, threads=threads)
    return Index(folder)


def _ids(delete: Iterable[str]) -> list[str]:
    """The ids of a list; an `InputError` for one text, whose letters would be ids, or for other values."""
    ids = list(delete)
    if isinstance(delete, (str, bytes)) or not all(isinstance(id, str) for id in ids):
        raise InputError(f"ids to delete are a list of texts, not {delete!r:.80}")
    return ids


def add_documents(
    folder: str | Path,
    documents: Iterable[Document],
    source: str,
    problems: Problems,
    threads: int | None = None,
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
    device: str = "cpu",
    batch_size: int | None = None,
    applied: Mapping[str, Any] | None = None,
    merge_small: bool = True,
) -> UpdateReport:
    """Add documents to an index as :func:`rerank_plugin.indexes.updating.add` does, with their encodings.

    Args:
        device, batch_size: of encoding, as in :class:`~rerank_plugin.encoding.index_encoder.IndexEncoder`.
    """

    def open_encoder(index: ForwardIndex, store: Path, description: dict) -> DocumentEncoder:
        checkpoint = derived_folder(index, ADAPTED) if SOURCE in description else description.get("checkpoint", "")
        encoder = IndexEncoder(index, checkpoint, device)
        if encoder.key != store.name:
            raise InputError(f"{checkpoint} has other weights now")
        return encoder.encoder(batch_size, threads)

    return updating.add(folder, documents, source, problems, open_encoder, threads, progress, applied, merge_small)


def merge_index(
    folder: str | Path,
    adapt: bool = False,
    progress: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]] = iter,
    threads: int | None = None,
    seed: int = 42,
    device: str = "cpu",
    batch_size: int | None = None,
    encoding: Callable[[ForwardIndex], dict[str, Any]] = lambda index: {},
) -> UpdateReport:
    """Merge an index as :func:`rerank_plugin.indexes.updating.merge` does.

    Args:
        adapt: adapt the bundled encoder to the documents that are left, and encode them by it, in inverted lists of
            their own, as a new index is encoded. Vectors by other models are divided into new lists.
        seed: of the adaptation and of the lists. device, batch_size: of encoding.
        encoding: the progress bars of adapting and encoding, ``{"adapting": ..., "encoding": ...}``.

    Raises:
        InputError: the index holds no encodings by the bundled encoder to adapt.
    """
    if not adapt:
        return updating.merge(folder, progress)
    index = Index(folder)
    if not any(map(_is_bundled, (description for _, description in stores(index.forward)))):
        raise InputError(f"{folder} holds no encodings by {ENCODER} to adapt: {encode_command(index, ENCODER)}")
    index.close()

    def encode_anew(before: ForwardIndex, after: ForwardIndex, renumbered: Renumbered | None = None) -> None:
        carry_judged(before, after, renumbered)
        rows, bars, encoded = before.live_rows, encoding(after), False
        for store, description in stores(before, whole=True):
            if not _is_bundled(description):
                divide_again(store, before, rows, after, seed, threads)
            elif not encoded:
                encoder = IndexEncoder(after, ENCODER, device)
                if encoder.adapts:
                    encoder = encoder.adapted(seed, progress=bars.get("adapting", iter))
                lists = lists_config(description, after, seed)
                encoder.encode(batch_size, progress=bars.get("encoding", iter), lists=lists, threads=threads)
                encoded = True  # an index may be encoded by ktrel as it is and as adapted

    return updating.merge(folder, progress, encode_anew)


def _is_bundled(description: dict) -> bool:
    """Whether a store is of the bundled encoder, as it is or adapted."""
    return SOURCE in description or description.get("checkpoint") == ENCODER
