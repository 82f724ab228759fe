"""The index folder: a Lucene index and a forward index of one collection, and the file that describes them.

=====================  ==========================================================================================
in the folder          format 2
=====================  ==========================================================================================
index.json             one generation: its id and number, tokenizer, segments and parts of the vocabulary in their
                       order, statistics of the whole collection, source, the commit of the Lucene index, and size and
                       checksums (whole, first and last `END` bytes) of every file; replaced atomically, last
lucene/                the Lucene index; missing if ``index.json`` refers to an index elsewhere
segments/000001/       the forward index of documents that were added together, never changed
vocabulary/            the terms, which are append-only, and their document frequencies in this generation
encodings/KEY/         document vectors of a model, files a segment (:mod:`rerank_plugin.indexes.vector_store`)
judged/KEY/            judged queries, encoded by a model (:mod:`rerank_plugin.retrieval.neighbours`)
adapted/               the bundled encoder, adapted to the collection (:mod:`rerank_plugin.models.ktrel.adaptation`)
knowledge/             the knowledge base of the concepts (:mod:`rerank_plugin.indexes.index_concepts`)
=====================  ==========================================================================================

Names of files that belong to a generation end in its number. For now an index has one segment.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import FILTERS, Filter
from rerank_plugin.base.records import Document
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import FolderKind, restore_interrupted
from rerank_plugin.indexes.forward import ForwardIndex, Layout
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.text.normalization import VERSION
from rerank_plugin.text.tokenizer import tokenizer_with

T = TypeVar("T")

FORMAT_VERSION = 2
DESCRIPTION = "index.json"
END = 4096  # bytes at either end of a file with a checksum of their own, compared when an index is opened
FILTERS_KEPT = 16  # filters whose documents are cached, a byte per document
GENERATION, CHECKSUM = "generation", "checksum"
NORMALIZATION = "normalization"  # its version, of the forward index and under "lucene" of its texts; 0 if it is missing
TRIES = 5  # to open an index that is replaced meanwhile

ANNOTATION = f"{KNOWLEDGE}/annotation"  # the annotator's files, which it rebuilds if they do not fit
ENCODINGS = "encodings"  # of documents, each with a description and checksums of its own
JUDGED = "judged"  # queries, the same
ADAPTED = "adapted"  # a checkpoint; its checksum is the name of its encodings

INDEX = FolderKind(
    "an index",
    DESCRIPTION,
    ("format_version", "fields", "files"),
    (
        f"{ANNOTATION}/*",
        *(f"{ADAPTED}/{name}" for name in ("config.json", "*.safetensors", "vocab.txt", "words.json")),
        *(f"{ENCODINGS}/*/{name}" for name in ("encodings.json", "*.npy")),
        *(f"{ENCODINGS}/*/{kind}/{name}" for kind in ("ivf", "hnsw") for name in ("ann.json", "index.faiss")),
        *(
            f"{folder}/{name}"
            for folder in (f"{ENCODINGS}/*/judged", f"{JUDGED}/*")
            for name in ("judged.json", "vectors.npy", "starts.npy", "rows.npy")
        ),
    ),  # fmt: skip
    listed="files",
)


class IndexReplacedError(InputError):
    """The index was replaced by another build while it was being opened."""


def describe_files(folder: Path, names: Iterable[str] | None = None) -> dict[str, dict]:
    """Size and checksums of the named files of a folder.

    By default all files of an index, except those with checksums of their own and those rebuilt when needed.
    """
    if names is None:
        excluded = (folder / DESCRIPTION, folder / ANNOTATION, folder / ENCODINGS, folder / ADAPTED, folder / JUDGED)
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        files = (path for path in files if not any(path.is_relative_to(part) for part in excluded))
        names = [path.relative_to(folder).as_posix() for path in files]
    return {name: describe_file(folder / name) | ends(folder / name) for name in names}


def ends(path: Path) -> dict[str, str]:
    """Checksums of the first and the last `END` bytes of a file, which overlap in a short file."""
    with open(path, "rb") as file:
        head = file.read(END)
        file.seek(max(path.stat().st_size - END, 0))
        tail = file.read(END)
    return {name: blake2b(data, digest_size=8).hexdigest() for name, data in (("head", head), ("tail", tail))}


def write_description(path: Path, description: dict, names: Iterable[str] | None = None) -> None:
    """Write the description of an index or of an addition to it, with the checksums of its files and its own."""
    description = {**description, "files": describe_files(path.parent, names)}
    description[CHECKSUM] = checksum_of(description)
    path.write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")


def first_generation(documents: int, terms: int) -> dict:
    """The first entries in the description of an index of one segment."""
    name = Layout().vectors
    return {
        "format_version": FORMAT_VERSION,
        GENERATION: uuid4().hex,
        "number": int(name),
        "documents": documents,
        "terms": terms,
        "segments": [{"name": name, "documents": documents}],
        "vocabulary": [{"name": name, "terms": terms}],
    }


@contextmanager
def reading(folder: Path, again: str) -> Iterator[None]:
    """Turn the exception of a missing or damaged file in the block into an `InputError` that ends with ``again``."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} cannot be read ({error!r}); {again}") from None


