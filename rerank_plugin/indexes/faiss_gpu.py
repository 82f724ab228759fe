"""Faiss indexes on GPUs: where they are put, which kinds can be, and what a search there cannot do.

**None of it has run on a GPU.** The tests reach what a machine without one can: which kinds are refused, and how a
limited search is answered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rerank_plugin.base.errors import InputError

ONE, SHARDS, REPLICAS = "one", "shards", "replicas"
GPUS = (ONE, SHARDS, REPLICAS)
FAISS, CAGRA = "faiss", "cagra"  # searches of stored vectors: of all, or by a graph
MOST = 2048  # documents that a search on a GPU finds


class Place(NamedTuple):
    """Where a Faiss index is searched.

    Attributes:
        device: ``cpu``, or a GPU of torch's names (``cuda``, ``cuda:1``).
        float16: whether a GPU holds flat vectors, and computes tables of PQ, in half precision.
        gpus: `ONE`, or all by `SHARDS` (a part of the documents on each) or `REPLICAS` (all documents on each).
    """

    device: str = "cpu"
    float16: bool = False
    gpus: str = ONE

    @property
    def on_cpu(self) -> bool:
        return self.device.partition(":")[0] == "cpu"

    @property
    def number(self) -> int:
        """The number of the GPU."""
        return int(self.device.partition(":")[2] or 0)


def check_gpu(place: Place) -> None:
    """Raise an `InputError` unless Faiss can use the place's GPU."""
    import faiss

    if not hasattr(faiss, "StandardGpuResources"):
        raise InputError(
            f"this Faiss searches on CPUs only: install faiss-gpu for {place.device}, or search on the CPU"
        )
    if not place.device.startswith("cuda") or place.number >= faiss.get_num_gpus():
        raise InputError(f"Faiss finds no GPU '{place.device}': it sees {faiss.get_num_gpus()}, named cuda:0 and so on")


def unsupported(index: Any) -> str:
    """The kind of an index, or of one in it, that Faiss does not search on a GPU; empty if there is none."""
    import faiss

    index = faiss.downcast_index(index)
    if isinstance(index, (faiss.IndexPreTransform, faiss.IndexIDMap)):
        return unsupported(index.index)
    kinds = (faiss.IndexFlat, faiss.IndexIVFFlat, faiss.IndexIVFScalarQuantizer, faiss.IndexIVFPQ)
    return "" if isinstance(index, kinds) else type(index).__name__


def placed(index: Any, place: Place, name: object) -> Any:
    """An index on the GPUs of a place; the same index for the CPU.

    Args:
        name: of the index, for messages.

    Raises:
        InputError: Faiss has no such GPU, does not search this kind there, or its memory is too small.
    """
    import faiss

    if place.on_cpu:
        return index
    check_gpu(place)
    if kind := unsupported(index):
        raise InputError(
            f"{name}: Faiss searches no {kind} on a GPU, but flat indexes and IVF of these, SQ and PQ: search it on "
            "the CPU"
        )
    options = faiss.GpuClonerOptions() if place.gpus == ONE else faiss.GpuMultipleClonerOptions()
    options.useFloat16 = place.float16
    try:
        if place.gpus == ONE:
            resources = faiss.StandardGpuResources()
            moved = faiss.index_cpu_to_gpu(resources, place.number, index, options)
            moved.resources_of_gpu = resources  # they must live as long as the index
            return moved
        options.shard = place.gpus == SHARDS
        return faiss.index_cpu_to_all_gpus(index, options)
    except RuntimeError as error:
        raise InputError(f"{name} cannot be searched on {place.device}: {reason(error)}") from None


def reason(error: RuntimeError) -> str:
    """The last part of a message of Faiss, which begins with the place in its source."""
    return str(error).strip().splitlines()[-1].rpartition(": ")[2]
