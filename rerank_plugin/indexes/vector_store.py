"""The vectors of all documents of an index by one model, as 8-bit codes in inverted lists, and the search of them.

``INDEX/encodings/NUMBER/KEY`` is the folder of one encoding in the generation NUMBER of an index; KEY is the checksum
of the model's weights. Its arrays are memory-mapped:

==================  ================  ====================================================================
``.npy`` file       dtype and shape   content
==================  ================  ====================================================================
codes               int8 [R, P]       vectors (:mod:`rerank_plugin.kernels.quantization`), list after list
scales              float32 [R, S]    what the codes of each space are multiplied with
rows                int32 [R]         the row of the document at each position, increasing within a list
positions           int32 [R]         the position of each row
lists               int64 [G, L + 1]  where each list of a segment starts, and where the last one ends
centroids           int8 [L, P]       codes of the lists' centroids, unit vectors
centroid_scales     float32 [L, S]    and their scales
==================  ================  ====================================================================

A store is made with one segment. Documents that are added later are appended to the first five arrays, as segments with
lists of their own, under the same encoder and the same centroids: a generation reads as many bytes as its description
says. Arrays that did not change are hard links to those of the generation before. When an index is merged, the codes of
the documents that are left are copied into one segment.

``encodings.json`` has checksums of weights, documents and arrays (of each appended piece), shapes, the checkpoint, the
measured recall, and how many words the encoder did not know. It may name a ``source``: the checksum of an encoder whose
vectors are those of the first spaces (that of an encoder that was adapted to the collection), which reads this store
then. ``KEY.pieces`` has the codes of an interrupted encoding, in the order of rows.

Fewer than `FLAT` documents are one list, which is searched exhaustively. Otherwise a search reads the lists whose
centroids have the largest products with the query; it may miss documents, but a score is always that of the codes, to
the last bit the same as of any other search or of given rows.

Letters in shapes: R documents, E numbers of a vector, P codes of a vector, S spaces, L lists, G segments, Q queries, k
best.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import setting
from rerank_plugin.files.arrays import ArrayWriter, are_below, are_offsets, open_array, ranges, save_array
from rerank_plugin.files.checksums import CHECKSUM as CHECKSUM_ENTRY
from rerank_plugin.files.checksums import check_description, fault, passed
from rerank_plugin.files.outputs import (
    INNER,
    FolderKind,
    link_or_copy,
    remove_folder,
    remove_leftovers,
    replacing,
    replacing_folder,
)
from rerank_plugin.indexes.forward import NO_ROWS, ForwardIndex, chunks
from rerank_plugin.indexes.index_folder import ADAPTED, addition, reading, write_description
from rerank_plugin.indexes.index_folder import ENCODINGS as FOLDER
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import LEFT_OUT, Codes, QuantizedQueries, Spaces

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_folder import Index

log = logging.getLogger(__name__)

DESCRIPTION_FILE = "encodings.json"
ENCODED = FolderKind(
    "a folder of encodings",
    DESCRIPTION_FILE,
    ("weights", "forward_index"),
    ("*.npy", "ivf/*", "hnsw/*", "judged/*"),  # the folders are of versions before 0.3
)
FORMAT_VERSION = 3  # 1 had numbers of floating point, 2 had no segments
SOURCE = "source"  # in the description: the checksum of the encoder whose vectors are those of the first spaces
COUNTED = "counted"  # in the description of a shard's store: where the lists of the whole index start
ENCODER = "ktrel"  # the bundled encoder, which can be adapted to a collection
APPENDED = ("codes", "scales", "rows", "positions", "lists")
ARRAYS = (*APPENDED, "centroids", "centroid_scales")
PIECES = ".pieces"  # ends the name of the folder of an encoding that is not complete
CHECKSUM = 16  # bytes
PIECE = 16_384  # documents whose vectors are held in memory at once
SEGMENT = 65_536  # added documents that get lists of their own together; their codes are held in memory
FLAT = 50_000  # documents that are searched exhaustively: all of an index, or those that fit a filter
LISTS_A_ROOT = 8  # inverted lists, as a multiple of the root of the number of documents
SAMPLE = 20  # documents of each list that the centroids are trained on
PROBES = 512  # inverted lists that a search reads, and more where they hold fewer than `FLAT` documents
RANGE = 4096  # positions that a thread takes at once
MANY = 1 << 16  # documents whose products are shared among threads: one takes a millisecond for them
QUERIES, DEPTH = 100, 1000  # of the measurement of recall
FLOOR = 0.85  # recall of the documents of the sample, below which something is wrong with the lists


def encodings_folder(index: ForwardIndex, key: str) -> Path:
    """The folder for the encodings by the weights with this checksum; it need not exist."""
    return addition(index, FOLDER) / key


class Pieces:
    """The codes that an encoding by the weights ``key`` has made so far, a file for each piece of consecutive rows.

    A file ends with a checksum: a piece that is not as it was written counts as missing, and is encoded again.

    Args:
        size: documents of a piece.

    Raises:
        InputError: the index is not in an index folder.
    """

    def __init__(self, index: ForwardIndex, key: str, spaces: Spaces, size: int = PIECE):
        if index.checksum is None:
            raise InputError(
                f"{index.folder} is no index folder with an index.json, which tells which documents it holds"
            )
        self.index, self.key, self.spaces, self.size = index, key, spaces, size
        self.folder = encodings_folder(index, f"{key}{PIECES}")
        self.sound: set[Path] = set()  # files that were compared with their checksums
        self.record = np.dtype([("scales", "<f4", (len(spaces.widths),)), ("codes", "i1", (spaces.padded,))])

    def __iter__(self) -> Iterator[np.ndarray]:
        """The rows of each piece, int64 [n]."""
        for start in range(0, len(self.index), self.size):
            yield np.arange(start, min(start + self.size, len(self.index)))

    def _file(self, rows: np.ndarray) -> Path:
        name = json.dumps([self.index.checksum, FORMAT_VERSION, self.spaces.widths, int(rows[0]), len(rows)])
        return self.folder / f"{blake2b(name.encode(), digest_size=16).hexdigest()}.npy"

    def has(self, rows: np.ndarray) -> bool:
        """Whether a piece is there, as it was written."""
        path = self._file(rows)
        if path not in self.sound and path.is_file():
            content = path.read_bytes()
            if content[-CHECKSUM:] != _checksum(content[:-CHECKSUM]):
                log.warning("%s is damaged: its documents are encoded again", path)
                return False
            self.sound.add(path)
        return path in self.sound

    def keep(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Write the codes of vectors float32 [n, E] of a piece, atomically.

        Raises:
            InputError: a vector is not finite.
        """
        self.keep_codes(rows, _quantized(self.index, rows, vectors, self.spaces))

    def keep_codes(self, rows: np.ndarray, quantized: Codes) -> None:
        """Write the codes of a piece, atomically."""
        piece = np.empty(len(rows), self.record)
        piece["scales"], piece["codes"] = quantized.scales, quantized.codes
        self.folder.mkdir(parents=True, exist_ok=True)
        content = BytesIO()
        np.save(content, piece)
        with replacing(self._file(rows), INNER, overwrite=True) as file:
            file.write(content.getbuffer())
            file.write(_checksum(content.getbuffer()))

    def read(self, rows: np.ndarray) -> Codes:
        """The codes of a piece; an `InputError` if its file is missing or damaged."""
        path = self._file(rows)
        with reading(path, "encode again"):
            if not self.has(rows):
                raise ValueError("it does not match its checksum" if path.is_file() else "it is missing")
            piece = np.load(path, mmap_mode="r", allow_pickle=False)
            if piece.shape != (len(rows),) or piece.dtype != self.record:
                raise ValueError(f"it is {piece.dtype} {piece.shape}")
        return Codes(np.ascontiguousarray(piece["codes"]), np.ascontiguousarray(piece["scales"]))

    def take(self, rows: np.ndarray) -> Codes:
        """The codes of some rows, int64 [n], increasing."""
        parts = [self.read(piece).take(rows[_within(rows, piece)] - piece[0]) for piece in self]
        return Codes(*map(np.concatenate, zip(*parts)))

    def remove(self) -> None:
        """Remove the files: the encoding is complete. What a kill leaves of them, the next output here removes."""
        self.sound.clear()
        with suppress(FileNotFoundError):
            remove_folder(self.folder)


