"""How a Ray cluster is used, and the location of an index of shards on it: ``ray://ADDRESS/FOLDER``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import check_bounds, setting

SCHEME = "ray"
MOST_REPLICAS = 8
AT_ONCE = 8  # questions that a process of a shard answers at the same time


@dataclass(frozen=True)
class ClusterConfig:
    """How a Ray cluster searches the shards of an index, or does other work on an index.

    Attributes:
        address: of the cluster: ``HOST:PORT`` of its head node, ``auto`` for the one of this machine, or ``local`` to
            start one here, which ends with this process.
        heap: of the Java of each process, in Java's notation.
    """

    address: str = "auto"
    replicas: int = setting(
        1, "processes for each shard; with 2, a search goes on when one of them dies", ge=1, le=MOST_REPLICAS
    )
    deadline: float = setting(
        10.0, "seconds that a search waits for a shard before it fails and names it", option="shard_deadline", gt=0
    )
    hedge: float = setting(
        0.2, "seconds after which a shard that has not answered is asked a second time, with replicas", gt=0
    )
    heap: str = setting("1g", "Java's heap in each process on the cluster, as 512m or 1g", option="shard_heap")

    partial: bool = setting(
        False,
        "answer without the documents of shards that do not answer, and say so, instead of failing; never in a run",
        option="partial_answers",
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if not (self.heap[:-1].isdecimal() and self.heap[-1] in "kKmMgG"):
            raise InputError(f"Java's heap '{self.heap}' is a number with k, m or g behind it, as 512m")

    def url(self, folder: str | Path) -> str:
        """The location of an index on the cluster, as `open_index` takes it."""
        changed = {
            name: value
            for name, value in vars(self).items()
            if name != "address" and value != getattr(type(self), name)
        }
        query = f"?{urlencode(changed)}" if changed else ""
        return f"{SCHEME}://{self.address}{quote(os.path.abspath(folder))}{query}"

    @classmethod
    def parse(cls, url: str) -> tuple[Path, ClusterConfig]:
        """The folder and the configuration of ``ray://ADDRESS/FOLDER?replicas=2&deadline=1``."""
        parts = urlsplit(url)
        if not parts.netloc or len(parts.path) < 2:
            raise InputError(
                f"'{url}' is no location on a cluster: write ray://ADDRESS/FOLDER, where ADDRESS may be auto"
            )
        return Path(unquote(parts.path)), cls(parts.netloc, **_values(dict(parse_qsl(parts.query)), url))


def _values(given: Mapping[str, str], url: str) -> dict[str, Any]:
    kinds: dict[str, Any] = {"replicas": int, "deadline": float, "hedge": float, "heap": str, "partial": _switch}
    if unknown := given.keys() - kinds.keys():
        raise InputError(f"'{url}' has an unknown setting {sorted(unknown)[0]}; known: {', '.join(kinds)}")
    try:
        return {name: kinds[name](value) for name, value in given.items()}
    except ValueError as error:
        raise InputError(f"'{url}' has a setting that is no number ({error})") from None


def _switch(value: str) -> bool:
    if value not in ("True", "False"):
        raise InputError(f"partial={value}: write partial=True or partial=False")
    return value == "True"
