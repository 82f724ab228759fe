"""A map over a Ray cluster: chunks of work go to tasks on all its machines, and their results come in order.

A task takes a processor. Its process opens once what the work reads (an index, a model), which later tasks find open.
Work depends on nothing but its chunk, so Ray may repeat that of a process that died.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import ray
from ray.exceptions import RayError, RayTaskError

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.connection import cluster_processors, connect, environment

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[T], R]

AHEAD = 3  # chunks for each processor that are sent before their turn
RETRIES = 3  # of a chunk whose process died


def cluster_map(open_work: Callable[[], Work[T, R]], chunks: Iterable[T], config: ClusterConfig) -> Iterator[R]:
    """Yield the result of each chunk, in the order of the chunks.

    Args:
        open_work: called once in each process; returns the function of a chunk. It names files of the machine that it
            is called on, which has this process's working folder.
        config: address of the cluster, and Java's heap in each process.

    Raises:
        InputError: there is no such cluster; the work raises one; or the processes of a chunk died again and again.
    """
    connect(config.address)
    processors = cluster_processors()
    task: Any = ray.remote(_done).options(
        num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD", runtime_env=environment(config.heap)
    )
    name, shared = uuid4().hex, ray.put(open_work)
    waiting: deque[Any] = deque()
    try:
        for chunk in chunks:
            waiting.append(task.remote(name, os.getcwd(), shared, chunk))
            if len(waiting) > AHEAD * processors:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())
    finally:
        for reference in waiting:
            ray.cancel(reference, force=True)


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except RayError as error:
        raise InputError(
            f"the processes of a part of the work died on the cluster, the last of {RETRIES + 1} with: "
            f"{one_line(error):.300}"
        ) from None


_opened: tuple[str, Work] | None = None  # the map that this process works for, and what it opened


def _done(name: str, folder: str, open_work: Callable[[], Work[T, R]], chunk: T) -> R:
    """The result of a chunk, in a process of the cluster."""
    global _opened
    try:
        if _opened is None or _opened[0] != name:
            os.chdir(folder)
            _opened = name, open_work()
        return _opened[1](chunk)
    except (OSError, InputError) as error:
        raise InputError(f"on machine {socket.gethostname()}: {error}") from None
