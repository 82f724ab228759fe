"""What is served at one time, opened once, and replaced whole by a reload."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.highlighting import query_stems
from rerank_plugin.service.served_index import WARMING, ServedIndex, ServedTexts
from rerank_plugin.service.settings import ServiceConfig


class Served:
    """Everything that is served at one time.

    Raises:
        InputError: an index or a reranker cannot be used.
    """

    def __init__(self, config: ServiceConfig):
        self.users, self.retired, self.lock = 0, False, Lock()
        self.indexes = {name: ServedIndex(name, folder, config) for name, folder in config.indexes.items()}
        first = next(iter(self.indexes.values())).index
        self.texts = {name: ServedTexts(name, spec, first, config.running) for name, spec in config.rerankers.items()}
        for reranker in self.texts.values():
            reranker.rank_together([(WARMING, [WARMING, "a text about something else"], None)])
        query_stems(WARMING)

    def index(self, name: str) -> ServedIndex:
        """
        Raises:
            RequestError: there is none of this name.
        """
        if name not in self.indexes:
            raise RequestError(404, f"no index '{name}'; there are {', '.join(self.indexes)}", "index")
        return self.indexes[name]

    def of_texts(self, name: str | None) -> ServedTexts:
        """The reranker of texts; the default for None.

        Raises:
            RequestError: there is none of this name.
        """
        name = name or next(iter(self.texts))
        if name not in self.texts:
            raise RequestError(404, f"no model '{name}'; there are {', '.join(self.texts)}", "model")
        return self.texts[name]

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
        self.now = self._opened()
        _freeze()

    def _opened(self) -> Served:
        served = Served(self.config)
        served.enter()  # by this object
        return served

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
            opened = self._opened()
            with self.changing:
                before, self.now = self.now, opened
            before.leave(retire=True)
            del before
            _freeze()

    def close(self) -> None:
        self.now.leave(retire=True)


def _freeze() -> None:
    """Tell Python's garbage collector that what is open stays: to look through it stops all threads for 0.2 seconds."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
