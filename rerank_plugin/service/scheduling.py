"""Admission, threads and batches: what runs concurrently, what waits, and what is refused.

The scheduler admits few requests and refuses the rest at once, so that admitted requests are answered soon. One thread
takes all queries that wait for the same scorer through three steps as one batch: their first stages, in a few threads;
their scores, by the batches of the fast paths; their answers. Each step thus has all CPU cores: with queries at
different steps, their threads would wait for each other. A query cancelled before its turn costs nothing.
Work stops at its next step (`rerank_plugin.base.stopping`) when nobody waits for any query of its batch.

Work that takes longer than `QUICK` seconds is given up, and begun again in a thread for slow work, so that slow queries
wait for each other and the others for none of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from rerank_plugin.base.stopping import LateError, Stopped, stopping, within
from rerank_plugin.service.errors import OverloadedError

Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")
SMALLEST_COST = 0.1  # of a request, where a search costs 1
QUICK = 1.0  # seconds
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
        self.slow_thread, self.slow = ThreadPoolExecutor(1, "slow"), 0
        self.waiting: list[Job] = []
        self.lock, self.running = Lock(), False  # whether the batch thread takes waiting jobs

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
            return await self._run(self.threads, self._quick, function, *arguments)
        except LateError:
            return await self.slowly(function, *arguments)

    async def once_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function that cannot be begun again, run in a thread."""
        return await self._run(self.threads, self.seconds, function, *arguments)

    @property
    def _quick(self) -> float:
        return min(QUICK, self.seconds)

    async def slowly(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of slow work; an `OverloadedError` where half of the queries are slow."""
        if self.slow >= self.max_queries / 2:
            raise OverloadedError
        self.slow += 1
        try:
            return await self._run(self.slow_thread, self.seconds, function, *arguments, since=time.monotonic())
        finally:
            self.slow -= 1

    async def _run(
        self,
        pool: ThreadPoolExecutor,
        seconds: float,
        function: Callable[..., Result],
        *arguments: Any,
        since: float | None = None,
    ) -> Result:
        """The result of a function, which stops at its next step where this coroutine is cancelled."""
        abandoned = False

        def run() -> Result:
            with stopping(lambda: abandoned), within(seconds, since):
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
    ) -> Answer:
        """``finish(result)``, where ``batch_function`` gives the result of ``prepare()``; all three run in threads.

        Items that wait for the same function, by ``==``, form a batch. If the function raises on a batch, it is called
        once for each item, so that only the item at fault fails.
        """
        job = Job(prepare, batch_function, finish)
        try:
            return await self._batched(job)
        except LateError:
            if job.result is not MISSING:
                return await self.slowly(finish, job.result)
            if job.item is not MISSING:
                raise
        item = await self.slowly(prepare)
        return await self.batched(lambda: item, batch_function, finish)

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
            with stopping(lambda: job.abandoned), within(self._quick):
                job.item = job.prepare()
        except Exception as error:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)
            return False
        return True

    def _next_batch(self) -> list[Job]:
        with self.lock:
            batch = [job for job in self.waiting if job.batch_function == self.waiting[0].batch_function]
            batch = batch[: self.max_batch]
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
                with stopping(lambda: job.abandoned), within(self._quick):  # noqa: B023 (called in the block)
                    job.future.set_result(None if job.abandoned else job.finish(job.result))
            except Exception as error:
                job.future.set_exception(error)

    def close(self) -> None:
        """Finish the waiting jobs and end the threads."""
        self.batch_thread.shutdown()
        self.threads.shutdown()
        self.slow_thread.shutdown()
