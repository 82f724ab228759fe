"""The vectors of all documents of an index by one model, as 8-bit codes in inverted lists, and the search of them.

``INDEX/encodings/KEY`` is the folder of one encoding; KEY is the checksum of the model's weights. Its arrays, whose
names end in the index's segment, are memory-mapped:

==================  ================  ====================================================================
``.npy`` file       dtype and shape   content
==================  ================  ====================================================================
codes               int8 [R, P]       vectors (:mod:`rerank_plugin.kernels.quantization`), list after list
scales              float32 [R, S]    what the codes of each space are multiplied with
rows                int32 [R]         the row of the document at each position, increasing within a list
positions           int32 [R]         the position of each row
lists               int64 [L + 1]     where each list starts, and where the last one ends
centroids           int8 [L, P]       codes of the lists' centroids, unit vectors
centroid_scales     float32 [L, S]    and their scales
==================  ================  ====================================================================

``encodings.json`` has checksums of weights, segments and arrays, shapes, the checkpoint, and the measured recall. It
may name a ``source``: the checksum of an encoder whose vectors are those of the first spaces (that of an encoder that
was adapted to the collection), which reads this store then. ``KEY.pieces`` has the codes of an interrupted encoding, in
the order of rows.

Fewer than `FLAT` documents are one list, which is searched exhaustively. Otherwise a search reads the lists whose
centroids have the largest products with the query; it may miss documents, but a score is always that of the codes, to
the last bit the same as of any other search or of given rows.

Letters in shapes: R documents, E numbers of a vector, P codes of a vector, S spaces, L lists, Q queries, k best.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
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
from rerank_plugin.files.arrays import are_below, are_offsets, open_array, ranges, save_array
from rerank_plugin.files.checksums import check_description, fault, passed
from rerank_plugin.files.outputs import (
    INNER,
    FolderKind,
    remove_folder,
    remove_leftovers,
    replacing,
    replacing_folder,
)
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import ADAPTED, reading, write_description
from rerank_plugin.indexes.index_folder import ENCODINGS as FOLDER
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import Codes, QuantizedQueries, Spaces

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
FORMAT_VERSION = 2  # 1 had numbers of floating point
SOURCE = "source"  # in the description: the checksum of the encoder whose vectors are those of the first spaces
COUNTED = "counted"  # in the description of a shard's store: where the lists of the whole index start
ENCODER = "ktrel"  # the bundled encoder, which can be adapted to a collection
ARRAYS = ("codes", "scales", "rows", "positions", "lists", "centroids", "centroid_scales")
PIECES = ".pieces"  # ends the name of the folder of an encoding that is not complete
CHECKSUM = 16  # bytes
PIECE = 16_384  # documents that are held in memory at once
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
    return index.folder / FOLDER / key


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
        self.folder = index.folder / FOLDER / f"{key}{PIECES}"
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
        if len(bad := np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
            raise InputError(f"the vector of document {self.index.ids[int(rows[bad[0]])]} is not finite")
        self.keep_codes(rows, self.spaces.quantize(vectors))

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
    for pieces in (index.folder / FOLDER).glob(f"*{PIECES}"):
        store = pieces.with_name(pieces.name.removesuffix(PIECES)) / DESCRIPTION_FILE
        with suppress(OSError):
            if store.stat().st_mtime_ns >= max((path.stat().st_mtime_ns for path in pieces.iterdir()), default=0):
                remove_folder(pieces)
    remove_leftovers(index.folder / FOLDER)


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
        path = _Paths(writing, index)
        centroids = centroids or _centroids(pieces, lists, config.seed, threads)
        offsets, positions, rows = _divide(pieces, centroids, threads)
        codes = open_memmap(path("codes"), "w+", np.int8, (documents, spaces.padded))
        scales = open_memmap(path("scales"), "w+", np.float32, (documents, len(spaces.widths)))
        for some in pieces:
            codes[positions[some]], scales[positions[some]] = pieces.read(some)
        codes.flush()
        scales.flush()
        arrays = {"rows": rows, "positions": positions, "lists": offsets}
        arrays |= {"centroids": centroids.codes, "centroid_scales": centroids.scales}
        for name, array in arrays.items():
            save_array(path(name), array)
        store = VectorStore(spaces, codes, scales, rows, positions, offsets, *centroids, probes, threads)
        described = {
            "format_version": FORMAT_VERSION,
            "weights": pieces.key,
            "forward_index": index.checksum,
            "documents": documents,
            "spaces": spaces.widths,
            "lists": lists,
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
        write_description(writing / DESCRIPTION_FILE, described, [path(name).name for name in ARRAYS])
    pieces.remove()
    return folder


class _Paths:
    """The arrays of a store in a folder."""

    def __init__(self, folder: Path, index: ForwardIndex):
        self.folder, self.segment = folder, index.layout.vectors

    def __call__(self, name: str) -> Path:
        return self.folder / f"{name}.{self.segment}.npy"


def _centroids(pieces: Pieces, lists: int, seed: int, threads: int) -> Codes:
    """Codes of the lists' centroids; of a single list that is searched whole they are 0."""
    spaces, documents = pieces.spaces, len(pieces.index)
    if lists == 1:
        return spaces.quantize(np.zeros((1, spaces.size), np.float32))
    from rerank_plugin.kernels.inverted_lists import train_centroids  # numba is slow to import

    random = np.random.default_rng(seed)
    some = np.sort(random.choice(documents, min(lists * SAMPLE, documents), replace=False, shuffle=False))
    return spaces.quantize(train_centroids(pieces.take(some), spaces, lists, seed, threads))


