"""The stored documents of a Lucene index, with the interface of Pyserini's ``Document``."""

from __future__ import annotations

import json
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.lucene_reader import stored_text


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

    def contents(self) -> str | None:
        """Title and abstract as one text."""
        return self.fields.get("contents", self._contents)

    def get(self, field: str) -> Any:
        """The value of a field of the JSON object, or the object's text for ``raw``; None if it is missing."""
        if field == "raw":
            return self._raw
        return self.contents() if field == "contents" else self.fields.get(field)


class StoredDocuments:
    """Reads stored documents of an index. It is thread-safe; its constructor starts Java."""

    def __init__(self, index: Index):
        self.index, self.lock, self.elsewhere = index, Lock(), index.forward.elsewhere
        self.reader = index.open_lucene() if self.elsewhere is None else None

    def read(self, number: int, docid: str) -> StoredDocument:
        """The document with a Lucene document number and an id; an `InputError` if the index stores no documents."""
        if self.elsewhere is not None:
            raw, contents = self.elsewhere.stored(number)
        else:
            with self.lock:
                raw, contents = stored_text(self.reader, number)
        if raw is None and contents is None:
            raise InputError(f"{self.index.folder} does not store its documents: rebuild the index")
        return StoredDocument(docid, raw, contents)

    def as_indexed(self, row: int) -> Document | None:
        """Title and abstract of a row as indexed; None if the index does not store them."""
        if self.elsewhere is not None:
            return self.elsewhere.document(row)
        with self.lock, suppress(InputError):
            return next(self.index.stored_documents(self.reader, np.array([row])))
        return None

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
