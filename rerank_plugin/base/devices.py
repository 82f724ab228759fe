"""Torch devices, as users name them. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rerank_plugin.base.errors import InputError


@contextmanager
def usable(device: str) -> Iterator[None]:
    """Turn torch's errors about a device into an `InputError` that names it."""
    try:
        yield
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot use the device '{device}': {str(error).splitlines()[0]}") from None
