"""What the routes share: the settings, the open collections, the scheduler and the counters."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

from fastapi import Request

from rerank_plugin.base.errors import InputError
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.ranking.searcher import QUERIES_AT_ONCE
from rerank_plugin.service.click_log import ClickLog
from rerank_plugin.service.collections import Collections
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.metrics import Metrics
from rerank_plugin.service.scheduling import Scheduler
from rerank_plugin.service.settings import ServiceConfig

log = logging.getLogger(__name__)


class Service:
    """One service: its collections, open and warm, its scheduler and counters, and its click log; None if it has none.

    Raises:
        InputError: an index or a reranker cannot be used, or the click log not written.
    """

    def __init__(self, config: ServiceConfig):
        started = time.monotonic()
        self.config = config
        self.clicks = ClickLog(config.click_log, config.click_log_megabytes << 20) if config.click_log else None
        self.collections = Collections(config)
        # On a CPU each thread scores whole queries, so that more at once would only wait for each other.
        at_once = available_threads() if config.running.device == "cpu" else QUERIES_AT_ONCE
        self.scheduler = Scheduler(config.threads, config.queue, at_once)
        self.metrics = Metrics(self.scheduler)
        log.info("ready: all is open and warm after %.1f s", time.monotonic() - started)

    @property
    def default_reranker(self) -> str:
        return next(iter(self.config.rerankers))

    def close(self) -> None:
        """Finish what waits, and close everything."""
        self.scheduler.close()
        self.collections.close()
        if self.clicks is not None:
            self.clicks.close()

    def refusal(self, error: InputError | RequestError) -> RequestError:
        """What a client is told: the names of indexes and rerankers instead of paths of this machine.

        In a command, where a name would be taken as a folder, it is said to be one.
        """
        refused = error if isinstance(error, RequestError) else RequestError(400, str(error))
        for called, place in (*self.config.indexes.items(), *self.config.rerankers.items()):
            for path in {place, str(Path(place).absolute())} if "/" in place else ():
                told = f"<folder of {called}>"
                refused.error = re.sub(f"(--[a-z-]+ ){re.escape(path)}", lambda option: option[1] + told, refused.error)
                refused.error = refused.error.replace(path, called)
        return refused

    def depth(self, asked: int | None) -> int:
        """How many candidates a request gets; a `RequestError` if it asks for too many."""
        found = self.config.depth if asked is None else asked
        if found > (most := self.config.most_depth):
            raise RequestError(400, f"depth is {found}, at most {most} can be re-ranked", "depth")
        return found

    def check_words(self, text: str, field: str, status: int = 400) -> None:
        """A `RequestError` if a text has more words than the service reads."""
        if len(text) > self.config.most_words and len(text.split()) > self.config.most_words:
            raise RequestError(status, f"a text of {field} has more than {self.config.most_words} words", field)


def service_of(request: Request) -> Service:
    """The service that a request was sent to."""
    found: Service = request.app.state.service
    return found
