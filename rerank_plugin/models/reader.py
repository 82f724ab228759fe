"""The interface of modules and checkpoints: their inputs, and their weights as arrays. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Generic

import numpy as np

from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.inputs.concept_reader import ConceptReader, ConceptVocabulary
from rerank_plugin.inputs.lexical_features import VECTOR_NAMES
from rerank_plugin.models.base import C
from rerank_plugin.text.stop_words import LEFT_OUT
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import EmbeddingTable

if TYPE_CHECKING:
    from rerank_plugin.inputs.vector_features import VectorFeatures


class Reader(Generic[C]):
    """The base of modules and checkpoints.

    Attributes:
        name: the model's name in its checkpoints.
        config: the hyper-parameters.
        matches_unknown_words: whether the model matches words by identity, also words outside its vocabulary.
        most_on_cpu: the largest batch size on a CPU; None for no limit.
        concept_vocabulary: the concepts that the model knows, in the order of their vectors; None if it reads none.
    """

    name: str
    config: C
    matches_unknown_words: bool = False
    most_on_cpu: ClassVar[int | None] = None
    concept_vocabulary: ConceptVocabulary | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights by their names in a checkpoint, and fixed word vectors; float32 [...] each."""
        raise NotImplementedError

    def stored_arrays(self) -> Mapping[str, np.ndarray | EmbeddingTable]:
        """:meth:`arrays`, but quantized word vectors as they are stored, which takes no memory."""
        return self.arrays()

    def input_builder(self, index: ForwardIndex, vocabulary: Vocabulary) -> InputBuilder:
        """The builder that turns queries and candidates of an index into the model's inputs.

        Raises:
            InputError: the index was tokenized differently, or holds no concepts that the model knows.
        """
        config = self.config
        left_out = LEFT_OUT[config.query_stopwords]
        return InputBuilder(
            index, vocabulary, config.document_words, config.query_words, config.lexical_features, left_out,
            self._concept_reader(index), config.reads_words, self._vector_features(),
        )  # fmt: skip

    def _vector_features(self) -> VectorFeatures | None:
        names = [name for name in self.config.lexical_features if name in VECTOR_NAMES]
        if not names:
            return None
        from rerank_plugin.inputs.vector_features import VectorFeatures  # here, because it imports numba

        return VectorFeatures(names, self.stored_arrays()["vectors"])

    def _concept_reader(self, index: ForwardIndex) -> ConceptReader | None:
        if not self.config.concepts:
            return None
        if self.concept_vocabulary is None:
            raise ValueError(f"the model '{self.name}' reads concepts: give it a concept_vocabulary")
        return ConceptReader(index, self.concept_vocabulary, self.config.document_concepts, self.config.query_concepts)
