"""The scheduler alone: batches, cancelled and failed jobs, refused requests."""

import asyncio
import math
from threading import Event, current_thread

import pytest

from rerank_plugin.base.stopping import LateError, Stopped, seconds_left, stop_if_asked
from rerank_plugin.service import scheduling
from rerank_plugin.service.errors import OverloadedError, refusal
from rerank_plugin.service.scheduling import Scheduler


@pytest.fixture
def scheduler():
    opened = Scheduler(threads=1, max_queries=2, max_batch=8, seconds=10)
    yield opened
    opened.close()


def submit(scheduler, squares, item):
    """A task whose result is the square of an item."""
    return asyncio.ensure_future(scheduler.batched(lambda: item, squares.square, lambda result: result))


async def submit_all(scheduler, squares, first, *rest):
    """Tasks of several items: the first runs until ``squares.go`` is set, and the others wait."""
    tasks = [submit(scheduler, squares, first)]
    await asyncio.to_thread(squares.started.wait, 10)
    tasks += [submit(scheduler, squares, item) for item in rest]
    await asyncio.sleep(0.01)
    return tasks


class Squares:
    """Squares items, and records its batches; a call waits for ``go``."""

    def __init__(self):
        self.started, self.go, self.batches = Event(), Event(), []

    def square(self, items):
        self.batches.append(list(items))
        self.started.set()
        self.go.wait(10)
        if "bad" in items:
            raise ValueError("bad")
        return [item * item for item in items]


def test_waiting_jobs_form_batches_without_cancelled_ones(scheduler):
    squares, others = Squares(), Squares()
    others.go.set()

    async def run():
        tasks = [*await submit_all(scheduler, squares, *range(1, 13)), submit(scheduler, others, 7)]
        await asyncio.sleep(0.01)
        tasks[2].cancel()
        await asyncio.sleep(0.01)
        squares.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(run())
    assert isinstance(results.pop(2), asyncio.CancelledError)
    assert results == [1, 4, 16, *(item * item for item in range(5, 13)), 49]
    assert [item for batch in squares.batches for item in batch] == [1, 2, 4, *range(5, 13)]
    assert max(map(len, squares.batches)) == 7 and others.batches == [[7]]


def test_jobs_that_arrive_during_a_batch_start_no_further_calls(scheduler, monkeypatch):
    """With a call for each job, memory grew by a kilobyte a query while the service was busy."""
    squares, calls, start = Squares(), [], scheduler.batch_thread.submit
    monkeypatch.setattr(scheduler.batch_thread, "submit", lambda call: calls.append(call) or start(call))

    async def run():
        tasks = await submit_all(scheduler, squares, *range(1, 30))
        squares.go.set()
        results = await asyncio.gather(*tasks)
        return [*results, await submit(scheduler, squares, 30)]

    assert asyncio.run(run()) == [item * item for item in range(1, 31)]
    assert len(calls) <= 2


def test_a_step_after_its_time_fails(scheduler):
    """And leaves the thread without a limit."""
    scheduler.seconds = 0

    async def run():
        late = scheduler.batched(stop_if_asked, list, list), scheduler.in_thread(stop_if_asked)
        return [(await asyncio.gather(each, return_exceptions=True))[0] for each in late]

    assert [refusal(error).status for error in asyncio.run(run())] == [503, 503]
    assert scheduler.threads.submit(seconds_left).result() == math.inf


@pytest.mark.parametrize("prepared", [False, True])
def test_others_do_not_wait_for_slow_work_and_it_ends_with_its_client(scheduler, monkeypatch, prepared):
    monkeypatch.setattr(scheduling, "QUICK", 0)
    slow, left = Event(), Event()

    def work():
        stop_if_asked()  # is too late in the first thread
        slow.set()
        try:
            while not left.wait(0.001):
                stop_if_asked()
        except Stopped:
            left.set()

    async def run():
        works = scheduler.batched(work, list, list) if prepared else scheduler.in_thread(work)
        task = asyncio.ensure_future(works)
        await asyncio.to_thread(slow.wait, 10)
        with pytest.raises(OverloadedError):  # one of two queries is slow
            await scheduler.in_thread(stop_if_asked)
        assert await scheduler.in_thread(lambda: 1) == 1
        assert await scheduler.batched(lambda: 2, list, lambda result: result + 1) == 3
        task.cancel()
        assert await asyncio.to_thread(left.wait, 10) and not scheduler.slow

    asyncio.run(run())


