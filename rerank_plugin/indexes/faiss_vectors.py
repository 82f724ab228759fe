"""The vectors of a store in a Faiss index, which searches them in its place: exactly, or by a graph of CAGRA on a GPU.

What Faiss finds is scored again by the codes of the store, so that scores do not depend on who searched. A search that
Faiss cannot do, of too many documents or of those that fit a filter, is done by the store.

Letters in shapes: R documents, E numbers of a vector, Q queries, k best.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require
from rerank_plugin.indexes.faiss_gpu import CAGRA, FAISS, MOST, Place, check_gpu, placed, reason
from rerank_plugin.indexes.vector_search import Fits, Hits, Queries, VectorSearch
from rerank_plugin.indexes.vector_store import VectorStore
from rerank_plugin.kernels.quantization import QuantizedQueries

log = logging.getLogger(__name__)

CHUNK = 1 << 16  # documents that are added at once
MORE = 16  # documents found beyond those asked for: single precision may exchange neighbours
ITOPK = 32  # the list of a search by CAGRA is a multiple of it


class FaissVectors(VectorSearch):
    """The vectors of a store in a Faiss index.

    Args:
        engine: `FAISS`, which compares all vectors, or `CAGRA`, which follows a graph on a GPU and may miss some.

    Raises:
        InputError: Faiss is missing, has no such GPU or no CAGRA, or the vectors do not fit into the GPU's memory.
    """

    def __init__(self, store: VectorStore, place: Place, engine: str = FAISS):
        require("faiss", f"the dense engine {engine}")
        import faiss

        self.store = store
        if engine == CAGRA:
            self.index = _graph(store, place)
        else:
            self.index = placed(faiss.IndexFlatIP(store.size), place, "the flat index of the vectors")
            try:
                for start in range(0, len(store), CHUNK):
                    self.index.add(_vectors(store, slice(start, start + CHUNK)))
            except RuntimeError as error:
                raise InputError(f"the vectors of {len(store):,} documents: {reason(error)}") from None
        self.engine = engine
        log.info("%s searches %d vectors on %s", engine, len(store), place.device)

    def search_many(self, queries: Queries, count: int, fits: Fits = None, probes: int | None = None) -> list[Hits]:
        import faiss

        quantized, fitting = self.store.quantize(queries), self.store.fitting(fits)
        left_out = 0 if fitting is None else len(self.store) - len(fitting.positions)
        if min(count + left_out, len(self.store)) > MOST:
            return self.store.search_many(quantized, count, fitting, probes)
        most = min(count + MORE + left_out, len(self.store), MOST)
        parameters = None
        if self.engine == CAGRA:
            parameters = faiss.SearchParametersCagra()
            parameters.itopk_size = -(-most // ITOPK) * ITOPK
        vectors = np.ascontiguousarray(_decoded(self.store, quantized), np.float32)  # [Q, E]
        _, positions = self.index.search(vectors, most, params=parameters)  # [Q, k]
        hits = []
        for place, found in enumerate(positions):
            found = found[found >= 0]
            if fitting is not None:
                found = np.intersect1d(found, fitting.positions)
            hits.append(self.store.best_of(quantized.take([place]), found, count))
        return hits


def _vectors(store: VectorStore, positions: slice) -> np.ndarray:
    """The vectors at some positions of a store, float32 [n, E]."""
    return np.ascontiguousarray(store.decode(store.rows_at(np.arange(len(store))[positions])), np.float32)


def _decoded(store: VectorStore, queries: QuantizedQueries) -> np.ndarray:
    """The vectors of queries, float64 [Q, E]."""
    widths = np.diff(queries.starts)
    numbers = queries.numbers[:, : widths.sum()] * np.repeat(queries.scales, widths, axis=1)
    return numbers[:, store.spaces.columns[: store.size]]


def _graph(store: VectorStore, place: Place) -> Any:
    """The graph of CAGRA over all vectors, which it needs at once."""
    import faiss

    if place.on_cpu:
        raise InputError("cagra needs a GPU: give device cuda, or search by another dense engine")
    check_gpu(place)
    if not hasattr(faiss, "GpuIndexCagra"):
        raise InputError(
            "this Faiss has no CAGRA: install faiss-gpu-cuvs, or search by the dense engine torch or faiss"
        )
    resources, config = faiss.StandardGpuResources(), faiss.GpuIndexCagraConfig()
    config.device = place.number
    index = faiss.GpuIndexCagra(resources, store.size, faiss.METRIC_INNER_PRODUCT, config)
    index.resources_of_gpu = resources  # they must live as long as the index
    try:
        index.train(_vectors(store, slice(None)))  # it adds what it is trained on
    except RuntimeError as error:
        raise InputError(f"a graph of {len(store):,} vectors: {reason(error)}") from None
    return index
