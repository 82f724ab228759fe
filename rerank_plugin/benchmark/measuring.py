"""Timing: cases take turns, so that other load on the machine affects all of them.

The rules of a measurement:

* The first call is never timed, since it compiles kernels, maps pages and allocates buffers.
* Cases take turns in rounds. Between cases, a short pause lets the previous case's threads fall asleep (OpenMP threads
  spin for a while after their work), and an untimed call brings the case's own tables back into the caches, as in a
  service that does nothing else.
* The input of a call is made before the clock starts: each time another query with other candidates.
* Python's garbage collector is off; on a GPU the clock waits for the device.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from rerank_plugin.base.memory import PeakMemory

ROUNDS = 10
FEWEST = 5  # smallest number of repetitions, unless fewer are requested
PAUSE = 0.02  # seconds between cases
LONG = 0.3  # seconds of a call that needs no warm-up call

# Prepares a call by its number and returns the work to time. Numbers count up from 0; negative ones are for estimates.
Case = Callable[[int], Callable[[], object]]
K = TypeVar("K", bound=Hashable)


class Timings(NamedTuple):
    """The measurements of one case."""

    seconds: np.ndarray  # of each repetition, float64 [n]
    returned: list  # results of the timed calls
    peak_memory_mb: float  # see `PeakMemory`

    def scaled(self, factor: float) -> Timings:
        """The timings of work ``factor`` times as large."""
        return self._replace(seconds=self.seconds * factor)


class Meter:
    """Measures cases.

    Args:
        seconds: approximate time limit of a case.
        repetitions: largest number of repetitions; at least ``FEWEST`` of them are timed, whatever the time limit.
        device: torch device of the cases.
    """

    def __init__(self, seconds: float, repetitions: int, device: str = "cpu"):
        self.seconds, self.repetitions = seconds, repetitions
        self.fewest = min(FEWEST, repetitions)
        self.synchronize = _synchronize(device)
        self.memory = PeakMemory(device)

    def measure(self, cases: Mapping[K, Case]) -> dict[K, Timings]:
        """Time all cases, in turns."""
        estimates = {name: self.estimate(case) for name, case in cases.items()}
        counts = {
            name: int(np.clip(self.seconds / max(seconds, 1e-9), self.fewest, self.repetitions))
            for name, seconds in estimates.items()
        }
        timed: dict[K, list] = {name: [] for name in cases}
        calls = {name: itertools.count() for name in cases}
        peaks = dict.fromkeys(cases, 0.0)
        gc.collect()
        gc.disable()
        try:
            for turn in range(ROUNDS):
                for name, case in cases.items():
                    repetitions = counts[name] * (turn + 1) // ROUNDS - counts[name] * turn // ROUNDS
                    if not repetitions:
                        continue
                    self.memory.restart()
                    if len(cases) > 1 and estimates[name] < LONG:
                        time.sleep(PAUSE)  # lets the previous case's threads fall asleep
                        self._time(case, next(calls[name]))  # warms the caches
                    timed[name] += [self._time(case, next(calls[name])) for _ in range(repetitions)]
                    peaks[name] = max(peaks[name], self.memory.read())
        finally:
            gc.enable()
        return {
            name: Timings(np.array([seconds for seconds, _ in pairs]), [value for _, value in pairs], peaks[name])
            for name, pairs in timed.items()
        }

    def estimate(self, case: Case) -> float:
        """Seconds of one call, after a warm-up call if it is short."""
        first = self._time(case, -1)[0]
        return first if first > LONG else self._time(case, -2)[0]

    def _time(self, case: Case, call: int) -> tuple[float, object]:
        work = case(call)
        self.synchronize()
        started = time.perf_counter()
        returned = work()
        self.synchronize()
        return time.perf_counter() - started, returned


def _synchronize(device: str) -> Callable[[], object]:
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return lambda: torch.cuda.synchronize(device)
