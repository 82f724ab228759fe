"""The index folder: a Lucene index and a forward index of one collection, and the file that describes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.fingerprints import describe_file
from rerank_plugin.files.outputs import FolderKind, healed
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.text.tokenizer import tokenizer_of

T = TypeVar("T")

FORMAT_VERSION = 1
DESCRIPTION = "index.json"
GENERATION, CHECKSUM = "generation", "checksum"
TRIES = 5  # to open an index that is replaced meanwhile

MADE_AGAIN = f"{KNOWLEDGE}/annotation"  # kept by the annotator, which makes it anew where it does not fit
ENCODINGS = "encodings"  # of documents, each with a description and checksums of its own

INDEX = FolderKind(
    "an index",
    DESCRIPTION,
    ("format_version", "fields", "files"),
    (
        f"{MADE_AGAIN}/*",
        *(f"{ENCODINGS}/*/{name}" for name in ("encodings.json", "vectors.npy")),
        *(f"{ENCODINGS}/*/{kind}/{name}" for kind in ("ivf", "hnsw") for name in ("ann.json", "index.faiss")),
        *(f"{ENCODINGS}/*/judged/{name}" for name in ("judged.json", "vectors.npy", "starts.npy", "rows.npy")),
    ),  # fmt: skip
    listed="files",
)


class IndexReplacedError(InputError):
    """The index was replaced by another build while it was being opened."""


def describe_files(folder: Path, names: Iterable[str] | None = None) -> dict[str, dict]:
    """:func:`describe_file` of the named files of a folder.

    By default of all files of an index, without those that have checksums of their own or are rebuilt when needed.
    """
    if names is None:
        apart = (folder / DESCRIPTION, folder / MADE_AGAIN, folder / ENCODINGS)
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        found = (path for path in found if not any(path.is_relative_to(one) for one in apart))
        names = [path.relative_to(folder).as_posix() for path in found]
    return {name: describe_file(folder / name) for name in names}


def write_description(path: Path, described: dict, names: Iterable[str] | None = None) -> None:
    """Write the description of an index or of an addition to it, with the checksums of its files and its own."""
    described = {**described, "files": describe_files(path.parent, names)}
    described[CHECKSUM] = checksum_of(described)
    path.write_text(json.dumps(described, indent=1, ensure_ascii=False), encoding="utf-8")


@contextmanager
def reading(folder: Path, again: str) -> Iterator[None]:
    """Turns what a missing or damaged file raises in the block into an `InputError` that ends with ``again``."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} cannot be read ({error!r}); {again}") from None


def checksum_of(description: dict) -> str:
    """The checksum of a description's content, without its own checksum entry."""
    said = {name: value for name, value in description.items() if name != CHECKSUM}
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def forward_checksum(description: dict) -> str:
    """The checksum of all files of a forward index and its knowledge base, from those in an index's description."""
    return checksum_of({n: one for n, one in description["files"].items() if n.startswith(("forward/", "knowledge/"))})


def open_whole(opening: Callable[[], T]) -> T:
    """The result of ``opening``, which opens an index and parts of it; repeated if the index was replaced meanwhile.

    Raises:
        IndexReplacedError: the index was replaced during every try.
    """
    for _ in range(TRIES - 1):
        with suppress(IndexReplacedError):
            return opening()
    return opening()


class Index:
    """An index opened for reading. Opening is cheap: files are mapped on first use, and only a search starts Java.

    ``index.json`` is read again after a part was opened: if it has changed, the part may belong to another build
    (`IndexReplacedError`). Parts that are already open stay valid.

    Raises:
        InputError: the folder is missing, was not finished, is damaged, or has another format version.
    """

    def __init__(self, folder: str | Path):
        self.folder = healed(folder)
        if not self.folder.is_dir():
            raise InputError(
                f"no index at {self.folder}; build it with: python -m rerank_plugin.index --corpus C --index {folder}"
            )
        try:
            self._written = (self.folder / DESCRIPTION).read_bytes()
            self.description = json.loads(self._written)
        except FileNotFoundError:
            raise InputError(
                f"{self.folder} holds no {DESCRIPTION}: it is not an index; build one in another folder, or move this "
                "one away"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / DESCRIPTION} cannot be read ({error}); rebuild the index") from None
        if not isinstance(self.description, dict):
            raise InputError(f"{self.folder / DESCRIPTION} does not describe an index; rebuild the index")
        self._check()

    def _check(self) -> None:
        if (version := self.description.get("format_version")) != FORMAT_VERSION:
            raise InputError(
                f"{self.folder} has index format version {version}, this program reads {FORMAT_VERSION}; rebuild it"
            )
        self.tokenizer = tokenizer_of(self.description.get("tokenizer"), f"{self.folder} was")
        needed = ("files", "fields", *({KNOWLEDGE} & self.description.keys()))
        if missing := [name for name in needed if not isinstance(self.description.get(name), dict)]:
            raise InputError(f"{self.folder / DESCRIPTION} lacks {' and '.join(missing)}; rebuild the index")
        for name, expected in self.description["files"].items():
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != expected["bytes"]:
                self.check_same()
                raise InputError(
                    f"{path} {'is missing' if size is None else f'has {size} bytes'}, expected {expected['bytes']} "
                    "bytes: the index is damaged or half copied; build it again in its place"
                )

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.forward)

    def __bool__(self) -> bool:
        return True

    @property
    def generation(self) -> str | None:
        """The unique id of this build, as in ``index.json``; None for an older index without one."""
        return self.description.get(GENERATION)

    @property
    def build(self) -> str:
        """A checksum of ``index.json`` that identifies this build, also if it has no generation."""
        return blake2b(self._written, digest_size=16).hexdigest()

    def check_same(self) -> None:
        """An `IndexReplacedError` if the folder holds another build than was opened; asked after a part was opened."""
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
            opened = ForwardIndex(
                self.folder / "forward", mean_lengths, self.tokenizer, knowledge, forward_checksum(self.description)
            )
        except (OSError, ValueError):
            self.check_same()
            raise
        self.check_same()
        return opened

    @property
    def knowledge(self):
        """The `KnowledgeBase` of its concepts; None for an index without concepts."""
        return None if self.forward.knowledge is None else self.forward.knowledge.base

    @property
    def lucene_folder(self) -> Path:
        return self.folder / "lucene"

    def first_stage(self, config):
        """The first stage of a configuration (:mod:`rerank_plugin.retrieval.register`) over this index."""
        return config.open(self)
