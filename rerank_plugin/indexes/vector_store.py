"""The vectors of all documents of an index by one model, as 8-bit codes in inverted lists, and the search of them.

``INDEX/encodings/NUMBER/KEY`` is the folder of one encoding in the generation NUMBER of an index; KEY is the checksum
of the model's weights. :mod:`rerank_plugin.indexes.vector_store_writer` writes it. Its arrays are memory-mapped:

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import are_below, are_offsets, open_array, ranges
from rerank_plugin.files.checksums import check_description, fault, passed
from rerank_plugin.files.regular_files import regular
from rerank_plugin.indexes.forward import NO_ROWS, ForwardIndex
from rerank_plugin.indexes.index_folder import ADAPTED, addition, reading
from rerank_plugin.indexes.index_folder import ENCODINGS as FOLDER
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import LEFT_OUT, Codes, QuantizedQueries, Spaces

if TYPE_CHECKING:
    from rerank_plugin.indexes.index_folder import Index

log = logging.getLogger(__name__)

DESCRIPTION_FILE = "encodings.json"
FORMAT_VERSION = 3  # 1 had numbers of floating point, 2 had no segments
SOURCE = "source"  # in the description: the checksum of the encoder whose vectors are those of the first spaces
COUNTED = "counted"  # in the description of a shard's store: where the lists of the whole index start
ENCODER = "ktrel"  # the bundled encoder, which can be adapted to a collection
APPENDED = ("codes", "scales", "rows", "positions", "lists")
ARRAYS = (*APPENDED, "centroids", "centroid_scales")
FLAT = 50_000  # documents that are searched exhaustively: all of an index, or those that fit a filter
PROBES = 512  # inverted lists that a search reads, and more where they hold fewer than `FLAT` documents
RANGE = 4096  # positions that a thread takes at once
MANY = 1 << 16  # documents whose products are shared among threads: one takes a millisecond for them
QUERIES, DEPTH = 100, 1000  # of the measurement of recall


def encodings_folder(index: ForwardIndex, key: str) -> Path:
    """The folder for the encodings by the weights with this checksum; it need not exist."""
    return addition(index, FOLDER) / key


def array_path(folder: Path, name: str) -> Path:
    """The file of an array of a store."""
    return folder / f"{name}.npy"


class Fitting(NamedTuple):
    """The documents that fit a filter: their positions int64 [n], increasing, and lists' starts, int64 [G, L + 1]."""

    positions: np.ndarray
    lists: np.ndarray
    counted: np.ndarray | None = None  # `lists` of the whole collection, of which the store may be a part

    @property
    def counts(self) -> np.ndarray:
        """The lists' starts by which lists to read are chosen, int64 [G, L + 1]."""
        return self.lists if self.counted is None else self.counted

    @property
    def held(self) -> np.ndarray:
        """The number of documents that fit in each list, int64 [L]."""
        return np.diff(self.lists, axis=1).sum(axis=0)

    def in_whole(self, held: np.ndarray) -> Fitting:
        """These, read from the lists that the whole collection would read, with ``held`` of all its parts in sum."""
        return self._replace(counted=np.concatenate([[0], np.cumsum(held)])[None])


class VectorStore:
    """The codes of all documents of an index; see the module for the arrays. It is thread-safe.

    Args:
        deleted: rows of deleted documents, int [n], which no search finds.

    Attributes:
        rows: of the document at each position, `LEFT_OUT` of those that were deleted. stored_rows: theirs, too.
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
        self.spaces, self.codes, self.positions = spaces, Codes(codes, scales), positions
        self.rows = self.stored_rows = rows
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

    def on(self, device: str, put: Callable[[VectorStore, str], Any]) -> Any:
        """What searches the vectors on a torch device, on which ``put`` puts them."""
        return put(self, device)

    def search_and_score(
        self,
        query: np.ndarray | QuantizedQueries,
        count: int,
        candidates: np.ndarray,
        fits: np.ndarray | Fitting | None = None,
        probes: int | None = None,
        vectors: Any = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As :meth:`search`, and behind it the rows and scores of those ``candidates`` int64 [C] that it does not find.

        Args:
            vectors: what searches; by default this store.
        """
        rows, scores = (vectors or self).search(query, count, fits, probes)
        others = np.setdiff1d(candidates, rows)
        return rows, scores, others, self.scores(query, others)

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
        documents = held if fitting is None else int(fitting.counts[-1, -1])
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
            offsets, counted = fitting.lists, fitting.counts
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


@singledispatch  # an index whose vectors other processes have opens them there
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
        arrays = open_arrays(folder, described)
        opened = [array_path(folder, name) for name in ARRAYS]
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
        shapes = shapes_of(documents, entries["segments"], lists, stored)
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
    return store


def read_description(folder: Path, index: ForwardIndex) -> dict | None:
    """The description of a store; None, and a warning, if it is of another index.

    Raises:
        InputError: it cannot be read, or is of another version.
    """
    with reading(folder, again(index, {})):
        described = json.loads(regular(folder / DESCRIPTION_FILE).read_bytes())
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


def open_arrays(folder: Path, described: dict) -> dict[str, np.ndarray]:
    """The arrays of a store, as far as its description says."""
    sizes = {name: described["files"][f"{name}.npy"]["bytes"] if name in APPENDED else None for name in ARRAYS}
    return {name: open_array(array_path(folder, name), size) for name, size in sizes.items()}


def check_arrays(folder: Path, index: ForwardIndex, described: dict, whole: bool) -> None:
    """Compare the arrays of a store with its description, before their bytes get new checksums.

    Args:
        whole: compare all bytes, of those that are appended to, too.

    Raises:
        InputError: names the first array that differs.
    """
    repair = again(index, described)
    with reading(folder, repair):
        for name in ARRAYS:
            path, file = array_path(folder, name), described["files"][f"{name}.npy"]
            wrong = fault(path, file, grows="pieces" in file, whole=whole or name not in APPENDED)
            if wrong is not None:
                raise InputError(f"{path} {wrong}; {repair}")


def store_folder(index: ForwardIndex, key: str) -> Path | None:
    """The folder of the store that has the vectors by the weights ``key``; None if an index has none.

    Those of version 0.3.0, which had another place, are found, too, to be refused.
    """
    for stores in (encodings_folder(index, key).parent, index.folder / FOLDER):
        if (stores / key).is_dir():
            return stores / key
        for path in sorted(stores.glob(f"*/{DESCRIPTION_FILE}")):
            with suppress(OSError, ValueError, AttributeError):
                if json.loads(regular(path).read_bytes()).get(SOURCE) == key:
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


def shapes_of(documents: int, segments: int, lists: int, spaces: Spaces) -> dict[str, tuple[type, Sequence[int]]]:
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