def remove_left_pieces(index: ForwardIndex) -> None:
    """Remove the pieces of encodings that were killed after their store had its final name.

    Pieces that are newer than their store are of an encoding that goes on, or was killed before.
    """
    stores = addition(index, FOLDER)
    for pieces in stores.glob(f"*{PIECES}"):
        store = pieces.with_name(pieces.name.removesuffix(PIECES)) / DESCRIPTION_FILE
        with suppress(OSError):
            if store.stat().st_mtime_ns >= max((path.stat().st_mtime_ns for path in pieces.iterdir()), default=0):
                remove_folder(pieces)
    remove_leftovers(stores)


def _quantized(index: ForwardIndex, rows: np.ndarray, vectors: np.ndarray, spaces: Spaces) -> Codes:
    """The codes of the vectors float32 [n, E] of documents; an `InputError` if a number of them is not finite."""
    if len(bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
        raise InputError(f"the vector of document {index.ids[int(rows[bad[0]])]} is not finite")
    return spaces.quantize(vectors)


def _checksum(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=CHECKSUM).digest()


def _within(rows: np.ndarray, piece: np.ndarray) -> slice:
    return slice(*np.searchsorted(rows, [piece[0], piece[-1] + 1]))


@dataclass(frozen=True)
class ListsConfig:
    """How a store is divided into inverted lists.

    Attributes:
        lists: their number; None for 1 below `FLAT` documents, and `LISTS_A_ROOT` times the root of their number.
        probes: lists that a search reads by default; None for `PROBES`, or as many as hold `FLAT` documents.
        floor: the recall at `DEPTH` below which the store is not kept.
    """

    lists: int | None = setting(
        None,
        f"inverted lists of the vectors (default: 1 below {FLAT:,} documents, {LISTS_A_ROOT} times the root of their "
        "number otherwise)",
        option="nlist",
        type=int,
    )
    probes: int | None = setting(
        None,
        f"inverted lists that a search reads (default: {PROBES}, or as many as hold {FLAT:,} documents)",
        option="nprobe",
        type=int,
    )
    floor: float = FLOOR
    seed: int = 42

    def __post_init__(self) -> None:
        if any(number is not None and number < 1 for number in (self.probes, self.lists)):
            raise InputError("a store of vectors needs an inverted list at least, and searches read one at least")

    def sizes(self, documents: int) -> tuple[int, int]:
        """The number of lists of an index, and of those that a search reads."""
        lists = self.lists or (1 if documents < FLAT else round(LISTS_A_ROOT * documents**0.5))
        return lists, self.probes or max(PROBES, math.ceil(lists * FLAT / max(documents, 1)))


def write_store(
    pieces: Pieces,
    description: dict | None = None,
    config: ListsConfig = ListsConfig(),
    overwrite: bool = False,
    threads: int | None = None,
    centroids: Codes | None = None,
) -> Path:
    """Write the store of an encoding whose pieces are all there, atomically, and remove these; returns its folder.

    Memory grows by 8 bytes a document, and by the sample that the lists are made of, which grows as the root of their
    number: 0.1 GB at a million documents of 512 numbers.

    Args:
        description: further entries for ``encodings.json``, as JSON values.
        threads: by default all available; the store does not depend on it.
        centroids: of the lists; by default they are made from a sample of the documents.

    Raises:
        InputError: the folder exists and must not be replaced, a piece is damaged, there are more lists than documents,
            or searches of the lists find too few of the best documents.
    """
    index, spaces, threads = pieces.index, pieces.spaces, threads or available_threads()
    documents, folder = len(index), encodings_folder(index, pieces.key)
    lists, probes = config.sizes(documents)
    if centroids is not None:
        lists = len(centroids.codes)
    elif lists > max(documents, 1):
        raise InputError(f"{lists} inverted lists are too many for {documents} documents: take fewer")
    with replacing_folder(folder, ENCODED, overwrite) as writing:
        centroids = centroids or _centroids(pieces, lists, config.seed, threads)
        nearest = np.zeros(documents, np.int32)
        for some in pieces if lists > 1 else ():
            nearest[some[0] : some[-1] + 1] = _nearest(pieces.read(some), centroids, spaces, threads)
        offsets, positions, rows = _placed(nearest, lists)
        codes = open_memmap(_path(writing, "codes"), "w+", np.int8, (documents, spaces.padded))
        scales = open_memmap(_path(writing, "scales"), "w+", np.float32, (documents, len(spaces.widths)))
        for some in pieces:
            codes[positions[some]], scales[positions[some]] = pieces.read(some)
        codes.flush()
        scales.flush()
        arrays = {"rows": rows, "positions": positions, "lists": offsets}
        arrays |= {"centroids": centroids.codes, "centroid_scales": centroids.scales}
        for name, array in arrays.items():
            save_array(_path(writing, name), array)
        store = VectorStore(spaces, codes, scales, rows, positions, offsets, *centroids, probes, threads)
        described = {
            "format_version": FORMAT_VERSION,
            "weights": pieces.key,
            "forward_index": index.checksum,
            "documents": documents,
            "spaces": spaces.widths,
            "lists": lists,
            "segments": 1,
            "nlist": config.lists,
            "nprobe": config.probes,
            "probes": probes,
            "recall": store.recall(config.seed),
            **(description or {}),
        }
        if described["recall"] < config.floor:
            raise InputError(
                f"searches of {probes} of {lists} inverted lists find {described['recall']:.0%} of the "
                f"{DEPTH:,} best documents, and {config.floor:.0%} are needed: probe more lists, or make fewer"
            )
        del store, codes, scales
        _describe(writing, described)
    pieces.remove()
    return folder


def append_to_store(
    before: Path,
    folder: Path,
    index: ForwardIndex,
    encode: Callable[[np.ndarray], np.ndarray],
    description: dict | None = None,
    threads: int | None = None,
) -> None:
    """Write a store of more documents, whose arrays are those of a store before, appended to.

    Args:
        before: the folder of that store, in the generation before. folder: of the new one.
        index: of all documents.
        encode: the vectors float32 [n, E] of rows int64 [n]; it is called for the rows that are new, in pieces.
        description: entries that change.

    Raises:
        InputError: a vector is not finite.
    """
    described = json.loads((before / DESCRIPTION_FILE).read_bytes())
    spaces, lists, threads = Spaces(described["spaces"]), described["lists"], threads or available_threads()
    folder.mkdir(parents=True)
    for name in ARRAYS:
        link_or_copy(_path(before, name), _path(folder, name))
    centroids = Codes(*(open_array(_path(folder, name)) for name in ("centroids", "centroid_scales")))
    shapes = _shapes(0, 0, lists, spaces)
    sizes = {name: described["files"][f"{name}.npy"]["bytes"] for name in APPENDED}
    writers = {
        name: ArrayWriter(_path(folder, name), shapes[name][0], tuple(shapes[name][1][1:]), sizes[name])
        for name in APPENDED
    }
    for segment in chunks(np.arange(described["documents"], len(index)), SEGMENT):
        found, nearest = [], []
        for rows in chunks(segment, PIECE):
            found.append(_quantized(index, rows, encode(rows), spaces))
            nearest.append(_nearest(found[-1], centroids, spaces, threads))
        together = Codes(*map(np.concatenate, zip(*found)))
        offsets, positions, order = _placed(np.concatenate(nearest), lists)
        for places in chunks(order, PIECE):
            some = together.take(places)
            writers["codes"].append(some.codes)
            writers["scales"].append(some.scales)
        writers["rows"].append(order + segment[0])
        writers["positions"].append(positions + segment[0])
        writers["lists"].append(offsets + segment[0])
    for writer in writers.values():
        writer.close()
    changed = {"documents": len(index), "forward_index": index.checksum, "segments": writers["lists"].length}
    _describe(folder, {**described, **changed, **(description or {})}, described["files"])


def copy_store(before: Path, folder: Path, rows: np.ndarray, index: ForwardIndex) -> None:
    """Write a store of some documents of another, whose codes and centroids it has, in one segment.

    Args:
        before: the folder of that store. folder: of the new one.
        rows: of the documents there, increasing, int [R]; here they have the rows from 0 on.
        index: of the documents.
    """
    described = json.loads((before / DESCRIPTION_FILE).read_bytes())
    lists, arrays = described["lists"], _open_arrays(before, described)
    folder.mkdir(parents=True)
    for name in ("centroids", "centroid_scales"):
        link_or_copy(_path(before, name), _path(folder, name))
    borders, nearest = arrays["lists"].ravel(), np.empty(len(rows), np.int32)
    for start in range(0, len(rows), PIECE):  # the segments lie one after the other, so that borders increase
        positions = arrays["positions"][rows[start : start + PIECE]]
        nearest[start : start + PIECE] = (np.searchsorted(borders, positions, "right") - 1) % (lists + 1)
    offsets, positions, order = _placed(nearest, lists)
    for name, array in (("rows", order), ("positions", positions), ("lists", offsets)):
        save_array(_path(folder, name), array)
    for name in ("codes", "scales"):
        writer = ArrayWriter(_path(folder, name), arrays[name].dtype, arrays[name].shape[1:])
        for places in chunks(order, PIECE):
            writer.append(arrays[name][arrays["positions"][rows[places]]])
        writer.close()
    _describe(folder, {**described, "documents": len(rows), "forward_index": index.checksum, "segments": 1})


def divide_again(before: Path, rows: np.ndarray, index: ForwardIndex, seed: int, threads: int | None = None) -> None:
    """Write a store of some documents of another, with its codes, but with lists of their own, as a new store has.

    Arguments as in :func:`copy_store`.

    Raises:
        InputError: as :func:`write_store`.
    """
    described = json.loads((before / DESCRIPTION_FILE).read_bytes())
    arrays = _open_arrays(before, described)
    found, pieces = Codes(arrays["codes"], arrays["scales"]), Pieces(index, before.name, Spaces(described["spaces"]))
    for piece in pieces:
        pieces.keep_codes(piece, found.take(arrays["positions"][rows[piece]]))
    written = {"format_version", "weights", "forward_index", "documents", "spaces", "lists", "segments"}
    written |= {"nlist", "nprobe", "probes", "recall", "files", CHECKSUM_ENTRY}
    kept = {name: value for name, value in described.items() if name not in written}
    write_store(pieces, kept, lists_config(described, index, seed), threads=threads)


def lists_config(described: dict, index: ForwardIndex, seed: int) -> ListsConfig:
    """The settings of a store for its lists, from its description, for the documents of another index."""
    lists = described["nlist"]
    return ListsConfig(None if lists is None else min(lists, max(len(index), 1)), described["nprobe"], seed=seed)


def _path(folder: Path, name: str) -> Path:
    """The file of an array of a store."""
    return folder / f"{name}.npy"


def _describe(folder: Path, description: dict, before: dict[str, dict] | None = None) -> None:
    """Write the description of a store; ``before`` are the entries of files that were appended to since."""
    names, appended = ([f"{name}.npy" for name in names] for names in (ARRAYS, APPENDED))
    write_description(folder / DESCRIPTION_FILE, description, names, appended, before)


def _centroids(pieces: Pieces, lists: int, seed: int, threads: int) -> Codes:
    """Codes of the lists' centroids; of a single list that is searched whole they are 0."""
    spaces, documents = pieces.spaces, len(pieces.index)
    if lists == 1:
        return spaces.quantize(np.zeros((1, spaces.size), np.float32))
    from rerank_plugin.kernels.inverted_lists import train_centroids  # numba is slow to import

    random = np.random.default_rng(seed)
    some = np.sort(random.choice(documents, min(lists * SAMPLE, documents), replace=False, shuffle=False))
    return spaces.quantize(train_centroids(pieces.take(some), spaces, lists, seed, threads))


def _nearest(found: Codes, centroids: Codes, spaces: Spaces, threads: int) -> np.ndarray:
    """The list whose centroid is the nearest to each document, int32 [n]."""
    from rerank_plugin.kernels.quantized_products import nearest_lists

    if len(centroids.codes) == 1:
        return np.zeros(len(found.codes), np.int32)
    return nearest_lists(found, spaces.quantize_queries(spaces.decode(centroids)), threads)[0]


def _placed(nearest: np.ndarray, lists: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where lists start and end, int64 [1, L + 1]; the position of each row and the row at each position, int32 [n].

    Args:
        nearest: the list of each row, int32 [n]; its memory has the positions afterwards.
    """
    from rerank_plugin.kernels.inverted_lists import place_in_lists

    offsets, rows = np.zeros(lists + 1, np.int64), np.empty_like(nearest)
    place_in_lists(nearest, offsets, rows)
    return offsets[None], nearest, rows


class Fitting(NamedTuple):
    """The documents that fit a filter: their positions int64 [n], increasing, and lists' starts, int64 [G, L + 1]."""

    positions: np.ndarray
    lists: np.ndarray


class VectorStore:
    """The codes of all documents of an index; see the module for the arrays. It is thread-safe.

    Args:
        deleted: rows of deleted documents, int [n], which no search finds.

    Attributes:
        probes: lists that a search reads by default.
        threads: that share the products of many documents.
        description: of the folder; empty until it is written.
        size: numbers of a query and of a decoded vector: those of all spaces, or of the first ones alone.
    """

    def __init__(
        self,
        spaces: Spaces,
        codes: np.ndarray,
        scales: np.ndarray,
        rows: np.ndarray,
        positions: np.ndarray,
        lists: np.ndarray,
        centroids: np.ndarray,
        centroid_scales: np.ndarray,
        probes: int = PROBES,
        threads: int | None = None,
        description: dict | None = None,
        size: int | None = None,
        deleted: np.ndarray = NO_ROWS,
    ):
        self.spaces, self.codes, self.rows, self.positions = spaces, Codes(codes, scales), rows, positions
        self.lists, self.centroids = lists, Codes(centroids, centroid_scales)
        # Where the lists would start without deleted documents, or, if this is a shard's, in the store of the whole.
        self.counted = lists
        if len(deleted):
            gone = np.sort(positions[deleted])
            self.rows = np.array(rows)
            self.rows[gone] = LEFT_OUT
            self.counted = lists - np.searchsorted(gone, lists)
        self.probes, self.threads, self.description = probes, threads or available_threads(), description or {}
        self.size = size or spaces.size

    @classmethod
    def of_vectors(cls, spaces: Spaces, vectors: np.ndarray, rows: np.ndarray, documents: int) -> VectorStore:
        """A store in memory of the vectors float32 [n, E] of some of an index's documents, by their rows int64 [n]."""
        positions = np.zeros(documents, np.int32)
        positions[rows] = np.arange(len(rows))
        centroids = spaces.quantize(np.zeros((1, spaces.size), np.float32))
        lists = np.array([[0, len(rows)]])
        return cls(spaces, *spaces.quantize(vectors), rows.astype(np.int32), positions, lists, *centroids)

    def __len__(self) -> int:
        """The number of documents, with those that were deleted."""
        return len(self.rows)

    @property
    def inverted_lists(self) -> int:
        """The number of lists, L."""
        return len(self.centroids.codes)

    def quantize(self, queries: np.ndarray | QuantizedQueries) -> QuantizedQueries:
        """Queries float32 [Q, E], or one [E], as numbers that are compared with codes. Those already are are kept."""
        if isinstance(queries, QuantizedQueries):
            return queries
        return self.spaces.quantize_queries(np.atleast_2d(queries))

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of documents ``rows`` int64 [n], float32 [n, E]."""
        return self.spaces.decode(self.codes.take(self.positions[rows]))[:, : self.size]

    def scores(self, query: np.ndarray | QuantizedQueries, rows: np.ndarray, threads: int | None = None) -> np.ndarray:
        """The scores of documents ``rows`` int64 [C] for a query, float32 [C]."""
        from rerank_plugin.kernels.quantized_products import scores

        return scores(self.codes, self.positions[rows], self.quantize(query), threads or self.threads)[0]

    def search(
        self,
        query: np.ndarray | QuantizedQueries,
        count: int,
        fits: np.ndarray | Fitting | None = None,
        probes: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best ``count`` documents for a query: rows int64 [k] and scores float32 [k], ties by the lowest row.

        Args:
            query: float32 [E].
            fits: which documents may be found, bool [R] or what :meth:`fitting` makes of it; by default all. `FLAT` or
                fewer are all compared. Of more, lists are read until they hold as many of them as ``probes`` lists of
                mean length hold documents, so that a filter costs no recall.
            probes: lists to read; more are read where they hold fewer than ``count`` documents.
        """
        return self.search_many(query, count, fits, probes)[0]

    def search_many(
        self,
        queries: np.ndarray | QuantizedQueries,
        count: int,
        fits: np.ndarray | Fitting | None = None,
        probes: int | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """As :meth:`search` for each query of float32 [Q, E]; an exhaustive search reads the codes once for all."""
        from rerank_plugin.kernels.quantized_products import best

        queries, fitting = self.quantize(queries), self.fitting(fits)
        held, lists = int(self.counted[-1, -1]), self.inverted_lists
        documents = held if fitting is None else len(fitting.positions)
        reach = max(count, math.ceil((probes or self.probes) * held / lists))
        exhaustive = documents <= (reach if fitting is None else max(reach, FLAT))
        threads = self.threads if min(reach, documents) >= MANY else 1
        if exhaustive:
            if fitting is not None:
                return best(self.codes, self.rows, fitting.positions, fitting.positions + 1, queries, count, threads)
            starts = np.arange(0, len(self), RANGE)
            stops = np.minimum(starts + RANGE, len(self))
            return best(self.codes, self.rows, starts, stops, queries, count, threads)
        hits = []
        for place in range(len(queries.numbers)):
            query = queries.take([place])
            starts, stops = self._probe(query, fitting, reach)
            if fitting is not None:
                positions = fitting.positions[ranges(starts, stops - starts)]
                starts, stops = positions, positions + 1
            hits += best(self.codes, self.rows, starts, stops, query, count, threads)
        return hits

    def _probe(self, query: QuantizedQueries, fitting: Fitting | None, reach: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the nearest lists that hold ``reach`` documents start and end in the segments, int64 [n] each.

        Those of a ``fitting`` are places among its documents.
        """
        from rerank_plugin.kernels.quantized_products import best

        lists, offsets, counted = self.inverted_lists, self.lists, self.counted
        if fitting is not None:
            offsets = counted = fitting.lists
        some = 2 * math.ceil(lists * reach / max(int(counted[-1, -1]), 1))
        while True:
            some = min(some, lists)
            numbers = np.arange(lists, dtype=np.int32)
            nearest, _ = best(self.centroids, numbers, np.array([0]), np.array([lists]), query, some)[0]
            held = np.cumsum((counted[:, nearest + 1] - counted[:, nearest]).sum(axis=0))
            if held[-1] >= reach or some == lists:
                nearest = nearest[: np.searchsorted(held, reach) + 1]
                starts, stops = offsets[:, nearest].T.ravel(), offsets[:, nearest + 1].T.ravel()
                some_held = stops > starts
                return starts[some_held], stops[some_held]
            some *= 4

    def fitting(self, fits: np.ndarray | Fitting | None) -> Fitting | None:
        """What a search needs to know of the documents that fit a filter, bool [R]: 8 bytes for each of them."""
        if fits is None or isinstance(fits, Fitting):
            return fits
        positions = np.sort(self.positions[np.flatnonzero(fits)]).astype(np.int64)
        return Fitting(positions, np.searchsorted(positions, self.lists))

    def recall(self, seed: int, queries: np.ndarray | None = None, depth: int = DEPTH) -> float:
        """The share of the best ``depth`` documents that searches find, in the mean of some queries.

        Args:
            queries: float32 [Q, E]; by default the vectors of `QUERIES` documents.
        """
        if not len(self) or self.inverted_lists == 1:
            return 1.0
        if queries is None:
            random = np.random.default_rng(seed)
            queries = self.decode(np.sort(random.choice(len(self), min(QUERIES, len(self)), replace=False)))
        exact = self.search_many(queries, depth, probes=self.inverted_lists)
        probed = self.search_many(queries, depth)
        shares = [np.isin(best, rows).mean() for (best, _), (rows, _) in zip(exact, probed)]
        return float(np.mean(shares))


def open_store(index: ForwardIndex, key: str, spaces: Spaces, threads: int | None = None) -> VectorStore | None:
    """The store that an index has for the weights ``key``; None if it has none.

    It is their own, or that of an encoder that was adapted from them. A store of another forward index is not used: a
    warning is logged, and the result is None.

    Raises:
        InputError: the folder exists, but is damaged, was made by an earlier version, or of other spaces.
    """
    folder = store_folder(index, key)
    if folder is None:
        return None
    described = read_description(folder, index)
    if described is None:
        return None
    repair = again(index, described)
    with reading(folder, repair):
        names = ("weights", "documents", "spaces", "lists", "segments", "probes", "files")
        entries = {name: described[name] for name in names}
        files, probes = entries.pop("files"), entries.pop("probes")
        arrays = _open_arrays(folder, described)
        opened = [_path(folder, name) for name in ARRAYS]
        changed = [path.name for path in opened if _fault(path, files[path.name]) is not None]
        shared = entries["spaces"][: len(spaces.widths)] if described.get(SOURCE) == key else entries["spaces"]
        stored = Spaces(entries["spaces"])
    documents, lists = len(index), entries["lists"]
    wrong = [
        f"{name} {value}, expected {expected}"
        for name, value, expected in (
            ("weights", entries["weights"], folder.name),
            ("documents", entries["documents"], documents),
            ("spaces", shared, list(spaces.widths)),
        )
        if value != expected
    ]
    if not wrong:
        shapes = _shapes(documents, entries["segments"], lists, stored)
        wrong = [f"{name} has changed" for name in changed] or _misshaped(arrays, shapes)
    if not wrong and not passed(opened, lambda: _fit(arrays, documents), documents):
        wrong = ["its lists, rows and positions do not fit together"]
    if wrong:
        raise InputError(f"{folder} does not fit: {'; '.join(wrong)}; {repair}")
    store = VectorStore(
        stored, **arrays, probes=probes, threads=threads, description=described, size=spaces.size, deleted=index.deleted
    )
    if COUNTED in described:
        store.counted = np.array(described[COUNTED], np.int64)
    return store if index.elsewhere is None else index.elsewhere.store(store, key)


def read_description(folder: Path, index: ForwardIndex) -> dict | None:
    """The description of a store; None, and a warning, if it is of another index.

    Raises:
        InputError: it cannot be read, or is of another version.
    """
    with reading(folder, again(index, {})):
        described = json.loads((folder / DESCRIPTION_FILE).read_bytes())
        version, made_of = described["format_version"], described["forward_index"]
    repair = again(index, described)
    check_description(folder / DESCRIPTION_FILE, described, repair)
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has encodings of format version {version}, this program reads {FORMAT_VERSION}: {repair}"
        )
    if made_of != index.checksum:
        log.warning("%s was made from another index and is not used; %s", folder, repair)
        return None
    return described


def _open_arrays(folder: Path, described: dict) -> dict[str, np.ndarray]:
    """The arrays of a store, as far as its description says."""
    sizes = {name: described["files"][f"{name}.npy"]["bytes"] if name in APPENDED else None for name in ARRAYS}
    return {name: open_array(_path(folder, name), size) for name, size in sizes.items()}


def store_folder(index: ForwardIndex, key: str) -> Path | None:
    """The folder of the store that has the vectors by the weights ``key``; None if an index has none.

    Those of version 0.3.0, which had another place, are found, too, to be refused.
    """
    for stores in (encodings_folder(index, key).parent, index.folder / FOLDER):
        if (stores / key).is_dir():
            return stores / key
        for path in sorted(stores.glob(f"*/{DESCRIPTION_FILE}")):
            with suppress(OSError, ValueError, AttributeError):
                if json.loads(path.read_bytes()).get(SOURCE) == key:
                    return path.parent
    return None


def again(index: ForwardIndex, described: dict) -> str:
    """What to do about a store that cannot be read, by its description."""
    checkpoint = str(described.get("checkpoint", "CHECKPOINT"))
    if SOURCE in described or Path(checkpoint).name == ADAPTED:
        checkpoint = ENCODER
    return f"encode again with: {encode_command(index, checkpoint)} --overwrite"


def encode_command(index: ForwardIndex | Index, checkpoint: str | Path) -> str:
    """The command that encodes the documents of an index."""
    return f"rerank-plugin index --encode {checkpoint} --index {index.folder}"


def _fault(path: Path, described: dict) -> str | None:
    """As :func:`rerank_plugin.files.checksums.fault`; an array may have been appended to since."""
    return fault(path, described, grows="pieces" in described)


def _fit(arrays: dict[str, np.ndarray], documents: int) -> bool:
    """Whether all rows and positions in the arrays of a store exist, and lists and segments follow one another."""
    rows, positions, lists = arrays["rows"], arrays["positions"], arrays["lists"]
    return (
        bool((lists[1:, 0] == lists[:-1, -1]).all())
        and are_offsets(lists.ravel(), documents)
        and are_below(positions, documents)
        and are_below(rows, documents)
        and bool((rows[positions] == np.arange(documents)).all())
    )


def _shapes(documents: int, segments: int, lists: int, spaces: Spaces) -> dict[str, tuple[type, Sequence[int]]]:
    """The type and the shape of each array of a store."""
    of_space = len(spaces.widths)
    return {
        "codes": (np.int8, (documents, spaces.padded)),
        "scales": (np.float32, (documents, of_space)),
        "rows": (np.int32, (documents,)),
        "positions": (np.int32, (documents,)),
        "lists": (np.int64, (segments, lists + 1)),
        "centroids": (np.int8, (lists, spaces.padded)),
        "centroid_scales": (np.float32, (lists, of_space)),
    }


def _misshaped(arrays: dict[str, np.ndarray], shapes: dict[str, tuple[type, Sequence[int]]]) -> list[str]:
    """What is wrong with the arrays of a store, as phrases."""
    return [
        f"{name} is {arrays[name].dtype} {list(arrays[name].shape)}, expected {np.dtype(dtype)} {list(shape)}"
        for name, (dtype, shape) in shapes.items()
        if arrays[name].dtype != dtype or arrays[name].shape != shape
    ]
