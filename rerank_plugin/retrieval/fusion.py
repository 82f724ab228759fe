"""Fusion of ranked lists of one query: reciprocal ranks, or interpolated scores, normalized or as they are.

* ``rrf``: reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009): ``sum of w / (k + rank)`` over the lists
  that hold the document, k = 60 and w = 1 in the paper.
* ``linear``: ``sum of w * s``, s the document's score in the list after min-max normalization to [0, 1]. A document
  that the list lacks has s = 0, the smallest. If all scores of a list are equal, its documents have s = 1.
* ``raw``: the same with the scores as they are; a document that the list lacks has the list's smallest;
  of an empty list 0. So Pyserini's ``HybridSearcher`` fuses unless it normalizes.

Sums are float64, in the order of the lists; the fused scores are float32. Letters in shapes: L lists, n documents of
one list, C documents of all lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.register import FirstStage, FirstStageConfig, can_filter, lacking_words

METHODS = RRF, LINEAR, RAW = "rrf", "linear", "raw"
PAPER_K = 60.0
FUSION_DEPTH = 1000


def min_max(scores: np.ndarray) -> np.ndarray:
    """Scores normalized to [0, 1], float64 [n]; all 1 if they are equal."""
    scores = np.asarray(scores, np.float64)
    if not len(scores):
        return scores
    lowest, highest = scores.min(), scores.max()
    return (scores - lowest) / (highest - lowest) if highest > lowest else np.ones(len(scores))


class Table(NamedTuple):
    """The values of each list for each document of one query."""

    keys: np.ndarray  # the documents, ascending, int64 [C]
    values: np.ndarray  # float64 [L, C]; a document that a list lacks has 0, by ``raw`` its smallest score

    def scores(self, weights: Sequence[float]) -> np.ndarray:
        """The weighted sums over the lists, float32 [C]."""
        total = np.zeros(len(self.keys))
        for weight, values in zip(weights, self.values, strict=True):
            total += weight * values
        return total.astype(np.float32)


def table(keys: Sequence[np.ndarray], scores: Sequence[np.ndarray], method: str, k: float = PAPER_K) -> Table:
    """The table of one query, from each list's keys int64 [n], distinct and in rank order, and scores float32 [n]."""
    rows, places = np.unique(np.concatenate(keys), return_inverse=True)
    values = np.zeros((len(keys), len(rows)))
    start = 0
    for number, list_scores in enumerate(scores):
        stop = start + len(list_scores)
        if method == RRF:
            list_values = 1.0 / (k + np.arange(1, len(list_scores) + 1))
        elif method == LINEAR:
            list_values = min_max(list_scores)
        else:
            list_values = list_scores
            values[number] = min(list_scores, default=0.0)
        values[number, places[start:stop]] = list_values
        start = stop
    return Table(rows, values)


def fuse(
    forward: ForwardIndex,
    lists: Sequence[Candidates],
    weights: Sequence[float],
    depth: int,
    method: str = LINEAR,
    k: float = PAPER_K,
) -> Candidates:
    """The best ``depth`` documents of several searches, fused with a weight for each."""
    fused = table([found.rows for found in lists], [found.first_stage_scores for found in lists], method, k)
    return Candidates(forward, fused.keys, fused.scores(weights)).best(depth)


def check(method: str, k: float) -> None:
    """Check the parameters of a fusion.

    Raises:
        InputError: the method is unknown, or k is negative or not finite.
    """
    if method not in METHODS:
        raise InputError(f"unknown fusion '{method}'; known: {', '.join(METHODS)}")
    if not 0 <= k < math.inf:
        raise InputError(f"the k of reciprocal rank fusion is {k:g}; it must be 0 or more")


def lists_weights(method: str, weights: Sequence[float] | None, lists: int) -> tuple[float, ...]:
    """A weight for each list; a single w for two lists gives (w, 1 - w).

    By default the weights are equal: 1 in reciprocal rank fusion, and 1 in sum in interpolation.

    Raises:
        InputError: the number of weights differs from that of lists, a weight is negative or not finite, or all are 0.
    """
    if not weights:
        return (1.0 if method == RRF else 1.0 / lists,) * lists
    if lists == 2 and len(weights) == 1 and 0 <= weights[0] <= 1:
        return float(weights[0]), 1.0 - weights[0]
    if len(weights) != lists:
        raise InputError(
            f"{len(weights)} fusion weights for {lists} ranked lists: give one for each, or for two lists the first "
            "list's, between 0 and 1"
        )
    if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
        raise InputError(
            f"fusion weights {' '.join(f'{weight:g}' for weight in weights)}: none may be negative, and not all 0"
        )
    return tuple(float(weight) for weight in weights)


@dataclass(frozen=True)
class FusionConfig:
    """A first stage that fuses others.

    Attributes:
        stages: configurations of the fused first stages.
        weights: as :func:`lists_weights` gives them.
    """

    name: str = field(default="fused", init=False)
    stages: tuple[FirstStageConfig, ...]
    method: str = setting(
        RRF,
        "method of fusion: rrf (reciprocal ranks), linear (scores, normalized to [0, 1] by query) or raw (scores as "
        "they are)",
        option="fusion",
    )
    weights: tuple[float, ...] = setting(
        (),
        "weights of the fused stages; for two stages, the weight of the first is enough (default: equal)",
        option="fusion_weight",
        metavar="W",
    )
    k: float = setting(PAPER_K, "k of rrf", option="fusion_k")
    fusion_depth: int = setting(FUSION_DEPTH, "documents taken from each stage; 0 for all", ge=0)

    def __post_init__(self) -> None:
        check(self.method, self.k)
        object.__setattr__(self, "weights", lists_weights(self.method, self.weights, len(self.stages)))
        check_bounds(self)

    def open(self, index: Index) -> FusedStage:
        return FusedStage(index.forward, [stage.open(index) for stage in self.stages], self)


class FusedStage:
    """Searches several first stages and fuses their ranked lists. It is thread-safe."""

    def __init__(self, forward: ForwardIndex, stages: Sequence[FirstStage], config: FusionConfig):
        self.forward, self.stages, self.config, self.name = forward, stages, config, config.name
        self.filters = all(map(can_filter, stages))

    def search(self, query: Query, depth: int) -> Candidates:
        """The best ``depth`` of the fused documents, by float32 score, then by decreasing document id."""
        fusion_depth = self.config.fusion_depth or max(len(self.forward), 1)
        lists = [stage.search(query, fusion_depth) for stage in self.stages]
        return fuse(self.forward, lists, self.config.weights, depth, self.config.method, self.config.k)

    def lacking_words(self, query: Query) -> list[str]:
        return [name for stage in self.stages for name in lacking_words(stage, query)]
