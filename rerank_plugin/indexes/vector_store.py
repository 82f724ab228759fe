"""The vectors of all documents of an index by one model, as 8-bit codes in inverted lists, and the search of them.

``INDEX/encodings/NUMBER/KEY`` is the folder of one encoding in the commit NUMBER of an index; KEY is the checksum of
the model's weights. :mod:`rerank_plugin.indexes.vector_store_writer` writes it. Its arrays are memory-mapped:

==================  ================  ====================================================================
``.npy`` file       dtype and shape   content
==================  ================  ====================================================================
centroids           int8 [L, P]       codes of the lists' centroids, unit vectors
centroid_scales     float32 [L, S]    and their scales
SEGMENT/codes       int8 [R, P]       vectors (:mod:`rerank_plugin.kernels.quantization`), list after list
SEGMENT/scales      float32 [R, S]    what the codes of each space are multiplied with
SEGMENT/rows        int32 [R]         the row in the segment of the document at each position, increasing in a list
SEGMENT/positions   int32 [R]         the position of each row
SEGMENT/lists       int64 [L + 1]     where each list starts, and where the last one ends
==================  ================  ====================================================================

Each segment of the index has a folder of vectors (`VECTORS`), which is written once; encoder and centroids are the same
for all (`VECTOR_STORE`). Folders that a commit has in common with the one before have hard links to the files of it.
When segments are merged, the codes of the documents that are left are copied.

``encodings.json`` has checksums of weights, documents, centroids and each segment's ``vectors.json``, the checkpoint,
the measured recall, and how many words the encoder did not know. It may name a ``source``: the checksum of an encoder
whose vectors are those of the first spaces (that of an encoder that was adapted to the collection), which reads this
store then. ``KEY.pieces`` has the codes of an interrupted encoding, in the order of rows.

Fewer than `FLAT` documents are one list, which is searched exhaustively. Otherwise a search reads the lists whose
centroids have the largest products with the query; it may miss documents, but a score is always that of the codes, to
the last bit the same as of any other search or of given rows.

Letters in shapes: R documents, E numbers of a vector, P codes of a vector, S spaces, L lists, G segments, Q queries, k
best. *Positions* in the whole store number the documents of all segments, one segment after the other.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import ranges
from rerank_plugin.files.artifact import DAMAGED, Array, Artifact
from rerank_plugin.files.checksums import CHECKSUM, SEAL
from rerank_plugin.files.regular_files import regular
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.layout import ADAPTED, SHARDS, InFolder, derived_folder
from rerank_plugin.indexes.layout import ENCODINGS as FOLDER
from rerank_plugin.indexes.rows import NO_ROWS, Rows
from rerank_plugin.indexes.segment import Segment
from rerank_plugin.indexes.vector_search import Fits, Fitting, Hits, Queries, VectorSearch, best_hits, merged_hits
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.kernels.quantization import LEFT_OUT, Codes, QuantizedQueries, Spaces

log = logging.getLogger(__name__)

SOURCE = "source"  # in the description: the checksum of the encoder whose vectors are those of the first spaces
HELD = "held"  # in the description of the store of an index of shards: the documents of each list
ENCODER = "ktrel"  # the bundled encoder, which can be adapted to a collection
FLAT = 50_000  # documents that are searched exhaustively: all of an index, or those that fit a filter
PROBES = 512  # inverted lists that a search reads, and more where they hold fewer than `FLAT` documents
RANGE = 4096  # positions that a thread takes at once
MANY = 1 << 16  # documents whose products are shared among threads: one takes a millisecond for them
QUERIES, RECALL_DEPTH = 100, 1000  # of the measurement of recall
VECTORS = Artifact(
    "the vectors of a segment",
    "vectors.json",
    {},
    arrays={
        "codes": Array(np.int8, "R P"),
        "scales": Array(np.float32, "R S"),
        "rows": Array(np.int32, "R", below="R"),
        "positions": Array(np.int32, "R", below="R"),
        "lists": Array(np.int64, "L+1", offsets="R"),
    },
    check=lambda arrays, _: bool((arrays["rows"][arrays["positions"]] == np.arange(len(arrays["rows"]))).all()),
    version=1,
    sampled=True,
)
VECTOR_STORE = Artifact(
    "a folder of encodings",
    "encodings.json",
    {"weights": str, "forward_index": str},
    (*VECTORS.inside("*"), "*.npy", "ivf/*", "hnsw/*", "judged/*"),  # of versions before segments had folders
    entries={"documents": int, "spaces": list[int], "lists": int, "probes": int, "segments": dict[str, str]},
    optional={"checkpoint": str, SOURCE: str, HELD: list[int], "drift": dict},
    arrays={"centroids": Array(np.int8, "L P"), "centroid_scales": Array(np.float32, "L S")},
    version=5,  # 1 had numbers of floating point, 2 no segments, 3 arrays of all of them, 4 names with their numbers
    seal_entry=CHECKSUM,
    apart=VECTORS.inside("*"),
)


def encodings_folder(index: ForwardIndex, key: str) -> Path:
    """The folder for the encodings by the weights with this checksum; it need not exist."""
    return derived_folder(index, FOLDER) / key


def segment_name(segment: Segment) -> str:
    """The name of a segment's folder in a store: ``SEGMENT``, or ``SHARD.SEGMENT`` in an index of shards."""
    shard = segment.folder.parents[1].name
    return f"{shard}.{segment.folder.name}" if segment.folder.parents[2].name == SHARDS else segment.folder.name


