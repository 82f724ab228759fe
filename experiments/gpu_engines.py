"""What searches stored vectors on a GPU, side by side: the product in torch, Faiss, and its graph of CAGRA.

Where Faiss or its CAGRA cannot use the device, the row says so. On a CPU (``--device cpu:0``) Faiss searches there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rerank_plugin import InputError
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.faiss_gpu import CAGRA, FAISS, Place
from rerank_plugin.indexes.rows import Rows
from rerank_plugin.indexes.vector_store import SegmentVectors, VectorStore
from rerank_plugin.kernels.quantization import Codes, Spaces

BATCH = 64
DEPTHS = (1000, 2048)
CLUSTERS, CHUNK = 1000, 1 << 18
HEADER = ["engine", "vectors", "depth", "one query, ms", "of 64, ms", "recall", "made in, s", "GPU memory, MB"]


def clustered(documents: int, width: int, seed: int = 42) -> VectorStore:
    """A store of generated vectors around `CLUSTERS` centres, as texts have topics."""
    random, spaces = np.random.default_rng(seed), Spaces([width])
    centres = random.standard_normal((CLUSTERS, width), dtype=np.float32)
    codes, scales = np.empty((documents, spaces.padded), np.int8), np.empty((documents, 1), np.float32)
    for start in range(0, documents, CHUNK):
        part = slice(start, min(start + CHUNK, documents))
        noise = random.standard_normal((part.stop - start, width), dtype=np.float32)
        codes[part], scales[part] = spaces.quantize(centres[random.integers(CLUSTERS, size=len(noise))] + noise)
    rows = np.arange(documents, dtype=np.int32)
    centroid: Codes = spaces.quantize(np.zeros((1, width), np.float32))
    part = SegmentVectors(Codes(codes, scales), rows, rows, np.array([0, documents]))
    return VectorStore(spaces, [part], Rows([documents]), centroid)


def milliseconds(work: Callable[[], object], device: str, times: int = 50) -> float:
    """The median time of some work, after a warm-up, until the device has finished."""
    import torch

    def finished() -> float:
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        return time.perf_counter()

    measured = []
    for _ in range(times + 3):
        started = finished()
        work()
        measured.append(finished() - started)
    return 1e3 * float(np.median(measured[3:]))


def engine_table(device: str, sizes: list[int], width: int = 256) -> str:
    """A table of all engines over generated vectors."""
    rows = [row for size in sizes for row in engine_rows(device, clustered(size, width))]
    return markdown([HEADER, *rows])


def engine_rows(device: str, store: VectorStore) -> Iterator[list[str]]:
    """A row for each engine and depth. Queries are vectors of the store."""
    from rerank_plugin.indexes.device_vectors import DeviceVectors
    from rerank_plugin.indexes.faiss_vectors import FaissVectors

    engines: dict[str, Callable[[], Any]] = {
        "torch": lambda: DeviceVectors(store, device),
        "faiss": lambda: FaissVectors(store, Place(device), FAISS),
        "faiss, float16": lambda: FaissVectors(store, Place(device, float16=True), FAISS),
        "cagra": lambda: FaissVectors(store, Place(device), CAGRA),
    }
    queries = store.decode(np.arange(min(BATCH, len(store))))
    exact: dict[int, list[set[int]]] = {}
    for engine, opened in engines.items():
        vectors: Any = None  # the memory of the engine before is free
        free, started = _free_megabytes(device), time.perf_counter()
        try:
            vectors = opened()
        except InputError as error:
            yield [engine, f"{len(store):,}", str(error), *[""] * (len(HEADER) - 3)]
            continue
        seconds, memory = time.perf_counter() - started, free - _free_megabytes(device)
        for depth in DEPTHS:
            found = [set(rows.tolist()) for rows, _ in vectors.search_many(queries, depth)]
            best = exact.setdefault(depth, found)
            recall = np.mean([len(some & all_) / len(all_) for some, all_ in zip(found, best, strict=True)])
            alone = milliseconds(lambda: vectors.search(queries[0], depth), device)  # noqa: B023 (called at once)
            together = milliseconds(lambda: vectors.search_many(queries, depth), device, 10)  # noqa: B023
            figures = f"{alone:.2f}", f"{together / len(queries):.3f}", f"{recall:.4f}", f"{seconds:.1f}"
            yield [engine, f"{len(store):,}", f"{depth:,}", *figures, f"{memory:.0f}" if free else ""]


def _free_megabytes(device: str) -> float:
    """The memory of a GPU that no process uses, in MB; 0 on a CPU."""
    import torch

    return torch.cuda.mem_get_info(device)[0] / 2**20 if device.startswith("cuda") else 0.0
