"""Checks a Faiss index in a process of its own, given the file, BYTES and SECONDS.

Faiss compares sizes when it reads a file, but a search follows numbers that it does not compare: links of a graph,
ids in inverted lists, entry points. Each of them is compared here, then the index is searched. The process may take
BYTES of memory and SECONDS of processor time. It prints what is wrong, and exits with 1; if Faiss crashes, this process
alone ends.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

import numpy as np

BATCH = 1 << 16  # lists whose ids are compared between two looks at the clock
QUERIES, CHECKED_DEPTH = 4, 100


class Fault(Exception):
    """What is wrong with an index."""


def check(index: Any, dimension: int, documents: int) -> None:
    """Compare all numbers of an index, and of the indexes in it, that a search follows.

    Args:
        dimension, documents: as the index that it is in expects them.
    """
    import faiss

    index = faiss.downcast_index(index)
    kind = type(index).__name__
    if (index.d, index.ntotal) != (dimension, documents):
        raise Fault(f"{kind} holds {index.ntotal} vectors of {index.d} numbers, for {documents} of {dimension}")
    if index.metric_type not in (faiss.METRIC_INNER_PRODUCT, faiss.METRIC_L2):
        raise Fault(f"{kind} has the metric {index.metric_type}")
    if isinstance(index, faiss.IndexPreTransform):
        _check_transforms(index, documents)
    elif isinstance(index, faiss.IndexIDMap):
        _below(faiss.vector_to_array(index.id_map), documents, "its ids", length=documents)
        check(index.index, dimension, documents)
    elif isinstance(index, faiss.IndexRefine):
        check(index.base_index, dimension, documents)
        check(index.refine_index, dimension, documents)
    elif isinstance(index, faiss.IndexHNSW):
        check(index.storage, dimension, documents)
        _check_graph(index.hnsw, documents)
    elif isinstance(index, faiss.IndexIVF):
        check(index.quantizer, dimension, index.nlist)
        _check_lists(index, documents)
    elif not isinstance(index, (faiss.IndexFlat, faiss.IndexScalarQuantizer, faiss.IndexPQ, faiss.IndexPQFastScan)):
        raise Fault(f"{kind} is not read")
    elif hasattr(index, "codes") and faiss.vector_to_array(index.codes).size < documents * index.code_size:
        raise Fault(f"{kind} has fewer codes than vectors")


def _check_transforms(index: Any, documents: int) -> None:
    import faiss

    width = index.d
    for number in range(index.chain.size()):
        step = faiss.downcast_VectorTransform(index.chain.at(number))
        if not isinstance(step, (faiss.LinearTransform, faiss.NormalizationTransform, faiss.CenteringTransform)):
            raise Fault(f"the transform {type(step).__name__} is not read")
        if step.d_in != width or not 0 < step.d_out <= 1 << 16:
            raise Fault(f"a transform takes {step.d_in} numbers, for {width}")
        if isinstance(step, faiss.LinearTransform):
            matrix, offset = faiss.vector_to_array(step.A), faiss.vector_to_array(step.b)
            if matrix.size != step.d_in * step.d_out or step.have_bias and offset.size != step.d_out:
                raise Fault("a transform's matrix has another size")
        if isinstance(step, faiss.CenteringTransform) and faiss.vector_to_array(step.mean).size != width:
            raise Fault("a transform's mean has another size")
        width = step.d_out
    check(index.index, width, documents)


def _check_graph(graph: Any, documents: int) -> None:
    import faiss

    levels, offsets, neighbours, widths = (
        faiss.vector_to_array(array).astype(np.int64)
        for array in (graph.levels, graph.offsets, graph.neighbors, graph.cum_nneighbor_per_level)
    )
    _below(neighbours, documents, "a link", least=-1)
    _below(np.array([graph.entry_point]), documents, "the entry point", least=-1)
    if len(levels) != documents or len(offsets) != documents + 1 or np.any(np.diff(widths) < 0) or not len(widths):
        raise Fault("the graph has another size")
    _below(levels, len(widths), "a level", least=1)
    _below(np.array([graph.max_level]), len(widths) - 1, "the highest level", least=-1)
    if offsets[0] != 0 or offsets[-1] != len(neighbours) or np.any(np.diff(offsets) != widths[levels]):
        raise Fault("the links of the graph do not fit its levels")
    if documents and levels[graph.entry_point] != graph.max_level + 1:
        raise Fault("the graph is entered on another level")


def _check_lists(index: Any, documents: int) -> None:
    import faiss

    lists = faiss.downcast_InvertedLists(index.invlists)
    if not isinstance(lists, (faiss.ArrayInvertedLists, faiss.BlockInvertedLists)):
        raise Fault(f"{type(lists).__name__} are not read: they name another file")
    if lists.nlist != index.nlist:
        raise Fault(f"{lists.nlist} inverted lists for {index.nlist}")
    counted = np.zeros(documents, bool)
    for number in range(index.nlist):
        if size := lists.list_size(number):
            ids = faiss.rev_swig_ptr(lists.get_ids(number), size)
            _below(ids, documents, "the id of a vector")
            counted[ids] = True
    if not counted.all():
        raise Fault("a vector is in no inverted list")


def _below(values: np.ndarray, limit: int, what: str, least: int = 0, length: int | None = None) -> None:
    if length is not None and len(values) != length:
        raise Fault(f"{what} are {len(values)}, for {length}")
    if len(values) and not (least <= values.min() and values.max() < limit):
        raise Fault(f"{what} is {values.min() if values.min() < least else values.max()}, for {limit} vectors")


def main(path: str, memory: str, seconds: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import faiss

    faiss.omp_set_num_threads(1)
    try:
        with open(path, "rb") as file:
            reader = faiss.PyCallbackIOReader(file.read)
            index = faiss.read_index(reader, faiss.IO_FLAG_READ_ONLY)
            if more := os.fstat(file.fileno()).st_size - file.tell():
                raise Fault(f"the file is longer than its index, by {more:,} B: files were joined, or bytes repeated")
        check(index, index.d, index.ntotal)
        queries = np.random.default_rng(0).standard_normal((QUERIES, index.d)).astype(np.float32)
        index.search(np.concatenate([queries, np.zeros_like(queries)]), min(CHECKED_DEPTH, max(index.ntotal, 1)))
    except (Fault, RuntimeError, MemoryError) as error:
        print(str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
