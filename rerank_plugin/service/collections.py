"""The open indexes and rerankers, opened once and replaced as a whole by a reload."""

from __future__ import annotations

import gc
import logging
from collections.abc import Container, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from rerank_plugin.base.errors import InputError, UnavailableError
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.service.errors import RequestError
from rerank_plugin.service.highlighting import query_stems
from rerank_plugin.service.served_index import WARM_UP_QUERY, ServedIndex, ServedTextReranker
from rerank_plugin.service.settings import ServiceConfig

T = TypeVar("T")
log = logging.getLogger(__name__)


class Snapshot:
    """All indexes and rerankers that one load has opened, until the next reload.

    Args:
        required: the indexes that have to be opened, beside the first, which is the default of requests.

    Attributes:
        refused: why each of the others cannot be opened, as one of an older format; requests for it are told so.

    Raises:
        InputError: an index that is required, or a reranker, cannot be used.
        Stopped: between two of them, if the service ends.
    """

    def __init__(self, config: ServiceConfig, required: Container[str] = ()):
        self.users, self.retired, self.lock = 1, False, Lock()  # the first user is the `Collections` that opened it
        self.indexes: dict[str, ServedIndex] = {}
        self.refused: dict[str, str] = {}
        for name, folder in config.indexes.items():
            try:
                self.indexes[name] = ServedIndex(name, folder, config)
            except InputError as error:
                if not self.indexes or name in required or isinstance(error, UnavailableError):
                    raise
                self.refused[name] = f"the index '{name}' is not served: {error}"
                log.error("%s", self.refused[name])
        first = next(iter(self.indexes.values())).index
        self.text_rerankers: dict[str, ServedTextReranker] = {}
        by_spec: dict[str, ServedTextReranker] = {}
        for name, spec in config.rerankers.items():
            if spec in by_spec:
                self.text_rerankers[name] = by_spec[spec].named(name)
                continue
            stop_if_asked()
            log.info("texts: loading and warming %s", name)
            reranker = self.text_rerankers[name] = by_spec[spec] = ServedTextReranker(name, spec, first, config.running)
            reranker.rank_together([(WARM_UP_QUERY, [WARM_UP_QUERY, "a text about something else"], None)])
        query_stems(WARM_UP_QUERY)

    def index(self, name: str | None) -> ServedIndex:
        """The index of this name, by default the first; a `RequestError` if there is none."""
        if name in self.refused:
            raise RequestError(503, self.refused[name], "index")
        return _lookup("index", name, self.indexes)

    def text_reranker(self, name: str | None) -> ServedTextReranker:
        """The text reranker of this name, by default the first; a `RequestError` if there is none."""
        return _lookup("model", name, self.text_rerankers)

    def acquire(self) -> None:
        with self.lock:
            self.users += 1

    def release(self, retire: bool = False) -> None:
        """Drop one user; the last user of a retired snapshot closes its indexes."""
        with self.lock:
            self.users -= 1
            self.retired |= retire
            unused = self.retired and not self.users
        if unused:
            for index in self.indexes.values():
                index.close()


class Collections:
    """The current snapshot. A reload opens a new one; requests that use the old one finish undisturbed."""

    def __init__(self, config: ServiceConfig):
        self.config, self.swap_lock = config, Lock()
        self.current = Snapshot(config)
        _freeze()

    @contextmanager
    def in_use(self) -> Iterator[Snapshot]:
        """The current snapshot, kept open for the block."""
        with self.swap_lock:
            snapshot = self.current
            snapshot.acquire()
        try:
            yield snapshot
        finally:
            snapshot.release()

    def reload(self) -> None:
        """Replace the snapshot once the new one is open and warm; called by one thread at a time.

        Raises:
            InputError: an index or a reranker cannot be opened; the old snapshot stays.
        """
        opened = Snapshot(self.config, required=self.current.indexes)
        with self.swap_lock:
            before, self.current = self.current, opened
        before.release(retire=True)
        del before
        _freeze()

    def close(self) -> None:
        self.current.release(retire=True)


def _lookup(kind: str, name: str | None, served: dict[str, T]) -> T:
    name = name or next(iter(served), "")
    if name not in served:
        known = f"; known: {', '.join(served)}" if served else f": this service has no {kind}"
        raise RequestError(404, f"no {kind} '{name}'{known}", kind)
    return served[name]


def _freeze() -> None:
    """Exempt all open objects from garbage collection: a pass over them stops all threads for 0.2 seconds."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
