"""The stored documents of a Lucene index, with the interface of Pyserini's ``Document``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import folded
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.index_folder import Index


class StoredDocument:
    """A document, with the methods of Pyserini's ``Document``.

    Args:
        docid: the external id.
        raw: the stored field ``raw``, in an index of this package a JSON object; None if it is not stored.
        contents: the stored field ``contents``, likewise.
    """

    def __init__(self, docid: str, raw: str | None, contents: str | None = None):
        self._docid, self._raw, self._contents = docid, raw, contents

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The JSON object in ``raw``; empty if ``raw`` is not one."""
        try:
            value = json.loads(self._raw or "")
        except ValueError:  # other tools may store the source text
            value = None
        return value if isinstance(value, dict) else {}

    def docid(self) -> str:
        """The external id."""
        return self._docid

    def id(self) -> str:
        """The external id."""
        return self._docid

    def raw(self) -> str | None:
        """The stored field ``raw``."""
        return self._raw

    def lucene_document(self) -> StoredDocument:
        """The document itself, since its `get` reads stored fields as that of a document of Lucene does."""
        return self

    def contents(self) -> str | None:
        """Title and abstract as one text."""
        return self.fields.get("contents", self._contents)

    def get(self, field: str) -> Any:
        """The value of a field of the JSON object, or the object's text for ``raw``; None if it is missing."""
        if field in ("raw", "id"):
            return self._raw if field == "raw" else self._docid
        return self.contents() if field == "contents" else self.fields.get(field)


class StoredDocuments:
    """Reads stored documents of an index. It is thread-safe; its constructor starts Java."""

    def __init__(self, index: Index):
        self.index, self.texts = index, index.texts()

    def find(self, docid: str | int) -> StoredDocument | None:
        """The document with an external id, or as an int with the number of a Lucene document; None without one.

        Raises:
            InputError: the index does not store its documents, or the id is of another type.
        """
        forward = self.index.forward
        if isinstance(docid, str):
            row = int(forward.rows([docid])[0])
        elif isinstance(docid, (int, np.integer)) and not isinstance(docid, bool):
            row = int(forward.lucene_rows[docid]) if 0 <= docid < len(forward.lucene_rows) else -1
        else:
            raise InputError(f"a document is named by its id or by its Lucene number, not by {type(docid).__name__}")
        if not 0 <= row < len(forward):  # deleted documents have no row
            return None
        return self.read(int(forward.lucene_numbers[row]), forward.ids[row])

    def find_by_field(self, field: str, value: str) -> StoredDocument | None:
        """The first document with a value of a field that is indexed whole, such as ``journal``; None without one.

        Raises:
            InputError: as in `find`, or no such field is indexed, or the index is on a cluster.
        """
        if field == "id":
            return self.find(value)
        number = self.texts.first_with(field, (value, folded(value)))
        return None if number is None else self.find(number)

    def read(self, number: int, docid: str) -> StoredDocument:
        """The document with a Lucene document number and an id; an `InputError` if the index stores no documents."""
        raw, contents = self.texts.stored(number)
        if raw is None and contents is None:
            raise InputError(f"{self.index.folder} does not store its documents: rebuild the index")
        return StoredDocument(docid, raw, contents)

    def as_indexed(self, row: int) -> Document | None:
        """Title and abstract of a row as indexed; None if the index does not store them."""
        return self.texts.document(row)

    def close(self) -> None:
        self.texts.close()
