"""First stages: their protocol, their register entry, and the register that finds them by name.

A first stage is named ``name`` or, if it takes an argument, ``name:ARGUMENT`` (``dense:checkpoints/ktrel``). The
default of its configuration's field ``name`` is the only place of the name. To add a first stage, end a module of this
folder with ``register(FirstStageEntry(...))``, as :mod:`rerank_plugin.retrieval.all_documents` does. A command's help
imports these modules: import Java, torch and other heavy libraries where they are needed.
Another package declares an entry point of the group ``rerank_plugin.first_stages`` with the first stage's name, which
points at a :class:`FirstStageEntry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rerank_plugin.base.errors import InputError, unknown
from rerank_plugin.base.records import Query
from rerank_plugin.base.register import Register
from rerank_plugin.base.settings import SHARED, check_bounds, chosen_values, setting, settings  # noqa: F401 (for first stages)

if TYPE_CHECKING:
    from rerank_plugin.indexes.candidates import Candidates
    from rerank_plugin.indexes.index_folder import Index

# Values of `FirstStageEntry.depth_cuts`.
CANDIDATES = "candidates"  # the first stage retrieves DEPTH documents
RANKING = "ranking"  # the first stage gives all its documents; the top DEPTH of the final ranking are written
NOTHING = "nothing"  # the first stage gives all its documents, and all are written


class FirstStage(Protocol):
    """Retrieves the documents that a reranker scores. It must be thread-safe.

    A first stage that applies the filter of a query has an attribute ``filters`` that is true. A method
    ``lacking_words(query)`` is optional, too (:func:`lacking_words`).
    """

    name: str  # of its configuration

    def search(self, query: Query, depth: int) -> Candidates:
        """The candidates of a query, by float32 score descending, ties by decreasing document id.

        At most ``depth`` if the entry's ``depth_cuts`` is `CANDIDATES`.
        """
        ...


def can_filter(stage: FirstStage) -> bool:
    """Whether a first stage applies the filter of a query."""
    return bool(getattr(stage, "filters", False))  # optional: a first stage of another package may lack it


def check_filter(stage: FirstStage, query: Query) -> None:
    """Raise an `InputError` if the query has a filter that the first stage cannot apply."""
    if query.filter is not None and not can_filter(stage):
        raise InputError(
            f"the first stage '{stage.name}' cannot filter ({query.filter}): use bm25, bm25+rm3, qld, "
            "hybrid, dense:CHECKPOINT, faiss:FOLDER or a fusion of these"
        )


def lacking_words(stage: FirstStage, query: Query) -> list[str]:
    """The names of a first stage's models that know few of a query's words, by its method of this name."""
    method = getattr(stage, "lacking_words", None)  # optional: lexical first stages lack it
    return [] if method is None else method(query)


def meant_words(stage: FirstStage, query: Query) -> dict[str, str]:
    """The words of a query that a first stage reads as others, by its method of this name."""
    method = getattr(stage, "meant_words", None)  # optional
    return {} if method is None else method(query)


class FirstStageConfig(Protocol):
    """The configuration of a first stage: a frozen dataclass whose fields, JSON values, determine the candidates."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str:
        """The first stage's name: a field with a default."""
        ...

    def open(self, index: Index) -> FirstStage:
        """The first stage over an index; an `InputError` if this index does not support it."""
        ...


@dataclass(frozen=True)
class FirstStageEntry:
    """The register entry of a first stage.

    Attributes:
        config: its configuration class, a :class:`FirstStageConfig`, whose field ``name`` has the name as default.
        summary: one line for the help.
        argument: the configuration field that takes ``ARGUMENT`` of ``name:ARGUMENT``; empty if there is no argument.
        fixed: values of configuration fields; with a ``name`` among them, one class serves several first stages.
        fusable: whether its scores rank documents, so that it can be fused with others.
        depth_cuts: `CANDIDATES`, `RANKING` or `NOTHING`.
        needs_query_id: whether it looks up the query's id, which a free text does not have.

    Raises:
        ValueError: the configuration is not such a class, or the name or another attribute is invalid.
    """

    config: type
    summary: str
    argument: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    fusable: bool = True
    depth_cuts: str = CANDIDATES
    needs_query_id: bool = False

    def __post_init__(self) -> None:
        if not (is_dataclass(self.config) and callable(getattr(self.config, "open", None))):
            raise ValueError(f"a first stage's configuration is a dataclass with open(index), not {self.config!r}")
        required = {"name", *filter(None, [self.argument]), *self.fixed}
        if missing := required - {declared.name for declared in fields(self.config)}:
            raise ValueError(f"{self.config.__name__} lacks the field {', '.join(sorted(missing))}")
        if not isinstance(self.name, str) or ":" in self.name or self.name.split() != [self.name]:
            raise ValueError(
                f"{self.config.__name__}: the field name is {self.name!r}; give it a default, a word without a colon"
            )
        if self.depth_cuts not in (CANDIDATES, RANKING, NOTHING):
            raise ValueError(f"the first stage '{self.name}': the depth cannot cut '{self.depth_cuts}'")

    @property
    def name(self) -> str:
        """The name in ``fixed``, or else the default of the configuration's field."""
        return self.fixed.get("name", getattr(self.config, "name", None))

    @property
    def form(self) -> str:
        """The form of the name on the command line: ``bm25``, ``dense:CHECKPOINT``."""
        return f"{self.name}:{self.argument.upper()}" if self.argument else self.name


FIRST_STAGES = Register("first stage", "rerank_plugin.retrieval", "rerank_plugin.first_stages", FirstStageEntry)
register = FIRST_STAGES.add


def known_forms() -> list[str]:
    """The forms of all installed first stages; of other packages' ones, the names."""
    return [entry.form for entry in FIRST_STAGES.built_in()] + FIRST_STAGES.installed()


def entry_of(spec: str) -> FirstStageEntry:
    """The entry of the first stage that ``spec`` names; an `InputError` as in `configure`."""
    return _parsed(spec)[0]


def configure(spec: str, options: Mapping[str, Any] | None = None) -> FirstStageConfig:
    """The configuration of the first stage that ``spec`` names.

    Args:
        options: values of settings by option name; other settings keep their defaults.

    Raises:
        InputError: there is no such first stage, its argument is missing or not allowed, or a setting is invalid.
    """
    entry, argument = _parsed(spec)
    arguments = {entry.argument: argument} if entry.argument else {}
    return entry.config(**chosen_values(entry.config, options or {}), **arguments, **entry.fixed)


def configuration_of(first_stage: Any) -> Any:
    """The configuration of a first stage that is given by its name, or as a configuration; an `InputError` as above."""
    if isinstance(first_stage, str):
        return configure(first_stage)
    if not callable(getattr(first_stage, "open", None)):
        kind = type(first_stage).__name__
        raise InputError(f"a first stage is a name, such as 'bm25', or a configuration, not {kind}")
    return first_stage


def _parsed(spec: str) -> tuple[FirstStageEntry, str]:
    name, colon, argument = spec.partition(":")
    entry = FIRST_STAGES.find(name)
    if entry is None or bool(entry.argument) != bool(colon):
        raise InputError(unknown("first stage", spec, known_forms()))
    if entry.argument and not argument:
        raise InputError(f"the first stage '{spec}' needs {entry.argument}: {entry.form}")
    return entry, argument
