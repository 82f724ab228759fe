"""The state that routes share: settings, open collections, scheduler, metrics and click log."""

from __future__ import annotations

import logging
import re
import time
from itertools import islice
from pathlib import Path

from fastapi import Request

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.locations import named_location
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.ranking.searcher import QUERIES_AT_ONCE
from rerank_plugin.service.click_log import ClickLog
from rerank_plugin.service.config import ServiceConfig
from rerank_plugin.service.errors import RequestError, refusal
from rerank_plugin.service.metrics import Metrics
from rerank_plugin.service.reloads import Reloads
from rerank_plugin.service.scheduling import Scheduler
from rerank_plugin.service.served_index import Collections

log = logging.getLogger(__name__)
RUN = re.compile(r"[^\W_]+")
RUNS_OF_A_WORD = 2  # of letters and digits, on average at most: the tokenizer makes a word or two of each


class Service:
    """A service: its open and warm collections, scheduler, metrics, and click log (None without one).

    Raises:
        InputError: an index or a reranker cannot be used, or the click log cannot be written.
    """

    def __init__(self, config: ServiceConfig):
        opening = time.monotonic()
        self.config = config
        self.click_log = ClickLog(config.click_log, config.click_log_megabytes << 20) if config.click_log else None
        self.collections = Collections(config)
        # On a CPU each thread scores whole queries: in a larger batch, queries would only wait for each other.
        max_batch = available_threads() if config.running.device == "cpu" else QUERIES_AT_ONCE
        self.scheduler = Scheduler(config.threads, config.queue, max_batch, config.step_seconds)
        self.metrics = Metrics(self.scheduler)
        self.reloads = Reloads(self.collections, self.metrics, config.watch)
        self.started = int(time.time())
        log.info("ready: everything open and warm after %.1f s", time.monotonic() - opening)

    @property
    def default_reranker(self) -> str:
        return self.config.default_reranker

    def close(self) -> None:
        """Give up a reload, finish waiting queries, and close everything."""
        self.reloads.close()
        self.scheduler.close()
        self.collections.close()
        if self.click_log is not None:
            self.click_log.close()

    def public_error(self, error: InputError | RequestError) -> RequestError:
        """The error without paths of this machine, which names of indexes and rerankers replace.

        In a command of the message ``<folder of NAME>`` replaces a path, since there NAME would mean a folder.
        """
        public = error if isinstance(error, RequestError) else refusal(error)
        for name, location in (*self.config.indexes.items(), *self.config.rerankers.items()):
            folder = location if (named := named_location(location)) is None else str(named[0])
            for path in {location, folder, str(Path(folder).absolute())} if "/" in location else ():
                shown = f"<folder of {name}>"
                public.error = re.sub(f"(--[a-z-]+ ){re.escape(path)}", lambda option: option[1] + shown, public.error)
                public.error = public.error.replace(path, name)
        return public

    def depth(self, requested: int | None) -> int:
        """The depth of a search, by default the service's; a `RequestError` if it is too large."""
        depth = self.config.depth if requested is None else requested
        if depth > (limit := self.config.most_depth):
            raise RequestError(400, f"depth is {depth}: it must be at most {limit}", "depth")
        return depth

    def check_text(self, text: str, field: str, status: int = 400) -> None:
        """A `RequestError` if a text exceeds the limits of characters and words; it is not tokenized before."""
        if len(text) > (limit := self.config.most_characters):
            raise RequestError(status, f"a text of {field} has more than {limit} characters: shorten it", field)
        limit = self.config.most_words
        if len(text) <= limit:
            return
        if len(text.split()) > limit:
            raise RequestError(status, f"a text of {field} has more than {limit} words: shorten it", field)
        if sum(1 for _ in RUN.finditer(text)) > (limit := limit * RUNS_OF_A_WORD):
            raise RequestError(
                status, f"a text of {field} has more than {limit} runs of letters and digits: shorten it", field
            )

    def cut(self, text: str, words: int | None = None) -> str:
        """The beginning of a text: its first ``words``, by default as much as `check_text` allows."""
        if words is not None:
            return first_words(text, words)
        text = first_words(text[: self.config.most_characters], self.config.most_words)
        too_many = next(islice(RUN.finditer(text), self.config.most_words * RUNS_OF_A_WORD, None), None)
        return text if too_many is None else text[: too_many.start()]


def first_words(text: str, words: int) -> str:
    """The text up to its ``words``-th word."""
    rest = text.split(maxsplit=words)
    return text[: len(text) - len(rest[-1])] if len(rest) > words else text


def get_service(request: Request) -> Service:
    """The service of the application that received a request."""
    service: Service = request.app.state.service
    return service
