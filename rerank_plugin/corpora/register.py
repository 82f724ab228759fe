"""Formats of documents, queries and judgments, and the register that finds the one of a file.

To add a format, write a module of the folder ``formats`` that ends with ``register(Format(...))``;
:mod:`rerank_plugin.corpora.formats.qrels` is a short example. Another package declares an entry point of the group
``rerank_plugin.formats`` with the format's name, which points at a :class:`Format`.

The modules of ``formats`` are imported to print a command's help: a reader that needs a heavy library imports it when
it reads, or stands in a module of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.register import Register

# What a format can give.
CORPUS = "a corpus"
QUERIES = "queries"
JUDGMENTS = "judgments"
READERS = {CORPUS: "documents", QUERIES: "queries", JUDGMENTS: "judgments"}  # functions of a format's module


@dataclass(frozen=True)
class Format:
    """One row of the table of formats.

    The readers are functions of one module. Of a format of files they are

    * ``documents(paths, problems, ids_required)``: the documents of some files, streamed. A record that cannot be used
      is told to ``problems``; :func:`rerank_plugin.corpora.problems.usable` makes a document or tells why not.
    * ``queries(path)``: for each query where it stands (``file:line``), its id and its text; ids are checked later.
      Where the format is `selectable`, ``queries(path, selected)``.
    * ``judgments(path)``: the judgments of a file, ``{query id: {document id: grade}}``.

    Attributes:
        name: for messages.
        module: the module with the readers, imported when something is read.
        gives: what it gives (`CORPUS`, `QUERIES`, `JUDGMENTS`), each with a few words for the help.
        suffixes: of files in this format, lower-case and without ``.gz``.
        begins: how the first line of a file of queries begins that has no known suffix.
        default: whether a file of queries or judgments without a known suffix or beginning is in this format.
        subfolders: whether the documents of a folder may stand in its subfolders.
        selectable: whether queries can be selected by keys and values, as in ``file:key=value``.
    """

    name: str
    module: str
    gives: Mapping[str, str] = field(hash=False)
    suffixes: tuple[str, ...] = ()
    begins: str = ""
    default: bool = False
    subfolders: bool = False
    selectable: bool = False

    def __post_init__(self) -> None:
        if not self.gives or not self.gives.keys() <= READERS.keys():
            raise ValueError(f"the format '{self.name}' must give some of: {', '.join(READERS)}")
        if wrong := [one for one in self.suffixes if not one.startswith(".") or one != one.lower() or one == ".gz"]:
            raise ValueError(f"the format '{self.name}' cannot have the suffix {wrong[0]!r}: expected one as '.jsonl'")

    @property
    def reader(self) -> ModuleType:
        with naming_extras(f"the format {self.name}"):
            return importlib.import_module(self.module)


FORMATS = Register("format", "rerank_plugin.corpora.formats", "rerank_plugin.formats", Format)
register = FORMATS.add


def of_suffix(suffix: str, what: str) -> Format | None:
    """The format of files with this suffix that gives ``what``; None where there is none.

    Ours come first. An InputError if another package's format cannot be loaded.
    """
    return next((one for one in _each(what) if suffix in one.suffixes), None)


def of_first_line(line: str, what: str) -> Format:
    """The format of a file whose suffix tells nothing, by its first line."""
    ours = [one for one in FORMATS.ours() if what in one.gives]
    beginning = (one for one in ours if one.begins and line.startswith(one.begins))
    return next(beginning, None) or next(one for one in ours if one.default)


def document_formats() -> list[Format]:
    """The formats of files of documents."""
    return [one for one in _each(CORPUS) if one.suffixes]


def accepted(what: str) -> str:
    """All forms in which ``what`` may be given, for help and messages. Loads nothing of other packages."""
    forms = [one.gives[what] for one in FORMATS.ours() if what in one.gives]
    forms += [f"{name} (a format of another package)" for name in FORMATS.installed()]
    return ", ".join(forms)


def accepted_together() -> str:
    """All forms in which queries may be given with their judgments, for help. Loads nothing of other packages."""
    both = [one.gives[JUDGMENTS] for one in FORMATS.ours() if {QUERIES, JUDGMENTS} <= one.gives.keys()]
    return ", ".join([*both, "or one of each, joined by a comma (queries.tsv,qrels.txt)"])


def _each(what: str) -> Iterator[Format]:
    """Ours, and then those of other packages, each loaded when it is come to."""
    for one in FORMATS.ours():
        if what in one.gives:
            yield one
    for name in FORMATS.installed():
        found = FORMATS.find(name)
        if what in found.gives:
            yield found
