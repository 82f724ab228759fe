"""The scheduler alone: batches, what is cancelled, what fails, what is refused."""

import asyncio
from threading import Event

import pytest

from rerank_plugin.service.errors import OverloadedError
from rerank_plugin.service.scheduling import Scheduler


@pytest.fixture
def scheduler():
    made = Scheduler(threads=1, most=2, at_once=8)
    yield made
    made.close()


def asked(scheduler, squares, item):
    """A task that asks for the square of an item."""
    return asyncio.ensure_future(scheduler.together(lambda: item, squares.together, lambda result: result))


async def all_asked(scheduler, squares, first, *rest):
    """Tasks of several items: the first one is at work until ``squares.go`` is set, and the others wait."""
    tasks = [asked(scheduler, squares, first)]
    await asyncio.to_thread(squares.begun.wait, 10)
    tasks += [asked(scheduler, squares, one) for one in rest]
    await asyncio.sleep(0.01)
    return tasks


class Squares:
    """Notes what it was given together; waits for ``go`` at the first call."""

    def __init__(self):
        self.begun, self.go, self.given = Event(), Event(), []

    def together(self, items):
        self.given.append(list(items))
        self.begun.set()
        self.go.wait(10)
        if "bad" in items:
            raise ValueError("bad")
        return [item * item for item in items]


def test_what_waits_is_scored_together_and_what_is_cancelled_is_not(scheduler):
    squares, others = Squares(), Squares()
    others.go.set()

    async def ask():
        tasks = [*await all_asked(scheduler, squares, *range(1, 13)), asked(scheduler, others, 7)]
        await asyncio.sleep(0.01)
        tasks[2].cancel()
        await asyncio.sleep(0.01)
        squares.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(ask())
    assert isinstance(found.pop(2), asyncio.CancelledError)
    assert found == [1, 4, 16, *(one * one for one in range(5, 13)), 49]
    assert [one for batch in squares.given for one in batch] == [1, 2, 4, *range(5, 13)]
    assert max(map(len, squares.given)) == 7 and others.given == [[7]]


def test_jobs_that_come_during_the_work_start_no_calls_that_pile_up(scheduler, monkeypatch):
    """One call for each job grew by a kilobyte a query for as long as the service was busy."""
    squares, calls, submit = Squares(), [], scheduler.turns.submit
    monkeypatch.setattr(scheduler.turns, "submit", lambda call: calls.append(call) or submit(call))

    async def ask():
        tasks = await all_asked(scheduler, squares, *range(1, 30))
        squares.go.set()
        found = await asyncio.gather(*tasks)
        return [*found, await asked(scheduler, squares, 30)]

    assert asyncio.run(ask()) == [one * one for one in range(1, 31)]
    assert len(calls) <= 2


def test_only_what_is_at_fault_fails(scheduler):
    squares = Squares()

    async def ask():
        tasks = await all_asked(scheduler, squares, 1, 2, "bad", 3)
        squares.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(ask())
    assert isinstance(found[2], ValueError) and [found[at] for at in (0, 1, 3)] == [1, 4, 9]


def test_more_than_may_be_inside_are_refused_at_once(scheduler):
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


def test_closing_finishes_what_waits(scheduler):
    squares = Squares()

    async def ask():
        tasks = await all_asked(scheduler, squares, 1, 2, 3)
        closing = asyncio.create_task(asyncio.to_thread(scheduler.close))
        await asyncio.sleep(0.01)
        squares.go.set()
        await closing
        return await asyncio.wait_for(asyncio.gather(*tasks), 10)

    assert asyncio.run(ask()) == [1, 4, 9]
