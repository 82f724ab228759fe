"""What the routes share: the settings, the open collections, the scheduler and the counters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fastapi import Request

from rerank_plugin.files.errors import InputError
from rerank_plugin.service.click_log import ClickLog
from rerank_plugin.service.collections import Collections
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.metrics import Metrics
from rerank_plugin.service.scheduling import Scheduler
from rerank_plugin.service.settings import ServiceConfig


@dataclass(frozen=True)
class Service:
    """One service."""

    config: ServiceConfig
    collections: Collections
    scheduler: Scheduler
    metrics: Metrics
    clicks: ClickLog | None

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
        """What a client is told: the names of indexes and rerankers instead of paths of this machine."""
        refused = error if isinstance(error, RequestError) else RequestError(400, str(error))
        for called, place in (*self.config.indexes.items(), *self.config.rerankers.items()):
            for path in {place, str(Path(place).absolute())} if "/" in place else ():
                refused.error = refused.error.replace(path, called)
        return refused

    def depth(self, asked: int | None) -> int:
        """How many candidates a request gets.

        Raises:
            RequestError: it asks for too many.
        """
        found = self.config.depth if asked is None else asked
        if found > (most := self.config.most_depth):
            raise RequestError(400, f"depth is {found}, at most {most} can be re-ranked", "depth")
        return found

    def check_words(self, text: str, field: str, status: int = 400) -> None:
        """
        Raises:
            RequestError: a text has more words than the service reads.
        """
        if len(text) > self.config.most_words and len(text.split()) > self.config.most_words:
            raise RequestError(status, f"a text of {field} has more than {self.config.most_words} words", field)


def service_of(request: Request) -> Service:
    """The service that a request was sent to."""
    found: Service = request.app.state.service
    return found
