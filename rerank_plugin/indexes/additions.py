"""What an update of an index does with its additions: encodings, judged queries and the adapted encoder.

Each generation has folders of its own for them (:mod:`rerank_plugin.indexes.index_folder`). An update writes those of
the next generation before it becomes the current one, so a reader of either finds what belongs to it.

Documents are encoded by models, which the layers above know: they are given as functions.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import MARK, link_or_copy
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import ADAPTED, ADDITIONS, ENCODINGS, JUDGED, addition
from rerank_plugin.indexes.judged_queries import read_judged
from rerank_plugin.indexes.sharded_store import divide_store
from rerank_plugin.indexes.sharding import ShardedForward
from rerank_plugin.indexes.vector_store import again, check_arrays, read_description
from rerank_plugin.indexes.vector_store_writer import PIECES, append_to_store, copy_store, quantized_vectors
from rerank_plugin.kernels.quantization import Codes, Spaces

log = logging.getLogger(__name__)

DRIFT = "drift"  # in the description of a store: what the encoder knew of the documents it was adapted to, and since
MOST_ADDED = 0.1  # documents added since the encoder was adapted, as a share of those it was adapted to
MORE_UNKNOWN = 2.0  # words of theirs that it does not know, as a multiple of the share of those it was adapted to
FEWEST_WORDS = 10_000  # of added documents, by which the share is told

Carry = Callable[[ForwardIndex, ForwardIndex], None]  # writes the additions of a generation from the one before


class Encoder(NamedTuple):
    """A model that encodes documents of an index, given by their rows int64 [n].

    Attributes:
        encode: their vectors float32 [n, E].
        unknown_words: of consecutive rows, the number of words that the encoder does not know, and of all words.
    """

    encode: Callable[[np.ndarray], np.ndarray]
    unknown_words: Callable[[np.ndarray], tuple[int, int]]


# Of the index, and of the folder and the description of a store of the generation before; an InputError without it.
OpenEncoder = Callable[[ForwardIndex, Path, dict], Encoder]


def carry(before: ForwardIndex, after: ForwardIndex) -> None:
    """Give the next generation all additions as they are, after documents were deleted, which keep their rows."""
    for name in ADDITIONS:
        _link(addition(before, name), addition(after, name))


def carry_added(before: ForwardIndex, after: ForwardIndex, open_encoder: OpenEncoder, threads: int | None) -> None:
    """Give the next generation the additions after documents were added: these are encoded by each model.

    Encodings by a model that cannot be opened any more are left behind, which is logged.
    """
    _link(addition(before, ADAPTED), addition(after, ADAPTED))
    for folder, described in stores(before):
        try:
            encoder = open_encoder(after, folder, described)
        except InputError as error:
            log.warning("%s: new documents cannot be encoded, %s; %s", folder, error, again(after, described))
            continue
        drift = _drift(described, after, encoder)
        target = addition(after, ENCODINGS) / folder.name
        codes = partial(_codes, after, encoder, Spaces(described["spaces"]))
        append_to_store(folder, target, after, codes, {DRIFT: drift} if drift else None, threads)
    live = after.live
    for folder in _folders(addition(before, JUDGED)):
        if (read := _judged(folder, before)) is None:
            continue
        judged, sources = read
        rows = judged.rows.astype(np.int64)
        if live is not None:
            gone = np.flatnonzero(~live[rows])
            found = after.rows(before.ids.take(rows[gone])) if len(gone) else rows[:0]
            rows[gone] = np.where(found >= 0, found, rows[gone])
        judged.moved(rows).write(_made(addition(after, JUDGED) / folder.name), after, sources)


def _codes(index: ForwardIndex, encoder: Encoder, spaces: Spaces, rows: np.ndarray) -> Codes:
    return quantized_vectors(index, rows, encoder.encode(rows), spaces)


def carry_merged(before: ForwardIndex, after: ForwardIndex, encoded: bool = True) -> None:
    """Give the next generation the additions after a merge; without ``encoded``, judged queries alone."""
    rows = before.live_rows
    if encoded:
        _link(addition(before, ADAPTED), addition(after, ADAPTED))
        for folder, _ in stores(before, whole=True):
            copy_store(folder, addition(after, ENCODINGS) / folder.name, rows, after)
    for folder in _folders(addition(before, JUDGED)):
        if (read := _judged(folder, before)) is None:
            continue
        judged, sources = read
        old = judged.of_live(before)
        if len(old.vectors):
            moved = old.moved(np.searchsorted(rows, old.rows))
            moved.write(_made(addition(after, JUDGED) / folder.name), after, sources)


def carry_to_shards(
    before: ShardedForward, after: ShardedForward, anew: bool = False, threads: int | None = None
) -> None:
    """Give the shards of the next generation their parts of its stores.

    Args:
        anew: after a merge or an adaptation; otherwise the parts of the generation before are appended to.
    """
    for folder, _ in stores(after):
        divide_store(after, folder.name, threads, None if anew else before)


def stores(index: ForwardIndex, whole: bool = False) -> Iterator[tuple[Path, dict]]:
    """The folder and the description of each sound store that an index has; others are logged.

    Args:
        whole: compare all bytes of the arrays, which are about to be copied.
    """
    for folder in _folders(addition(index, ENCODINGS)):
        if folder.name.endswith(PIECES):
            continue
        try:
            described = read_description(folder, index)
            if described is not None:
                check_arrays(folder, index, described, whole)
        except InputError as error:
            log.warning("left behind: %s", error)
        else:
            if described is not None:
                yield folder, described


def _judged(folder: Path, index: ForwardIndex):
    try:
        return read_judged(folder, index, None, "keep judged queries again")
    except InputError as error:
        log.warning("left behind: %s", error)
        return None


def _drift(described: dict, index: ForwardIndex, encoder: Encoder) -> dict | None:
    """What a store says of the documents that were added since its encoder was adapted; logs what is too much."""
    if (drift := described.get(DRIFT)) is None:
        return None
    unknown, words = encoder.unknown_words(np.arange(described["documents"], len(index)))
    since = drift["since"]
    since = {
        "documents": since["documents"] + len(index) - described["documents"],
        "unknown": since["unknown"] + unknown,
        "words": since["words"] + words,
    }
    cure = f"adapt it anew with: rerank-plugin index --index {index.folder} --merge --adapt"
    if since["documents"] > MOST_ADDED * drift["documents"]:
        log.warning(
            "%s: %s documents were added since the encoder was adapted to %s: %s",
            index.folder, f"{since['documents']:,}", f"{drift['documents']:,}", cure,
        )  # fmt: skip
    shares = drift["unknown"] / max(drift["words"], 1), since["unknown"] / max(since["words"], 1)
    if since["words"] >= FEWEST_WORDS and shares[1] > MORE_UNKNOWN * shares[0]:
        log.warning(
            "%s: the encoder does not know %.1f%% of the words of documents that were added since it was adapted, and "
            "did not know %.1f%% then: %s", index.folder, 100 * shares[1], 100 * shares[0], cure,
        )  # fmt: skip
    return {**drift, "since": since}


def _link(source: Path, target: Path) -> None:
    """Make a folder of hard links to the files of another, if there is one."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(f".*{MARK}*"), copy_function=link_or_copy)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, which need not exist, but for temporary ones."""
    return sorted(path for path in folder.glob("*") if path.is_dir() and MARK not in path.name)
