"""The inputs of encoders of texts: queries as typed and documents as stored in Lucene, instead of words."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
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
        """Documents by rows int64 [n], in their order; an `InputError` if they are not stored. Starts Java."""
        index, reader = self._opened
        return list(index.stored_documents(reader, rows))

    @cached_property
    def _opened(self) -> tuple[Index, Any]:
        index = Index(self.index.folder)
        if "lucene" not in index.description:
            raise InputError(f"{index.folder} does not store its documents; rebuild it with: {index.rebuild}")
        return index, index.open_lucene()
