"""What is served at one time, opened once, and replaced whole by a reload."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.highlighting import query_stems
from rerank_plugin.service.served_index import WARMING, ServedIndex, ServedTexts
from rerank_plugin.service.settings import ServiceConfig

T = TypeVar("T")
log = logging.getLogger(__name__)


class Served:
    """Everything that is served at one time.

    Raises:
        InputError: an index or a reranker cannot be used.
    """

    def __init__(self, config: ServiceConfig):
        self.users, self.retired, self.lock = 1, False, Lock()  # whoever opened it is a user
        self.indexes = {name: ServedIndex(name, folder, config) for name, folder in config.indexes.items()}
        first = next(iter(self.indexes.values())).index
        self.texts: dict[str, ServedTexts] = {}
        for name, spec in config.rerankers.items():
            log.info("texts: loading and warming %s", name)
            reranker = self.texts[name] = ServedTexts(name, spec, first, config.running)
            reranker.rank_together([(WARMING, [WARMING, "a text about something else"], None)])
        query_stems(WARMING)

    def index(self, name: str | None) -> ServedIndex:
        """The index of this name, or the default one; a `RequestError` if there is none."""
        return _named("index", name, self.indexes)

    def of_texts(self, name: str | None) -> ServedTexts:
        """The reranker of texts of this name, or the default one; a `RequestError` if there is none."""
        return _named("model", name, self.texts)

    def enter(self) -> None:
        with self.lock:
            self.users += 1

    def leave(self, retire: bool = False) -> None:
        """Close everything when it is retired and its last user has gone."""
        with self.lock:
            self.users -= 1
            self.retired |= retire
            over = self.retired and not self.users
        if over:
            for index in self.indexes.values():
                index.close()


class Collections:
    """What is served now. A reload opens all of it anew, and those who use the old are not disturbed."""

    def __init__(self, config: ServiceConfig):
        self.config, self.reloading, self.changing = config, Lock(), Lock()
        self.now = Served(config)
        _freeze()

    @contextmanager
    def used(self) -> Iterator[Served]:
        """What is served now, kept open for the block."""
        with self.changing:
            served = self.now
            served.enter()
        try:
            yield served
        finally:
            served.leave()

    def reload(self) -> None:
        """Replace everything, once it is open and warm.

        Raises:
            InputError: it cannot be opened; what was served before stays.
        """
        with self.reloading:
            opened = Served(self.config)
            with self.changing:
                before, self.now = self.now, opened
            before.leave(retire=True)
            del before
            _freeze()

    def close(self) -> None:
        self.now.leave(retire=True)


def _named(kind: str, name: str | None, served: dict[str, T]) -> T:
    name = name or next(iter(served))
    if name not in served:
        raise RequestError(404, f"no {kind} '{name}'; there are {', '.join(served)}", kind)
    return served[name]


def _freeze() -> None:
    """Tell Python's garbage collector that what is open stays: to look through it stops all threads for 0.2 seconds."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