def _divide(pieces: Pieces, centroids: Codes, threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where lists start and end, int64 [L + 1]; the position of each row and the row at each position, int32 [R]."""
    from rerank_plugin.kernels.inverted_lists import place_in_lists
    from rerank_plugin.kernels.quantized_products import nearest_lists

    lists, spaces = len(centroids.codes), pieces.spaces
    nearest = np.zeros(len(pieces.index), np.int32)
    if lists > 1:
        compared = spaces.quantize_queries(spaces.decode(centroids))
        for some in pieces:
            nearest[some[0] : some[-1] + 1], _ = nearest_lists(pieces.read(some), compared, threads)
    offsets, rows = np.zeros(lists + 1, np.int64), np.empty_like(nearest)
    place_in_lists(nearest, offsets, rows)
    return offsets, nearest, rows


class Fitting(NamedTuple):
    """The documents that fit a filter: their positions int64 [n], increasing, and where each list's start [L + 1]."""

    positions: np.ndarray
    lists: np.ndarray


class VectorStore:
    """The codes of all documents of an index; see the module for the arrays. It is thread-safe.

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
    ):
        self.spaces, self.codes, self.rows, self.positions = spaces, Codes(codes, scales), rows, positions
        self.lists, self.centroids = lists, Codes(centroids, centroid_scales)
        self.probes, self.threads, self.description = probes, threads or available_threads(), description or {}
        self.size = size or spaces.size
        self.counted = lists  # where the lists would start in the store of the whole index, if this is a shard's

    @classmethod
    def of_vectors(cls, spaces: Spaces, vectors: np.ndarray, rows: np.ndarray, documents: int) -> VectorStore:
        """A store in memory of the vectors float32 [n, E] of some of an index's documents, by their rows int64 [n]."""
        positions = np.zeros(documents, np.int32)
        positions[rows] = np.arange(len(rows))
        centroids = spaces.quantize(np.zeros((1, spaces.size), np.float32))
        lists = np.array([0, len(rows)])
        return cls(spaces, *spaces.quantize(vectors), rows.astype(np.int32), positions, lists, *centroids)

    def __len__(self) -> int:
        return len(self.rows)

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
        held, lists = int(self.counted[-1]), len(self.lists) - 1
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
            if fitting is None:
                starts, stops = self._probe(query, self.lists, self.counted, reach)
            else:
                starts, stops = self._probe(query, fitting.lists, fitting.lists, reach)
            if fitting is not None:
                positions = fitting.positions[ranges(starts, stops - starts)]
                starts, stops = positions, positions + 1
            hits += best(self.codes, self.rows, starts, stops, query, count, threads)
        return hits

    def _probe(
        self, query: QuantizedQueries, offsets: np.ndarray, counted: np.ndarray, reach: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the nearest lists that hold ``reach`` documents start and end, int64 [n] each, from the nearest on.

        Args:
            offsets: of the lists, int64 [L + 1]. counted: those by which the documents are counted.
        """
        from rerank_plugin.kernels.quantized_products import best

        lists = len(offsets) - 1
        some = 2 * math.ceil(lists * reach / max(int(counted[-1]), 1))
        while True:
            some = min(some, lists)
            numbers = np.arange(lists, dtype=np.int32)
            nearest, _ = best(self.centroids, numbers, np.array([0]), np.array([lists]), query, some)[0]
            held = np.cumsum(counted[nearest + 1] - counted[nearest])
            if held[-1] >= reach or some == lists:
                nearest = nearest[: np.searchsorted(held, reach) + 1]
                return offsets[nearest], offsets[nearest + 1]
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
        if not len(self) or len(self.lists) == 2:
            return 1.0
        if queries is None:
            random = np.random.default_rng(seed)
            queries = self.decode(np.sort(random.choice(len(self), min(QUERIES, len(self)), replace=False)))
        exact = self.search_many(queries, depth, probes=len(self.lists) - 1)
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
    with reading(folder, _again(index, {})):
        described = json.loads((folder / DESCRIPTION_FILE).read_bytes())
        version, made_of = described["format_version"], described["forward_index"]
    again = _again(index, described)
    check_description(folder / DESCRIPTION_FILE, described, again)
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder} has encodings of format version {version}, this program reads {FORMAT_VERSION}: {again}"
        )
    if made_of != index.checksum:
        log.warning("%s was made from another index and is not used; %s", folder, again)
        return None
    path = _Paths(folder, index)
    with reading(folder, again):
        names = ("weights", "documents", "spaces", "lists", "probes", "files")
        entries = {name: described[name] for name in names}
        files, probes = entries.pop("files"), entries.pop("probes")
        arrays = {name: open_array(path(name)) for name in ARRAYS}
        changed = [file.name for file in map(path, ARRAYS) if fault(file, files[file.name]) is not None]
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
        wrong = [f"{name} has changed" for name in changed] or _misshaped(arrays, documents, lists, stored)
    if not wrong and not passed(map(path, ARRAYS), lambda: _fit(arrays, documents)):
        wrong = ["its lists, rows and positions do not fit together"]
    if wrong:
        raise InputError(f"{folder} does not fit: {'; '.join(wrong)}; {again}")
    store = VectorStore(stored, **arrays, probes=probes, threads=threads, description=described, size=spaces.size)
    if COUNTED in described:
        store.counted = np.array(described[COUNTED], np.int64)
    return store if index.elsewhere is None else index.elsewhere.store(store, key)


def store_folder(index: ForwardIndex, key: str) -> Path | None:
    """The folder of the store that has the vectors by the weights ``key``; None if an index has none."""
    own = encodings_folder(index, key)
    if own.is_dir():
        return own
    for path in sorted((index.folder / FOLDER).glob(f"*/{DESCRIPTION_FILE}")):
        with suppress(OSError, ValueError, AttributeError):
            if json.loads(path.read_bytes()).get(SOURCE) == key:
                return path.parent
    return None


def _again(index: ForwardIndex, described: dict) -> str:
    """What to do about a store that cannot be read, by its description."""
    checkpoint = str(described.get("checkpoint", "CHECKPOINT"))
    if Path(checkpoint).name == ADAPTED:
        checkpoint = ENCODER
    return f"encode again with: {encode_command(index, checkpoint)} --overwrite"


def encode_command(index: ForwardIndex | Index, checkpoint: str | Path) -> str:
    """The command that encodes the documents of an index."""
    return f"rerank-plugin index --encode {checkpoint} --index {index.folder}"


def _fit(arrays: dict[str, np.ndarray], documents: int) -> bool:
    """Whether all rows and positions in the arrays of a store exist, and its lists follow one another."""
    rows, positions = arrays["rows"], arrays["positions"]
    return (
        are_offsets(arrays["lists"], documents)
        and are_below(positions, documents)
        and are_below(rows, documents)
        and bool((rows[positions] == np.arange(documents)).all())
    )


def _misshaped(arrays: dict[str, np.ndarray], documents: int, lists: int, spaces: Spaces) -> list[str]:
    """What is wrong with the arrays of a store, as phrases."""
    of_space = len(spaces.widths)
    shapes: dict[str, tuple[type, Sequence[int]]] = {
        "codes": (np.int8, (documents, spaces.padded)),
        "scales": (np.float32, (documents, of_space)),
        "rows": (np.int32, (documents,)),
        "positions": (np.int32, (documents,)),
        "lists": (np.int64, (lists + 1,)),
        "centroids": (np.int8, (lists, spaces.padded)),
        "centroid_scales": (np.float32, (lists, of_space)),
    }
    return [
        f"{name} is {arrays[name].dtype} {list(arrays[name].shape)}, expected {np.dtype(dtype)} {list(shape)}"
        for name, (dtype, shape) in shapes.items()
        if arrays[name].dtype != dtype or arrays[name].shape != shape
    ]
