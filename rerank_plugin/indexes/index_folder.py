"""An index opened for reading: the commit of an index folder, whose files :mod:`rerank_plugin.indexes.layout` lists."""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import finalize, proxy

import numpy as np

from rerank_plugin.base.errors import InputError, damage, system_failure
from rerank_plugin.base.filters import FILTERS, Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import are_below, open_array
from rerank_plugin.files.artifact import FILES, FORMAT_VERSION, Artifact
from rerank_plugin.files.checksums import CHECKSUM, SAMPLED, check_once, checksum_of
from rerank_plugin.files.outputs import is_same_file, restore_interrupted
from rerank_plugin.indexes.forward import DELETED, ForwardIndex
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.indexes.joining import open_commit_data
from rerank_plugin.indexes.judged_queries import JUDGED as JUDGED_QUERIES
from rerank_plugin.indexes.layout import (
    ADAPTED,
    COMMIT,
    COMMIT_DATA,
    DESCRIPTION,
    ENCODINGS,
    INDEX_FORMAT,
    JUDGED,
    LUCENE_COMMIT_FILE,
    OF_COMMITS,
    OF_FORMAT_4,
    SHARDS,
    WRITE_LOCKS,
    commit_file,
    shard_folder,
)
from rerank_plugin.indexes.segment import SEGMENTS, Segment
from rerank_plugin.indexes.vector_store import VECTOR_STORE
from rerank_plugin.text.normalization import NORMALIZATION_VERSION
from rerank_plugin.text.tokenizer import tokenizer_with

T = TypeVar("T")

TERM_VECTORS = "document_vectors"  # under "lucene": whether Lucene stores them; missing in other tools' indexes
NORMALIZATION = "normalization"  # its version, of the forward index and under "lucene" of its texts; 0 if it is missing
LAST_DELETED = "last_deleted"  # in the description: the hash of the ids that were last deleted by a list of them
APPLIED = "applied"  # in the description: a record of the caller's, of what was indexed; updates without one keep it
FILTERS_KEPT = 16  # filters whose documents are cached, a byte per document
TRIES = 5  # to open an index that is replaced meanwhile
INDEX = Artifact(
    "an index",
    DESCRIPTION,
    {FORMAT_VERSION: int, "fields": dict, FILES: dict},
    (
        f"{KNOWLEDGE}/annotation/*",  # which the annotator rebuilds if it does not fit
        *OF_COMMITS,
        *WRITE_LOCKS,
        *VECTOR_STORE.inside(f"{ENCODINGS}/*/*"),
        *JUDGED_QUERIES.inside(f"{JUDGED}/*/*"),
        # those of version 0.3.0 are not in folders of commits
        *(
            f"{folder}/{name}"
            for folder in (ADAPTED, f"{ADAPTED}/*")
            for name in ("config.json", "*.safetensors", "vocab.txt", "words.json")
        ),
        *VECTOR_STORE.inside(f"{ENCODINGS}/*"),
        *(f"{ENCODINGS}/*/{kind}/{name}" for kind in ("ivf", "hnsw") for name in ("ann.json", "index.faiss")),
        *JUDGED_QUERIES.inside(f"{ENCODINGS}/*/judged"),
        *JUDGED_QUERIES.inside(f"{JUDGED}/*"),
        *OF_FORMAT_4,
    ),
    listed=FILES,
    entries={"documents": int, "number": int, "lucene": dict, SEGMENTS: list[dict], COMMIT_DATA: dict},
    optional={KNOWLEDGE: dict, SHARDS: list[dict]},
    version=INDEX_FORMAT,
    seal_entry=CHECKSUM,
    editable=True,
    sampled=True,
)


def of_commit(number: int) -> Artifact:
    """An index as the description of a commit describes it."""
    return replace(INDEX, description=commit_file(number))


class FilterMatches(NamedTuple):
    """The documents that match a filter.

    Attributes:
        fits: whether each does, bool [R]; of an index of other processes the filter itself.
        total: their number.
        notes: what of the filter's strategy the index could not answer.
    """

    fits: Any
    total: int
    notes: tuple[str, ...] = ()


class IndexReplacedError(InputError):
    """The index was replaced by another build while it was being opened."""


