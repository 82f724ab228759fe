"""Attributes that are computed when they are first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """As :class:`functools.cached_property` since Python 3.12.

        Before, all objects of a class share a lock while one of them computes the attribute: searches waited for one
        another, and a search that waits for a shard held up the shard.
        """

        def __init__(self, compute: Callable[[Any], Any]):
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.compute(instance))


__all__ = ["cached_property"]
