"""The index folder: a Lucene index and a forward index of one collection, and the file that describes them.

=====================  ==========================================================================================
in the folder          format 4
=====================  ==========================================================================================
index.json             the current generation: its id and number, tokenizer, statistics, source, the commit of the
                       Lucene index, and size and checksums (:mod:`rerank_plugin.files.checksums`) of every file;
                       replaced atomically, last
generations/           the same of every generation that is kept; open indexes hold a lock on theirs
lucene/                the Lucene index; missing if ``index.json`` refers to an index elsewhere
forward/NUMBER/        the forward index since the generation that was built or merged last; mostly appended to
lucene_rows.*          the rows of Lucene's documents
encodings/NUMBER/KEY/  document vectors of a model in a generation (:mod:`rerank_plugin.indexes.vector_store`)
judged/NUMBER/KEY/     judged queries, encoded by a model (:mod:`rerank_plugin.indexes.judged_queries`)
adapted/NUMBER/        the bundled encoder, adapted to the collection (:mod:`rerank_plugin.models.ktrel.adaptation`)
knowledge/             the knowledge base of the concepts (:mod:`rerank_plugin.indexes.index_concepts`)
shards/NUMBER/         the shards of an index of shards (:mod:`rerank_plugin.indexes.sharding`), without ``index.json``
=====================  ==========================================================================================

Files that are only appended to are described by their length in a generation, and by a checksum of each piece that was
added. Names of all other files of the forward index end in the number of the generation that wrote them. So an update
(:mod:`rerank_plugin.indexes.updating`) changes no byte that an open index reads. Encodings, judged queries and the
adapted encoder are additions (:mod:`rerank_plugin.indexes.additions`): each generation has folders of its own, whose
files are hard links to those of the generation before where they did not change, or were only appended to.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4
from weakref import finalize, proxy

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.failures import damage, system_failure
from rerank_plugin.base.filters import FILTERS, Filter
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.files.checksums import (
    SAMPLED,
    check_description,
    checksum_of,
    describe_file,
    describe_parts,
    fault,
    sealed,
)
from rerank_plugin.files.outputs import INNER, FolderKind, is_same_file, replacing, restore_interrupted
from rerank_plugin.files.regular_files import regular
from rerank_plugin.indexes.forward import FORWARD, ForwardIndex, Layout, is_appended, numbered
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.indexes.sharding import COLLECTION, REST, SHARDS, ShardedForward
from rerank_plugin.text.normalization import VERSION
from rerank_plugin.text.tokenizer import tokenizer_with

T = TypeVar("T")

FORMAT_VERSION = 4
DESCRIPTION = "index.json"
FILTERS_KEPT = 16  # filters whose documents are cached, a byte per document
GENERATION, GENERATIONS = "generation", "generations"
NORMALIZATION = "normalization"  # its version, of the forward index and under "lucene" of its texts; 0 if it is missing
APPLIED = "applied"  # in the description: a record of the caller's, of what was indexed; updates without one keep it
COMMIT_FILE = "segments"  # in the description of our own Lucene index: the file of its commit
TRIES = 5  # to open an index that is replaced meanwhile

ANNOTATION = f"{KNOWLEDGE}/annotation"  # the annotator's files, which it rebuilds if they do not fit
ENCODINGS = "encodings"  # of documents, each with a description and checksums of its own
JUDGED = "judged"  # queries, the same
ADAPTED = "adapted"  # a checkpoint; its checksum is the name of its encodings
ADDITIONS = (ENCODINGS, JUDGED, ADAPTED)

FILES = (
    f"{ANNOTATION}/*",
    # of generations that are kept, and of updates that were interrupted
    f"{GENERATIONS}/*.json",
    f"{FORWARD}/*/*.npy",
    "lucene_rows.*.npy",
    *(f"lucene/{name}" for name in ("_*", "segments_*", "pending_segments_*", "write.lock")),
    # those of version 0.3.0 are not in folders of generations
    *(
        f"{folder}/{name}"
        for folder in (ADAPTED, f"{ADAPTED}/*")
        for name in ("config.json", "*.safetensors", "vocab.txt", "words.json")
    ),
    *(f"{folder}/{name}" for folder in (f"{ENCODINGS}/*", f"{ENCODINGS}/*/*") for name in ("encodings.json", "*.npy")),
    *(f"{ENCODINGS}/*/{kind}/{name}" for kind in ("ivf", "hnsw") for name in ("ann.json", "index.faiss")),
    *(
        f"{folder}/{name}"
        for folder in (f"{ENCODINGS}/*/judged", f"{JUDGED}/*", f"{JUDGED}/*/*")
        for name in ("judged.json", "vectors.npy", "starts.npy", "rows.npy")
    ),
)
INDEX = FolderKind(
    "an index",
    DESCRIPTION,
    ("format_version", "fields", "files"),
    # shards of an earlier format had a description, and no folders of generations in the last
    (*FILES, *(f"{SHARDS}/*/{name}" for name in (DESCRIPTION, f"{REST}/*", f"{REST}/*/*", *FILES))),
    listed="files",
)


def addition(index: Index | ForwardIndex, name: str) -> Path:
    """The folder of an addition (of `ADDITIONS`) to the generation of an open index; it need not exist."""
    return index.folder / name / numbered(index.layout.number)


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


def describe_files(folder: Path, names: Iterable[str] | None = None) -> dict[str, dict]:
    """Size and checksums of the named files of a folder.

    By default all files of an index, except those with checksums of their own and those rebuilt when needed.
    """
    if names is None:
        excluded = [DESCRIPTION, GENERATIONS, ANNOTATION, *ADDITIONS, "lucene/write.lock"]
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        files = (path for path in files if not any(path.is_relative_to(folder / part) for part in excluded))
        names = [path.relative_to(folder).as_posix() for path in files]
    return {name: describe_index_file(folder, name) for name in names}


def describe_index_file(
    folder: Path, name: str, before: dict | None = None, appended: bool | None = None
) -> dict[str, Any]:
    """Size and checksums of a file; of one that is appended to, of each piece.

    Args:
        before: its description in the generation before, whose pieces are not read again.
        appended: whether it is appended to; by default its name says so (`is_appended`).
    """
    path = folder / name
    if not (is_appended(name) if appended is None else appended):
        return describe_file(path) | describe_parts(path, path.stat().st_size)
    size, known = (0, []) if before is None else (before["bytes"], before["pieces"])
    if (total := path.stat().st_size) > size:
        known = [*known, describe_file(path, size, total)]
    return {"bytes": total, "pieces": known, **describe_parts(path, total)}


def described_again(folder: Path, name: str, described: dict) -> dict:
    """The description of the bytes of a file that a description is of, all of which are read."""
    path = folder / name
    if "pieces" not in described:
        return describe_file(path) | describe_parts(path, path.stat().st_size)
    pieces, size = [], 0
    for piece in described["pieces"]:
        pieces.append(describe_file(path, size, size + piece["bytes"]))
        size += piece["bytes"]
    return {"bytes": size, "pieces": pieces, **describe_parts(path, size)}


def write_description(
    path: Path,
    description: dict,
    names: Iterable[str],
    appended: Collection[str] = (),
    before: Mapping[str, dict] | None = None,
) -> None:
    """Write the description of an addition to an index, with the checksums of its files and its own.

    Args:
        names: of the files. appended: of those that are appended to.
        before: the descriptions of these before they were appended to.
    """
    files = {name: describe_index_file(path.parent, name, (before or {}).get(name), name in appended) for name in names}
    path.write_bytes(_with_checksums(description, files))


def describe_generation(folder: Path, description: dict, files: dict[str, dict] | None = None) -> bytes:
    """Write the description of a generation of an index, once its files are written; it is not the current one yet.

    Args:
        files: the descriptions of its files; by default of all files of the folder.
    """
    written = _with_checksums(description, describe_files(folder) if files is None else files)
    (folder / GENERATIONS).mkdir(exist_ok=True)
    (folder / GENERATIONS / f"{numbered(description['number'])}.json").write_bytes(written)
    return written


def switch_generation(folder: Path, written: bytes) -> None:
    """Make the generation whose description `describe_generation` has written the current one of an index."""
    with replacing(folder / DESCRIPTION, INNER, overwrite=True) as file:
        file.write(written)


def write_generation(folder: Path, description: dict, files: dict[str, dict] | None = None) -> None:
    """Write the description of a generation of an index as `describe_generation` does, and make it the current one."""
    switch_generation(folder, describe_generation(folder, description, files))


def _with_checksums(description: dict, files: dict[str, dict]) -> bytes:
    """A description with those of its files and its own checksum, as JSON."""
    return json.dumps(sealed({**description, "files": files}), indent=1, ensure_ascii=False).encode()


def generation(number: int, base: int, documents: int, terms: int) -> dict:
    """The first entries in the description of a generation; ``base`` is the one that began its forward index."""
    return {
        "format_version": FORMAT_VERSION,
        GENERATION: uuid4().hex,
        "number": number,
        "base": base,
        "documents": documents,
        "terms": terms,
    }


@contextmanager
def reading(folder: Path, again: str) -> Iterator[None]:
    """Turn the exception of a missing or damaged file in the block into an `InputError` that ends with ``again``."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError) as error:
        raise InputError(f"{folder} cannot be read ({damage(error)}); {again}") from None


