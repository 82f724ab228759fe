"""The connection of this process to a Ray cluster, and what the processes of the cluster get from it."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import ray
from ray._private import ray_constants
from ray.exceptions import RayError

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.java.jvm import OPTIONS, restored_signal_handlers

OBJECT_STORE_BYTES = 100_000_000  # of Ray's own store of objects in a cluster that is started here: answers are small


def connect(address: str) -> None:
    """Connect this process to a cluster, or start one in it, unless it is connected already.

    Raises:
        InputError: there is no such cluster.
    """
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address == "local":
        quiet |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        # Ray's own handlers of signals would end a process in which Java runs.
        with restored_signal_handlers(), loopback_only() if address == "local" else nullcontext():
            ray.init(address=address, **quiet)
        atexit.register(disconnect)  # before Ray's own
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise InputError(f"there is no Ray cluster at '{address}' ({one_line(error):.300})") from None


@contextmanager
def loopback_only() -> Iterator[None]:
    """Let the processes of a cluster that is started in the block listen at the loopback address only.

    Ray does so on its own on Windows and macOS, where other machines cannot join a cluster.
    """
    name, before = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    given = os.environ.get(name)
    os.environ[name], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        if given is None:
            del os.environ[name]
        else:
            os.environ[name] = given


def disconnect() -> None:
    """Disconnect this process from the cluster, without the handlers of signals that Ray leaves."""
    with restored_signal_handlers():
        ray.shutdown()


def cluster_processors() -> int:
    """The processors of the cluster; an `InputError` if it has none for tasks."""
    if (processors := int(ray.cluster_resources().get("CPU", 0))) < 1:
        raise InputError("the Ray cluster has no CPU for tasks: start its nodes with some")
    return processors


def environment(heap: str) -> dict[str, Any]:
    """Ray's ``runtime_env`` of processes whose Java has this heap, and else the options of this process's Java."""
    options = [option for option in os.environ.get(OPTIONS, "").split() if not option.startswith("-Xmx")]
    return {"env_vars": {OPTIONS: " ".join([*options, f"-Xmx{heap}"])}}
