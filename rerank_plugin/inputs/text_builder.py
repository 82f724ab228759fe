"""The inputs of encoders of texts: queries as typed and documents as stored in Lucene, instead of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.text.vocabulary import Vocabulary


class TextBuilder(InputBuilder):
    """Gives a model the texts of an index in a folder; ``longest`` is the model's maximum of word pieces."""

    def __init__(self, index: ForwardIndex, longest: int):
        super().__init__(index, Vocabulary([], index.tokenizer.settings), longest, longest, ())

    def query(self, terms: IndexQuery) -> ModelQuery:
        """The query; it counts as known unless it is empty."""
        return super().query(terms)._replace(known=int(bool(terms.text.strip())), cut=0)

    def stored(self, rows: np.ndarray) -> list[Document]:
        """Documents by rows int64 [n], in their order; an `InputError` if they are not stored. Starts Java.

        Deleted documents are empty.
        """
        index, reader = self._opened
        documents, live = [Document("", "", "")] * len(rows), np.flatnonzero(self.index.lucene_numbers[rows] >= 0)
        for place, document in zip(live.tolist(), index.stored_documents(reader, rows[live])):
            documents[place] = document
        return documents

    @cached_property
    def _opened(self) -> tuple[Index, Any]:
        index = self.index.owner or Index(self.index.folder)
        if "lucene" not in index.description:
            raise InputError(f"{index.folder} does not store its documents; rebuild it with: {index.rebuild}")
        return index, index.open_lucene()
