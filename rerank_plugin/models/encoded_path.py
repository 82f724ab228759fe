"""Rerankers that score from stored encodings of documents. Imports no torch.

Such a model is an :class:`~rerank_plugin.models.ranking_model.EncodingModel`, and its entry in the register has an
``encoder``. Encodings are valid for one set of weights, vocabularies and settings of a model and for one forward index.
If any of them differs, the encodings are not used and the module itself scores. They are 8-bit codes
(:mod:`rerank_plugin.indexes.vector_store`): scores are the module's for the vectors that the codes stand for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.checksums import remembered
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.indexes.vector_store import VectorStore, encode_command, open_store
from rerank_plugin.inputs.builder import InputBuilder, ModelQuery
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.fast_paths import EncodingScorer, FastPath, TextScorer
from rerank_plugin.models.reader import Reader
from rerank_plugin.models.register import entry_of
from rerank_plugin.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)


def weights_checksum(model: Reader, vocabulary: Vocabulary) -> str:
    """Checksum of all that a document's encoding depends on: parameters, buffers, configuration and vocabularies.

    Fields of the configuration that only training reads are left out, and fields that came later while they have their
    default: encodings that were made before keep their checksum.
    """
    config = {name: value for name, value in asdict(model.config).items() if name not in model.config.of_training}
    for name in model.config.later:
        if config[name] == getattr(type(model.config), name):
            del config[name]
    description = json.dumps([model.name, config], sort_keys=True)
    digest = partial(_weights_checksum, model, vocabulary, description)
    if isinstance(model, Checkpoint) and vocabulary is model.vocabulary and (seals := model.seals) is not None:
        return remembered(digest, "weights", __version__, description, seals)
    return digest()


def _weights_checksum(model: Reader, vocabulary: Vocabulary, description: str) -> str:
    digest = blake2b(description.encode(), digest_size=16)
    digest.update("\n".join(vocabulary.words).encode())
    if (concepts := model.concept_vocabulary) is not None:
        digest.update("\n".join(["", "concepts", *concepts.ids]).encode())
    for name, array in sorted(model.stored_arrays().items()):
        batches: Iterable[np.ndarray] = [array] if isinstance(array, np.ndarray) else array.batches()
        shape, dtype = (array.shape, array.dtype) if isinstance(array, np.ndarray) else (array.numbers.shape, "float32")
        digest.update(f"{name} torch.{dtype} {list(shape)}".encode())  # as torch names its types
        for batch in batches:
            digest.update(batch.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def encoding_scorer(model: Reader, builder: InputBuilder, threads: int) -> EncodingScorer:
    """The ``encoder`` of a model that has one."""
    return entry_of(model.name).load("encoder").open(model, builder, threads)


class EncodedDocuments(FastPath):
    """Scores candidates from stored encodings, as the module does from their words.

    Args:
        scorer: of the model's encodings.
        store: the encodings of the candidates.
    """

    gathers_words = False

    def __init__(self, scorer: EncodingScorer, store: VectorStore):
        super().__init__(scorer.config, {}, scorer.builder, scorer.threads)
        self.scorer, self.store = scorer, store

    @classmethod
    def open(cls, model: Reader, builder: InputBuilder, threads: int) -> EncodedDocuments | None:
        """The path over the encodings in the index folder; None if the model has none there, which is logged once.

        Raises:
            InputError: the encodings are damaged, or there are none of a model that reads texts.
        """
        index, scorer = builder.index, encoding_scorer(model, builder, threads)
        store = open_store(index, weights_checksum(model, builder.vocabulary), scorer.spaces)
        if store is None and isinstance(scorer, TextScorer):
            folder = scorer.model.folder
            raise InputError(
                f"{index.folder} holds no encodings by {folder}; encode it with: {encode_command(index, folder)}"
            )
        if store is None:
            _log_missing_encodings(model.name, index.folder)
            return None
        return cls(scorer, store)

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        return self.scorer.score(terms, query, candidates, self.store)


@cache
def _log_missing_encodings(name: str, folder: Path) -> None:
    log.info(
        "%s: %s holds no encodings by these weights, so every candidate is encoded anew for every query; "
        "rerank-plugin index --encode CHECKPOINT --index %s makes it fast",
        name, folder, folder,
    )  # fmt: skip
