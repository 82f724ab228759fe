"""Work that is split over threads, and memory that is kept from one query to the next.

The kernels of the fast paths release Python's lock, so plain threads are all they need: one small pool for the process,
beside which neither OpenMP's threads nor a second pool wake up. Every item of work (a document, a word) is computed by
the same instructions whichever thread it falls to, so results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from math import prod
from typing import Callable, TypeVar

import numpy as np

T = TypeVar("T")

PARTS_OF_A_THREAD = 4  # so that a thread that starts late, or is held up, leaves its share to the others


def available_threads() -> int:
    """Threads to use when nothing is said: ``OMP_NUM_THREADS`` where it is set, else the processors we may use."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if said.isdigit() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Here(threading.local):
    """Whether this thread works on a part."""

    splitting = False


_here = _Here()


@lru_cache(maxsize=None)
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="rerank")


def split(work: Callable[[int, int], object], count: int, threads: int, smallest: int = 64) -> None:
    """Call ``work(start, stop)`` for parts of ``range(count)`` that together cover it, in several threads.

    The calling thread works, too, and takes all parts itself until another one wakes up, which on an idle processor
    can take longer than the work. Within a part nothing is split again: its thread does all of it.

    Args:
        smallest: items of a part, at least.

    Raises:
        whatever ``work`` raises first; parts that were not begun are left out then.
    """
    size = max(smallest, -(-count // (threads * PARTS_OF_A_THREAD)))
    if threads == 1 or count <= size or _here.splitting:
        work(0, count)
        return
    starts = iter(range(0, count, size))  # one at a time under Python's lock: no part is taken twice
    stopped: list[bool] = []

    def take_parts() -> None:
        _here.splitting = True
        try:
            for start in starts:
                if stopped:
                    return
                work(start, min(start + size, count))
        except BaseException:
            stopped.append(True)
            raise
        finally:
            _here.splitting = False

    futures = [_helpers(threads - 1).submit(take_parts) for _ in range(min(threads, -(-count // size)) - 1)]
    try:
        take_parts()
    finally:  # nobody works on the caller's arrays after this
        begun = [future for future in futures if not future.cancel()]
        wait(begun)
    for future in begun:
        future.result()


def alongside(work: Callable[[], T], threads: int) -> Callable[[], T]:
    """Begin ``work`` in another thread, where there is one; calling what is returned gives its result.

    Work that has not begun by then is done by the caller, who need not wait for a thread to wake up.
    """
    if threads == 1 or _here.splitting:
        return work
    future = _helpers(threads - 1).submit(work)
    return lambda: work() if future.cancel() else future.result()


class Workspace(threading.local):
    """Arrays by name, kept for the next query of the same thread: fresh memory costs a page fault every 4 KB."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype) -> np.ndarray:
        """An array with any content. The one given for this name before must not be in use any more."""
        size = prod(shape)
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