class SegmentVectors(NamedTuple):
    """The arrays of a segment in a store; see the module."""

    codes: Codes
    rows: np.ndarray
    positions: np.ndarray
    lists: np.ndarray


class VectorStore(VectorSearch):
    """The codes of all documents of an index; see the module for the arrays. It is thread-safe.

    Args:
        segments: the vectors of each segment. rows: of the index, in these segments.
        deleted: rows of deleted documents, int [n], which no search finds.

    Attributes:
        held: the number of documents in each list, int64 [L]; of all shards, if these are the vectors of one.
        probes: lists that a search reads by default.
        threads: that share the products of many documents.
        description: of the folder; empty until it is written.
        size: numbers of a query and of a decoded vector: those of all spaces, or of the first ones alone.
    """

    def __init__(
        self,
        spaces: Spaces,
        segments: Sequence[SegmentVectors],
        rows: Rows,
        centroids: Codes,
        probes: int = PROBES,
        threads: int | None = None,
        description: dict | None = None,
        size: int | None = None,
        deleted: np.ndarray = NO_ROWS,
    ):
        self.spaces, self.segments, self.row_map, self.centroids = spaces, segments, rows, centroids
        self.lists = np.stack([segment.lists for segment in segments]) + rows.starts[:-1, None]  # [G, L + 1]
        self.held = np.diff(self.lists, axis=1).sum(axis=0)
        self.live_rows = [segment.rows for segment in segments]  # with `LEFT_OUT` for deleted documents
        for number, _, local in rows.by_segment(deleted):
            gone = np.sort(segments[number].positions[local])
            self.live_rows[number] = np.array(segments[number].rows)
            self.live_rows[number][gone] = LEFT_OUT
            self.held -= np.diff(np.searchsorted(gone, segments[number].lists))
        self.probes, self.threads, self.description = probes, threads or available_threads(), description or {}
        self.size = size or spaces.size

    @classmethod
    def of_vectors(cls, spaces: Spaces, vectors: np.ndarray, rows: np.ndarray, documents: int) -> VectorStore:
        """A store in memory of the vectors float32 [n, E] of some of an index's documents, by their rows int64 [n]."""
        positions = np.zeros(documents, np.int32)
        positions[rows] = np.arange(len(rows))
        centroids = spaces.quantize(np.zeros((1, spaces.size), np.float32))
        segment = SegmentVectors(spaces.quantize(vectors), rows.astype(np.int32), positions, np.array([0, len(rows)]))
        return cls(spaces, [segment], Rows([documents]), centroids)

    def __len__(self) -> int:
        """The number of documents, with those that were deleted."""
        return sum(len(segment.rows) for segment in self.segments)

    @property
    def inverted_lists(self) -> int:
        """The number of lists, L."""
        return len(self.centroids.codes)

    def quantize(self, queries: Queries) -> QuantizedQueries:
        """Queries float32 [Q, E], or one [E], as numbers that are compared with codes. Those already are are kept."""
        if isinstance(queries, QuantizedQueries):
            return queries
        return self.spaces.quantize_queries(np.atleast_2d(queries))

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of documents ``rows`` int64 [n], float32 [n, E]."""
        return self.spaces.decode(self.codes(rows))[:, : self.size]

    def codes(self, rows: np.ndarray) -> Codes:
        """The codes of documents ``rows`` int64 [n]."""
        if len(self.segments) == 1 and self.row_map.order is None:
            return self.segments[0].codes.take(self.segments[0].positions[rows])
        found = self.spaces.empty(len(rows))
        for number, at, local in self.row_map.by_segment(rows):
            segment = self.segments[number]
            found.codes[at], found.scales[at] = segment.codes.take(segment.positions[local])
        return found

    def lists_of(self, rows: np.ndarray) -> np.ndarray:
        """The list of each of the documents ``rows`` int64 [n], int32 [n]."""
        lists = np.zeros(len(rows), np.int32)
        for number, at, local in self.row_map.by_segment(rows):
            segment = self.segments[number]
            lists[at] = np.searchsorted(segment.lists, segment.positions[local], "right") - 1
        return lists

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """The positions in the whole store of documents ``rows`` int64 [n], int64 [n]."""
        positions = np.zeros(len(rows), np.int64)
        for number, at, local in self.row_map.by_segment(rows):
            positions[at] = self.segments[number].positions[local] + self.row_map.starts[number]
        return positions

    def rows_at(self, positions: np.ndarray) -> np.ndarray:
        """The rows of the documents at positions in the whole store, int64 [n]."""
        rows, numbers = np.zeros(len(positions), np.int64), np.searchsorted(self.row_map.starts, positions, "right") - 1
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            local = self.segments[number].rows[positions[at] - self.row_map.starts[number]]
            rows[at] = self.row_map.of_segment(number, local)
        return rows

    def scores(self, query: Queries, rows: np.ndarray, threads: int | None = None) -> np.ndarray:
        """The scores of documents ``rows`` int64 [C] for a query, float32 [C]."""
        from rerank_plugin.kernels.quantized_products import scores

        quantized, threads = self.quantize(query), threads or self.threads
        if len(self.segments) == 1 and self.row_map.order is None:
            return scores(self.segments[0].codes, self.segments[0].positions[rows], quantized, threads)[0]
        found = np.zeros(len(rows), np.float32)
        for number, at, local in self.row_map.by_segment(rows):
            segment = self.segments[number]
            found[at] = scores(segment.codes, segment.positions[local], quantized, threads)[0]
        return found

    def best_of(self, query: QuantizedQueries, positions: np.ndarray, count: int) -> Hits:
        """The best ``count`` for a query of the documents at some positions, int64 [n], by their codes."""
        rows = self.rows_at(positions)
        return best_hits(rows, self.scores(query, rows, threads=1), count)

    def on(self, device: str, put: Callable[[VectorStore, str], Any]) -> Any:
        """What searches the vectors on a torch device, on which ``put`` puts them."""
        return put(self, device)

    def search_and_score(
        self, query: Queries, count: int, candidates: np.ndarray, fits: Fits = None, probes: int | None = None,
        vectors: VectorSearch | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """As :meth:`search`, and behind it the rows and scores of those ``candidates`` int64 [C] that it does not find.

        Args:
            vectors: what searches; by default this store.
        """
        rows, scores = (vectors or self).search(query, count, fits, probes)
        others = np.setdiff1d(candidates, rows)
        return rows, scores, others, self.scores(query, others)

    def search_many(self, queries: Queries, count: int, fits: Fits = None, probes: int | None = None) -> list[Hits]:
        """As :meth:`search` for each query of float32 [Q, E]; an exhaustive search reads the codes once for all.

        `FLAT` documents that fit, or fewer, are all compared. Of more, lists are read until they hold as many of them
        as ``probes`` lists of mean length hold documents, so that a filter costs no recall.
        """
        queries, fitting = self.quantize(queries), self.fitting(fits)
        held, lists = int(self.held.sum()), self.inverted_lists
        documents = held if fitting is None else int(fitting.held.sum())
        reach = max(count, math.ceil((probes or self.probes) * held / lists))
        exhaustive = documents <= (reach if fitting is None else max(reach, FLAT))
        threads = self.threads if min(reach, documents) >= MANY else 1
        if exhaustive:
            if fitting is not None:
                return self._best(fitting.positions, fitting.positions + 1, queries, count, threads)
            borders = [(first, first + len(rows)) for first, rows in zip(self.row_map.starts.tolist(), self.live_rows)]
            parts = [(np.arange(first, end, RANGE), end) for first, end in borders]
            starts = np.concatenate([some for some, _ in parts])
            stops = np.concatenate([np.minimum(some + RANGE, end) for some, end in parts])
            return self._best(starts, stops, queries, count, threads)
        hits = []
        for place in range(len(queries.numbers)):
            query = queries.take([place])
            starts, stops = self._probe(query, fitting, reach)
            if fitting is not None:
                positions = fitting.positions[ranges(starts, stops - starts)]
                starts, stops = positions, positions + 1
            hits += self._best(starts, stops, query, count, threads)
        return hits

    def _best(
        self, starts: np.ndarray, stops: np.ndarray, queries: QuantizedQueries, count: int, threads: int
    ) -> list[Hits]:
        """The best documents for each query in ranges of positions, int64 [n], none of which is in two segments."""
        from rerank_plugin.kernels.quantized_products import best

        if len(self.segments) == 1 and self.row_map.order is None:
            return best(self.segments[0].codes, self.live_rows[0], starts, stops, queries, count, threads)
        found: list[list[Hits]] = [[] for _ in queries.numbers]
        lowest = np.full(len(found), -np.inf, np.float32)
        numbers = np.searchsorted(self.row_map.starts, starts, "right") - 1
        ranges_of = np.bincount(numbers, minlength=1)
        largest_first = np.argsort(-ranges_of, kind="stable")[: np.count_nonzero(ranges_of)]
        for number in largest_first.tolist():
            at, first = numbers == number, self.row_map.starts[number]
            codes, rows = self.segments[number].codes, self.live_rows[number]
            of_part = best(codes, rows, starts[at] - first, stops[at] - first, queries, count, threads, lowest)
            for place, (local, scores) in enumerate(of_part):
                found[place].append((self.row_map.of_segment(number, local), scores))
                if len(scores) == count:
                    lowest[place] = max(lowest[place], scores[-1])
        return [merged_hits(hits, count) for hits in found]

    def _probe(self, query: QuantizedQueries, fitting: Fitting | None, reach: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the nearest lists that hold ``reach`` documents start and end in the segments, int64 [n] each.

        Those of a ``fitting`` are places among its documents.
        """
        from rerank_plugin.kernels.quantized_products import best

        lists, offsets, documents = self.inverted_lists, self.lists, self.held
        if fitting is not None:
            offsets, documents = fitting.lists, fitting.held
        some = 2 * math.ceil(lists * reach / max(int(documents.sum()), 1))
        while True:
            some = min(some, lists)
            numbers = np.arange(lists, dtype=np.int32)
            nearest, _ = best(self.centroids, numbers, np.array([0]), np.array([lists]), query, some)[0]
            held = np.cumsum(documents[nearest])
            if held[-1] >= reach or some == lists:
                nearest = nearest[: np.searchsorted(held, reach) + 1]
                starts, stops = offsets[:, nearest].T.ravel(), offsets[:, nearest + 1].T.ravel()
                some_held = stops > starts
                return starts[some_held], stops[some_held]
            some *= 4

    def fitting(self, fits: Fits) -> Fitting | None:
        """What a search needs to know of the documents that fit a filter, bool [R]: 8 bytes for each of them."""
        if fits is None or isinstance(fits, Fitting):
            return fits
        positions = np.sort(self.positions(np.flatnonzero(fits)))
        lists = np.searchsorted(positions, self.lists)
        return Fitting(positions, lists, np.diff(lists, axis=1).sum(axis=0))

    def recall(self, seed: int, queries: np.ndarray | None = None, depth: int = RECALL_DEPTH) -> float:
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


