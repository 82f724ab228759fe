"""What an update does with what models derived from the documents: encodings, judged queries, the adapted encoder.

Each commit has folders of its own for them (:mod:`rerank_plugin.indexes.layout`). An update writes those of the
next commit before it becomes the current one, so a reader of either finds what belongs to it.

Documents are encoded by models, which the layers above know: they are given as functions.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import MARK, link_or_copy
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.judged_queries import AGAIN, read_judged
from rerank_plugin.indexes.layout import ADAPTED, ENCODINGS, JUDGED, derived_folder, derived_folders
from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.indexes.vector_store import (
    VECTOR_STORE,
    again,
    read_description,
    segment_name,
    store_in,
    verify_store,
)
from rerank_plugin.indexes.vector_store_writer import (
    SPILL,
    Spills,
    describe_store,
    nearest_of,
    write_segments,
)
from rerank_plugin.kernels.quantization import Spaces

log = logging.getLogger(__name__)

DRIFT = "drift"  # in the description of a store: what the encoder knew of the documents it was adapted to, and since
MOST_ADDED = 0.1  # documents added since the encoder was adapted, as a share of those it was adapted to
MORE_UNKNOWN = 2.0  # words of theirs that it does not know, as a multiple of the share of those it was adapted to
FEWEST_WORDS = 10_000  # of added documents, by which the share is told


class Renumbered(NamedTuple):
    """What a merge has made of rows.

    Attributes:
        rows: those of the documents before, in the next commit, int64 [R]; -1 for those that are left out.
        sources: the rows before of the documents of each shard's new segment, int64 [n].
        kept: the number of segments that both commits have.
    """

    rows: np.ndarray
    sources: Mapping[int, np.ndarray]
    kept: int


Adapt = Callable[..., None]  # writes what is derived of a commit from the one before, and what a merge made of its rows


class DocumentEncoder(NamedTuple):
    """A model that encodes documents of an index, given by their rows int64 [n].

    Attributes:
        encode: their vectors float32 [n, E].
        unknown_words: of consecutive rows, the number of words that the encoder does not know, and of all words.
    """

    encode: Callable[[np.ndarray], np.ndarray]
    unknown_words: Callable[[np.ndarray], tuple[int, int]]


# Of the index, and of the folder and the description of a store of the commit before; an InputError without it.
OpenEncoder = Callable[[ForwardIndex, Path, dict], DocumentEncoder]


def carry(
    before: ForwardIndex,
    after: ForwardIndex,
    renumbered: Renumbered | None = None,
    open_encoder: OpenEncoder | None = None,
    threads: int | None = None,
) -> None:
    """Give the next commit what was derived for the one before: vectors of added documents, or of a merged segment.

    Encodings by a model that cannot be opened any more are left behind, which is logged.

    Args:
        renumbered: what a merge has made of rows.
        open_encoder: opens the model that encodes added documents.
    """
    _link(derived_folder(before, ADAPTED), derived_folder(after, ADAPTED))
    for folder, description in stores(before, whole=renumbered is not None):
        _carry_store(folder, description, before, after, renumbered, open_encoder, threads)
    carry_judged(before, after, renumbered)


def _carry_store(
    folder: Path,
    description: dict,
    before: ForwardIndex,
    after: ForwardIndex,
    renumbered: Renumbered | None,
    open_encoder: OpenEncoder | None,
    threads: int | None,
) -> None:
    """Give the next commit a store."""
    names = [segment_name(segment) for segment in after.segments]
    new = [number for number, name in enumerate(names) if name not in description["segments"]]
    rows = np.sort(np.concatenate([NO_ROWS, *map(after.row_map.of_segment, new)]))
    if new and renumbered is None:
        assert open_encoder is not None, "there are new documents"
        try:
            encoder = open_encoder(after, folder, description)
        except InputError as error:
            log.warning("%s: new documents cannot be encoded, %s; %s", folder, error, again(after, description))
            return
        if drift := _drift(description, after, encoder):
            description = {**description, DRIFT: drift}
    target, spaces = _made(derived_folder(after, ENCODINGS) / folder.name), Spaces(description["spaces"])
    for name in VECTOR_STORE.arrays:
        link_or_copy(folder / f"{name}.npy", target / f"{name}.npy")
    for name in description["segments"].keys() & names:
        _link(folder / name, target / name)
    old = store_in(folder, description, before)
    if new and renumbered is None:
        spills = Spills(after, folder.name, spaces, rows=rows)
        for batch in spills:
            spills.keep(batch, encoder.encode(batch))
        write_segments(
            target, after, new, spills, spills.read, nearest_of(old.centroids, spaces, threads), old.centroids
        )
        spills.remove()
    elif new and renumbered is not None:
        sources = np.flatnonzero(renumbered.rows >= 0)  # by the rows in the next commit
        lists = lambda batch, _: old.lists_of(sources[batch])  # noqa: E731
        batches = list(chunks(rows, SPILL))
        write_segments(target, after, new, batches, lambda batch: old.codes(sources[batch]), lists, old.centroids)
    describe_store(target, after, description)


def carry_judged(before: ForwardIndex, after: ForwardIndex, renumbered: Renumbered | None = None) -> None:
    """Give the next commit the judged queries: judgments follow ids, and a merge forgets those of deleted documents."""
    for folder in derived_folders(before, JUDGED):
        if (read := _judged(folder, before)) is None:
            continue
        judged, sources = read
        rows = judged.rows.astype(np.int64)
        if renumbered is not None:
            moved = judged.moved(renumbered.rows[rows])
            if not len(moved.vectors):
                continue
        else:
            if after.live is not None:
                gone = np.flatnonzero(~after.live[rows])
                found = after.rows(before.ids.take(rows[gone])) if len(gone) else NO_ROWS
                rows[gone] = np.where(found >= 0, found, rows[gone])
            moved = judged.moved(rows)
        moved.write(_made(derived_folder(after, JUDGED) / folder.name), after, sources)


def stores(index: ForwardIndex, whole: bool = False) -> Iterator[tuple[Path, dict]]:
    """The folder and the description of each sound store that an index has; others are logged.

    Args:
        whole: compare all bytes of the arrays, which are about to be copied.
    """
    for folder in derived_folders(index, ENCODINGS):
        try:
            if (description := read_description(folder, index)) is not None:
                verify_store(folder, index) if whole else store_in(folder, description, index)
        except InputError as error:
            log.warning("left behind: %s", error)
        else:
            if description is not None:
                yield folder, description


def _judged(folder: Path, index: ForwardIndex):
    try:
        return read_judged(folder, index, None, AGAIN)
    except InputError as error:
        log.warning("left behind: %s", error)
        return None


def _drift(description: dict, index: ForwardIndex, encoder: DocumentEncoder) -> dict | None:
    """What a store says of the documents that were added since its encoder was adapted; logs what is too much."""
    if (drift := description.get(DRIFT)) is None:
        return None
    unknown, words = encoder.unknown_words(np.arange(description["documents"], len(index)))
    since = drift["since"]
    since = {
        "documents": since["documents"] + len(index) - description["documents"],
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
