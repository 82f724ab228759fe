"""Requests to the server of a distribution: one at a time, not too often, and repeated where the failure may pass."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.outputs import writing_to

T = TypeVar("T")
log = logging.getLogger(__name__)

CHUNK = 1 << 13  # bytes that are written at once: what a kill or a failure loses at most
TEXT_BYTES, FILE_BYTES = 1 << 24, 1 << 32  # at most; of NLM's, lists have under 1 MB and files under 1 GB
MOST_REDIRECTS = 5
CONNECT_SECONDS = 20.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds after a failure, doubled after each further one
LONGEST_ASKED = 900.0  # seconds that a server may ask to wait
PASSING = (
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT,
)  # fmt: skip
NO_RANGE = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


class NotFetchedError(InputError):
    """The server did not give what was asked for, after all tries."""


class _PassingError(Exception):
    """A failure that may pass; ``wait`` is how many seconds the server asks to wait."""

    def __init__(self, reason: str, wait: float = 0.0):
        super().__init__(reason)
        self.wait = wait


@dataclass
class Server:
    """A server over HTTP.

    Attributes:
        base_url: of the folders of a distribution.
        rate: requests a second, at most.
        stall: seconds without data after which a request counts as failed.
        tries: failures in a row, without any more data, after which it gives up.
        sleep: waits a number of seconds.
    """

    base_url: str
    rate: float = 3.0
    stall: float = 60.0
    tries: int = 8
    sleep: Callable[[float], Any] = time.sleep
    _next: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InputError(f"{self.base_url}: expected an address that begins with https:// or http://")
        with naming_extras("fetching PubMed"):
            import requests
            import urllib3
        self._failures = requests.RequestException, urllib3.exceptions.HTTPError, OSError
        self._session = requests.Session()
        # If a server packed the file once more, a range would be one of other bytes.
        self._session.headers.update({"User-Agent": f"rerank_plugin/{__version__}", "Accept-Encoding": "identity"})

    def close(self) -> None:
        self._session.close()

    def text(self, path: str) -> str:
        """A small text.

        Raises:
            NotFetchedError: the server does not give it, or more than 16 MiB.
        """

        def attempt() -> str:
            with self._get(path) as response:
                return b"".join(self._chunks(path, response, TEXT_BYTES)).decode(errors="replace")

        return self._repeated(path, attempt)

    def fetch(self, path: str, part: Path) -> float | None:
        """Fetch a file into ``part``, and of what that holds already only the rest.

        Returns:
            When the file was changed last, in seconds since 1970; None if the server does not say it.

        Raises:
            NotFetchedError: the server does not give it, or more than 4 GiB; what it gave stays.
            InputError: the part cannot be written.
        """

        def held() -> int:
            return part.stat().st_size if part.exists() else 0

        def attempt() -> float | None:
            size = held()
            with self._get(path, {"Range": f"bytes={size}-"} if size else {}) as response:
                content_range = response.headers.get("Content-Range", "")
                if response.status_code == NO_RANGE:
                    if content_range != f"bytes */{size}":
                        part.unlink()
                        raise _PassingError("the file has become shorter")
                else:
                    begin = size if size and content_range.startswith(f"bytes {size}-") else 0
                    with writing_to(part):
                        file = open(part, "ab" if begin else "wb", buffering=0)
                    with file:
                        for chunk in self._chunks(path, response, FILE_BYTES - begin):
                            with writing_to(part):
                                file.write(chunk)
                        with writing_to(part):
                            os.fsync(file.fileno())
                return _seconds(response.headers.get("Last-Modified"))

        return self._repeated(path, attempt, held)

    def _repeated(self, path: str, attempt: Callable[[], T], held: Callable[[], int] = lambda: 0) -> T:
        """The result of the first attempt that succeeds."""
        failures, most = 0, held()
        while True:
            try:
                return attempt()
            except InputError:
                raise
            except (_PassingError, *self._failures) as error:
                reason, wait = " ".join(str(error).split()) or type(error).__name__, getattr(error, "wait", 0.0)
            failures, most = (failures + 1, most) if held() <= most else (1, held())
            if failures >= self.tries:
                raise NotFetchedError(f"{self.base_url}{path}: {reason:.200}, {failures} times in a row")
            backoff = min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT) * random.uniform(0.75, 1.25)
            log.info("%s: %.200s; trying again in %.0f s", path, reason, max(wait, backoff))
            self.sleep(max(wait, backoff))

    @contextmanager
    def _get(self, path: str, headers: dict[str, str] | None = None) -> Iterator[Any]:
        """A response of which nothing was read yet."""
        now = time.monotonic()
        if self._next > now:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + 1 / self.rate
        with self._final(url := f"{self.base_url}{path}", headers) as response:
            status = response.status_code
            if status in PASSING:
                raise _PassingError(f"status {status}", _asked_wait(response.headers.get("Retry-After")))
            if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, NO_RANGE):
                raise NotFetchedError(f"{url}: the server answers with status {status}")
            yield response

    def _final(self, url: str, headers: dict[str, str] | None) -> Any:
        """The response behind all redirects, of whose bodies nothing is read: they might not end."""
        first, timeout = url, (CONNECT_SECONDS, self.stall)
        for _ in range(MOST_REDIRECTS + 1):
            response = self._session.get(url, headers=headers, stream=True, timeout=timeout, allow_redirects=False)
            if not response.is_redirect:
                return response
            response.close()
            url = urljoin(url, response.headers["Location"])
        raise NotFetchedError(f"{first}: the server redirects more than {MOST_REDIRECTS} times, last to {url:.200}")

    def _chunks(self, path: str, response: Any, most: int) -> Iterator[bytes]:
        """The body as it is sent, though a server may call it encoded; an exception if it is too short or long."""
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            if (most := most - len(chunk)) < 0:
                raise NotFetchedError(f"{self.base_url}{path} is too long to be one of PubMed's")
            yield chunk


def _seconds(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _asked_wait(value: str | None) -> float:
    """The seconds of a ``Retry-After``: a number, or a date."""
    if value and value.strip().isdigit():
        return min(float(value), LONGEST_ASKED)
    date = _seconds(value)
    return 0.0 if date is None else min(max(date - datetime.now(timezone.utc).timestamp(), 0.0), LONGEST_ASKED)