@singledispatch  # an index whose vectors other processes have opens them there: registered in cluster/index.py
def open_store(index: ForwardIndex, key: str, spaces: Spaces, threads: int | None = None) -> VectorStore | None:
    """The store that an index has for the weights ``key``; None if it has none.

    It is their own, or that of an encoder that was adapted from them. A store of another forward index is not used: a
    warning is logged, and the result is None.

    Raises:
        InputError: the folder exists, but is damaged, was made by an earlier version, or of other spaces.
    """
    folder = store_folder(index, key)
    if folder is None or (description := read_description(folder, index)) is None:
        return None
    stored = Spaces(description["spaces"])
    shared = stored.widths[: len(spaces.widths)] if description.get(SOURCE) == key else stored.widths
    for name, found, expected in (
        ("weights", description["weights"], folder.name),
        ("spaces", list(shared), list(spaces.widths)),
    ):
        if found != expected:
            raise InputError(f"{folder} has {name} {found}, expected {expected}; {again(index, description)}")
    return store_in(folder, description, index, threads, spaces.size, index.deleted)


def store_in(
    folder: Path, description: dict, index: ForwardIndex, threads: int | None = None, size: int | None = None,
    deleted: np.ndarray = NO_ROWS,
) -> VectorStore:  # fmt: skip
    """The store of an index in a folder, by its description, with all documents but those ``deleted``.

    Raises:
        InputError: a file is missing or damaged, or is not that of the description.
    """
    repair, spaces = again(index, description), Spaces(description["spaces"])
    sizes = {"P": spaces.padded, "S": len(spaces.widths), "L": description["lists"]}
    centroids = Codes(*VECTOR_STORE.open(folder, repair, description, **sizes).arrays.values())
    segments = [open_segment(folder, segment, repair, description["segments"], **sizes) for segment in index.segments]
    store = VectorStore(
        spaces, segments, index.row_map, centroids, description["probes"], threads, description, size, deleted
    )
    if HELD in description:
        store.held = np.array(description[HELD], np.int64)
    return store


