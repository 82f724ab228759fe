"""Work that is split over threads, and memory that is kept from one query to the next.

The kernels of the fast paths release Python's lock, so plain threads are all they need: one small pool for the process,
beside which neither OpenMP's threads nor a second pool wake up. Every item of work (a document, a word) is computed by
the same instructions whichever thread it falls to, so results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Callable

import numpy as np


def available_threads() -> int:
    """Threads to use when nothing is said: ``OMP_NUM_THREADS`` where it is set, else the processors we may use."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if said.isdigit() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=None)
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="rerank")


def split(work: Callable[[int, int], object], count: int, threads: int, smallest: int = 64) -> None:
    """Call ``work(start, stop)`` for parts of ``range(count)``, one a thread; the calling thread does the first.

    Args:
        smallest: a thread is not woken for fewer items.
    """
    threads = max(1, min(threads, count // max(smallest, 1)))
    if threads == 1:
        work(0, count)
        return
    bounds = [count * part // threads for part in range(threads + 1)]
    futures = [_helpers(threads - 1).submit(work, *part) for part in zip(bounds[1:-1], bounds[2:])]
    try:
        work(bounds[0], bounds[1])
    finally:
        for future in futures:
            future.result()


class Workspace(threading.local):
    """Arrays by name, kept for the next query of the same thread: fresh memory costs a page fault every 4 KB."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype) -> np.ndarray:
        """An array with any content. The one given for this name before must not be in use any more."""
        size = int(np.prod(shape, dtype=np.int64))
        buffer = self.buffers.get(name)
        if buffer is None or len(buffer) < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.empty(size + size // 4, dtype)
        return buffer[:size].reshape(shape)

    def zeros(self, name: str, size: int, dtype) -> np.ndarray:
        """An array of zeros [size]; whoever writes to it puts the zeros back."""
        buffer = self.buffers.get(name)
        if buffer is None or len(buffer) < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.zeros(size, dtype)
        return buffer[:size]
