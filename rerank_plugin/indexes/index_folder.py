"""The index folder: a Lucene index and a forward index of one collection, and the file that says what they are."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from rerank_plugin.files.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.text.tokenizer import tokenizer_of

FORMAT_VERSION = 1
DESCRIPTION = "index.json"


MADE_AGAIN = f"{KNOWLEDGE}/annotation"  # kept by the annotator, which makes it anew where it does not fit


def describe_files(folder: Path) -> dict[str, dict]:
    """Size and BLAKE2b checksum of every file below a folder, by its relative path; but of those made again at need."""
    described = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DESCRIPTION):
        if path.parent == folder / MADE_AGAIN:
            continue
        digest = blake2b(digest_size=16)
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        described[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "blake2b": digest.hexdigest()}
    return described


class Index:
    """An index opened for reading. Cheap: files are mapped when they are used, and Java starts only for a search.

    Raises:
        InputError: the folder is missing, was not finished, is damaged, or has another format version.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(
                f"no index at {self.folder}; build it with: python -m rerank_plugin.index --corpus C --index {folder}"
            )
        try:
            self.description = json.loads((self.folder / DESCRIPTION).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"{self.folder} holds no {DESCRIPTION}: it is not an index, or its build was interrupted; "
                "rebuild it with --overwrite"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / DESCRIPTION} cannot be read ({error}); rebuild the index") from None
        if not isinstance(self.description, dict):
            raise InputError(f"{self.folder / DESCRIPTION} does not describe an index; rebuild the index")
        self._check()

    def _check(self) -> None:
        version = self.description.get("format_version")
        if version != FORMAT_VERSION:
            raise InputError(
                f"{self.folder} has index format version {version}, this program reads {FORMAT_VERSION}; rebuild it"
            )
        self.tokenizer = tokenizer_of(self.description.get("tokenizer"), f"{self.folder} was")
        needed = ("files", "fields", *({KNOWLEDGE} & self.description.keys()))
        missing = [name for name in needed if not isinstance(self.description.get(name), dict)]
        if missing:
            raise InputError(f"{self.folder / DESCRIPTION} lacks {' and '.join(missing)}; rebuild the index")
        for name, expected in self.description["files"].items():
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != expected["bytes"]:
                raise InputError(
                    f"{path} {'is missing' if size is None else f'has {size} bytes'}, expected {expected['bytes']} "
                    "bytes: the index is damaged or half copied; rebuild it with --overwrite"
                )

    def verify(self) -> None:
        """Compare every file's checksum with the one written at build time."""
        for name, found in describe_files(self.folder).items():
            expected = self.description["files"].get(name)
            if expected and expected != found:
                raise InputError(f"{self.folder / name} does not match its checksum: rebuild the index")

    @cached_property
    def forward(self) -> ForwardIndex:
        mean_lengths = {field: numbers["mean_length"] for field, numbers in self.description["fields"].items()}
        settings = self.description.get(KNOWLEDGE)
        knowledge = None if settings is None else IndexKnowledge(self.folder / KNOWLEDGE, settings)
        return ForwardIndex(self.folder / "forward", mean_lengths, self.tokenizer, knowledge)

    @property
    def knowledge(self):
        """The :class:`~rerank_plugin.knowledge.knowledge_base.KnowledgeBase` of its concepts; None where it has none.

        Raises:
            InputError: it cannot be read.
        """
        return None if self.forward.knowledge is None else self.forward.knowledge.base

    @property
    def lucene_folder(self) -> Path:
        return self.folder / "lucene"

    def first_stage(self, config):
        """The first stage of a configuration over this index: ``search(text, depth)`` gives candidates.

        Lucene's (:class:`~rerank_plugin.retrieval.lucene.FirstStageConfig`) starts the JVM; the others
        (:mod:`~rerank_plugin.retrieval.dense`, :mod:`~rerank_plugin.retrieval.fusion`,
        :mod:`~rerank_plugin.retrieval.whole`) need none of their own.
        """
        return config.open(self)
