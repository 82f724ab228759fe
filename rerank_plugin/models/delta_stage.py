"""The Delta stage ([D18] 3.2), which Delta and the classifier of 2017 share: differences to the closest query words."""

from __future__ import annotations

import torch
from torch import Tensor

from rerank_plugin.kernels.arithmetic import DROPPED_BITS, TINY

NEAR = 4e-6  # relative difference of distances in single precision, above that of equal ones


def delta_stage(documents: Tensor, document_mask: Tensor, queries: Tensor, query_mask: Tensor) -> Tensor:
    """The Delta matrix ([D18] 3.2), without parameters.

    Args:
        documents: word vectors, float [B, N, D]. queries: float [B, M, D].
        document_mask, query_mask: bool [B, N] and [B, M], True for words.

    Returns:
        float [B, N, D + 3]: ``d - q*``, ``cos(d, q*)``, ``|d - q*|``, ``1 - |d - q*| / (|d| + |q*|)`` for the closest
        query word q*; zeros for padding and for queries without words.
    """
    closest = closest_words(documents, queries, query_mask)  # [B, N]
    places = closest + torch.arange(len(queries), device=closest.device)[:, None] * queries.shape[1]  # [B, N]
    nearest = queries.flatten(0, 1)[places]  # [B, N, D]
    difference = documents - nearest  # [B, N, D]
    distance = difference.norm(dim=2)  # [B, N]
    document_norm, query_norm = documents.norm(dim=2), nearest.norm(dim=2)  # [B, N]
    cosine = (documents * nearest).sum(dim=2) / (document_norm * query_norm).clamp_min(TINY)  # [B, N]
    lengths = document_norm + query_norm
    proximity = torch.where(lengths > 0, 1 - distance / lengths.clamp_min(TINY), 0.0)  # [B, N]
    matrix = torch.cat([difference, cosine[..., None], distance[..., None], proximity[..., None]], dim=2)
    alive = document_mask & query_mask.any(dim=1, keepdim=True)  # [B, N]
    return matrix * alive[..., None]


def closest_words(documents: Tensor, queries: Tensor, query_mask: Tensor) -> Tensor:
    """Position of the query word closest to each document word, int64 [B, N]; the first one among equal distances.

    Most queries are shorter than M, so each position is compared only in the rows whose query reaches it. Distances
    come from differences: the faster expansion into products would make equal words differ. Distances that differ by
    some 1e-6 are equal, so that the order of a sum, or a last bit of a vector, does not choose the word.
    """
    smallest = documents.new_full(documents.shape[:2], torch.inf)  # [B, N]
    closest = torch.zeros(documents.shape[:2], dtype=torch.int64, device=documents.device)  # [B, N]
    for place in range(queries.shape[1]):
        rows = query_mask[:, place].nonzero()[:, 0]  # [b]
        distance = (documents[rows] - queries[rows, place, None]).norm(dim=2)  # [b, N]
        closer = distance < smallest[rows]  # [b, N]
        near = (distance - smallest[rows]).abs() <= NEAR * distance  # [b, N]
        if near.any():
            closer[near] = _is_closer(
                documents[rows][near], queries, rows.repeat_interleave(near.sum(dim=1)), place, closest[rows][near]
            )
        smallest[rows] = torch.where(closer, distance, smallest[rows])
        closest[rows] = torch.where(closer, place, closest[rows])
    return closest


def _is_closer(words: Tensor, queries: Tensor, rows: Tensor, place: int, closest: Tensor) -> Tensor:
    """Whether document words, float [n, D], are closer to the query word at a place than to those at ``closest``, [n].

    rows: int64 [n], of the queries float [B, M, D].
    """
    distance, smallest = (
        (words.double() - queries[rows, places].double()).norm(dim=1).float() for places in (place, closest)
    )  # [n] each
    return steps_of(distance) < steps_of(smallest)


def steps_of(distances: Tensor) -> Tensor:
    """Distances, float32 and not negative, as whole numbers that are equal where they differ by some 1e-6."""
    return (distances.view(torch.int32) + (1 << DROPPED_BITS - 1)) >> DROPPED_BITS
