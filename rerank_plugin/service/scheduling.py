"""Admission, threads and batches: what runs concurrently, what waits, and what is refused.

The scheduler admits few requests and refuses the rest at once, so that admitted requests are answered soon. One thread
takes all queries that wait for the same scorer through three steps as one batch: their first stages, in a few threads;
their scores, by the batches of the fast paths; their answers. Each step thus has all CPU cores: with queries at
different steps, their threads would wait for each other. A query cancelled before its turn costs nothing.
Work stops at its next step (`rerank_plugin.base.stopping`) when nobody waits for any query of its batch.

Work that takes longer than `QUICK` seconds is given up, and begun again in a thread for slow work, so that slow queries
wait for each other and the others for none of them. Work that had to wait has less, at least `SHORTEST` seconds of CPU
time: of many slow queries at once only the first take long, and none becomes slow because it waits for a CPU. There are
two slow threads: what takes no more than `QUICK` seconds does not wait for what takes longer. Where large scoring and
other scoring wait, each has every second turn.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from rerank_plugin.base.stopping import LateError, Stopped, stopping, within
from rerank_plugin.service.errors import OverloadedError

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")
SMALLEST_COST = 0.1  # of a request, where a search costs 1
QUICK, SHORTEST = 1.0, 0.1  # seconds
MISSING: Any = object()
BatchFunction = Callable[[Sequence[Item]], Sequence[Result]]


@dataclass(eq=False)
class Job:
    """One query: the function that makes its item, the function over a batch of items, and the one over its result."""

    prepare: Callable[[], Any]
    batch_function: BatchFunction[Any, Any]
    finish: Callable[[Any], Any]
    future: Future[Any] = field(default_factory=Future)
    item: Any = MISSING
    result: Any = MISSING
    abandoned: bool = False  # the deadline has passed, or the client has gone
    large: bool = False  # its scoring takes as long as that of many searches
    asked: float = field(default_factory=time.monotonic)


class Scheduler:
    """Runs the work of requests.

    Args:
        threads: number of threads for first stages.
        max_queries: queries admitted at the same time, running or waiting, or other work of the same cost.
        max_batch: largest batch; no query of a batch is answered before all its queries are scored.
        seconds: time of each step of a request in a thread; then it fails with a `LateError`. That of slow work begins
            when it is found to be slow.
    """

    def __init__(self, threads: int, max_queries: int, max_batch: int, seconds: float):
        self.seconds = seconds
        self.max_queries, self.max_batch, self.admitted_queries = max_queries, max_batch, 0.0
        self.threads, self.batch_thread = ThreadPoolExecutor(threads, "first-stage"), ThreadPoolExecutor(1, "scoring")
        self.middle_thread, self.slow_thread = ThreadPoolExecutor(1, "middle"), ThreadPoolExecutor(1, "slow")
        self.slow = 0
        self.waiting: list[Job] = []
        self.lock, self.running = Lock(), False  # whether the batch thread takes waiting jobs
        self.large = False  # whether the last batch was

    @property
    def full(self) -> bool:
        return self.admitted_queries >= self.max_queries

    @contextmanager
    def admitted(self, queries: float = 1) -> Iterator[None]:
        """Admits a request that costs as much as this many queries for the block; called in the event loop's thread.

        Raises:
            OverloadedError: the scheduler is full.
        """
        if self.full:
            raise OverloadedError
        self.admitted_queries += queries
        try:
            yield
        finally:
            self.admitted_queries = round(self.admitted_queries - queries, 6)  # sums of floats end at 0

    async def in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function, run in a thread; a slow one is begun again."""
        try:
            return await self._run(self.threads, partial(self._quickly, time.monotonic()), function, *arguments)
        except LateError:
            return await self.slowly(function, *arguments)

    async def once_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function that cannot be begun again, run in a thread."""
        return await self._run(self.threads, lambda: within(self.seconds), function, *arguments)

    def _quickly(self, asked: float = math.inf) -> AbstractContextManager[None]:
        """Gives work that begins now its time, of which it may use less where it was ``asked`` for before."""
        waited = max(time.monotonic() - asked, 0)
        return within(min(QUICK, self.seconds), working=max(QUICK - waited, min(SHORTEST, QUICK)))

    async def slowly(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of slow work; an `OverloadedError` where half of the queries are slow."""
        if self.slow >= self.max_queries / 2:
            raise OverloadedError
        self.slow += 1
        try:
            with suppress(LateError):
                return await self._run(self.middle_thread, self._quickly, function, *arguments)
            limit = partial(within, self.seconds, time.monotonic())
            return await self._run(self.slow_thread, limit, function, *arguments)
        finally:
            self.slow -= 1

    async def _run(
        self,
        pool: ThreadPoolExecutor,
        limit: Callable[[], AbstractContextManager[None]],
        function: Callable[..., Result],
        *arguments: Any,
    ) -> Result:
        """The result of a function, which stops at its next step where this coroutine is cancelled.

        Args:
            limit: gives the function its time, when it begins.
        """
        abandoned = False

        def run() -> Result:
            with stopping(lambda: abandoned), limit():
                return function(*arguments)

        try:
            return await asyncio.wrap_future(pool.submit(run))
        except asyncio.CancelledError:
            abandoned = True
            raise

    async def batched(
        self,
        prepare: Callable[[], Item],
        batch_function: BatchFunction[Item, Result],
        finish: Callable[[Result], Answer],
        large: bool = False,
    ) -> Answer:
        """``finish(result)``, where ``batch_function`` gives the result of ``prepare()``; all three run in threads.

        Items that wait for the same function, by ``==``, form a batch. If the function raises on a batch, it is called
        once for each item, so that only the item at fault fails. Those of ``large`` work are alone.
        """
        job = Job(prepare, batch_function, finish, large=large)
        try:
            return await self._batched(job)
        except LateError:
            if job.result is not MISSING:
                return await self.slowly(finish, job.result)
            if job.item is not MISSING:
                raise
        item = await self.slowly(prepare)
        return await self.batched(lambda: item, batch_function, finish, large=True)  # as its rest is probably slow

    async def _batched(self, job: Job) -> Any:
        with self.lock:
            self.waiting.append(job)
            start, self.running = not self.running, True
        if start:  # one call does all jobs that arrive while it runs: with a call for each job, calls would pile up
            self.batch_thread.submit(self._run_batches)
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.abandoned = True
            raise

    def _run_batches(self) -> None:
        """Do jobs until none waits: the oldest job, batched with others for the same function."""
        while batch := self._next_batch():
            prepare = self._prepare
            prepared = list(self.threads.map(prepare, batch)) if len(batch) > 1 else [prepare(job) for job in batch]
            self._score([job for job, ok in zip(batch, prepared) if ok and job.future.set_running_or_notify_cancel()])

    def _prepare(self, job: Job) -> bool:
        """Make the item of a job; False if the job is cancelled or failed."""
        if job.future.cancelled():
            return False
        try:
            with stopping(lambda: job.abandoned), self._quickly(job.asked):
                job.item = job.prepare()
        except Exception as error:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)
            return False
        return True

    def _next_batch(self) -> list[Job]:
        with self.lock:
            if any(job.large != self.large for job in self.waiting):
                self.large = not self.large
            turn = [job for job in self.waiting if job.large == self.large]
            batch = [job for job in turn if job.batch_function == turn[0].batch_function]
            batch = batch[: 1 if self.large else self.max_batch]
            self.waiting = [job for job in self.waiting if job not in batch]
            self.running = bool(batch)
        return batch

    def _score(self, batch: Sequence[Job]) -> None:
        if not batch:
            return
        try:
            with stopping(lambda: all(job.abandoned for job in batch)):
                results = batch[0].batch_function([job.item for job in batch])
        except Exception as error:
            if len(batch) == 1 or isinstance(error, Stopped):
                for job in batch:
                    job.future.set_exception(error)
            else:
                for job in batch:
                    self._score([job])
            return
        for job, job.result in zip(batch, results, strict=True):
            try:
                with stopping(lambda: job.abandoned), self._quickly(job.asked):  # noqa: B023 (called in the block)
                    job.future.set_result(None if job.abandoned else job.finish(job.result))
            except Exception as error:
                job.future.set_exception(error)

    def close(self) -> None:
        """Finish the waiting jobs and end the threads."""
        self.batch_thread.shutdown()
        self.threads.shutdown()
        self.middle_thread.shutdown()
        self.slow_thread.shutdown()
