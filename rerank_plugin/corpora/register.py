"""Formats of documents, queries and judgments, and the register that finds the format of a file.

To add a format, write a module of the folder ``formats`` that ends with ``register(Format(...))``;
:mod:`rerank_plugin.corpora.formats.qrels` is a short example. Another package declares an entry point of the group
``rerank_plugin.formats`` with the format's name, which points at a :class:`Format`.

Printing a command's help imports the modules of ``formats``: a reader that needs a heavy library imports it in a
function, or is a module of its own.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.base.register import Register

# Kinds of records that a format can give.
CORPUS = "a corpus"
QUERIES = "queries"
JUDGMENTS = "judgments"
# The beginning of XML up to its root (or the first of its elements) of these names, for `Format.begins`.
XML_ROOT = r"(?:<\?[^>]*>|<!--(?:(?!-->).)*-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\])?\s*>|\s)*<(?:%s)(?=[\s/>])"
READERS = {CORPUS: "documents", QUERIES: "queries", JUDGMENTS: "judgments"}  # functions of a format's module


@dataclass(frozen=True)
class Format:
    """One row of the table of formats.

    The readers are functions of one module. A format of files has

    * ``documents(paths, problems, ids_required)``: streams the documents of files. Unusable records are added to
      ``problems``: :func:`rerank_plugin.corpora.records.usable_documents` does so.
    * ``queries(path)``: gives the place (``file:line``), id and text of each query; ids are checked later. A
      `selectable` format has ``queries(path, selected)``, and one of several fields ``queries(path, selected, field)``.
    * ``judgments(path)``: gives the judgments of a file, ``{query id: {document id: grade}}``.

    Attributes:
        name: for messages.
        module: the module with the readers, lazily imported.
        gives: the kinds of records (`CORPUS`, `QUERIES`, `JUDGMENTS`), each with its description in help.
        suffixes: suffixes of files in this format, lower-case and without that of a compression.
        begins: regular expression of the beginning of a file in this format, without leading white space; ``.``
            matches line feeds, too. Without one, the suffix decides.
        default: whether files of queries or judgments in no other format are in this one.
        subfolders: whether subfolders may hold the documents of a folder.
        folders: whether files of queries are known by their content in a folder, of which each holds a part.
        selectable: whether queries can be selected by keys and values, as in ``file:key=value``.
        has_fields: whether a query has several texts, of which ``file:field=name`` chooses.
    """

    name: str
    module: str
    gives: Mapping[str, str] = field(hash=False)
    suffixes: tuple[str, ...] = ()
    begins: str = ""
    default: bool = False
    subfolders: bool = False
    folders: bool = False
    selectable: bool = False
    has_fields: bool = False

    def __post_init__(self) -> None:
        if not self.gives or not self.gives.keys() <= READERS.keys():
            raise ValueError(f"the format '{self.name}' must give some of: {', '.join(READERS)}")
        if wrong := [s for s in self.suffixes if not s.startswith(".") or s != s.lower() or s == ".gz"]:
            raise ValueError(f"the format '{self.name}' cannot have the suffix {wrong[0]!r}: expected one as '.jsonl'")

    @property
    def reader(self) -> ModuleType:
        with naming_extras(f"the format {self.name}"):
            return importlib.import_module(self.module)


FORMATS = Register("format", "rerank_plugin.corpora.formats", "rerank_plugin.formats", Format)
register = FORMATS.add


def find_format(kind: str, suffix: str, start: str) -> Format | None:
    """The format of a file that gives this kind of records, by its suffix and its first characters; None if unknown.

    Names of downloads are often wrong, and many formats share a suffix. So the content decides, and the suffix only
    where no format, or only the one of the suffix, is known by its content. Of several formats, that whose beginning
    matches the most text: ``{"passages":`` rather than ``{``. Our own formats come first.

    Raises:
        InputError: the format of another package cannot be loaded.
    """
    named = next((format for format in _formats(kind) if suffix in format.suffixes), None)
    if named is not None and not named.begins:
        return named
    formats = [format for format in FORMATS.built_in() if kind in format.gives]
    matched: list[tuple[int, bool, Format]] = []
    for format in formats:
        if format.begins and (match := re.match(format.begins, start, re.DOTALL)):
            matched.append((match.end(), format == named, format))
    if matched:
        return max(matched, key=lambda match: match[:2])[2]
    return named or next((format for format in formats if format.default), None)


def document_formats() -> list[Format]:
    """The formats of files of documents."""
    return [format for format in _formats(CORPUS) if format.suffixes]


def accepted(kind: str) -> str:
    """The accepted forms of this kind of records, for help and messages. Loads no other package."""
    forms = [format.gives[kind] for format in FORMATS.built_in() if kind in format.gives]
    forms += [f"{name} (a format of another package)" for name in FORMATS.installed()]
    return ", ".join(forms)


def accepted_together() -> str:
    """The accepted forms of queries with their judgments, for help. Loads no other package."""
    forms = [format.gives[JUDGMENTS] for format in FORMATS.built_in() if {QUERIES, JUDGMENTS} <= format.gives.keys()]
    return ", ".join([*forms, "or one of each, joined by a comma (queries.tsv,qrels.txt)"])


def _formats(kind: str) -> Iterator[Format]:
    """Our own formats, then those of other packages, lazily loaded."""
    for format in FORMATS.built_in():
        if kind in format.gives:
            yield format
    for name in FORMATS.installed():
        format = FORMATS.find(name)
        if kind in format.gives:
            yield format