@contextmanager
def damage_as_input_error(folder: Path, again: str) -> Iterator[None]:
    """Turn the exception of a missing or damaged file in the block into an `InputError` that ends with ``again``."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError) as error:
        raise InputError(f"{folder} cannot be read ({damage(error)}); {again}") from None


def forward_checksum(description: dict) -> str:
    """One checksum of documents, terms and knowledge base, from an index's description.

    It stays when documents are deleted, as their rows do.
    """
    folders = tuple(f"{folder}/" for folder in (KNOWLEDGE, *(segment["path"] for segment in description[SEGMENTS])))
    return checksum_of(
        {
            name: {key: value for key, value in file.items() if key != SAMPLED}
            for name, file in description["files"].items()
            if name.startswith(folders)
        }
    )


def retry_if_replaced(index: str | Path | Index | None, opening: Callable[[], T]) -> T:
    """The result of ``opening``, which opens an index folder; repeated if the folder is replaced meanwhile.

    Args:
        index: the index to open. With an open index or None, ``opening`` is called once.

    Raises:
        IndexReplacedError: the index was replaced during every try.
        SystemFailure: the system fails, for example because too many files are open.
    """
    try:
        for _ in range(0 if index is None or isinstance(index, Index) else TRIES - 1):
            with suppress(IndexReplacedError):
                return opening()
        return opening()
    except OSError as error:
        raise system_failure(error) or error from None


class Index:
    """An index opened for reading. Opening is cheap: files are mapped on first use, and only a search starts Java.

    An open index keeps its commit: updates go on beside it, and remove nothing that it reads until it is closed or
    garbage-collected. If the whole folder is replaced by another build before a part is opened, opening that part
    raises `IndexReplacedError`; parts that are already open stay valid. ``len(index)`` is the number of documents.

    Args:
        number: of a commit that is kept; by default the current one.
        shard: the number of the shard to open alone, with the statistics of the whole; by default all.

    Attributes:
        folder: the index folder.
        is_written: whether it is a commit that an update of this process is writing.

    Raises:
        InputError: the folder is missing, unfinished or damaged, or has another format version.
    """

    is_written = False
    forward_class: type[ForwardIndex] = ForwardIndex

    def __init__(self, folder: str | Path, number: int | None = None, shard: int | None = None):
        self.folder, self._number, self.shard = restore_interrupted(folder), number, shard
        if not self.folder.is_dir():
            raise InputError(
                f"no index at {self.folder}; build it with: rerank-plugin index --corpus C --index {folder}"
            )
        for _ in range(TRIES):
            found = self._read()
            self._check_reading()
            self._lock()
            if self._read() == found:
                break  # no update came between reading and locking
        else:
            raise IndexReplacedError(f"{self.folder} was replaced while it was being opened: start again")
        self._check_files()
        self._name = str(self.folder)  # as the caller named it: checkpoints keep no path of this machine
        self.folder = self.folder.absolute()  # parts are opened later, perhaps after an os.chdir

    def _read(self) -> dict[str, Any]:
        kind = INDEX if self._number is None else of_commit(self._number)
        self.description = kind.read(self.folder, partial(self._again, self.folder / kind.description))
        return self.description

    def _again(self, path: Path, description: dict[str, Any]) -> str:
        """What to do about a description in a file, the end of messages."""
        self.description = description
        if description or path.exists():
            return f"build it again with: {self.rebuild}"
        if self._number is not None:
            return "the index was not copied completely"
        if any(self.folder.glob("segments_*")):
            return f"it is a Lucene index; read it with: rerank-plugin index --lucene {self.folder} --index I"
        whole = self.folder.absolute().parents[1]
        if whole.joinpath(SHARDS) == self.folder.absolute().parent and (whole / DESCRIPTION).is_file():
            return f"it is a shard; open the index {whole}"
        return "build one in another folder, or move this one away"

    def _lock(self) -> None:
        """Lock the commit until the index is closed or garbage-collected: updates then keep its files."""
        path, found = self.folder / commit_file(self.number), self.description
        try:
            self._locked = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if self._read() != found:
                return  # its time was over; the caller reads again
            raise InputError(
                f"{path} cannot be opened ({damage(error)}): the index is damaged or not copied completely; build it "
                f"again with: {self.rebuild}"
            ) from None
        self._unlock = finalize(self, os.close, self._locked)
        with suppress(OSError):  # some network file systems have no locks: an index there is read, and not updated
            fcntl.flock(self._locked, fcntl.LOCK_SH)

    def close(self) -> None:
        """End the locks and give the files back: updates remove what no other index reads."""
        self._unlock()
        self.release()

    def release(self) -> None:
        """Give the files back once nothing else reads them; they are opened again where they are still needed.

        The forward index knows its index, so both would wait for the garbage collector.
        """
        self.__dict__.pop("forward", None)
        if (reader := self.__dict__.pop("shared_reader", None)) is not None:
            reader.close()

    def of_next_commit(self, description: dict[str, Any]) -> Index:
        """The index of a commit that is written, but not yet the current one, by its description."""
        index = object.__new__(type(self))
        index.folder, index._name, index.description, index.tokenizer = (
            self.folder, self._name, description, self.tokenizer,
        )  # fmt: skip
        index._number, index.shard, index.is_written = index.number, None, True
        index._lock()
        return index

    def __reduce__(self) -> tuple[type[Index], tuple[str, int | None, int | None]]:
        """Pickle and copy it as its folder, which is opened again."""
        return type(self), (os.path.abspath(self.folder), self._number, self.shard)

    def _check_reading(self) -> None:
        """An `InputError` if this program does not read texts as the one that wrote the index."""
        self.tokenizer = tokenizer_with(self.description.get("tokenizer"), f"{self.folder} was")
        if (version := self.description.get(NORMALIZATION, 0)) not in range(NORMALIZATION_VERSION + 1):
            raise InputError(
                f"{self.folder} was normalized by version {version}, this program knows {NORMALIZATION_VERSION}: use a "
                f"newer one, or build it again with: {self.rebuild}"
            )

    def _check_files(self) -> None:
        """An `InputError` if a file is not that of the commit; of a shard that is opened alone, its own files."""
        files = self.description[FILES]
        if self.shard is not None:
            others = tuple(f"{shard_folder(n)}/" for n in range(len(self.description[SHARDS])) if n != self.shard)
            files = {name: file for name, file in files.items() if not name.startswith(others)}
        try:
            INDEX.check_files(self.folder, {FILES: files}, f"build it again with: {self.rebuild}")
        except InputError:
            self.check_same()
            raise

    def __len__(self) -> int:
        """The number of documents."""
        return self.forward.held

    def __bool__(self) -> bool:
        return True

    @property
    def number(self) -> int:
        """The number of this commit."""
        return self.description["number"]

    def _entry(self, name: str) -> dict:
        """A part of the description; empty in another format that lacks it."""
        part = self.description.get(name)
        return part if isinstance(part, dict) else {}

    @property
    def rebuild(self) -> str:
        """The command that builds the index again."""
        source = "C" if self.lucene_folder.parent != self.folder else str(self.description.get("source", "C"))
        # Several corpora are written as a shell reads them; one that has a space in its name is not.
        corpus = source if " " in source and not os.path.exists(source) else shlex.quote(source)
        command = f"rerank-plugin index --corpus {corpus} --index {shlex.quote(str(self.folder))} --overwrite"
        if isinstance(shards := self.description.get(SHARDS), list):
            command = f"{command} --shards {len(shards)}"
        if stemmer := self._entry("tokenizer").get("stemmer"):
            command = f"{command} --stem {stemmer}"
        return f"{command} --knowledge KB" if KNOWLEDGE in self.description else command

    @property
    def commit(self) -> str | None:
        """The unique id of this commit, as in ``index.json``."""
        return self.description.get(COMMIT)

    @property
    def build(self) -> str:
        """A checksum of ``index.json``."""
        return checksum_of(self.description)

    def check_same(self) -> None:
        """Called after opening a part.

        Raises:
            IndexReplacedError: the folder holds another build than the open one.
            InputError: the index is closed.
        """
        if not self._unlock.alive:
            raise InputError(f"the index {self.folder} is closed: open it again")
        if not is_same_file(self._locked, self.folder / commit_file(self.number)):
            raise IndexReplacedError(f"{self.folder} was replaced while it was being opened: start again")

    @cached_property
    def forward(self) -> ForwardIndex:
        settings = self.description.get(KNOWLEDGE)
        try:
            with damage_as_input_error(self.folder, f"build it again with: {self.rebuild}"):
                knowledge = None if settings is None else IndexKnowledge(self.folder / KNOWLEDGE, settings)
                entries = [one for one in self.description[SEGMENTS] if self.shard in (None, one["shard"])]
                again = f"build it again with: {self.rebuild}"
                segments = [Segment(self.folder / one["path"], knowledge, again) for one in entries]
                if [len(segment) for segment in segments] != [one["documents"] for one in entries]:
                    raise ValueError("its segments have other numbers of documents")
                data = open_commit_data(self.folder, self.description, segments, self.shard)
                forward = self.forward_class(
                    self.folder, segments, data, self.tokenizer, knowledge,
                    forward_checksum(self.description), self, self._lucene_rows(len(self.description[SEGMENTS])),
                )  # fmt: skip
            forward.name, forward.number = self._name, self.number
            return forward
        finally:  # after a failure, too: another build may be the cause
            self.check_same()

    @property
    def lucene_indexes(self) -> list[dict[str, Any]]:
        """What the description says of the Lucene index of each open shard."""
        parts = self.description.get(SHARDS, [self.description["lucene"]])
        return parts if self.shard is None else [parts[self.shard]]

    def _lucene_rows(self, segments: int) -> list[np.ndarray]:
        """The rows, in its shard, of the documents of each Lucene index, uint32 [L]."""
        found, lengths = [], [0] * len(self.description.get(SHARDS, [None]))
        for one in self.description[SEGMENTS]:
            lengths[one["shard"]] += one["documents"]
        for number, part in enumerate(self.lucene_indexes):
            count = lengths[number if self.shard is None else self.shard]
            if "rows" not in part:  # there is no Lucene index
                found.append(np.arange(count, dtype=np.uint32))
                continue
            path = self.folder / part["rows"]
            rows = open_array(path, np.uint32, (None,))
            if not check_once([path], lambda: are_below(rows, count, DELETED), count):  # noqa: B023 (called at once)
                raise ValueError(f"{path} has rows that do not exist")
            found.append(rows)
        return found

    @property
    def knowledge(self):
        """The `KnowledgeBase` of the concepts; None for an index without concepts."""
        return None if self.forward.knowledge is None else self.forward.knowledge.base

    @property
    def lucene_folder(self) -> Path:
        """The folder of the Lucene index, which may be outside the index folder."""
        return self.folder / str(self._entry("lucene").get("path", "lucene"))

    @property
    def lucene_fields(self) -> list[str]:
        """The searchable fields of the Lucene index."""
        return self.description["lucene"].get("fields", ["contents"])

    def open_lucene(self) -> Any:
        """An IndexReader of the Lucene index; starts the JVM.

        Raises:
            InputError: it cannot be opened, or is not the Lucene index of this build.
        """
        from rerank_plugin.indexes.lucene_reader import side_by_side

        readers = [self._open_part(self.folder / part["path"], part) for part in self.lucene_indexes]
        return readers[0] if len(readers) == 1 else side_by_side(readers)

    def _open_part(self, folder: Path, part: dict[str, Any]) -> Any:
        from rerank_plugin.indexes.lucene_reader import commit_id, open_reader

        try:
            reader = open_reader(folder, part.get(LUCENE_COMMIT_FILE))
        finally:
            self.check_same()
        if commit_id(reader) != part.get("commit"):
            reader.close()
            raise InputError(
                f"{folder} has changed since {self.folder} was built, or is of another build: build {self.folder} again"
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
        if counts is None and (filter.values or filter.excluded):
            raise InputError(f"{self.folder} holds no metadata to filter by; build it with: {self.rebuild}")
        for field, _ in (*filter.values, *filter.excluded):
            if field != "retracted" and not counts.get(FILTERS.get(field)):
                known = ", ".join(name for name, stored in FILTERS.items() if counts.get(stored)) or "none"
                raise InputError(f"no document of {self.folder} has the field '{field}'; usable filters: {known}")

    def _matches(self, filter: Filter) -> FilterMatches:
        from rerank_plugin.indexes.lucene_reader import matching_numbers
        from rerank_plugin.indexes.strategy_query import matching_query

        self.check_filter(filter)
        reader, notes = self.shared_reader, list[str]()
        query = matching_query(filter, reader, self.description["lucene"], notes)
        matching = np.append(matching_numbers(reader, query), False)  # to which -1 of deleted documents leads
        fits = matching[self.forward.lucene_numbers]
        return FilterMatches(fits, int(fits.sum()), tuple(notes))

    def count(self, filter: Filter) -> int:
        """The exact number of documents that match a filter, which is cheaper than to find them."""
        from rerank_plugin.indexes.lucene_reader import count_matching
        from rerank_plugin.indexes.strategy_query import matching_query

        self.check_filter(filter)
        reader = self.shared_reader
        return count_matching(reader, matching_query(filter, reader, self.description["lucene"]))

    @cached_property
    def shared_reader(self) -> Any:
        """An IndexReader for filters and suggestions, open as long as the index: opening one takes 10 ms."""
        reader = self.open_lucene()
        # Pyjnius shares the method of a class: a kept reader.close would close whichever reader was closed last.
        finalize(self, lambda: reader.close()).atexit = False
        return reader

    @cached_property
    def matches(self) -> Callable[[Filter], FilterMatches]:
        """The documents that match a filter, found once for each of the last filters; starts the JVM."""
        index = proxy(self)  # an index that held itself would wait for the garbage collector
        return lru_cache(FILTERS_KEPT)(lambda filter: index._matches(filter))

    def fitting(self, filter: Filter) -> Any:
        """Whether each document matches a filter, bool [R]."""
        return self.matches(filter).fits

    def search(self, first_stage, query, depth: int):
        """The candidates of a first stage for a query; where documents may be missing, their ``missing`` says so."""
        return first_stage.search(query, depth)

    def texts(self):
        """The stored texts (:class:`~rerank_plugin.indexes.lucene_reader.StoredTexts`), to be closed."""
        from rerank_plugin.indexes.lucene_reader import StoredTexts

        return StoredTexts(self)

    def first_stage(self, config):
        """The first stage of a configuration (:mod:`rerank_plugin.retrieval.register`) over this index."""
        return config.open(self)
