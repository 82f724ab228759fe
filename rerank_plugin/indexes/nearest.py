"""Maximum inner product search: exhaustive, or by an approximate index of faiss.

On a CPU an exhaustive search of float32 vectors needs no faiss.

An approximate index is built once and stored beside the vectors (:mod:`rerank_plugin.indexes.stored_encodings`), in a
folder by its kind: ``index.faiss`` is what faiss writes, with the vectors in their dtype; ``ann.json`` has the kind and
the options, and checksums of this file and of the description of the encodings.

``ivf``: k-means divides the vectors into ``nlist`` groups; a search reads the ``nprobe`` nearest groups. ``hnsw``: a
graph (Malkov and Yashunin 2016) of about ``2 * links`` neighbours per vector; a search keeps the best ``ef_search``
vectors that it has visited. Both are approximate: they may miss vectors, but never return a wrong score.

faiss searches in the calling thread only: OpenMP's threads would spin after each search and take processor time from
the reranker. Letters in shapes: R documents, E numbers of a vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.settings import setting
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import FolderKind, check_free, replacing_folder
from rerank_plugin.indexes.index_folder import reading, write_description
from rerank_plugin.indexes.stored_encodings import DESCRIPTION_FILE
from rerank_plugin.kernels.parallel import available_threads

FLAT, IVF, HNSW = "flat", "ivf", "hnsw"
ANN_KINDS = (IVF, HNSW)
KINDS = (FLAT, *ANN_KINDS)
FORMAT_VERSION = 1
INDEX_FILE, ANN_FILE = "index.faiss", "ann.json"
ANN = FolderKind("an approximate index", ANN_FILE, ("kind", "encodings"), (INDEX_FILE,))
PIECE = 65_536  # vectors that are converted, or compared by one thread, at once
SAMPLE = 64  # vectors of each group that its centre is computed from, at most
MOST_OF_GPU = 2048  # documents that faiss returns from a GPU


def faiss_module():
    """faiss; a `MissingExtraError` if it is not installed."""
    with naming_extras("approximate or half-precision dense retrieval"):
        import faiss

    return faiss


@dataclass(frozen=True)
class AnnConfig:
    """How an approximate index is built.

    Attributes:
        nlist: by default ``4 * sqrt(R)``, but at most ``R / 39``.
        seed: of the groups' centres.
        threads: by default all available; with more than one, ``hnsw`` differs slightly between builds.
    """

    kind: str
    nlist: int | None = setting(
        None, "inverted lists of ivf (default: 4 times the root of the number of documents)", type=int
    )
    links: int = setting(32, "neighbours of each vector in hnsw (M)")
    ef_construction: int = setting(80, "candidates that hnsw keeps while it is built")
    seed: int = 42
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ANN_KINDS:
            raise InputError(f"unknown index of vectors '{self.kind}'; known: {', '.join(ANN_KINDS)}")
        numbers = (self.nlist, self.ef_construction, self.threads)
        if min(number for number in numbers if number is not None) < 1 or self.links < 2:
            raise InputError(
                "an index of vectors needs nlist, ef-construction and threads of 1 and links of 2 at least"
            )


def build_ann(encodings: Path, vectors: np.ndarray, config: AnnConfig, overwrite: bool = False) -> Path:
    """Build an approximate index of vectors float32 or float16 [R, E] and write it to their folder, atomically.

    Raises:
        InputError: something is there that must not be replaced, or there are more groups than vectors.
    """
    folder = encodings / config.kind
    check_free(folder, ANN, overwrite)
    faiss = faiss_module()
    with _threads(faiss, config.threads or available_threads()):
        index, options = _trained(faiss, vectors, config)
        for start in range(0, len(vectors), PIECE):
            index.add(np.ascontiguousarray(vectors[start : start + PIECE], np.float32))
    with replacing_folder(folder, ANN, overwrite) as writing:
        faiss.write_index(index, str(writing / INDEX_FILE))
        described = {
            "format_version": FORMAT_VERSION,
            "kind": config.kind,
            "options": options,
            "encodings": describe_file(encodings / DESCRIPTION_FILE)["blake2b"],
            "index": describe_file(writing / INDEX_FILE),
            "faiss": faiss.__version__,
        }
        write_description(writing / ANN_FILE, described, [INDEX_FILE])
    return folder


def _trained(faiss, vectors: np.ndarray, config: AnnConfig):
    """A trained faiss index without vectors, and its options."""
    count, size = vectors.shape
    stored = "Flat" if vectors.dtype == np.float32 else "SQfp16"
    if config.kind == HNSW:
        index = faiss.index_factory(size, f"HNSW{config.links},{stored}", faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = config.ef_construction
        options = {"links": config.links, "ef_construction": config.ef_construction}
    else:
        nlist = config.nlist or max(1, min(round(4 * count**0.5), count // 39))
        if nlist > count:
            raise InputError(f"{nlist} groups are too many for {count} documents: take fewer")
        index = faiss.index_factory(size, f"IVF{nlist},{stored}", faiss.METRIC_INNER_PRODUCT)
        index.by_residual = False  # float16 vectors stay as they are: distances from a centre would be rounded again
        index.cp.seed, index.cp.min_points_per_centroid = config.seed, 1  # small groups are no fault of a small index
        options = {"nlist": nlist, "seed": config.seed}
        rows = np.arange(count)
        if count > nlist * SAMPLE:
            rows = np.sort(np.random.default_rng(config.seed).choice(count, nlist * SAMPLE, replace=False))
        index.train(np.ascontiguousarray(vectors[rows], np.float32))
    return index, options


@contextmanager
def _threads(faiss, threads: int) -> Iterator[None]:
    """Set the number of OpenMP threads for the calls of this thread to faiss."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class FlatSearch:
    """Exhaustive search of vectors float32 or float16 [R, E]. On a CPU, float32 ones are read from the map uncopied.

    Attributes:
        most: the largest number of documents that a search can return; None for no limit.
        exact: whether inner products are exact up to the rounding of float32 sums over the stored numbers.
    """

    exact = True

    def __init__(self, vectors: np.ndarray, device: str = "cpu"):
        self.vectors, self.most, self.index = vectors, None, None
        if device != "cpu" or vectors.dtype != np.float32:
            self.index = self._filled(device)
        if device != "cpu":
            self.most, self.exact = MOST_OF_GPU, False  # by the GPU's rounding

    def _filled(self, device: str):
        faiss = self.faiss = faiss_module()
        size = self.vectors.shape[1]
        if self.vectors.dtype == np.float32:
            index = faiss.IndexFlatIP(size)
        else:
            index = faiss.IndexScalarQuantizer(size, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index = on_device(faiss, index, device)
        for start in range(0, len(self.vectors), PIECE):
            index.add(np.ascontiguousarray(self.vectors[start : start + PIECE], np.float32))
        return index

    def search(self, query: np.ndarray, count: int, fits: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Rows int64 [n] and products float32 [n] with a query float32 [E] of the best vectors, best first.

        ``fits`` bool [R] tells which vectors may be found; None for all.
        """
        count = min(count, len(self.vectors) if fits is None else int(fits.sum()))
        if not count:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if self.index is not None:
            how = None if fits is None else self.faiss.SearchParameters(sel=selector(self.faiss, fits))
            with _threads(self.faiss, 1):
                products, rows = self.index.search(query[None], count, params=how)
            return rows[0], products[0]
        from rerank_plugin.kernels.inner_products import all_inner_products  # numba is slow to import

        products = all_inner_products(query, self.vectors)  # [R]
        if fits is not None:
            products = np.where(fits, products, -np.inf)
        best = np.argpartition(products, len(products) - count)[len(products) - count :]
        rows = best[np.argsort(-products[best], kind="stable")]
        return rows, products[rows]


class AnnSearch:
    """Searches an approximate index that :func:`build_ann` has written.

    Args:
        effort: nprobe of ``ivf``, or ef_search of ``hnsw``.

    Raises:
        InputError: the index is missing, damaged, or of other encodings; or it cannot be used on the device.
    """

    def __init__(self, encodings: Path, kind: str, effort: int, device: str, build: str):
        self.faiss = faiss_module()
        index = _opened(self.faiss, encodings / kind, encodings, build)
        self.most = None if device == "cpu" else MOST_OF_GPU
        self.exact = kind == IVF and device == "cpu"  # a graph would have to walk much further for the last ranks
        if kind == HNSW:
            if device != "cpu":
                raise InputError(
                    "faiss has no hnsw index for GPUs: use a flat or an ivf one, or keep the vectors on the CPU"
                )
            self.how = partial(self.faiss.SearchParametersHNSW, efSearch=effort)
        else:
            self.how = partial(self.faiss.SearchParametersIVF, nprobe=min(effort, index.nlist))
        self.index = on_device(self.faiss, index, device)

    def search(self, query: np.ndarray, count: int, fits: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`FlatSearch.search`, but it may miss vectors and then find fewer."""
        how = self.how(**({} if fits is None else {"sel": selector(self.faiss, fits)}))
        with _threads(self.faiss, 1):
            products, rows = self.index.search(query[None], min(count, self.index.ntotal), params=how)
        found = rows[0] >= 0
        return rows[0][found], products[0][found]


def _opened(faiss, folder: Path, encodings: Path, build: str):
    """The faiss index in a folder, after its checksum was verified."""
    if not folder.is_dir():
        raise InputError(f"{encodings} holds no {folder.name} index of its vectors; build it with: {build}")
    again = f"build it again with: {build} --overwrite"
    with reading(folder, again):
        described = json.loads((folder / ANN_FILE).read_bytes())
        found = [described["format_version"], described["kind"], described["encodings"], described["index"]["blake2b"]]
        checksums = [describe_file(path)["blake2b"] for path in (encodings / DESCRIPTION_FILE, folder / INDEX_FILE)]
    if found != [FORMAT_VERSION, folder.name, *checksums]:
        raise InputError(f"{folder} is damaged, or was built of other encodings; {again}")
    try:
        return faiss.read_index(str(folder / INDEX_FILE))
    except RuntimeError as error:
        raise InputError(f"{folder / INDEX_FILE} cannot be read ({str(error).splitlines()[0]}); {again}") from None


def selector(faiss, fits: np.ndarray):
    """What tells faiss which vectors it may find, of bool [R]."""
    return faiss.IDSelectorBitmap(np.packbits(fits, bitorder="little"))


def on_device(faiss, index, device: str):
    """The index on a device; an `InputError` if the device is unknown, or faiss has no such GPU."""
    if device == "cpu":
        return index
    name, _, number = device.partition(":")
    if name != "cuda" or not (number or "0").isdecimal():
        raise InputError(f"the device '{device}' is unknown to dense retrieval; known: cpu, cuda, cuda:N")
    gpus = getattr(faiss, "get_num_gpus", int)()
    if int(number or 0) >= gpus:
        raise InputError(
            f"faiss cannot use {device}: it finds {gpus} GPUs; install a faiss with support for GPUs, or keep the "
            "vectors on the CPU"
        )
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), int(number or 0), index)
