"""First stages: their protocol, their register entry, and the register that finds them by name.

A first stage is named ``name`` or, where it takes an argument, ``name:ARGUMENT`` (``dense:checkpoints/ktrel``). To add
one, end a module of this folder with ``register(FirstStageEntry(...))``, as
:mod:`rerank_plugin.retrieval.all_documents` does. The modules are imported to print a command's help: import Java,
torch and other heavy libraries where they are needed.
Another package declares an entry point of the group ``rerank_plugin.first_stages`` with the entry's name, which points
at a :class:`FirstStageEntry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.base.records import Query
from rerank_plugin.base.register import Register
from rerank_plugin.base.settings import chosen, setting, settings  # noqa: F401 (first stages take them from here)

if TYPE_CHECKING:
    from rerank_plugin.indexes.candidates import Candidates
    from rerank_plugin.indexes.index_folder import Index

# What the depth of a search cuts.
CANDIDATES = "candidates"  # the first stage gives that many documents
RANKING = "ranking"  # the first stage gives all it has; of the final ranking that many are written
NOTHING = "nothing"  # the first stage gives all it has, and all are written


class FirstStage(Protocol):
    """Retrieves the documents that a reranker scores. It must be thread-safe.

    One that keeps to the filter of a query says so by an attribute ``filters`` that is true.
    """

    name: str

    def search(self, query: Query, depth: int) -> Candidates:
        """The candidates of a query, by float32 score descending, ties by decreasing document id.

        There are at most ``depth`` of them if the entry's ``depth_cuts`` is `CANDIDATES`.
        """
        ...


def can_filter(stage: FirstStage) -> bool:
    """Whether a first stage keeps to the filter of a query."""
    return bool(getattr(stage, "filters", False))  # those of other packages may not know of filters


def check_filter(stage: FirstStage, query: Query) -> None:
    """An `InputError` if the query has a filter, and the first stage does not keep to it."""
    if query.filter is not None and not can_filter(stage):
        raise InputError(
            f"the first stage '{stage.name}' cannot filter ({query.filter}): take bm25, bm25+rm3, qld, "
            "dense:CHECKPOINT or a fusion of these"
        )


def lacking_words(stage: FirstStage, query: Query) -> list[str]:
    """The names of the models in a first stage that know few of a query's words, by its method of this name."""
    told = getattr(stage, "lacking_words", None)  # those of other packages may have none, as those of words alone
    return [] if told is None else told(query)


class FirstStageConfig(Protocol):
    """The configuration of a first stage: a frozen dataclass whose fields, JSON values, determine the candidates."""

    name: str

    def open(self, index: Index) -> FirstStage:
        """The first stage over an index; an `InputError` if it cannot be used with this index."""
        ...


@dataclass(frozen=True)
class FirstStageEntry:
    """The register entry of a first stage.

    Attributes:
        name: without a colon.
        config: its configuration class, a :class:`FirstStageConfig`.
        summary: one line for the help.
        argument: the configuration field that takes ``ARGUMENT`` of ``name:ARGUMENT``; empty if there is no argument.
        fixed: configuration fields whose values the name determines.
        fusable: whether its scores rank documents, so that it can be fused with others.
        depth_cuts: `CANDIDATES`, `RANKING` or `NOTHING`.
        needs_query_id: whether it looks up the query's id, which a free text does not have.
    """

    name: str
    config: type
    summary: str
    argument: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    fusable: bool = True
    depth_cuts: str = CANDIDATES
    needs_query_id: bool = False

    def __post_init__(self) -> None:
        if not self.name or ":" in self.name or self.name.split() != [self.name]:
            raise ValueError(f"a first stage cannot be called {self.name!r}: expected a word without a colon")
        configuration = f"the configuration of the first stage '{self.name}'"
        if not (is_dataclass(self.config) and callable(getattr(self.config, "open", None))):
            raise ValueError(f"{configuration} is no dataclass with open(index)")
        defaults = {one.name: one.default for one in fields(self.config)}
        if missing := {"name", self.argument or "name", *self.fixed} - defaults.keys():
            raise ValueError(f"{configuration} lacks the field {', '.join(sorted(missing))}")
        if (named := {**defaults, **self.fixed}["name"]) != self.name:
            raise ValueError(f"{configuration} has another name: {named!r}")
        if self.depth_cuts not in (CANDIDATES, RANKING, NOTHING):
            raise ValueError(f"the first stage '{self.name}': the depth cannot cut '{self.depth_cuts}'")

    @property
    def form(self) -> str:
        """How it is named: ``bm25``, ``dense:CHECKPOINT``."""
        return f"{self.name}:{self.argument.upper()}" if self.argument else self.name


FIRST_STAGES = Register("first stage", "rerank_plugin.retrieval", "rerank_plugin.first_stages", FirstStageEntry)
register = FIRST_STAGES.add


def known_forms() -> list[str]:
    """How all first stages are named that are installed."""
    return [entry.form for entry in FIRST_STAGES.ours()] + FIRST_STAGES.installed()


def entry_of(spec: str) -> FirstStageEntry:
    """The entry of the first stage that ``spec`` names; an `InputError` as in `configure`."""
    return _parsed(spec)[0]


def configure(spec: str, options: Mapping[str, Any] | None = None) -> FirstStageConfig:
    """The configuration of the first stage that ``spec`` names.

    Args:
        options: values of settings by option name; other settings keep their defaults.

    Raises:
        InputError: there is no such first stage, its argument is missing or not allowed, or a setting is wrong.
    """
    entry, argument = _parsed(spec)
    given = {entry.argument: argument} if entry.argument else {}
    return entry.config(**chosen(entry.config, options or {}), **given, **entry.fixed)


def _parsed(spec: str) -> tuple[FirstStageEntry, str]:
    name, colon, argument = spec.partition(":")
    entry = FIRST_STAGES.find(name)
    if entry is None or bool(entry.argument) != bool(colon):
        raise InputError(unknown("first stage", spec, known_forms()))
    if entry.argument and not argument:
        raise InputError(f"the first stage '{spec}' needs {entry.argument}: {entry.form}")
    return entry, argument
