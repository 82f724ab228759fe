"""Finds the smallest of many distances with cheap lower bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROUNDING = 1e-9  # relative; above the rounding errors of bound and distance, below the precision of float32
BATCH_SIZE = 32  # titles that are solved before the k-th smallest distance is updated


def least_distances(bounds: np.ndarray, exact: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """Distances, float64 [C]: exact for the ``count`` smallest and for all ties with them; the others may be bounds.

    Two distances tie if they are equal as float32, the dtype of scores.

    Args:
        bounds: lower bounds of the distances, up to rounding, float64 [C].
        exact: a function from positions of titles, int64 [n], to their exact distances, float64 [n].
    """
    distances = bounds * (1 - ROUNDING)
    order = np.argsort(distances, kind="stable")
    limits = distances[order].astype(np.float32)
    done, stop = 0, min(count, len(order))
    while done < stop:
        distances[order[done:stop]] = exact(order[done:stop])
        done = stop
        worst = np.partition(distances[order[:done]], count - 1)[count - 1] if done >= count else np.inf
        stop = min(int(np.searchsorted(limits, np.float32(worst), side="right")), done + BATCH_SIZE)
    return distances
