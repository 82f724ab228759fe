"""The documents and deletions of a corpus that an index takes: articles of PubMed have versions, daily files delete.

A document replaces the one of its id, unless that is a newer version of the article, or the same in all that is stored
of it: then nothing is written. A deletion removes the version that it names, or any version where it names none. A
document of unknown version, as in most formats, replaces any, is replaced by any, and is deleted by any deletion of its
id. The report says what of this an update did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.filters import PMID_VERSION
from rerank_plugin.corpora import Document
from rerank_plugin.corpora.records import DocumentStream
from rerank_plugin.indexes.building import BATCH
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.lucene_writer import stored_json

LAST = 1 << 30  # more than any version


class Held(NamedTuple):
    """What the index stores of a document, and its version; None for an unknown one."""

    raw: str
    version: int | None


class Revisions:
    """The documents of a corpus that an index takes, and the documents of the index that the corpus deletes.

    Read `current` to its end, then `withdrawn`; `close` afterwards.
    """

    def __init__(self, index: Index, documents: Iterable[Document]):
        self.index, self.documents = index, documents
        self.older: list[str] = []  # ids of documents that are left out, since the index holds a newer version
        self.deleted: list[str] = []  # ids of documents of the index that are deleted, and not added again
        self.unchanged = 0  # documents that the index holds as they are
        self.unheld = 0  # ids that are deleted without such a document in the index
        self._added: set[str] = set()  # ids that the corpus both deletes and has
        self._named_versions: dict[str, set[int | None]] = {}
        self._read = 0  # deletions among them
        self._reader: Any = None

    def current(self) -> Iterator[Document]:
        """The documents, without those that the index holds as they are, or in a newer version."""
        documents = iter(self.documents)
        while batch := list(islice(documents, BATCH)):
            named = self._named()
            held = self._held([document.id for document in batch if _version(document)])
            for document in batch:
                before = held.get(document.id)
                if before is not None and not _deletes(named, document.id, before.version):
                    if (_version(document) or LAST) < (before.version or 0):
                        self.older.append(document.id)
                        continue
                    if stored_json(document) == before.raw:
                        self.unchanged += 1
                        continue
                if document.id in named:
                    self._added.add(document.id)
                yield document

    def withdrawn(self) -> np.ndarray:
        """The rows of the index that the corpus deletes, int64 [n], without those of documents that it adds again."""
        named = self._named()
        held = self._held(list(named))
        gone = [id for id, document in held.items() if _deletes(named, id, document.version)]
        self.unheld = len(named) - len(gone)
        self.deleted = [id for id in gone if id not in self._added]
        return np.sort(self.index.forward.rows(self.deleted).astype(np.int64))

    @property
    def any(self) -> bool:
        """Whether there was anything to do but to add documents."""
        return bool(self.older or self.unchanged or self._named())

    def report(self, report: UpdateReport) -> UpdateReport:
        """The report of an update, with what was decided here."""
        withdrawn, older = tuple(self.deleted), tuple(self.older)
        return replace(report, withdrawn=withdrawn, older=older, unheld=self.unheld, unchanged=self.unchanged)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _named(self) -> dict[str, set[int | None]]:
        """The versions that the corpus deletes by id; None stands for all."""
        deletions = self.documents.deletions if isinstance(self.documents, DocumentStream) else []
        for id, version in deletions[self._read :]:
            self._named_versions.setdefault(id, set()).add(version)
        self._read = len(deletions)
        return self._named_versions

    def _held(self, ids: Sequence[str]) -> dict[str, Held]:
        """Those documents of the index that have these ids, as they are stored: to make them anew takes longer."""
        forward = self.index.forward
        rows = np.unique(forward.rows(ids)) if len(ids) else np.zeros(0, np.int64)
        if not len(rows := rows[rows >= 0]):
            return {}
        if self._reader is None:
            self._reader = self.index.open_lucene()
        fields = self._reader.storedFields()
        raws = (fields.document(number).get("raw") for number in forward.lucene_numbers[rows].tolist())
        return {id: Held(raw, json.loads(raw).get(PMID_VERSION)) for id, raw in zip(forward.ids.take(rows), raws)}


def _version(document: Document) -> int | None:
    return (document.metadata or {}).get(PMID_VERSION)


def _deletes(named: dict[str, set[int | None]], id: str, version: int | None) -> bool:
    """Whether a deletion is of a document that has this version; None is an unknown version."""
    versions = named.get(id)
    return versions is not None and (version is None or None in versions or version in versions)


NAMED = 5  # ids in a note


@dataclass(frozen=True)
class UpdateReport:
    """What an update did: documents added, deleted (replaced ones included), and in the index afterwards.

    Attributes:
        withdrawn: ids of documents that were deleted because the added corpus deletes them.
        unheld: how many ids the corpus deletes of which the index holds no such version.
        older: ids of documents of the corpus that were left out, since the index holds a newer version.
        unchanged: how many documents of the corpus the index held as they are.
    """

    added: int
    deleted: int
    documents: int
    withdrawn: Sequence[str] = ()
    unheld: int = 0
    older: Sequence[str] = ()
    unchanged: int = 0

    def notes(self) -> list[str]:
        """What else than adding an update did, in sentences; ids are examples."""
        sentences = {
            "documents deleted, as the corpus says": self.withdrawn,
            "documents left out, which are older versions than those in the index": self.older,
        }
        notes = [
            f"{len(ids):,} {sentence}: {', '.join(ids[:NAMED])}{', ...' * (len(ids) > NAMED)}"
            for sentence, ids in sentences.items()
            if ids
        ]
        numbers = {
            "documents left out, which the index holds as they are": self.unchanged,
            "deletions of documents that the index does not hold": self.unheld,
        }
        return notes + [f"{number:,} {sentence}" for sentence, number in numbers.items() if number]
