"""The index folder: a commit that names segments of documents, a Lucene index of them, and what was made from both.

=====================  ==========================================================================================
in the folder          format 5
=====================  ==========================================================================================
index.json             the current commit: its id and number, tokenizer, segments in their order, statistics, source,
                       Lucene's commit, and size and checksums (:mod:`rerank_plugin.files.checksums`) of every file;
                       replaced atomically, last
commits/NUMBER.json    the same of every commit that is kept; open indexes hold a lock on theirs
commits/NUMBER/        what a commit says of all documents together (:mod:`rerank_plugin.indexes.joining`)
segments/NUMBER/       the segment (:mod:`rerank_plugin.indexes.segment`) that the commit NUMBER has written
lucene/                the Lucene index; missing if ``index.json`` refers to an index elsewhere
encodings/NUMBER/KEY/  document vectors of a model in a commit (:mod:`rerank_plugin.indexes.vector_store`)
judged/NUMBER/KEY/     judged queries, encoded by a model (:mod:`rerank_plugin.indexes.judged_queries`)
adapted/NUMBER/        the bundled encoder, adapted to the collection (:mod:`rerank_plugin.models.ktrel.adaptation`)
knowledge/             the knowledge base of the concepts (:mod:`rerank_plugin.indexes.index_concepts`)
shards/NUMBER/         the ``segments``, the Lucene index and the ``rest`` of a shard, in an index that is divided
=====================  ==========================================================================================

No file of a commit is ever changed: a later commit names it again, or other files. So an update
(:mod:`rerank_plugin.indexes.updating`) changes no byte that an open index reads. Encodings, judged queries and the
adapted encoder are derived (:mod:`rerank_plugin.indexes.derived`): each commit has folders of its own, whose files
are hard links to those of the commit before where they did not change.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from weakref import finalize, proxy

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.failures import damage, system_failure
from rerank_plugin.base.filters import FILTERS, Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.files.arrays import are_below, open_array
from rerank_plugin.files.checksums import (
    SAMPLED,
    check_description,
    checksum_of,
    describe_file,
    describe_parts,
    fault,
    passed,
    sealed,
)
from rerank_plugin.files.outputs import FolderKind, is_same_file, restore_interrupted
from rerank_plugin.files.regular_files import regular
from rerank_plugin.files.string_table import StringTable
from rerank_plugin.indexes.forward import DELETED, NOTHING_DELETED, ForwardIndex, Whole
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.indexes.rows import Rows
from rerank_plugin.indexes.segment import FIELDS, SEGMENTS, Segment
from rerank_plugin.text.normalization import VERSION
from rerank_plugin.text.tokenizer import tokenizer_with

T = TypeVar("T")

FORMAT_VERSION = 5
DESCRIPTION = "index.json"
FILTERS_KEPT = 16  # filters whose documents are cached, a byte per document
COMMIT, COMMITS = "commit", "commits"
SHARDS = "shards"  # the folder of the shards, and their list in the description
REST = "rest"  # in a shard, the folder of the Lucene indexes with the numbers of the other shards
WHOLE = "whole"  # in the description: the files of what a commit says of all documents together
MOST_DIGITS = 6
NORMALIZATION = "normalization"  # its version, of the forward index and under "lucene" of its texts; 0 if it is missing
APPLIED = "applied"  # in the description: a record of the caller's, of what was indexed; updates without one keep it
COMMIT_FILE = "segments"  # in the description of our own Lucene index: the file of its commit
TRIES = 5  # to open an index that is replaced meanwhile

ANNOTATION = f"{KNOWLEDGE}/annotation"  # the annotator's files, which it rebuilds if they do not fit
ENCODINGS = "encodings"  # of documents, each with a description and checksums of its own
JUDGED = "judged"  # queries, the same
ADAPTED = "adapted"  # a checkpoint; its checksum is the name of its encodings
DERIVED = (ENCODINGS, JUDGED, ADAPTED)

SEGMENT_FILES = (f"{SEGMENTS}/*/*.npy",)
LUCENE_FILES = tuple(f"lucene/{name}" for name in ("_*", "segments_*", "pending_segments_*", "write.lock"))
FILES = (
    f"{ANNOTATION}/*",
    # of commits that are kept, and of updates that were interrupted
    f"{COMMITS}/*.json",
    f"{COMMITS}/*/*.npy",
    *SEGMENT_FILES,
    *LUCENE_FILES,
    *(f"{SHARDS}/*/{name}" for name in (*SEGMENT_FILES, *LUCENE_FILES, f"{REST}/*/*")),
    # those of version 0.3.0 are not in folders of commits
    *(
        f"{folder}/{name}"
        for folder in (ADAPTED, f"{ADAPTED}/*")
        for name in ("config.json", "*.safetensors", "vocab.txt", "words.json")
    ),
    *(f"{folder}/{name}" for folder in (f"{ENCODINGS}/*", f"{ENCODINGS}/*/*") for name in ("encodings.json", "*.npy")),
    *(f"{ENCODINGS}/*/*/*/{name}" for name in ("vectors.json", "*.npy")),
    *(f"{ENCODINGS}/*/{kind}/{name}" for kind in ("ivf", "hnsw") for name in ("ann.json", "index.faiss")),
    *(
        f"{folder}/{name}"
        for folder in (f"{ENCODINGS}/*/judged", f"{JUDGED}/*", f"{JUDGED}/*/*")
        for name in ("judged.json", "vectors.npy", "starts.npy", "rows.npy")
    ),
    # format 4
    "generations/*.json",
    "forward/*/*.npy",
    "lucene_rows.*.npy",
    *(f"{SHARDS}/*/{name}" for name in ("index.json", "generations/*.json", "forward/*/*.npy", "lucene_rows.*.npy")),
    *(f"{SHARDS}/*/{ENCODINGS}/*/*/{name}" for name in ("encodings.json", "*.npy")),
)
INDEX = FolderKind("an index", DESCRIPTION, ("format_version", "fields", "files"), FILES, listed="files")


def derived_folder(index: Index | ForwardIndex, name: str) -> Path:
    """The folder of what models derived from the documents of an open index (of `DERIVED`); it need not exist."""
    return index.folder / name / numbered(index.number)


def numbered(number: int) -> str:
    """The number of a commit in names of files."""
    return f"{number:0{MOST_DIGITS}d}"


def commit_file(number: int) -> str:
    """The path of the description of a commit."""
    return f"{COMMITS}/{numbered(number)}.json"


class Matches(NamedTuple):
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


def describe_files(folder: Path, names: Iterable[str], known: Mapping[str, dict] = MappingProxyType({})) -> dict:
    """Size and checksums of the named files of a folder; ``known`` are those that are not read again."""
    return {name: known.get(name) or describe_whole_file(folder / name) for name in sorted(names)}


def describe_whole_file(path: Path) -> dict[str, Any]:
    """Size and checksums of a file."""
    return describe_file(path) | describe_parts(path, path.stat().st_size)


def write_description(
    path: Path, description: dict, names: Iterable[str], known: Mapping[str, dict] = MappingProxyType({})
) -> None:
    """Write the description of a derived folder of an index, with the checksums of its files and its own.

    Args:
        known: the descriptions of files that are not read again.
    """
    path.write_bytes(with_checksums(description, describe_files(path.parent, names, known)))


def with_checksums(description: dict, files: dict[str, dict]) -> bytes:
    """A description with those of its files and its own checksum, as JSON."""
    return json.dumps(sealed({**description, "files": files}), indent=1, ensure_ascii=False).encode()


@contextmanager
def reading(folder: Path, again: str) -> Iterator[None]:
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
            self._written = self._read()
            self._check_description()
            self._lock()
            if self._read() == self._written:
                break  # no update came between reading and locking
        else:
            raise IndexReplacedError(f"{self.folder} was replaced while it was being opened: start again")
        self._check_files()
        self._name = str(self.folder)  # as the caller named it: checkpoints keep no path of this machine
        self.folder = self.folder.absolute()  # parts are opened later, perhaps after an os.chdir

    @property
    def _described(self) -> Path:
        """The file that is read."""
        number = self._number
        return self.folder / (DESCRIPTION if number is None else commit_file(number))

    def _read(self) -> bytes:
        """Read the description; returns the content of its file."""
        try:
            written = regular(self._described).read_bytes()
            self.description = json.loads(written)
        except FileNotFoundError:
            if self._number is not None:
                raise InputError(f"{self._described} is missing: the index was not copied completely") from None
            whole = self.folder.absolute().parents[1]
            remedy = "it is not an index; build one in another folder, or move this one away"
            if any(self.folder.glob("segments_*")):
                remedy = f"it is a Lucene index; read it with: rerank-plugin index --lucene {self.folder} --index I"
            if whole.joinpath(SHARDS) == self.folder.absolute().parent and (whole / DESCRIPTION).is_file():
                remedy = f"it is a shard; open the index {whole}"
            raise InputError(f"{self.folder} holds no {DESCRIPTION}: {remedy}") from None
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{self._described} cannot be read ({damage(error)}); rebuild the index") from None
        if not isinstance(self.description, dict):
            raise InputError(f"{self._described} does not describe an index; rebuild the index")
        return written

    def _lock(self) -> None:
        """Lock the commit until the index is closed or garbage-collected: updates then keep its files."""
        path = self.folder / commit_file(self.number)
        try:
            self._locked = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if self._read() != self._written:
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

    def of_next_commit(self, written: bytes) -> Index:
        """The index of a commit that is written, but not yet the current one, by its description."""
        index = object.__new__(type(self))
        index.folder, index._name, index._written = self.folder, self._name, written
        index.description, index.tokenizer = json.loads(written), self.tokenizer
        index._number, index.shard, index.is_written = index.number, None, True
        index._lock()
        return index

    def __reduce__(self) -> tuple[type[Index], tuple[str, int | None, int | None]]:
        """Pickle and copy it as its folder, which is opened again."""
        return type(self), (os.path.abspath(self.folder), self._number, self.shard)

    def _check_description(self) -> None:
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
        needed = {"files": dict, "fields": dict, "lucene": dict, "number": int, SEGMENTS: list, WHOLE: dict}
        if KNOWLEDGE in self.description:
            needed[KNOWLEDGE] = dict
        if missing := [name for name, kind in needed.items() if not isinstance(self.description.get(name), kind)]:
            raise InputError(f"{self._described} lacks {' and '.join(missing)}; rebuild the index")

    def _check_files(self) -> None:
        """An `InputError` if the description or a file is not that of the commit."""
        rebuild = f"build it again with: {self.rebuild}"
        check_description(self._described, self.description, rebuild)
        own = None if self.shard is None else f"{SHARDS}/{self.shard:03d}/"
        for name, expected in self.description["files"].items():
            if own is not None and name.startswith(f"{SHARDS}/") and not name.startswith(own):
                continue
            wrong = fault(self.folder / name, expected)
            if wrong is not None:
                self.check_same()
                raise InputError(
                    f"{self.folder / name} {wrong}, expected {expected['bytes']} bytes: the index is damaged or not "
                    f"copied completely; {rebuild}"
                )

    def __len__(self) -> int:
        """The number of documents."""
        return self.forward.held

    def __bool__(self) -> bool:
        return True

    @property
    def number(self) -> int:
        """The number of this commit."""
        return self.description["number"]

    def _part(self, name: str) -> dict:
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
        if shards := len(self.description.get(SHARDS, ())):
            command = f"{command} --shards {shards}"
        if stemmer := self._part("tokenizer").get("stemmer"):
            command = f"{command} --stem {stemmer}"
        return f"{command} --knowledge KB" if KNOWLEDGE in self.description else command

    @property
    def commit(self) -> str | None:
        """The unique id of this commit, as in ``index.json``."""
        return self.description.get(COMMIT)

    @property
    def build(self) -> str:
        """A checksum of ``index.json``."""
        return blake2b(self._written, digest_size=16).hexdigest()

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
            with reading(self.folder, f"build it again with: {self.rebuild}"):
                knowledge = None if settings is None else IndexKnowledge(self.folder / KNOWLEDGE, settings)
                entries = [one for one in self.description[SEGMENTS] if self.shard in (None, one["shard"])]
                segments = [Segment(self.folder / one["path"], knowledge) for one in entries]
                if [len(segment) for segment in segments] != [one["documents"] for one in entries]:
                    raise ValueError("its segments have other numbers of documents")
                forward = self.forward_class(
                    self.folder, segments, self._whole(segments), self.tokenizer, knowledge,
                    forward_checksum(self.description), self, self._lucene_rows(len(self.description[SEGMENTS])),
                )  # fmt: skip
            forward.name, forward.number = self._name, self.number
            return forward
        finally:  # after a failure, too: another build may be the cause
            self.check_same()

    def _whole(self, segments: Sequence[Segment]) -> Whole:
        """What the commit says of all its segments; of ``segments``, those that are open, what it says of these."""
        described, entries = self.description[WHOLE], self.description[SEGMENTS]
        folders = {segment.folder: segment for segment in segments}
        opened = list[Path]()

        def array(path: Path, length: int | None = None) -> np.ndarray:
            opened.append(path)
            return open_array(path, np.uint32, (length,))

        vocabulary = folders.get(self.folder / described["terms"])
        terms = StringTable(self.folder / described["terms"], "terms") if vocabulary is None else vocabulary.terms
        counts = self.folder / described["frequency"]
        frequency = {field: array(counts / f"df_{field}.npy", max(len(terms), 1)) for field in FIELDS}
        places, deleted = None, NOTHING_DELETED
        lengths = [one["documents"] for one in entries]
        if described["places"] is not None:
            places = array(self.folder / described["places"], sum(lengths))
        if described["deleted"] is not None:
            deleted = array(self.folder / described["deleted"])

        def is_sound() -> bool:
            return (
                are_below(deleted, sum(lengths))
                and bool((deleted[1:] > deleted[:-1]).all())
                and (places is None or bool((np.bincount(places, minlength=sum(lengths)) == 1).all()))
                and all(are_below(segment.numbers, len(terms)) for segment in segments)
                and all(len(segment.numbers) or len(segment.terms) <= len(terms) for segment in segments)
            )

        if not passed(
            [*opened, *(one.folder / "terms.offsets.npy" for one in segments)], is_sound, lengths, len(terms)
        ):
            raise ValueError("what the commit says of its documents does not fit them")
        means = {field: numbers["mean_length"] for field, numbers in self.description["fields"].items()}
        shards = [one["shard"] for one in entries]
        if self.shard is None:
            return Whole(terms, frequency, means, deleted, places, shards)
        gone = {number: local for number, _, local in Rows(lengths, places, shards).by_shard(deleted)}
        here = np.sort(gone.get(self.shard, NOTHING_DELETED)).astype(np.uint32)
        own = [number for number in shards if number == self.shard]
        return Whole(terms, frequency, means, here, None, own, self.description["documents"])

    @property
    def lucene_parts(self) -> list[dict[str, Any]]:
        """What the description says of the Lucene index of each open shard."""
        parts = self.description.get(SHARDS, [self.description["lucene"]])
        return parts if self.shard is None else [parts[self.shard]]

    def _lucene_rows(self, segments: int) -> list[np.ndarray]:
        """The rows, in its shard, of the documents of each Lucene index, uint32 [L]."""
        found, lengths = [], [0] * len(self.description.get(SHARDS, [None]))
        for one in self.description[SEGMENTS]:
            lengths[one["shard"]] += one["documents"]
        for number, part in enumerate(self.lucene_parts):
            count = lengths[number if self.shard is None else self.shard]
            if "rows" not in part:  # there is no Lucene index
                found.append(np.arange(count, dtype=np.uint32))
                continue
            path = self.folder / part["rows"]
            rows = open_array(path, np.uint32, (None,))
            if not passed([path], lambda: are_below(rows, count, DELETED), count):  # noqa: B023 (called at once)
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
        from rerank_plugin.indexes.lucene_reader import side_by_side

        readers = [self._open_part(self.folder / part["path"], part) for part in self.lucene_parts]
        return readers[0] if len(readers) == 1 else side_by_side(readers)

    def _open_part(self, folder: Path, part: dict[str, Any]) -> Any:
        from rerank_plugin.indexes.lucene_reader import commit_id, open_reader

        try:
            reader = open_reader(folder, part.get(COMMIT_FILE))
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

    def _matches(self, filter: Filter) -> Matches:
        from rerank_plugin.indexes.lucene_reader import matching_numbers
        from rerank_plugin.indexes.strategy_query import matching_query

        self.check_filter(filter)
        reader, notes = self.shared_reader, list[str]()
        query = matching_query(filter, reader, self.description["lucene"], notes)
        matching = np.append(matching_numbers(reader, query), False)  # to which -1 of deleted documents leads
        fits = matching[self.forward.lucene_numbers]
        return Matches(fits, int(fits.sum()), tuple(notes))

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
    def matches(self) -> Callable[[Filter], Matches]:
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
        """The stored texts (:class:`~rerank_plugin.indexes.stored_texts.StoredTexts`), to be closed."""
        from rerank_plugin.indexes.stored_texts import StoredTexts

        return StoredTexts(self)

    def first_stage(self, config):
        """The first stage of a configuration (:mod:`rerank_plugin.retrieval.register`) over this index."""
        return config.open(self)
