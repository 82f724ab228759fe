"""Dense indexes in folders of Pyserini: ``index``, which Faiss wrote, and ``docid``, an id on each line in its order.

A Faiss index is memory of a C++ program, read from a file: a damaged or a hostile one can end the process that reads
it. So its header is compared with its size and with ``docid`` before anything else is read; then a process of its own
(:mod:`rerank_plugin.indexes.faiss_check`), with bounded memory and time, reads it, checks every number that a search
follows, and searches. What passed is remembered by checksum. Kinds of indexes that name other files or
hold code are refused.

In shapes R are the documents of the folder and D the numbers of a vector.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require
from rerank_plugin.files.artifact import Artifact
from rerank_plugin.files.checksums import check_once
from rerank_plugin.files.text_files import byte_lines
from rerank_plugin.indexes.faiss_gpu import MOST, Place, placed, reason

log = logging.getLogger(__name__)

INDEX, IDS = "index", "docid"  # the files, as Pyserini names them
EXPORT = Artifact(  # one that this package wrote
    "an exported Faiss index",
    "export.json",
    {"query_encoder": str, "factory": str},
    (INDEX, IDS),
    editable=True,
    sampled=True,
    again="copy it completely, or export it again with: rerank-plugin index --export-faiss ENCODER --overwrite",
)
# What a file begins with, and the kind of index. Each may be the part of another: IVF, HNSW and refinement have one.
KINDS = {
    b"IxFI": "Flat",
    b"IxF2": "Flat",
    b"IxFl": "Flat",
    b"IxSQ": "SQ",
    b"IxPq": "PQ",
    b"IPfs": "PQ",
    b"IHNf": "HNSW",
    b"IHNs": "HNSW",
    b"IHNp": "HNSW",
    b"IwFl": "IVF",
    b"IwSq": "IVF",
    b"IwPQ": "IVF",
    b"IwPf": "IVF",
    b"IxPT": "a transformed index",
    b"IxMp": "an index with ids",
    b"IxM2": "an index with ids",
    b"IxRF": "a refined index",
}
METRICS = {0: "inner product", 1: "L2"}
HEADER = struct.Struct("<4siqqq?i")  # kind, numbers of a vector, vectors, two unused, is trained, metric
WIDEST = 1 << 16  # numbers of a vector
SPARE = 4 << 30  # bytes of memory that the check may take beside four times the file
SECONDS = 60  # of processor time for the check, and one more for each MB_A_SECOND
MB_A_SECOND = 20
PATIENCE = 20  # times as long it may take on a machine that is busy
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each thread more would take memory


class Header(NamedTuple):
    """The beginning of a Faiss index."""

    kind: str
    dimension: int
    documents: int
    metric: int


def read_header(path: Path) -> Header:
    """The header of a Faiss index, compared with the size of its file.

    Raises:
        InputError: it is missing, not a regular file, of a kind that is not read, or its numbers cannot be right.
    """
    if not path.is_file():
        raise InputError(
            f"{path} is no file: give a folder of Pyserini's dense index, with {INDEX} (Faiss) and {IDS} (ids)"
        )
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        raise InputError(f"{path} is no Faiss index: it has {size} bytes")
    code, dimension, documents, _, _, trained, metric = HEADER.unpack(head)
    if code not in KINDS:
        kinds = ", ".join(dict.fromkeys(KINDS.values()))
        raise InputError(f"{path} begins with {code!r}; Faiss indexes of these kinds are read: {kinds}")
    if not (0 < dimension <= WIDEST and 0 <= documents <= size and trained):
        raise InputError(
            f"{path} is damaged, or not copied completely: {documents:,} vectors of {dimension} numbers in {size:,} "
            "bytes"
        )
    if metric not in METRICS:
        raise InputError(f"{path} compares vectors by metric {metric}; {' and '.join(METRICS.values())} are read")
    return Header(KINDS[code], dimension, documents, metric)


def read_ids(path: Path, documents: int) -> list[str]:
    """The ids of a folder's documents, in the order of the vectors.

    Raises:
        InputError: there are more or fewer than vectors, or one is no UTF-8 text.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: it has the id of each vector of the index beside it, one on each line")
    ids = []
    for number, line in enumerate(byte_lines(path), 1):
        try:
            ids.append(line.decode().strip())
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number} is not UTF-8 text") from None
        if not ids[-1] or number > documents:
            break
    if len(ids) != documents or not all(ids[-1:]):
        more = f"line {len(ids)} is empty" if ids and not ids[-1] else f"it has {len(ids):,} ids or more"
        raise InputError(
            f"{path}: {more}, but the index beside it has {documents:,} vectors: the two do not belong together"
        )
    return ids


