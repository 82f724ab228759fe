"""Work that stops between its steps when nobody waits for it any more, or its time is over.

Long loops call `stop_if_asked` between two steps. Without a condition, as in the commands, it does nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rerank_plugin.base.errors import InputError


class Stopped(Exception):
    """The work was stopped between two steps."""


class LateError(InputError):
    """The work needs more time than it is given."""


class _Condition(threading.local):
    is_met: Callable[[], bool] | None = None
    end, seconds = math.inf, math.inf  # by time.monotonic, and the time given
    work_end = math.inf  # by time.thread_time


_condition = _Condition()


@contextmanager
def stopping(is_met: Callable[[], bool]) -> Iterator[None]:
    """Stop the work of this thread in the block at the next step after ``is_met()`` has become true."""
    before, _condition.is_met = _condition.is_met, is_met
    try:
        yield
    finally:
        _condition.is_met = before


@contextmanager
def within(seconds: float, since: float | None = None, working: float = math.inf) -> Iterator[None]:
    """Give the work of this thread in the block a time, after which its next step raises a `LateError`.

    Args:
        since: when the time began, by `time.monotonic`; None for now.
        working: the CPU time that it may take of this thread, in seconds, from now on.
    """
    before = _condition.end, _condition.seconds, _condition.work_end
    _condition.end, _condition.seconds = (time.monotonic() if since is None else since) + seconds, seconds
    _condition.work_end = time.thread_time() + working
    try:
        yield
    finally:
        _condition.end, _condition.seconds, _condition.work_end = before


def seconds_left() -> float:
    """The time that the work of this thread still has; infinite where none is given."""
    left = _condition.end - time.monotonic()
    return left if _condition.work_end == math.inf else min(left, _condition.work_end - time.thread_time())


def may_be_stopped() -> bool:
    """Whether the work of this thread is in a block that a condition stops; a limit of time alone does not count."""
    return _condition.is_met is not None


def stop_if_asked(is_late: bool = False) -> None:
    """A step has ended: raise `Stopped` if the condition of this thread is met, and a `LateError` after its time.

    Args:
        is_late: whether the step was not finished for want of time, whatever time there is now.
    """
    if _condition.is_met is not None and _condition.is_met():
        raise Stopped
    if is_late or seconds_left() <= 0:
        raise LateError(f"this takes longer than {_condition.seconds:g} seconds: ask for less")
