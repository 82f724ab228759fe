"""Standard output, the characters that a terminal would act on, and what goes to stderr: the log, and progress bars.

Titles, ids and paths come from files of anybody. A terminal runs the escape sequences in them, and shows the text after
a change of direction in another order; so they are escaped there. Files and pipes get them as they are.
"""

from __future__ import annotations

import codecs
import errno
import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

STDOUT = "standard output"  # its name in messages
# Control characters but tab and line feed, marks and changes of direction, invisible characters (not the two joiners,
# which Persian, Indian scripts and emojis need), line separators, and halves of characters.
ACTIVE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
LENIENT = "rerank-plugin-lenient"  # the name of the error handler `_lenient`


def escaped(text: str) -> str:
    r"""The text with the characters that a terminal acts on as in Python's strings: ``\x1b``, ``\u202e``."""
    return ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown(text: str, stream: TextIO | None) -> str:
    """The text as it is written to a stream: escaped if that is a terminal."""
    return escaped(text) if stream is not None and stream.isatty() else text


class Output:
    """Standard output of a command: escapes text on a terminal, and names itself in errors.

    Args:
        stream: the text stream; None if standard output is closed, so that writing fails.

    Attributes:
        unescaped: writes colours.
    """

    def __init__(self, stream: TextIO | None):
        self.unescaped = stream

    def write(self, text: str) -> int:
        with _named():
            if self.unescaped is None:
                raise OSError(errno.EBADF, "closed")
            self.unescaped.write(shown(text, self.unescaped))
        return len(text)

    def flush(self) -> None:
        if self.unescaped is not None:
            with _named():
                self.unescaped.flush()

    def isatty(self) -> bool:
        return self.unescaped is not None and self.unescaped.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


@contextmanager
def standard_output() -> Iterator[None]:
    """Within the block ``sys.stdout`` is an `Output`, which takes any character in any encoding.

    Closed descriptors of the three standard streams lead to the null device, so that no file which is opened later
    gets their numbers and what Java or a library writes there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    stream = sys.stdout
    with suppress(AttributeError):  # None, or a stream in memory
        stream.reconfigure(errors=LENIENT)  # type: ignore[union-attr]
    sys.stdout = output = Output(stream)  # type: ignore[assignment]
    try:
        yield
    finally:
        if sys.stdout is output:
            sys.stdout = stream


def drop_output() -> None:
    """Drop what is still buffered for standard output; otherwise Python fails once more to write it when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_red(text: str) -> None:
    """Print a text of this program without a line end, in red on a terminal unless NO_COLOR is set
    (https://no-color.org).
    """
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        print(text, end="")
    else:
        print(f"\033[31m{text}\033[0m", end="", file=getattr(sys.stdout, "unescaped", sys.stdout))


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = error.filename or STDOUT
        raise


def _lenient(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""An error handler of codecs: bytes of a path as they are, other characters as in JSON (``\u2265``)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)), error.start + 1


codecs.register_error(LENIENT, _lenient)


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