class FaissFolder:
    """A dense index of Pyserini, checked and in memory.

    Args:
        place: the CPU, or the GPUs to which the index is copied.
        nprobe: lists that IVF reads; None for the index's own.

    Raises:
        InputError: Faiss is not installed, or the folder is not one, is damaged, or of a kind that is not read, or that
            Faiss does not search on a GPU.

    Attributes:
        ids: external ids by position. index: of Faiss. searched: its copy on the GPUs, or the same.
        query_encoder: the encoder of queries that an export has recorded; empty for other folders.
    """

    def __init__(self, folder: str | Path, place: Place = Place(), nprobe: int | None = None):
        require("faiss", "a Faiss index")
        self.folder, self.query_encoder = Path(folder), ""
        path = self.folder / INDEX
        if (self.folder / EXPORT.description).exists():
            self.query_encoder = str(EXPORT.open(self.folder).description["query_encoder"])
        self.header = read_header(path)
        self.ids = read_ids(self.folder / IDS, self.header.documents)
        check(path)
        import faiss

        self.index = faiss.read_index(str(path))
        lists = faiss.try_extract_index_ivf(self.index)
        if lists is not None and nprobe is not None:
            lists.nprobe = min(nprobe, lists.nlist)
        self.searched = placed(self.index, place, self.folder)
        self._told, self._mapping = False, threading.Lock()

    def search(
        self, vector: np.ndarray, depth: int, allowed: np.ndarray | None = None, ef_search: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions, int64 [n], and scores, float32 [n], of the nearest documents, best first; n is at most ``depth``.

        Scores are inner products, or squared distances with a minus before them, so that more is better. The fewer
        documents are allowed, the more lists of IVF are read and the more candidates of HNSW kept.

        Args:
            vector: of the query, float32 [D].
            allowed: whether each document may be found, bool [R]; None for all.
            ef_search: candidates of HNSW; None for the index's own.

        Raises:
            NoSelectionError: this kind of index cannot leave documents out.
        """
        import faiss

        if self.searched is not self.index:
            left_out = 0 if allowed is None else int(np.count_nonzero(~allowed))
            if depth + left_out <= MOST:
                positions, scores = self._found(self.searched, vector, depth + left_out, None)
                kept = np.flatnonzero(allowed[positions] if left_out and allowed is not None else positions >= 0)[
                    :depth
                ]
                return positions[kept], scores[kept]
            if not self._told:
                self._told = True
                log.warning(
                    "%s: a search on a GPU finds %s documents at most, and selects none: the CPU does this one, and "
                    "others that need more", self.folder, f"{MOST:,}",
                )  # fmt: skip
        index, parameters = faiss.downcast_index(self.index), None
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
            left = max(int(np.count_nonzero(allowed)), 1)
            more = len(allowed) / left
            if isinstance(index, faiss.IndexHNSW) and left <= _candidates(index, ef_search, depth, more):
                index = faiss.downcast_index(index.storage)  # all that are left are fewer than a walk compares
            parameters = _parameters(index, selector, ef_search, more, depth)
        elif ef_search is not None:
            parameters = _parameters(index, None, ef_search)
        try:
            return self._found(index, vector, depth, parameters)
        except InputError:
            if allowed is None:
                raise
            raise NoSelectionError(self.folder, self.header.kind) from None

    def _found(self, index: Any, vector: np.ndarray, depth: int, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        try:
            found = index.search(vector[None].astype(np.float32), depth, params=parameters)
        except RuntimeError as error:
            raise InputError(f"{self.folder}: Faiss cannot search ({reason(error)})") from None
        scores, positions = found[0][0], found[1][0]
        some = positions >= 0
        return positions[some], scores[some] if self.header.metric == 0 else -scores[some]

    def vectors(self, positions: np.ndarray) -> np.ndarray:
        """The vectors of documents as the index stores them, float32 [n, D].

        Raises:
            InputError: this kind of index cannot give its vectors back.
        """
        import faiss

        part = faiss.downcast_index(self.index)
        part = faiss.downcast_index(part.index) if isinstance(part, faiss.IndexPreTransform) else part
        if isinstance(part, faiss.IndexIVF):
            with self._mapping:  # while it is made, others would read it half full
                part.make_direct_map()  # once: nothing happens if there is one
        try:
            return np.stack([self.index.reconstruct(int(position)) for position in positions])
        except RuntimeError as error:
            raise InputError(f"{self.folder} gives no vectors back ({reason(error)})") from None


class NoSelectionError(InputError):
    """An index of this kind cannot leave documents out of a search."""

    def __init__(self, folder: Path, kind: str):
        super().__init__(f"{folder}: a Faiss index of the kind {kind} cannot leave documents out of a search")


def _parameters(index: Any, selector: Any, ef_search: int | None, more: float = 1.0, depth: int = 1) -> Any:
    """Faiss's search parameters for a kind of index and what it is made of; ``more`` lists or candidates as usual."""
    import faiss

    rest = selector, ef_search, more, depth
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(index_params=_parameters(faiss.downcast_index(index.index), *rest))
    if isinstance(index, faiss.IndexIDMap):
        return _parameters(faiss.downcast_index(index.index), *rest)
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(faiss.downcast_index(index.base_index), *rest)
        return faiss.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        kind = faiss.IVFPQSearchParameters if isinstance(index, faiss.IndexIVFPQ) else faiss.SearchParametersIVF
        return kind(sel=selector, nprobe=min(math.ceil(index.nprobe * more), index.nlist))
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(sel=selector, efSearch=_candidates(index, ef_search, depth, more))
    return None if selector is None else faiss.SearchParameters(sel=selector)


def _candidates(index: Any, ef_search: int | None, depth: int, more: float) -> int:
    """How many candidates a search of HNSW keeps."""
    return min(math.ceil(max(ef_search or index.hnsw.efSearch, depth) * more), max(index.ntotal, 1))


def check(path: Path) -> None:
    """Have another process read and search a Faiss index, unless the same file has passed before.

    Raises:
        InputError: what is wrong with it; or the process ended, or took more memory or time than it may.
    """
    import faiss

    faults: list[str] = []
    size = path.stat().st_size
    memory, seconds = 4 * size + SPARE, SECONDS + size // (MB_A_SECOND * 1_000_000)

    def is_sound() -> bool:
        command = [sys.executable, "-m", "rerank_plugin.indexes.faiss_check", str(path.absolute()), f"{memory}"]
        try:
            done = subprocess.run(
                [*command, f"{seconds}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE * seconds,
                env=os.environ | ONE_THREAD,
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{path} is not read: its check took {PATIENCE * seconds:,} seconds, though not {seconds:,} of "
                "processor time: this machine is too busy, try again"
            ) from None
        if done.returncode:
            lines = done.stdout.decode(errors="replace").splitlines()
            ended = f"reading it ended the process ({done.returncode})"
            if done.returncode == -signal.SIGXCPU:
                ended = f"reading it takes more than {seconds:,} seconds of processor time"
            faults.append(lines[-1] if lines else ended)
        return not faults

    if not check_once([path], is_sound, "faiss", 2, faiss.__version__, by_content=True):
        raise InputError(f"{path} is damaged, or no Faiss index that can be read safely: {faults[0]}")