def test_work_that_is_slow_to_begin_and_to_end_is_answered(scheduler, monkeypatch):
    monkeypatch.setattr(scheduling, "QUICK", 0)

    def slow(value):
        stop_if_asked()  # is too late in the first thread
        return value

    async def run():
        return await scheduler.batched(lambda: slow(2), list, lambda result: slow(result) + 1)

    assert asyncio.run(run()) == 3


def test_work_that_has_waited_has_less_time(scheduler, monkeypatch):
    """So of many slow queries at once only the first take long from others."""
    monkeypatch.setattr(scheduling, "QUICK", 0.2)
    monkeypatch.setattr(scheduling, "SHORTEST", 0.01)
    scheduler.seconds, times = 0.2, []

    def work():
        if current_thread().name.startswith("first-stage"):
            times.append(seconds_left())
        while True:
            stop_if_asked()

    async def run():
        return await asyncio.gather(*(scheduler.in_thread(work) for _ in range(3)), return_exceptions=True)

    assert {type(error) for error in asyncio.run(run())} <= {LateError, OverloadedError}
    assert len(times) == 3 and max(times[1:]) < 0.1


def test_large_work_has_every_second_turn(scheduler):
    order, squares = [], Squares()

    def score(items):
        order.extend(items)
        return items

    async def run():
        first = await submit_all(scheduler, squares, 1)
        rest = [
            asyncio.ensure_future(scheduler.batched(lambda name=name: name, score, str, large=name < "d"))
            for name in "abcdef"
        ]
        await asyncio.sleep(0.01)
        squares.go.set()
        await asyncio.gather(*first, *rest)

    scheduler.max_batch = 2
    asyncio.run(run())
    assert order == ["a", "d", "e", "b", "f", "c"]


class Watched(Scheduler):
    """A scheduler whose thread pauses where it finds that no job waits, for another thread to add one."""

    paused, added = Event(), Event()

    @property
    def waiting(self):
        if self.jobs or not current_thread().name.startswith("scoring"):
            return self.jobs
        self.paused.set()
        self.added.wait(0.2)
        return []  # as it was before the pause

    @waiting.setter
    def waiting(self, jobs):
        self.jobs = jobs


def test_a_job_that_arrives_while_the_thread_ends_is_done():
    """It waits for the lock, or else it would be added to jobs that were counted already, and never run."""
    watched, squares = Watched(threads=1, max_queries=2, max_batch=8, seconds=10), Squares()
    squares.go.set()

    async def run():
        first = submit(watched, squares, 2)
        await asyncio.to_thread(watched.paused.wait, 10)
        second = submit(watched, squares, 3)
        await asyncio.sleep(0)
        watched.added.set()
        return await asyncio.wait_for(asyncio.gather(first, second), 5)

    assert asyncio.run(run()) == [4, 9]
    watched.close()


def test_only_the_item_at_fault_fails(scheduler):
    squares = Squares()

    async def run():
        tasks = await submit_all(scheduler, squares, 1, 2, "bad", 3)
        squares.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(run())
    assert isinstance(results.pop(2), ValueError) and results == [1, 4, 9]


def test_a_full_scheduler_refuses_at_once(scheduler):
    with scheduler.admitted():
        with scheduler.admitted():
            with pytest.raises(OverloadedError) as refused:
                with scheduler.admitted():
                    pass
            assert (refused.value.status, refused.value.retry_after) == (429, 1)
        assert not scheduler.full
    with scheduler.admitted(5):
        assert scheduler.full
    assert not scheduler.full


def test_closing_finishes_waiting_jobs(scheduler):
    squares = Squares()

    async def run():
        tasks = await submit_all(scheduler, squares, 1, 2, 3)
        closing = asyncio.create_task(asyncio.to_thread(scheduler.close))
        await asyncio.sleep(0.01)
        squares.go.set()
        await closing
        return await asyncio.wait_for(asyncio.gather(*tasks), 10)

    assert asyncio.run(run()) == [1, 4, 9]
