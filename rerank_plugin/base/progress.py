"""Output to stderr: the log, and progress bars."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rerank_plugin.base.terminal import shown

T = TypeVar("T")
log = logging.getLogger(__name__)

PROGRESS_SECONDS = 10.0  # between progress lines if stderr is not a terminal


def set_up_logging(verbose: bool) -> None:
    """Send log messages to stderr (results go to stdout); libraries log only warnings and errors."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Formatter())
    for name in ("rerank_plugin", "__main__"):
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)


class _Formatter(logging.Formatter):
    """Messages as stderr shows them."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record), sys.stderr)


def progress(items: Iterable[T], description: str, unit: str, total: int | None = None) -> Iterator[T]:
    """Yield ``items`` and show progress: a tqdm bar on a terminal, log lines otherwise."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, desc=description, unit=f" {unit}", total=total, file=sys.stderr)
        return
    started = reported = time.monotonic()
    count = 0
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - reported >= PROGRESS_SECONDS:
            reported = now
            of_total = f" of {total:,}" if total else ""
            log.info("%s: %s%s %s (%.0f/s)", description, f"{count:,}", of_total, unit, count / (now - started))