def forward_checksum(description: dict) -> dict[str, str]:
    """One checksum of documents, terms and knowledge base, from an index's description, by the name of their folder.

    It stays when documents are deleted, as their rows do, and does not depend on the version that described the files:
    0.3.0 described no samples.
    """
    files = description["files"].items()
    return {
        numbered(description["base"]): checksum_of(
            {
                name: {key: value for key, value in file.items() if key != SAMPLED}
                for name, file in files
                if is_appended(name) or name.startswith(f"{KNOWLEDGE}/")
            }
            | {part["path"]: part["forward_index"] for part in description.get(SHARDS, ())}
        )
    }


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

    An open index keeps its generation: updates go on beside it, and remove nothing that it reads until it is closed or
    garbage-collected. If the whole folder is replaced by another build before a part is opened, opening that part
    raises `IndexReplacedError`; parts that are already open stay valid. ``len(index)`` is the number of documents.

    Args:
        number: of a generation that is kept; by default the current one.

    Attributes:
        folder: the index folder.
        shards: the indexes of the shards; empty unless it is an index of shards.
        is_written: whether it is a generation that an update of this process is writing.

    Raises:
        InputError: the folder is missing, unfinished or damaged, or has another format version.
    """

    is_written = False
    shards: Sequence[Index] = ()

    def __init__(self, folder: str | Path, number: int | None = None):
        self.folder, self._number = restore_interrupted(folder), number
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
        self.shards = self._open_shards()
        self._name = str(self.folder)  # as the caller named it: checkpoints keep no path of this machine
        self.folder = self.folder.absolute()  # parts are opened later, perhaps after an os.chdir

    def _open_shards(self) -> list[Index]:
        """The shards in this generation, which has the same number in each."""
        try:
            number = self.description["number"]
            return [Index(self.folder / part["path"], number) for part in self.description.get(SHARDS, ())]
        finally:
            self.check_same()

    @property
    def _described(self) -> Path:
        """The file that is read."""
        number = self._number
        return self.folder / (DESCRIPTION if number is None else f"{GENERATIONS}/{numbered(number)}.json")

    def _read(self) -> bytes:
        """Read the description; returns the content of its file."""
        try:
            written = regular(self._described).read_bytes()
            self.description = json.loads(written)
        except FileNotFoundError:
            if self._number is not None:
                raise InputError(f"{self._described} is missing: the index was not copied completely") from None
            whole = self.folder.absolute().parent.parent
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
        """Lock the generation until the index is closed or garbage-collected: updates then keep its files."""
        path = self.folder / self.generation_file
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
        with suppress(OSError):  # some network file systems have no locks: updates then keep all generations
            fcntl.flock(self._locked, fcntl.LOCK_SH)

    def close(self) -> None:
        """End the locks and give the files back: updates remove what no other index reads."""
        self._unlock()
        self.release()
        for shard in self.shards:
            shard.close()

    def release(self) -> None:
        """Give the files back once nothing else reads them; they are opened again where they are still needed.

        The forward index knows its index, so both would wait for the garbage collector.
        """
        self.__dict__.pop("forward", None)

    def following(self, written: bytes, shards: Sequence[Index] = ()) -> Index:
        """The index of a generation that is written, but not yet the current one, by its description.

        Args:
            shards: those in that generation.
        """
        following = object.__new__(type(self))
        following.folder, following._name, following._written = self.folder, self._name, written
        following.description, following.tokenizer = json.loads(written), self.tokenizer
        following._number = following.description["number"]
        following.is_written, following.shards = True, shards
        following._lock()
        return following

    def __reduce__(self) -> tuple[type[Index], tuple[str, int | None]]:
        """Pickle and copy it as its folder, which is opened again."""
        return type(self), (os.path.abspath(self.folder), self._number)

    @property
    def generation_file(self) -> str:
        """The path of the file of this generation in the folder, which is locked."""
        return f"{GENERATIONS}/{numbered(self.description['number'])}.json"

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
        needed = {"files": dict, "fields": dict, "lucene": dict, "number": int, "base": int}
        if KNOWLEDGE in self.description:
            needed[KNOWLEDGE] = dict
        if missing := [name for name, kind in needed.items() if not isinstance(self.description.get(name), kind)]:
            raise InputError(f"{self._described} lacks {' and '.join(missing)}; rebuild the index")
        if not all(isinstance(part, dict) for part in self.description.get(SHARDS, ())):
            raise InputError(
                f"{self.folder} is an index of shards of an earlier format; build it again with: {self.rebuild}"
            )

    def _check_files(self) -> None:
        """An `InputError` if the description or a file is not that of the generation."""
        rebuild = f"build it again with: {self.rebuild}"
        check_description(self._described, self.description, rebuild)
        for name, expected in self.description["files"].items():
            wrong = fault(self.folder / name, expected, grows=is_appended(name))
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
    def layout(self) -> Layout:
        """The paths and sizes of the files of the forward index."""
        sizes = {name: file["bytes"] for name, file in self.description["files"].items()}
        return Layout(self.description["number"], self.description["base"], sizes)

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
        folder, shards = self.folder, len(self.description.get(SHARDS, ()))
        if COLLECTION in self.description:
            folder, shards = folder.parent.parent, self.description[COLLECTION][SHARDS]
        command = f"rerank-plugin index --corpus {corpus} --index {shlex.quote(str(folder))} --overwrite"
        if shards:
            command = f"{command} --shards {shards}"
        if stemmer := self._part("tokenizer").get("stemmer"):
            command = f"{command} --stem {stemmer}"
        return f"{command} --knowledge KB" if KNOWLEDGE in self.description else command

    @property
    def generation(self) -> str | None:
        """The unique id of this generation, as in ``index.json``."""
        return self.description.get(GENERATION)

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
        if not is_same_file(self._locked, self.folder / self.generation_file):
            raise IndexReplacedError(f"{self.folder} was replaced while it was being opened: start again")

    @cached_property
    def forward(self) -> ForwardIndex:
        mean_lengths = {field: numbers["mean_length"] for field, numbers in self.description["fields"].items()}
        settings = self.description.get(KNOWLEDGE)
        try:
            with reading(self.folder, f"build it again with: {self.rebuild}"):
                if self.shards:
                    return ShardedForward(
                        self.folder, mean_lengths, self.tokenizer, forward_checksum(self.description), self.layout,
                        self, [shard.forward for shard in self.shards],
                    )  # fmt: skip
                knowledge = None if settings is None else IndexKnowledge(self.folder / KNOWLEDGE, settings)
                forward = ForwardIndex(
                    self.folder, mean_lengths, self.tokenizer, knowledge, forward_checksum(self.description),
                    self.layout, self,
                )  # fmt: skip
            forward.name = self._name
            forward.collection = self._part(COLLECTION).get("documents")
            return forward
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
        from rerank_plugin.indexes.lucene_reader import commit_id, open_reader, side_by_side

        if self.shards:
            return side_by_side([shard.open_lucene() for shard in self.shards])
        lucene = self.description["lucene"]
        try:
            reader = open_reader(self.lucene_folder, lucene.get(COMMIT_FILE))
        finally:
            self.check_same()
        if commit_id(reader) != lucene.get("commit"):
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
        if counts is None and (filter.values or filter.excluded):
            raise InputError(f"{self.folder} holds no metadata to filter by; build it with: {self.rebuild}")
        for field, _ in (*filter.values, *filter.excluded):
            if field != "retracted" and not counts.get(FILTERS[field]):
                known = ", ".join(name for name, stored in FILTERS.items() if counts.get(stored)) or "none"
                raise InputError(f"no document of {self.folder} has the field '{field}'; usable filters: {known}")

    def _matches(self, filter: Filter) -> Matches:
        from rerank_plugin.indexes.lucene_reader import matching_numbers
        from rerank_plugin.indexes.strategy_query import matching_query

        self.check_filter(filter)
        reader, notes = self.open_lucene(), list[str]()
        query = matching_query(filter, reader, self.description["lucene"], notes)
        rows = np.asarray(self.forward.lucene_rows)[matching_numbers(reader, query)]
        reader.close()
        fits = np.zeros(len(self.forward), bool)
        fits[rows[rows < len(fits)]] = True  # numbers of deleted documents have no row
        return Matches(fits, int(fits.sum()), tuple(notes))

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
