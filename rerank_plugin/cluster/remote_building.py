"""Builds a shard in an actor of Ray, on any machine of a cluster that sees the folder of the index.

The actor's process dies with that of the command, and what it has written then is removed as after any interruption.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.base.records import Document
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.connection import environment
from rerank_plugin.indexes.building import write_part
from rerank_plugin.text.tokenizer import tokenizer

ENDING = 10.0  # seconds in which a process that was killed ends


class BuilderActor:
    """The process that builds a shard: a thread indexes the batches of documents that it is given."""

    def __init__(self, segment: Path, lucene: Path, settings: dict[str, Any]):
        self.segment, self.lucene, self.settings, self.error = segment, lucene, settings, ""
        self.batches: Queue[Sequence[Document] | None] = Queue(1)
        if not (building := lucene.parents[2]).is_dir():  # its name was made up for this build
            machine = socket.gethostname()
            self.error = f"machine {machine} does not see {building}: build on a folder that all machines share"
        self.thread = Thread(target=self._build)
        self.thread.start()

    def add(self, batch: Sequence[Document] | None) -> str:
        """Index documents; None: there are no more. Gives the message of an `InputError`, or an empty one."""
        self.batches.put(batch)
        if batch is None:
            self.thread.join()
        return self.error

    def _build(self) -> None:
        batches, words = self._batches(), tokenizer(self.settings["stemmer"])
        try:
            if not self.error:
                write_part(self.segment, self.lucene, batches, words, None, self.settings["term_vectors"])
        except Exception as error:
            self.error = str(error) if isinstance(error, InputError) else f"{self.lucene.parent.name}: {error!r}"
        for _ in batches:  # a sender that is not read would wait for ever
            pass

    def _batches(self) -> Iterator[tuple[list[Document], None]]:
        while (batch := self.batches.get()) is not None:
            yield list(batch), None


class RemoteBuilder:
    """A process of a cluster that builds a shard.

    Args:
        segment, lucene: the folders that it writes, in an index that is being built.
        lag: batches that may wait for the process.
    """

    def __init__(self, segment: Path, lucene: Path, settings: dict[str, Any], config: ClusterConfig, lag: int):
        self.shard, self.lag, self.waiting = lucene.parent.name, lag, deque[Any]()
        actor: Any = ray.remote(BuilderActor).options(
            num_cpus=0, max_restarts=0, scheduling_strategy="SPREAD", runtime_env=environment(config.heap)
        )
        self.actor = actor.remote(segment.absolute(), lucene.absolute(), settings)

    def __enter__(self) -> RemoteBuilder:
        return self

    def __exit__(self, *exception: object) -> None:
        ray.kill(self.actor)
        with suppress(RayError):  # it writes until it has ended, and the folder may be removed next
            ray.get(self.actor.add.remote([]), timeout=ENDING)

    def add(self, batch: Sequence[Document]) -> None:
        self._send(batch, self.lag)

    def finish(self) -> None:
        """Wait until the shard is written; an `InputError` if that failed."""
        self._send(None, 0)

    def _send(self, batch: Sequence[Document] | None, lag: int) -> None:
        self.waiting.append(self.actor.add.remote(batch))
        while len(self.waiting) > lag:
            try:
                error = ray.get(self.waiting.popleft())
            except RayTaskError:
                raise
            except RayError as failure:
                raise InputError(
                    f"the process that builds {self.shard} of the shards ended ({one_line(failure):.300}): "
                    "nothing was written; build again"
                ) from None
            if error:
                raise InputError(error)
