"""The texts that a Lucene index stores, and documents by fields that are indexed whole."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.lucene_reader import first_with_term, indexed_fields, stored_text


class StoredTexts:
    """Reads the stored texts of an `Index`. It is thread-safe; its constructor starts Java."""

    def __init__(self, index: Any):
        self.index, self.lock, self.reader = index, Lock(), index.open_lucene()

    def stored(self, number: int) -> tuple[str | None, str | None]:
        """The stored fields ``raw`` and ``contents`` of a Lucene document."""
        with self.lock:
            return stored_text(self.reader, number)

    def document(self, row: int) -> Document | None:
        """Title and abstract of a row as indexed; None if they are not stored."""
        with self.lock, suppress(InputError):
            return next(self.index.stored_documents(self.reader, np.array([row])))
        return None

    def first_with(self, field: str, terms: tuple[str, ...]) -> int | None:
        """The first Lucene document with one of the terms in a field; None without one.

        Raises:
            InputError: no such field is indexed.
        """
        with self.lock:
            if field not in (known := indexed_fields(self.reader)):
                raise InputError(f"{self.index.folder} indexes no field '{field}'; it has {', '.join(known)}")
            numbers = (first_with_term(self.reader, field, term) for term in terms)
            return next((number for number in numbers if number is not None), None)

    def close(self) -> None:
        self.reader.close()
