"""Finds the smallest of many distances with the help of cheap lower bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROUNDING = 1e-9  # of a bound: more than the two are off, and too little to be seen in a float32
AT_ONCE = 32  # titles that are solved between two looks at the k-th best distance


def least_distances(bounds: np.ndarray, exact: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """Distances, float64 [C]: exact for the ``count`` smallest and for all ties with them; the others may be bounds.

    Two distances tie if they are equal as float32, the dtype of scores.

    Args:
        bounds: lower bounds of the distances, up to rounding, float64 [C].
        exact: the exact distances of titles at given positions, int64 [n] to float64 [n].
    """
    found = bounds * (1 - ROUNDING)
    order = np.argsort(found, kind="stable")
    limits = found[order].astype(np.float32)
    done, stop = 0, min(count, len(order))
    while done < stop:
        found[order[done:stop]] = exact(order[done:stop])
        done = stop
        worst = np.partition(found[order[:done]], count - 1)[count - 1] if done >= count else np.inf
        stop = min(int(np.searchsorted(limits, np.float32(worst), side="right")), done + AT_ONCE)
    return found
