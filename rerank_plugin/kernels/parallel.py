"""Work that is split over threads, and memory that is kept from one query to the next.

The kernels of the fast paths release Python's lock, so plain threads are all they need: one small pool for the process,
beside which neither OpenMP's threads nor a second pool wake up. Every item of work (a document, a word) is computed by
the same instructions whichever thread it falls to, so results do not depend on the number of threads.

Waking a thread up takes between 50 microseconds and a millisecond, as long as a piece of the work itself. So a query
calls its helpers once (:func:`crew`), before it has anything for them, and between two pieces of work they look for the
next one without going to sleep.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import count as numbers
from math import prod
from typing import Callable, Iterator, TypeVar

import numpy as np

T = TypeVar("T")

PARTS_OF_A_THREAD = 4  # so that a thread that starts late, or is held up, leaves its share to the others
SPINS = 300_000  # looks for the next piece of work before sleeping: a few hundred microseconds
NAP = 1e-4  # seconds


def available_threads() -> int:
    """Threads to use when nothing is said: ``OMP_NUM_THREADS`` where it is set, else the processors we may use."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if said.isdigit() and int(said) > 0:
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Here(threading.local):
    """What this thread is doing: working on a part, or leading a crew."""

    working = False
    crew: _Crew | None = None


_here = _Here()


@lru_cache(maxsize=None)
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="rerank")


class _Job:
    """``work(start, stop)`` for parts of ``range(count)`` that any thread may take."""

    def __init__(self, work: Callable[[int, int], object], count: int, size: int):
        self.work, self.count, self.size = work, count, size
        self.starts = iter(range(0, count, size))  # one at a time under Python's lock: no part is taken twice
        self.parts, self.finished = -(-count // size), numbers(1)
        self.done = np.zeros(1, np.int64)
        self.error: BaseException | None = None
        self.workers: set[int] = set()

    def take_parts(self) -> None:
        """Work until no part is left. After an error the parts that are left are taken, but not worked on."""
        before, _here.working = _here.working, True
        self.workers.add(threading.get_ident())
        try:
            for start in self.starts:
                try:
                    if self.error is None:
                        self.work(start, min(start + self.size, self.count))
                except BaseException as error:
                    self.error = error
                if next(self.finished) == self.parts:
                    self.done[0] = 1
        finally:
            self.workers.discard(threading.get_ident())
            _here.working = before

    def finish(self) -> None:
        """Take the parts that are left, wait for those that others have taken, and raise what went wrong."""
        try:
            self.take_parts()
            _wait_beyond(self.done, 0)
        except BaseException as error:  # Control-C: the arrays must be at rest before the caller goes on
            self.error = error
            while self.workers - {threading.get_ident()}:
                time.sleep(NAP)
            raise
        if self.error is not None:
            raise self.error


def _wait_beyond(counter: np.ndarray, seen: int, stop: Callable[[], bool] = lambda: False) -> int:
    """The value of ``counter`` once it is greater than ``seen``, or when ``stop`` says so."""
    from rerank_plugin.kernels.spinning import wait_beyond

    now = wait_beyond(counter, seen, SPINS)
    while now == seen and not stop():
        time.sleep(NAP)
        now = int(counter[0])
    return now


class _Crew:
    """A leader's helpers: they take parts of its jobs, in the order the jobs were posted, until it lets them go."""

    def __init__(self, helpers: int):
        self.jobs: list[_Job] = []
        self.posted = np.zeros(1, np.int64)
        self.dismissed = False
        self.futures: list[Future] = [_helpers(helpers).submit(self._help) for _ in range(helpers)]

    def _help(self) -> None:
        seen = 0
        while not self.dismissed:
            now = _wait_beyond(self.posted, seen, lambda: self.dismissed)
            for job in self.jobs[seen:now]:
                job.take_parts()
            seen = now

    def post(self, job: _Job) -> None:
        self.jobs.append(job)
        self.posted[0] = len(self.jobs)

    def dismiss(self) -> None:
        """Let the helpers go. Every split job is finished by then, so nobody works on the leader's arrays after this."""
        self.dismissed = True
        self.posted[0] += 1  # for those that look
        for future in self.futures:
            future.cancel()


@contextmanager
def crew(threads: int) -> Iterator[None]:
    """Call ``threads - 1`` helpers for all that is split within; without effect where there is a crew, or within a part."""
    if threads == 1 or _here.working or _here.crew is not None:
        yield
        return
    _here.crew = _Crew(threads - 1)
    try:
        yield
    finally:
        ours, _here.crew = _here.crew, None
        ours.dismiss()


def split(work: Callable[[int, int], object], count: int, threads: int, smallest: int = 64) -> None:
    """Call ``work(start, stop)`` for parts of ``range(count)`` that together cover it, in several threads.

    The calling thread works, too, and takes all parts itself until another one wakes up. Within a part nothing is split
    again: its thread does all of it.

    Args:
        smallest: items of a part, at least.

    Raises:
        what ``work`` raises; parts that were not begun are left out then.
    """
    size = max(smallest, -(-count // (threads * PARTS_OF_A_THREAD)), 1)
    if threads == 1 or count <= size or _here.working:
        work(0, count)
        return
    with crew(threads):
        job = _Job(work, count, size)
        _here.crew.post(job)
        job.finish()


def alongside(work: Callable[[], T], threads: int) -> Callable[[], T]:
    """Let another thread of the crew do ``work`` where there is one; calling what is returned gives its result.

    Work that nobody has begun by then is done by the caller.
    """
    if threads == 1 or _here.working or _here.crew is None:
        return work
    found: list[T] = []
    job = _Job(lambda start, stop: found.append(work()), 1, 1)
    _here.crew.post(job)

    def result() -> T:
        job.finish()
        return found[0]

    return result


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
