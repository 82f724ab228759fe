"""Admission, threads and batches: what runs at the same time, what waits, and what is refused.

Few requests are let in; more are refused at once, so that those inside are answered soon. First stages run in a few
threads. One thread scores, because the fast paths use all processors: it takes what waits for the same scorer together.
What is cancelled before its turn costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, TypeVar

from rerank_plugin.ranking.searcher import QUERIES_AT_ONCE
from rerank_plugin.service.errors import OverloadedError

T, R = TypeVar("T"), TypeVar("R")
Together = Callable[[Sequence[T]], Sequence[R]]


@dataclass(frozen=True, eq=False)
class Job:
    """One item for a function of several."""

    together: Together
    item: Any
    future: Future


class Scheduler:
    """Runs what requests ask for.

    Args:
        threads: of first stages.
        most: requests that are let in at the same time.
    """

    def __init__(self, threads: int, most: int):
        self.most, self.inside = most, 0
        self.retrieving = ThreadPoolExecutor(threads, "retrieving")
        self.waiting: deque[Job] = deque()
        self.changed, self.stopped = Condition(), False
        self.scoring = Thread(target=self._score, name="scoring", daemon=True)
        self.scoring.start()

    @property
    def full(self) -> bool:
        return self.inside >= self.most

    @contextmanager
    def admitted(self, queries: int = 1) -> Iterator[None]:
        """Lets a request in for the block, in the thread of the event loop; one of several queries counts as several.

        Raises:
            OverloadedError: as many as may be are inside.
        """
        if self.full:
            raise OverloadedError
        self.inside += queries
        try:
            yield
        finally:
            self.inside -= queries

    async def in_thread(self, function: Callable[..., R], *arguments: Any) -> R:
        """The result of a function, run in a thread of the first stages."""
        return await asyncio.wrap_future(self.retrieving.submit(function, *arguments))

    async def together(self, function: Together[T, R], item: T) -> R:
        """The result of one item by a function that takes several, run in the thread that scores.

        Items that wait for the same function, by ``==``, are given to it together. If it raises, it gets them one by
        one, so that only the item at fault fails.
        """
        job = Job(function, item, Future())
        with self.changed:
            self.waiting.append(job)
            self.changed.notify()
        return await asyncio.wrap_future(job.future)

    def _score(self) -> None:
        while batch := self._batch():
            items = [job.item for job in batch]
            try:
                results = batch[0].together(items)
            except Exception as error:
                for job in batch:
                    self._score_alone(job, error if len(batch) == 1 else None)
                continue
            for job, result in zip(batch, results, strict=True):
                job.future.set_result(result)

    def _score_alone(self, job: Job, error: Exception | None) -> None:
        try:
            if error is not None:
                raise error
            job.future.set_result(job.together([job.item])[0])
        except Exception as found:
            job.future.set_exception(found)

    def _batch(self) -> list[Job]:
        """The oldest job and others for the same function; none when the scheduler has stopped."""
        batch: list[Job] = []
        while not batch:
            with self.changed:
                self.changed.wait_for(lambda: self.waiting or self.stopped)
                if not self.waiting:
                    return []
                first = self.waiting[0].together
                chosen = [job for job in self.waiting if job.together == first][:QUERIES_AT_ONCE]
                self.waiting = deque(job for job in self.waiting if job not in chosen)
            batch = [job for job in chosen if job.future.set_running_or_notify_cancel()]
        return batch

    def close(self) -> None:
        """Finish what waits, and end the threads."""
        self.retrieving.shutdown()
        with self.changed:
            self.stopped = True
            self.changed.notify()
        self.scoring.join()
