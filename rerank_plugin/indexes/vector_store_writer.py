"""Writes the store of vectors of an index: its spills, its inverted lists, and what updates of the index make of it.

An encoding is kept in spills until all documents are encoded; then their codes are put into inverted lists
(:mod:`rerank_plugin.indexes.vector_store` describes the files and reads them). Letters in shapes are as there.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.files.arrays import save_array
from rerank_plugin.files.checksums import SEAL
from rerank_plugin.files.outputs import (
    INNER,
    remove_folder,
    remove_leftovers,
    replacing,
    replacing_folder,
)
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import damage_as_input_error
from rerank_plugin.indexes.layout import ENCODINGS as FOLDER
from rerank_plugin.indexes.layout import SPILLS, derived_folder
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.indexes.vector_store import (
    FLAT,
    HELD,
    PROBES,
    RECALL_DEPTH,
    VECTOR_STORE,
    VECTORS,
    VectorStore,
    encodings_folder,
    open_segment,
    segment_name,
    store_in,
)
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import Codes, Spaces

log = logging.getLogger(__name__)

DIGEST_BYTES = 16
SPILL = 16_384  # documents whose vectors are held in memory at once
LISTS_A_ROOT = 8  # inverted lists, as a multiple of the root of the number of documents
SAMPLE = 20  # documents of each list that the centroids are trained on
FLOOR = 0.85  # recall of the documents of the sample that searches of the lists have to reach


class Spills:
    """The codes that an encoding by the weights ``key`` has made so far, a file for each batch of consecutive rows.

    A file ends with a checksum: a spill that is not as it was written counts as missing, and is encoded again.

    Args:
        size: documents of a batch.
        rows: of the documents to encode, int64 [n], increasing; by default all.

    Raises:
        InputError: the index is not in an index folder.
    """

    def __init__(
        self, index: ForwardIndex, key: str, spaces: Spaces, size: int = SPILL, rows: np.ndarray | None = None
    ):
        if index.checksum is None:
            raise InputError(
                f"{index.folder} is no index folder with an index.json, which tells which documents it holds"
            )
        self.index, self.key, self.spaces, self.size = index, key, spaces, size
        self.rows = np.arange(len(index)) if rows is None else rows
        self.folder = encodings_folder(index, f"{key}{SPILLS}")
        self.sound: set[Path] = set()  # files that were compared with their checksums
        self.record = np.dtype([("scales", "<f4", (len(spaces.widths),)), ("codes", "i1", (spaces.padded,))])

    def __iter__(self) -> Iterator[np.ndarray]:
        """The rows of each spill, int64 [n]."""
        return chunks(self.rows, self.size)

    def _file(self, rows: np.ndarray) -> Path:
        place = int(rows[0]), int(rows[-1]), len(rows)
        name = json.dumps([self.index.checksum, VECTOR_STORE.version, self.spaces.widths, *place])
        return self.folder / f"{blake2b(name.encode(), digest_size=16).hexdigest()}.npy"

    def has(self, rows: np.ndarray) -> bool:
        """Whether a spill is there, as it was written."""
        path = self._file(rows)
        if path not in self.sound and path.is_file():
            content = path.read_bytes()
            if content[-DIGEST_BYTES:] != _checksum(content[:-DIGEST_BYTES]):
                log.warning("%s is damaged: its documents are encoded again", path)
                return False
            self.sound.add(path)
        return path in self.sound

    def keep(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Write the codes of vectors float32 [n, E] of a spill, atomically.

        Raises:
            InputError: a vector is not finite.
        """
        self.keep_codes(rows, quantized_vectors(self.index, rows, vectors, self.spaces))

    def keep_codes(self, rows: np.ndarray, quantized: Codes) -> None:
        """Write the codes of a spill, atomically."""
        spill = np.empty(len(rows), self.record)
        spill["scales"], spill["codes"] = quantized.scales, quantized.codes
        self.folder.mkdir(parents=True, exist_ok=True)
        content = BytesIO()
        np.save(content, spill)
        with replacing(self._file(rows), INNER, overwrite=True) as file:
            file.write(content.getbuffer())
            file.write(_checksum(content.getbuffer()))

    def read(self, rows: np.ndarray) -> Codes:
        """The codes of a spill; an `InputError` if its file is missing or damaged."""
        path = self._file(rows)
        with damage_as_input_error(path, "encode again"):
            if not self.has(rows):
                raise ValueError("it does not match its checksum" if path.is_file() else "it is missing")
            spill = np.load(path, mmap_mode="r", allow_pickle=False)
            if spill.shape != (len(rows),) or spill.dtype != self.record:
                raise ValueError(f"it is {spill.dtype} {spill.shape}")
        return Codes(np.ascontiguousarray(spill["codes"]), np.ascontiguousarray(spill["scales"]))

    def take(self, rows: np.ndarray) -> Codes:
        """The codes of some rows, int64 [n], increasing."""
        parts = [self.read(spill).take(np.searchsorted(spill, rows[_within(rows, spill)])) for spill in self]
        return Codes(*map(np.concatenate, zip(*parts)))

    def remove(self) -> None:
        """Remove the files: the encoding is complete. What a kill leaves of them, the next output here removes."""
        self.sound.clear()
        with suppress(FileNotFoundError):
            remove_folder(self.folder)


