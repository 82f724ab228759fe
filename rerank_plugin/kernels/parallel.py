"""Parallel loops over threads, and memory that is reused between queries.

The kernels of the fast paths release Python's GIL, so plain threads suffice. The process has one small pool and does
not use OpenMP's threads. Every item of work (a document, a word) is computed by the same instructions in any thread, so
results do not depend on the number of threads.

Waking a thread takes between 50 microseconds and a millisecond, as long as a part of the work. So a query starts its
:func:`helper_threads` once, before there is work for them, and they wait for work without sleeping.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count as numbers
from math import prod
from pathlib import Path, PurePath
from typing import TypeVar

import numpy as np

T = TypeVar("T")

PARTS_PER_THREAD = 4  # so that other threads take over parts of a thread that is late
SPINS = 300_000  # reads of the job counter before sleeping: a few hundred microseconds
NAP = 1e-4  # seconds


def available_threads() -> int:
    """The default number of threads: ``OMP_NUM_THREADS`` if set, else the CPU cores available to this process."""
    configured = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if configured.isdigit() and int(configured) > 0:
        return int(configured)
    return processors()


def processors() -> int:
    """The CPU cores available to this process: those of its affinity, at most the CPU quota of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return count if quota >= count else math.ceil(quota)


@cache
def cpu_quota(process: Path = Path("/proc/self")) -> float:
    """The CPUs that control groups (version 1 or 2) grant a process, above 0; infinity without a limit.

    A group's limit holds for the groups below it, so that the smallest counts of a group and of those above it, as far
    as they are mounted: a container may see only its own.
    """
    try:
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split(" - ", 1) for line in (process / "mountinfo").read_text().splitlines()]
    except OSError:  # no Linux, or no /proc
        return math.inf
    quotas = [math.inf]
    for mount, system in mounts:
        root, point = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), path) for path in mount.split()[3:5])
        kind, _, options = system.split(" ", 2)
        for number, controllers, path in groups:
            version_2 = kind == "cgroup2" and number == "0"
            version_1 = kind == "cgroup" and "cpu" in {*options.split(",")} & {*controllers.split(",")}
            if not version_2 and not version_1:
                continue
            seen = PurePath(path).is_relative_to(root)
            folder = Path(point, os.path.relpath(path, root)) if seen else Path(point)
            while folder.is_relative_to(point):
                quotas.append(_group_quota(folder))
                folder = folder.parent
    return min(quotas)


def _group_quota(folder: Path) -> float:
    """The CPUs that one control group grants; infinity without a limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):  # the other version, or "max"
            quota, period = map(int, " ".join((folder / name).read_text() for name in names).split())
            if quota > 0 and period > 0:  # version 1 has -1 for no limit
                return quota / period
    return math.inf


class _ThreadState(threading.local):
    """The state of this thread: whether it works on a part, and its helper threads."""

    working = False
    helpers: _HelperThreads | None = None


_state = _ThreadState()


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="rerank")


class _Job:
    """``work(start, stop)`` for the parts of ``range(count)``, which any thread may take."""

    def __init__(self, work: Callable[[int, int], object], count: int, size: int):
        self.work, self.count, self.size = work, count, size
        self.starts = iter(range(0, count, size))  # advanced under the GIL: no part is taken twice
        self.parts, self.finished = -(-count // size), numbers(1)
        self.done = np.zeros(1, np.int64)
        self.error: BaseException | None = None
        self.workers: set[int] = set()

    def take_parts(self) -> None:
        """Work until no part is left. After an error, the remaining parts are taken but skipped."""
        before, _state.working = _state.working, True
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
            _state.working = before

    def finish(self) -> None:
        """Take the remaining parts, wait for those of other threads, and raise the exception of ``work``, if any."""
        try:
            self.take_parts()
            _wait_beyond(self.done, 0)
        except BaseException as error:  # Ctrl-C: no thread may use the arrays when the caller continues
            self.error = error
            while self.workers - {threading.get_ident()}:
                time.sleep(NAP)
            raise
        if self.error is not None:
            raise self.error


def _wait_beyond(counter: np.ndarray, seen: int, stop: Callable[[], bool] = lambda: False) -> int:
    """Wait until ``counter`` is greater than ``seen`` or ``stop()`` is true; returns its value."""
    from rerank_plugin.kernels.intrinsics import spin_until_above

    now = spin_until_above(counter, seen, SPINS)
    while now == seen and not stop():
        time.sleep(NAP)
        now = int(counter[0])
    return now


class _HelperThreads:
    """The helper threads of a calling thread; they work on its jobs in order, until they are dismissed."""

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
        """Dismiss the helpers. All split jobs are finished, so no helper uses the caller's arrays afterwards."""
        self.dismissed = True
        self.posted[0] += 1  # wakes the waiting ones
        for future in self.futures:
            future.cancel()


@contextmanager
def helper_threads(threads: int) -> Iterator[None]:
    """Provide ``threads - 1`` helpers for every :func:`split` in the block; no effect within such a block or a part."""
    if threads == 1 or _state.working or _state.helpers is not None:
        yield
        return
    helpers = _state.helpers = _HelperThreads(threads - 1)
    try:
        yield
    finally:
        _state.helpers = None
        helpers.dismiss()


def split(work: Callable[[int, int], object], count: int, threads: int, smallest: int = 64) -> None:
    """Call ``work(start, stop)`` for parts that together cover ``range(count)``, in several threads.

    The calling thread works, too. A nested call, from within a part, is not split: its thread does all the work.

    Args:
        smallest: the minimum size of a part.

    Raises:
        any exception of ``work``; parts that have not been started are then skipped.
    """
    size = max(smallest, -(-count // (threads * PARTS_PER_THREAD)), 1)
    if threads == 1 or count <= size or _state.working:
        work(0, count)
        return
    with helper_threads(threads):
        assert _state.helpers is not None, "there is more than one thread, and none works on a part"
        job = _Job(work, count, size)
        _state.helpers.post(job)
        job.finish()


def run_in_helper(work: Callable[[], T], threads: int) -> Callable[[], T]:
    """Run ``work`` in a helper thread, if there is one; returns a function that waits for the result.

    If no thread has started the work by then, the calling thread does it.
    """
    if threads == 1 or _state.working or _state.helpers is None:
        return work
    results: list[T] = []
    job = _Job(lambda start, stop: results.append(work()), 1, 1)
    _state.helpers.post(job)

    def result() -> T:
        job.finish()
        return results[0]

    return result


class Workspace(threading.local):
    """Named arrays that are reused between queries of one thread: new memory costs a page fault every 4 KB."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype) -> np.ndarray:
        """An uninitialized array in the memory of the previous array of this name, which must no longer be in use."""
        size = prod(shape)
        buffer = self.buffers.get(name)
        if buffer is None or len(buffer) < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.empty(size + size // 4, dtype)
        return buffer[:size].reshape(shape)

    def zeros(self, name: str, size: int, dtype) -> np.ndarray:
        """An array of zeros [size]; the caller must reset it to zeros after use."""
        buffer = self.buffers.get(name)
        if buffer is None or len(buffer) < size or buffer.dtype != dtype:
            buffer = self.buffers[name] = np.zeros(size, dtype)
        return buffer[:size]