def open_segment(
    folder: Path, segment: Segment, repair: str, seals: Mapping[str, str] | None = None, **sizes: int
) -> SegmentVectors:
    """The vectors of a segment in a store; ``seals`` has the checksum of the description of each segment's."""
    name = segment_name(segment)
    _, description, arrays, *_ = VECTORS.open(folder / name, repair, None, R=len(segment), **sizes)
    if seals is not None and seals.get(name) != description[SEAL]:
        raise InputError(f"{folder / name} is not of {folder}: {DAMAGED}; {repair}")
    codes, scales, *others = arrays.values()
    return SegmentVectors(Codes(codes, scales), *others)


def read_description(folder: Path, index: ForwardIndex) -> dict | None:
    """The description of a store; None, and a warning, if it is of another index.

    Raises:
        InputError: it cannot be read, or is of another version.
    """
    description = VECTOR_STORE.read(folder, partial(again, index))
    if description["forward_index"] == index.checksum:
        return description
    log.warning("%s was made from another index and is not used; %s", folder, again(index, description))
    return None


def verify_store(folder: Path, index: ForwardIndex) -> int:
    """Read every byte of a store; returns the number of its files.

    Raises:
        InputError: a file is damaged, or the store is of other weights or another index.
    """
    repair = again(index, description := VECTOR_STORE.read(folder, partial(again, index)))
    if (description["weights"], description["forward_index"]) != (folder.name, index.checksum):
        raise InputError(f"{folder} is of other weights or of another index; {repair}")
    store_in(folder, description, index)
    return VECTOR_STORE.verify(folder, repair) + sum(
        VECTORS.verify(folder / name, repair) for name in description["segments"]
    )


def store_folder(index: ForwardIndex, key: str) -> Path | None:
    """The folder of the store that has the vectors by the weights ``key``; None if an index has none.

    Those of version 0.3.0, which had another place, are found, too, to be refused.
    """
    for stores in (encodings_folder(index, key).parent, index.folder / FOLDER):
        if (stores / key).is_dir():
            return stores / key
        for path in sorted(stores.glob(f"*/{VECTOR_STORE.description}")):
            with suppress(OSError, ValueError, AttributeError):
                if json.loads(regular(path).read_bytes()).get(SOURCE) == key:
                    return path.parent
    return None


def again(index: ForwardIndex, description: dict) -> str:
    """What to do about a store that cannot be read, by its description."""
    checkpoint = str(description.get("checkpoint", "CHECKPOINT"))
    if SOURCE in description or Path(checkpoint).name == ADAPTED:
        checkpoint = ENCODER
    return f"encode again with: {encode_command(index, checkpoint)} --overwrite"


def encode_command(index: InFolder, checkpoint: str | Path) -> str:
    """The command that encodes the documents of an index."""
    return f"rerank-plugin index --encode {checkpoint} --index {index.folder}"
