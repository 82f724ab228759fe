"""Reloads, on SIGHUP, ``/admin/reload`` or a new commit: one at a time, and given up when the service ends."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.stopping import Stopped, stopping
from rerank_plugin.indexes.layout import DESCRIPTION
from rerank_plugin.indexes.locations import named_location
from rerank_plugin.service.metrics import Metrics
from rerank_plugin.service.served_index import Collections

log = logging.getLogger(__name__)


class Reloads:
    """A thread that reopens all indexes and rerankers when asked to, and when an index has a new commit.

    Reloads that are asked for while one runs are one reload, which follows it: it opens what is there by then. After
    one that fails, the thread waits for the next commit.

    Args:
        watch: seconds between looks for new commits; 0 for none.
    """

    def __init__(self, collections: Collections, metrics: Metrics, watch: float = 0):
        self.collections, self.metrics, self.watch, self.abandoned = collections, metrics, watch, False
        self.commits = self._read_commits({})
        self.asked: SimpleQueue[Future[InputError | None] | None] = SimpleQueue()
        self.thread = Thread(target=self._run, name="reloads")
        self.thread.start()

    def ask(self) -> Future[InputError | None]:
        """Ask for a reload, also in the handler of a signal; the result is the error for which the old ones stay."""
        future: Future[InputError | None] = Future()
        self.asked.put(future)  # may interrupt itself, unlike a lock
        return future

    def _run(self) -> None:
        while (first := self._next()) is not None:
            asked = [first]
            try:
                while (more := self.asked.get_nowait()) is not None:
                    asked.append(more)
                self.asked.put(None)
            except Empty:
                pass
            result = self._reload()
            for future in asked:
                if future.set_running_or_notify_cancel():  # else the client has gone
                    future.set_result(result)

    def _next(self) -> Future[InputError | None] | None:
        """The next that was asked for, or one for a new commit."""
        while True:
            try:
                return self.asked.get(timeout=self.watch or None)
            except Empty:
                if self._read_commits(self.commits) != self.commits:
                    return Future()

    def _read_commits(self, before: dict[Path, tuple[int, ...]]) -> dict[Path, tuple[int, ...]]:
        """What the system knows of the commits' files; as it was before while there is none, as in a rebuild."""
        commits = before.copy()
        for index in self.collections.config.indexes.values():
            named = named_location(index)
            path = (Path(index) if named is None else named[0]) / DESCRIPTION
            with suppress(OSError):
                status = os.stat(path)
                commits[path] = (status.st_ino, status.st_mtime_ns, status.st_size)
        return commits

    def _reload(self) -> InputError | None:
        error: Exception
        self.commits = self._read_commits(self.commits)
        try:
            with stopping(lambda: self.abandoned):
                self.collections.reload()
        except Stopped:
            error = InputError("the service ends")
        except Exception as failure:
            error = failure
            if not isinstance(failure, InputError):
                log.exception("a reload failed")
        else:
            log.warning("reloaded")
            self.metrics.reloads.labels("done").inc()
            return None
        log.error("not reloaded, the old indexes and rerankers stay: %s", error)
        self.metrics.reloads.labels("failed").inc()
        return error if isinstance(error, InputError) else InputError("the service failed; see its log")

    def abandon(self) -> None:
        """Give up the running reload after its present step, and all others."""
        self.abandoned = True

    def close(self) -> None:
        """Give up all reloads, and end the thread."""
        self.abandon()
        self.asked.put(None)
        self.thread.join()
