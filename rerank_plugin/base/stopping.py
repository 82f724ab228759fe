"""Work that stops between its steps when nobody waits for it any more.

Long loops call `stop_if_asked` between two steps. Without a condition, as in the commands, it does nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """The work was stopped between two steps."""


class _Condition(threading.local):
    is_met: Callable[[], bool] | None = None


_condition = _Condition()


@contextmanager
def stopping(is_met: Callable[[], bool]) -> Iterator[None]:
    """Stop the work of this thread in the block at the next step after ``is_met()`` has become true."""
    before, _condition.is_met = _condition.is_met, is_met
    try:
        yield
    finally:
        _condition.is_met = before


def stop_if_asked() -> None:
    """A step has ended: raise `Stopped` if the condition of this thread is met."""
    if _condition.is_met is not None and _condition.is_met():
        raise Stopped
