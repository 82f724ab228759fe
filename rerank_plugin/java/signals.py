"""Java's handlers of signals, which other libraries must not replace: Java stops its threads by memory faults."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator
from contextlib import contextmanager

LARGEST = 1024  # bytes: more than a C library's struct sigaction has
SIGNALS = [number for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if (number := getattr(signal, name, None))]


@contextmanager
def restored_signal_handlers() -> Iterator[None]:
    """Restore the handlers of memory faults and the like when the block ends, also those that are not Python's."""
    library = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(LARGEST) for number in SIGNALS}
    for number, action in kept.items():
        library.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            library.sigaction(int(number), action, None)
