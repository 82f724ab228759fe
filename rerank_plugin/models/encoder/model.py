"""An encoder of texts as a model: its vectors come from sentence-transformers, its scores are inner products of them.

In shapes B are texts and E the numbers of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery
from rerank_plugin.inputs.builder import ModelQuery
from rerank_plugin.inputs.text_builder import TextBuilder
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.encoder.folder import checksum_of_files, open_encoder, parts_of, reads_pairs
from rerank_plugin.models.fast_paths import TextScorer
from rerank_plugin.models.ranking_model import TextEncodingModel
from rerank_plugin.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

UNTRAINED = "an encoder of texts is used as it is, not trained here: give its folder, encoder:FOLDER"


@dataclass(frozen=True)
class EncoderConfig(ModelConfig):
    """What decides an encoder's vectors beside its weights.

    Attributes:
        files: checksum of the other files of its folder.
        pairs: whether a document is the pair of its title and its abstract, not one text.
        document_words, query_words: the word pieces that it reads of a document and of a query.
    """

    files: str = ""
    pairs: bool = False
    document_words: int = 512
    query_words: int = 512
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.files:
            raise InputError(UNTRAINED)
        self.check("an encoder")


class Encoder(TextEncodingModel[EncoderConfig]):
    """An encoder of queries and one of documents, which may be the same; see :meth:`from_folder`."""

    name = "encoder"
    has_word_vectors = False

    def __init__(
        self, config: EncoderConfig, folder: Path, queries: SentenceTransformer, articles: SentenceTransformer
    ):
        super().__init__()
        self.config, self.folder, self.queries, self.articles = config, folder, queries, articles
        self._one_at_a_time = Lock()  # a tokenizer serves one thread
        self._size = len(self.encode_query("any text"))

    @classmethod
    def from_folder(cls, folder: Path) -> Encoder:
        """
        Raises:
            InputError: as :func:`~rerank_plugin.models.encoder.folder.open_encoder`, or the two encoders of a folder
                give vectors of different sizes.
        """
        parts = parts_of(folder)
        opened = [open_encoder(part, as_medcpt=len(parts) > 1) for part in parts]
        config = EncoderConfig(
            " ".join(map(checksum_of_files, parts)),
            reads_pairs(parts[-1]),
            _longest(opened[-1], EncoderConfig.document_words),
            _longest(opened[0], EncoderConfig.query_words),
        )
        model = cls(config, folder, opened[0], opened[-1]).eval()
        if (size := model.encode_texts([Document("", "any", "text")]).shape[1]) != model.encoding_size:
            raise InputError(f"{folder}: queries get {model.encoding_size} numbers, documents {size}: they are no pair")
        return model

    @property
    def encoding_size(self) -> int:
        return self._size

    def input_builder(self, index: ForwardIndex, vocabulary: Vocabulary) -> TextBuilder:
        if index.in_memory:
            raise InputError(
                "an encoder ranks the documents of an index, by stored vectors; texts without an index can be ranked "
                "by a cross-encoder, bert:FOLDER"
            )
        return TextBuilder(index, self.config.document_words)

    def encode_texts(self, documents: Sequence[Document]) -> np.ndarray:
        texts: list = [(one.title, one.abstract) for one in documents]
        if not self.config.pairs:
            texts = [" ".join(filter(None, pair)) for pair in texts]
        return self.articles.encode_document(texts, batch_size=len(texts), show_progress_bar=False)

    def encode_query(self, text: str) -> np.ndarray:
        with self._one_at_a_time:
            return self.queries.encode_query(text, show_progress_bar=False)


class EncoderScorer(TextScorer[EncoderConfig]):
    """Encodes queries with the module, and scores candidates by their stored vectors."""

    model: Encoder

    @property
    def factors(self) -> np.ndarray:
        return np.ones(self.model.encoding_size, np.float32)

    def encode(self, terms: IndexQuery, query: ModelQuery) -> np.ndarray:
        return self.model.encode_query(terms.text)


def _longest(encoder, otherwise: int) -> int:
    """The word pieces that an encoder reads; static ones, as model2vec's, read texts of any length."""
    most = encoder.max_seq_length
    return int(most) if most and math.isfinite(most) else otherwise