def remove_left_spills(index: ForwardIndex) -> None:
    """Remove the spills of encodings that were killed after their store had its final name.

    Spills that are newer than their store are of an encoding that goes on, or was killed before.
    """
    stores = derived_folder(index, FOLDER)
    for spills in stores.glob(f"*{SPILLS}"):
        store = spills.with_name(spills.name.removesuffix(SPILLS)) / VECTOR_STORE.description
        with suppress(OSError):
            if store.stat().st_mtime_ns >= max((path.stat().st_mtime_ns for path in spills.iterdir()), default=0):
                remove_folder(spills)
    remove_leftovers(stores)


def quantized_vectors(index: ForwardIndex, rows: np.ndarray, vectors: np.ndarray, spaces: Spaces) -> Codes:
    """The codes of the vectors float32 [n, E] of documents; an `InputError` if a number of them is not finite."""
    if len(bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
        raise InputError(f"the vector of document {index.ids[int(rows[bad[0]])]} is not finite")
    return spaces.quantize(vectors)


def _checksum(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def _within(rows: np.ndarray, spill: np.ndarray) -> slice:
    return slice(*np.searchsorted(rows, [spill[0], spill[-1] + 1]))


@dataclass(frozen=True)
class ListsConfig:
    """How a store is divided into inverted lists.

    Attributes:
        lists: their number; None for 1 below `FLAT` documents, and `LISTS_A_ROOT` times the root of their number.
        probes: lists that a search reads by default; None for `PROBES`, or as many as hold `FLAT` documents, doubled
            until the recall is reached.
        floor: the recall at `RECALL_DEPTH` below which more lists are read, or, if their number is given, the store is
            not kept.
    """

    lists: int | None = setting(
        None,
        f"inverted lists of the vectors (default: 1 below {FLAT:,} documents, {LISTS_A_ROOT} times the root of their "
        "number otherwise)",
        option="nlist",
        type=int,
        ge=1,
    )
    probes: int | None = setting(
        None,
        f"inverted lists that a search reads (default: {PROBES}, or as many as hold {FLAT:,} documents; doubled until "
        f"searches find {FLOOR} of the best documents)",
        option="nprobe",
        type=int,
        ge=1,
    )
    floor: float = FLOOR
    seed: int = 42

    def __post_init__(self) -> None:
        check_bounds(self)

    def sizes(self, documents: int) -> tuple[int, int]:
        """The number of lists of an index, and of those that a search reads."""
        lists = self.lists or (1 if documents < FLAT else round(LISTS_A_ROOT * documents**0.5))
        return lists, self.probes or max(PROBES, math.ceil(lists * FLAT / max(documents, 1)))


def write_store(
    spills: Spills,
    description: dict | None = None,
    config: ListsConfig = ListsConfig(),
    overwrite: bool = False,
    threads: int | None = None,
    centroids: Codes | None = None,
) -> Path:
    """Write the store of an encoding whose spills are all there, atomically, and remove these; returns its folder.

    Memory grows by 8 bytes a document, and by the sample that the lists are made of, which grows as the root of their
    number: 0.1 GB at a million documents of 512 numbers.

    Args:
        description: further entries for ``encodings.json``, as JSON values.
        threads: by default all available; the store does not depend on it.
        centroids: of the lists; by default they are made from a sample of the documents.

    Raises:
        InputError: the folder exists and must not be replaced, a spill is damaged, there are more lists than documents,
            or searches of the lists find too few of the best documents.
    """
    index, spaces, threads = spills.index, spills.spaces, threads or available_threads()
    documents, folder = len(index), encodings_folder(index, spills.key)
    lists, probes = config.sizes(documents)
    if centroids is not None:
        lists = len(centroids.codes)
    elif lists > max(documents, 1):
        raise InputError(f"{lists} inverted lists are too many for {documents} documents: take fewer")
    with replacing_folder(folder, VECTOR_STORE, overwrite) as writing:
        centroids = centroids or _centroids(spills, lists, config.seed, threads)
        for name, array in zip(VECTOR_STORE.arrays, centroids):
            save_array(writing / f"{name}.npy", array)
        numbers = range(len(index.segments))
        write_segments(writing, index, numbers, spills, spills.read, nearest_of(centroids, spaces, threads), centroids)
        segments = [open_segment(writing, segment, "encode again") for segment in index.segments]
        store = VectorStore(spaces, segments, index.row_map, centroids, probes, threads)
        recall = store.recall(config.seed)
        while config.probes is None and recall < config.floor and store.probes < lists:
            store.probes = min(2 * store.probes, lists)
            recall = store.recall(config.seed)
        described = {
            "weights": spills.key,
            "spaces": spaces.widths,
            "lists": lists,
            "nlist": config.lists,
            "nprobe": config.probes,
            "probes": store.probes,
            "recall": recall,
            **(description or {}),
        }
        if recall < config.floor:
            raise InputError(
                f"searches of {store.probes} of {lists} inverted lists find {recall:.0%} of the "
                f"{RECALL_DEPTH:,} best documents, and {config.floor:.0%} are needed: probe more lists, or make fewer"
            )
        del store, segments
        describe_store(writing, index, described)
    spills.remove()
    return folder


def nearest_of(
    centroids: Codes, spaces: Spaces, threads: int | None = None
) -> Callable[[np.ndarray, Codes], np.ndarray]:
    """A function that gives the list of each document, int32 [n], by rows, which do not matter, and codes."""
    threads = threads or available_threads()
    return lambda _, found: _nearest(found, centroids, spaces, threads)


def write_segments(
    folder: Path,
    index: ForwardIndex,
    numbers: Sequence[int],
    batches: Iterable[np.ndarray],
    codes: Callable[[np.ndarray], Codes],
    lists_of: Callable[[np.ndarray, Codes], np.ndarray],
    centroids: Codes,
) -> None:
    """Write the arrays of some segments of a store.

    Args:
        numbers: of these segments in the index.
        batches: the rows of their documents, increasing, int64 [n] each; they are read twice.
        codes: those of a batch. lists_of: the list of each of its documents, int32 [n].
    """
    lists = len(centroids.codes)
    placed: dict[int, np.ndarray] = {n: np.zeros(len(index.segments[n]), np.int32) for n in numbers}
    for rows in batches if lists > 1 else ():
        nearest = lists_of(rows, codes(rows))
        for number, at, local in index.row_map.by_segment(rows):
            placed[number][local] = nearest[at]
    written: dict[int, Codes] = {}
    for number in numbers:
        target, count = folder / segment_name(index.segments[number]), len(index.segments[number])
        target.mkdir()
        offsets, placed[number], rows = _placed(placed[number], lists)
        for kind, values in (("rows", rows), ("positions", placed[number]), ("lists", offsets)):
            save_array(target / f"{kind}.npy", values)
        shapes = (np.int8, (count, centroids.codes.shape[1])), (np.float32, (count, centroids.scales.shape[1]))
        written[number] = Codes(
            *(
                open_memmap(target / f"{kind}.npy", "w+", dtype, shape) if count else np.zeros(shape, dtype)
                for kind, (dtype, shape) in zip(("codes", "scales"), shapes)
            )
        )
        if not count:
            for kind, values in zip(("codes", "scales"), written[number]):
                save_array(target / f"{kind}.npy", values)
    for rows in batches:
        found = codes(rows)
        for number, at, local in index.row_map.by_segment(rows):
            positions = placed[number][local]
            written[number].codes[positions], written[number].scales[positions] = found.take(at)
    for array in (array for both in written.values() for array in both):
        if isinstance(array, np.memmap):
            array.flush()
    for number in numbers:
        VECTORS.seal(folder / segment_name(index.segments[number]), {})


def describe_store(folder: Path, index: ForwardIndex, description: dict) -> None:
    """Write the description of a store whose arrays are written, for the segments of an index.

    Args:
        description: of the store before, or the first entries of a new one.
    """
    names = [segment_name(segment) for segment in index.segments]
    described = {
        **{name: value for name, value in description.items() if name != HELD},
        "forward_index": index.checksum,
        "documents": len(index),
        "segments": {name: VECTORS.read(folder / name)[SEAL] for name in names},
    }
    if index.row_map.order is not None:  # processes of shards have the numbers of the whole from here
        described[HELD] = store_in(folder, described, index, deleted=np.asarray(index.deleted)).held.tolist()
    VECTOR_STORE.seal(folder, described)


def divide_again(
    before: Path,
    index_before: ForwardIndex,
    rows: np.ndarray,
    index: ForwardIndex,
    seed: int,
    threads: int | None = None,
) -> None:
    """Write a store of some documents of another, with its codes, but with lists of their own, as a new store has.

    Args:
        before: the folder of that store. index_before: its index.
        rows: of the documents there, increasing, int [R]; here they have the rows from 0 on.
        index: of the documents.

    Raises:
        InputError: as :func:`write_store`.
    """
    description = VECTOR_STORE.read(before)
    old, spills = store_in(before, description, index_before), Spills(index, before.name, Spaces(description["spaces"]))
    for spill in spills:
        spills.keep_codes(spill, old.codes(rows[spill]))
    kept = {name: value for name, value in description.items() if name in ("model", "checkpoint")}
    write_store(spills, kept, lists_config(description, index, seed), threads=threads)


def lists_config(description: dict, index: ForwardIndex, seed: int) -> ListsConfig:
    """The settings of a store for its lists, from its description, for the documents of another index."""
    lists = description["nlist"]
    return ListsConfig(None if lists is None else min(lists, max(len(index), 1)), description["nprobe"], seed=seed)


def _centroids(spills: Spills, lists: int, seed: int, threads: int) -> Codes:
    """Codes of the lists' centroids; of a single list that is searched whole they are 0."""
    spaces, documents = spills.spaces, len(spills.index)
    if lists == 1:
        return spaces.quantize(np.zeros((1, spaces.size), np.float32))
    from rerank_plugin.kernels.inverted_lists import train_centroids  # numba is slow to import

    random = np.random.default_rng(seed)
    some = np.sort(random.choice(documents, min(lists * SAMPLE, documents), replace=False, shuffle=False))
    return spaces.quantize(train_centroids(spills.take(some), spaces, lists, seed, threads))


def _nearest(found: Codes, centroids: Codes, spaces: Spaces, threads: int) -> np.ndarray:
    """The list whose centroid is the nearest to each document, int32 [n]."""
    from rerank_plugin.kernels.quantized_products import nearest_lists

    if len(centroids.codes) == 1:
        return np.zeros(len(found.codes), np.int32)
    return nearest_lists(found, spaces.quantize_queries(spaces.decode(centroids)), threads)[0]


def _placed(nearest: np.ndarray, lists: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where lists start and end, int64 [L + 1]; the position of each row and the row at each position, int32 [n].

    Args:
        nearest: the list of each row, int32 [n]; its memory has the positions afterwards.
    """
    from rerank_plugin.kernels.inverted_lists import place_in_lists

    offsets, rows = np.zeros(lists + 1, np.int64), np.empty_like(nearest)
    place_in_lists(nearest, offsets, rows)
    return offsets, nearest, rows
