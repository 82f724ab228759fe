"""The settings of the service, from which the serve command makes its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import DEPTH, check_bounds, setting
from rerank_plugin.models.base import RerankerOptions

MAX_WATCH = 86_400
NO_RERANKER = "none"  # the name of the first stage's order


@dataclass(frozen=True)
class ServiceConfig:
    """The indexes and rerankers to serve, access, and limits.

    Attributes:
        indexes: index folders by served name; the first is the default.
        rerankers: arguments of `Reranker.load` by served name; the first is the default. Without one, searches keep the
            first stage's order.
        running: options for running rerankers.
        stage_settings: settings of first stages by the names of ``search``'s options, such as ``dense_engine``.
        host: address to listen on.
        token: token that clients send as ``Authorization: Bearer`` or ``X-API-Key``; empty for none.
        origins: origins whose pages may call the service (CORS).
        click_log: file to append clicks to; empty for no click log.
        public_names: names other than localhost by which clients may call the service, as behind a proxy; with ``*``,
            any. They are checked where it listens on a loopback address, or has some.

    Raises:
        InputError: a limit is out of range.
    """

    indexes: dict[str, str] = field(default_factory=dict)
    rerankers: dict[str, str] = field(default_factory=dict)
    running: RerankerOptions = RerankerOptions()
    stage_settings: Mapping[str, Any] = field(default_factory=dict)
    host: str = "127.0.0.1"
    token: str = ""
    origins: tuple[str, ...] = ()
    click_log: str = ""
    public_names: tuple[str, ...] = ()
    first_stage: str = setting("bm25", "default first stage of requests")
    depth: int = setting(DEPTH, "default number of candidates to re-rank", ge=1)
    watch: float = setting(
        0.0, "seconds between looks for new commits of the indexes, which are reloaded; 0 for none", ge=0, le=MAX_WATCH
    )
    deadline: float = setting(2.0, "seconds after which a search returns the first-stage ranking", gt=0)
    step_seconds: float = setting(
        10.0, "seconds after which a first stage, or the making of an answer, is refused", gt=0
    )
    queue: int = setting(
        64, "largest number of searches, or as much work of re-ranking texts, running or waiting; then status 429", ge=1
    )
    threads: int = setting(2, "number of concurrent first-stage searches", ge=1)
    most_depth: int = setting(1000, "largest depth of a request", ge=1)
    most_queries: int = setting(16, "largest number of queries in a request", ge=1)
    most_documents: int = setting(1000, "largest number of documents to re-rank in a request", ge=1)
    most_words: int = setting(5000, "largest number of words in a query, or in a document to re-rank", ge=1)
    most_characters: int = setting(
        100_000, "largest number of characters in a query, or in a document to re-rank", ge=1
    )
    most_request_characters: int = setting(
        5_000_000, "largest number of characters in all documents to re-rank in a request", ge=1
    )
    most_megabytes: int = setting(16, "largest body of a request, in megabytes", gt=0)
    most_unpacked_megabytes: int = setting(8, "largest compressed body of a request when unpacked, in megabytes", gt=0)
    most_held_megabytes: int = setting(
        128, "largest sum of all bodies that arrive or are worked on, in megabytes; then the largest is refused", gt=0
    )
    click_log_megabytes: int = setting(64, "size at which a click log is renamed and a new one begins", ge=1)
    body_seconds: float = setting(10.0, "seconds in which the body of a request must arrive", gt=0)
    header_seconds: float = setting(10.0, "seconds in which the headers of a request must arrive", gt=0)
    most_unfinished: int = setting(
        128, "largest number of connections without complete headers; the oldest is closed", ge=1
    )
    most_connections: int = setting(1000, "largest number of connections; then one without a request is closed", ge=1)

    @property
    def default_reranker(self) -> str:
        """The name of the first reranker; of a service without one that of the first stage's order."""
        return next(iter(self.rerankers), NO_RERANKER)

    @property
    def first_stage_name(self) -> str:
        """Name of the default first stage in answers: a checkpoint is named without its parent folders."""
        name, colon, argument = self.first_stage.partition(":")
        return f"{name}{colon}{Path(argument).name}"

    def __post_init__(self) -> None:
        check_bounds(self)
        if wrong := [name for name in (*self.indexes, *self.rerankers) if not name.isprintable()]:
            raise InputError(f"the name {wrong[0]!r} has a control character: give it another one")
        if wrong := [name for name in self.public_names if not re.fullmatch(r"\*|[^\s/:]+", name)]:
            raise InputError(f"the public name '{wrong[0]}' must be a name without scheme, port or path, or *")
        if self.depth > self.most_depth:
            raise InputError(f"depth is {self.depth}: it must be at most most_depth, {self.most_depth}")