def checksum_of(description: dict) -> str:
    """The checksum of a description's content, without its own checksum entry."""
    content = {name: value for name, value in description.items() if name != CHECKSUM}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def forward_checksum(description: dict) -> dict[str, str]:
    """By segment, one checksum of its files, its terms and the knowledge base, from an index's description."""

    def checksum(*prefixes: str) -> str:
        return checksum_of({name: file for name, file in description["files"].items() if name.startswith(prefixes)})

    names = [segment["name"] for segment in description["segments"]]
    return {name: checksum(f"segments/{name}/", f"vocabulary/terms.{name}.", "knowledge/") for name in names}


def retry_if_replaced(index: str | Path | Index | None, opening: Callable[[], T]) -> T:
    """The result of ``opening``, which opens an index folder; repeated if the folder is replaced meanwhile.

    Args:
        index: the index to open. With an open index or None, ``opening`` is called once.

    Raises:
        IndexReplacedError: the index was replaced during every try.
    """
    for _ in range(0 if index is None or isinstance(index, Index) else TRIES - 1):
        with suppress(IndexReplacedError):
            return opening()
    return opening()


class Index:
    """An index opened for reading. Opening is cheap: files are mapped on first use, and only a search starts Java.

    ``index.json`` is read again after a part was opened: if it has changed, the part may belong to another build
    (`IndexReplacedError`). Parts that are already open stay valid. ``len(index)`` is the number of documents.

    Attributes:
        folder: the index folder.

    Raises:
        InputError: the folder is missing, unfinished or damaged, or has another format version.
    """

    def __init__(self, folder: str | Path):
        self.folder = restore_interrupted(folder)
        if not self.folder.is_dir():
            raise InputError(
                f"no index at {self.folder}; build it with: rerank-plugin index --corpus C --index {folder}"
            )
        try:
            self._written = (self.folder / DESCRIPTION).read_bytes()
            self.description = json.loads(self._written)
        except FileNotFoundError:
            remedy = "it is not an index; build one in another folder, or move this one away"
            if any(self.folder.glob("segments_*")):
                remedy = f"it is a Lucene index; read it with: rerank-plugin index --lucene {folder} --index I"
            raise InputError(f"{self.folder} holds no {DESCRIPTION}: {remedy}") from None
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / DESCRIPTION} cannot be read ({error}); rebuild the index") from None
        if not isinstance(self.description, dict):
            raise InputError(f"{self.folder / DESCRIPTION} does not describe an index; rebuild the index")
        self._check()
        self.folder = self.folder.absolute()  # parts are opened later, perhaps after an os.chdir
        self.fitting = lru_cache(FILTERS_KEPT)(self._fitting)

    def __reduce__(self) -> tuple[type[Index], tuple[str]]:
        """Pickle and copy it as its folder, which is opened anew."""
        return type(self), (os.path.abspath(self.folder),)

    def _check(self) -> None:
        if (version := self.description.get("format_version")) != FORMAT_VERSION:
            raise InputError(
                f"{self.folder} has index format version {version}, this program reads {FORMAT_VERSION}; build it "
                f"again with: {self.rebuild}"
            )
        self.tokenizer = tokenizer_with(self.description.get("tokenizer"), f"{self.folder} was")
        if (version := self.description.get(NORMALIZATION, 0)) not in range(VERSION + 1):
            raise InputError(
                f"{self.folder} was normalized by version {version}, this program knows {VERSION}: use a newer one, or "
                f"build it again with: {self.rebuild}"
            )
        needed = {"files": dict, "fields": dict, "lucene": dict, "segments": list, "vocabulary": list}
        if KNOWLEDGE in self.description:
            needed[KNOWLEDGE] = dict
        if missing := [name for name, kind in needed.items() if not isinstance(self.description.get(name), kind)]:
            raise InputError(f"{self.folder / DESCRIPTION} lacks {' and '.join(missing)}; rebuild the index")
        if (count := max(len(self.description[name]) for name in ("segments", "vocabulary"))) != 1:
            raise InputError(
                f"{self.folder} has {count} segments, this program reads one: use a newer version, or rebuild the index"
            )
        for name, expected in self.description["files"].items():
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size == expected["bytes"]:
                checksums = ends(path) if "head" in expected else {}
                if all(expected[end] == checksum for end, checksum in checksums.items()):
                    continue
            self.check_same()
            fault = "is missing" if size is None else "has changed"
            if size not in (None, expected["bytes"]):
                fault = f"has {size} bytes"
            raise InputError(
                f"{path} {fault}, expected {expected['bytes']} bytes: the index is damaged or not copied completely; "
                f"build it again with: {self.rebuild}"
            )

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.forward)

    def __bool__(self) -> bool:
        return True

    @property
    def layout(self) -> Layout:
        """The paths of the forward index."""
        (segment,), (terms,) = self.description["segments"], self.description["vocabulary"]
        number = f"{self.description['number']:06d}"
        return Layout(
            f"segments/{segment['name']}", f"vocabulary/terms.{terms['name']}", f"vocabulary/df_{{}}.{number}",
            f"lucene_rows.{number}", segment["name"],
        )  # fmt: skip

    def _part(self, name: str) -> dict:
        """A part of the description; empty in another format that lacks it."""
        part = self.description.get(name)
        return part if isinstance(part, dict) else {}

    @property
    def rebuild(self) -> str:
        """The command that builds the index again."""
        corpus = (
            "C" if self.lucene_folder.parent != self.folder else shlex.quote(str(self.description.get("source", "C")))
        )
        command = f"rerank-plugin index --corpus {corpus} --index {self.folder} --overwrite"
        if stemmer := self._part("tokenizer").get("stemmer"):
            command = f"{command} --stem {stemmer}"
        return f"{command} --knowledge KB" if KNOWLEDGE in self.description else command

    @property
    def generation(self) -> str | None:
        """The unique id of this build, as in ``index.json``; None for an older index without one."""
        return self.description.get(GENERATION)

    @property
    def build(self) -> str:
        """A checksum of ``index.json``, which identifies this build even without a generation."""
        return blake2b(self._written, digest_size=16).hexdigest()

    def check_same(self) -> None:
        """An `IndexReplacedError` if the folder holds another build than the open one; called after opening a part."""
        written = None
        with suppress(OSError):
            written = (self.folder / DESCRIPTION).read_bytes()
        if written != self._written:
            raise IndexReplacedError(f"{self.folder} was replaced while it was being opened: start again")

    @cached_property
    def forward(self) -> ForwardIndex:
        mean_lengths = {field: numbers["mean_length"] for field, numbers in self.description["fields"].items()}
        settings = self.description.get(KNOWLEDGE)
        try:
            knowledge = None if settings is None else IndexKnowledge(self.folder / KNOWLEDGE, settings)
            return ForwardIndex(
                self.folder, mean_lengths, self.tokenizer, knowledge, forward_checksum(self.description), self.layout
            )
        finally:  # after a failure, too: another build may be the cause
            self.check_same()

    @property
    def knowledge(self):
        """The `KnowledgeBase` of the concepts; None for an index without concepts."""
        return None if self.forward.knowledge is None else self.forward.knowledge.base

    @property
    def lucene_folder(self) -> Path:
        """The folder of the Lucene index, which may be outside the index folder."""
        return self.folder / self._part("lucene").get("path", "lucene")

    @property
    def lucene_fields(self) -> list[str]:
        """The searchable fields of the Lucene index."""
        return self.description["lucene"].get("fields", ["contents"])

    def open_lucene(self) -> Any:
        """An IndexReader of the Lucene index; starts the JVM.

        Raises:
            InputError: it cannot be opened, or is not the Lucene index of this build.
        """
        from rerank_plugin.indexes.lucene_reader import commit_id, open_reader

        try:
            reader = open_reader(self.lucene_folder)
        finally:
            self.check_same()
        if commit_id(reader) != self.description["lucene"].get("commit"):
            reader.close()
            raise InputError(
                f"{self.lucene_folder} has changed since {self.folder} was built, or is of another build: build "
                f"{self.folder} again"
            )
        return reader

    def stored_documents(self, reader: Any, rows: np.ndarray) -> Iterator[Document]:
        """The stored documents of rows, int64 [n], from a reader of :meth:`open_lucene`.

        Raises:
            InputError: as :func:`~rerank_plugin.indexes.lucene_reader.stored_documents`.
        """
        from rerank_plugin.indexes.lucene_reader import stored_documents

        lucene, numbers = self.description["lucene"], self.forward.lucene_numbers[rows]
        fields = lucene.get("title_field"), lucene.get("text_field")
        return stored_documents(reader, self.lucene_folder, *fields, numbers)

    def check_filter(self, filter: Filter) -> None:
        """An `InputError` if the index holds no metadata, or no document has a field of the filter."""
        counts = self.description["lucene"].get("metadata")
        if counts is None:
            raise InputError(f"{self.folder} holds no metadata to filter by; build it with: {self.rebuild}")
        for field, _ in filter.values:
            if field != "retracted" and not counts.get(FILTERS[field]):
                known = ", ".join(name for name, stored in FILTERS.items() if counts.get(stored)) or "none"
                raise InputError(f"no document of {self.folder} has a {field} to filter by; usable filters: {known}")

    def _fitting(self, filter: Filter) -> np.ndarray:
        """Whether each document matches a filter, bool [R]; starts the JVM. ``fitting`` caches the result."""
        from rerank_plugin.indexes.lucene_reader import filter_query, matching_numbers

        self.check_filter(filter)
        reader = self.open_lucene()
        rows = np.asarray(self.forward.lucene_rows)[matching_numbers(reader, filter_query(filter))]
        reader.close()
        matches = np.zeros(len(self.forward), bool)
        matches[rows[rows < len(matches)]] = True  # numbers of deleted documents have no row
        return matches

    def first_stage(self, config):
        """The first stage of a configuration (:mod:`rerank_plugin.retrieval.register`) over this index."""
        return config.open(self)
