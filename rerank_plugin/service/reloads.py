"""Reloads, on SIGHUP or ``/admin/reload``: one at a time, and given up when the service ends."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.stopping import Stopped, stopping
from rerank_plugin.service.collections import Collections
from rerank_plugin.service.metrics import Metrics

log = logging.getLogger(__name__)


class Reloads:
    """A thread that reopens all indexes and rerankers when asked to.

    Reloads that are asked for while one runs are one reload, which follows it: it opens what is there by then.
    """

    def __init__(self, collections: Collections, metrics: Metrics):
        self.collections, self.metrics, self.abandoned = collections, metrics, False
        self.asked: SimpleQueue[Future[InputError | None] | None] = SimpleQueue()
        self.thread = Thread(target=self._run, name="reloads")
        self.thread.start()

    def ask(self) -> Future[InputError | None]:
        """Ask for a reload, also in the handler of a signal; the result is the error for which the old ones stay."""
        future: Future[InputError | None] = Future()
        self.asked.put(future)  # may interrupt itself, unlike a lock
        return future

    def _run(self) -> None:
        while (first := self.asked.get()) is not None:
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

    def _reload(self) -> InputError | None:
        error: Exception
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
