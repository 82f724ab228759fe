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
    return scheduler.together(lambda: item, squares.together, lambda result: result)


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
        tasks = [asyncio.create_task(asked(scheduler, squares, 1))]
        await asyncio.to_thread(squares.begun.wait, 10)
        for one in (2, 3, 4, *range(5, 13)):
            tasks.append(asyncio.create_task(asked(scheduler, squares, one)))
        tasks.append(asyncio.create_task(asked(scheduler, others, 7)))
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
        tasks = [asyncio.create_task(asked(scheduler, squares, 1))]
        await asyncio.to_thread(squares.begun.wait, 10)
        tasks += [asyncio.create_task(asked(scheduler, squares, one)) for one in range(2, 30)]
        await asyncio.sleep(0.01)
        squares.go.set()
        found = await asyncio.gather(*tasks)
        return [*found, await asked(scheduler, squares, 30)]

    assert asyncio.run(ask()) == [one * one for one in range(1, 31)]
    assert len(calls) <= 2


def test_only_what_is_at_fault_fails(scheduler):
    squares = Squares()

    async def ask():
        first = asyncio.create_task(asked(scheduler, squares, 1))
        await asyncio.to_thread(squares.begun.wait, 10)
        rest = [asyncio.create_task(asked(scheduler, squares, one)) for one in (2, "bad", 3)]
        await asyncio.sleep(0.01)
        squares.go.set()
        return await asyncio.gather(first, *rest, return_exceptions=True)

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


def test_closing_finishes_what_waits():
    made, squares = Scheduler(threads=1, most=2, at_once=8), Squares()

    async def ask():
        tasks = [
            asyncio.create_task(scheduler_item) for scheduler_item in (asked(made, squares, one) for one in (1, 2))
        ]
        await asyncio.to_thread(squares.begun.wait, 10)
        closing = asyncio.create_task(asyncio.to_thread(made.close))
        await asyncio.sleep(0.01)
        squares.go.set()
        await closing
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [1, 4]
