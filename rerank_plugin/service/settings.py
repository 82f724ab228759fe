"""The settings of the service; the options of the serve command are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import setting
from rerank_plugin.models.base import RerankerOptions


@dataclass(frozen=True)
class ServiceConfig:
    """What is served, and within which limits.

    Attributes:
        indexes: index folders by the name that they are served by; the first is the default.
        rerankers: what `Reranker.load` takes, by the name that it is served by; the first is the default.
        running: how rerankers are run.
        host: address that the service listens at.
        token: what clients must send as ``Authorization: Bearer`` or ``X-API-Key``; empty to let everybody in.
        origins: of pages of other hosts that may call the service (CORS).
        click_log: file that clicks are appended to; empty to take none.
    """

    indexes: dict[str, str] = field(default_factory=dict)
    rerankers: dict[str, str] = field(default_factory=dict)
    running: RerankerOptions = RerankerOptions()
    host: str = "127.0.0.1"
    token: str = ""
    origins: tuple[str, ...] = ()
    click_log: str = ""
    first_stage: str = setting("bm25", "first stage of a request that names none")
    depth: int = setting(500, "candidates to re-rank for a request that names no depth")
    deadline: float = setting(2.0, "seconds after which a search answers in the order of the first stage")
    queue: int = setting(10, "requests running or waiting; further ones get status 429")
    threads: int = setting(2, "concurrent first-stage searches")
    most_depth: int = setting(1000, "largest depth that a request may ask for")
    most_queries: int = setting(16, "largest number of queries in one request")
    most_documents: int = setting(1000, "largest number of documents to re-rank in one request")
    most_words: int = setting(5000, "largest number of words of a query, or of a document to re-rank")
    most_megabytes: int = setting(16, "largest body of a request")
    click_log_megabytes: int = setting(64, "size at which a click log is renamed and a new one begun")
    body_seconds: float = setting(10.0, "seconds within which the body of a request must arrive")

    @property
    def first_stage_name(self) -> str:
        """What the default first stage is called in answers: its checkpoint without the folders above."""
        name, colon, argument = self.first_stage.partition(":")
        return f"{name}{colon}{Path(argument).name}"

    def __post_init__(self) -> None:
        counts = ("depth", "queue", "threads", "most_depth", "most_queries", "most_documents", "most_words")
        for name in (*counts, "click_log_megabytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if min(self.deadline, self.body_seconds, self.most_megabytes) <= 0:
            raise InputError("the deadline, the seconds and the size of a body must be above 0")
        if self.depth > self.most_depth:
            raise InputError(f"the depth {self.depth} is above the most that a request may ask for, {self.most_depth}")
