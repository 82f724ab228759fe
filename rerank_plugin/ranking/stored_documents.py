"""The documents that a Lucene index stores, as Pyserini's searcher gives them."""

from __future__ import annotations

import json
from threading import Lock
from typing import Any

from rerank_plugin.files.errors import InputError
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.lucene import LuceneConfig


class StoredDocument:
    """A document, with the methods of Pyserini's ``Document``.

    Args:
        docid: its external id.
        raw: a JSON object of its fields.
    """

    def __init__(self, docid: str, raw: str):
        self._docid, self._raw = docid, raw

    def docid(self) -> str:
        """The external id."""
        return self._docid

    def id(self) -> str:
        """The external id."""
        return self._docid

    def raw(self) -> str:
        """The JSON object that is stored."""
        return self._raw

    def contents(self) -> str | None:
        """Title and abstract as one text."""
        return self.get("contents")

    def get(self, field: str) -> Any:
        """The value of a field of the JSON object, or the object itself for ``raw``; None where there is none."""
        return self._raw if field == "raw" else json.loads(self._raw).get(field)


class StoredDocuments:
    """Reads documents of an index by their Lucene numbers. It is thread-safe; Java starts when it is made."""

    def __init__(self, index: Index):
        self.index, self.lucene, self.lock = index, LuceneConfig().open(index), Lock()

    def read(self, number: int, docid: str) -> StoredDocument:
        """
        Raises:
            InputError: the index does not store documents.
        """
        with self.lock:
            raw = self.lucene.reader.storedFields().document(number).get("raw")
        if raw is None:
            raise InputError(f"{self.index.folder} does not store its documents: rebuild the index")
        return StoredDocument(docid, raw)

    def close(self) -> None:
        self.lucene.close()
