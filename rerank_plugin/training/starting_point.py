"""The initial values of a new model: concept vectors, and the weights of a checkpoint."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.concept_reader import ConceptVocabulary
from rerank_plugin.knowledge.concept_vectors import load_concept_vectors
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.checkpoint import Checkpoint, check_weights
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.models.register import checkpoint_folder, entry_of
from rerank_plugin.text.word_vectors import WordVectors


class StartingConcepts(NamedTuple):
    """The concept part of a new model; empty for a model without concepts."""

    values: dict  # hyper-parameters that follow from the vectors
    arguments: dict  # arguments of the model's constructor, beside word vectors
    source: dict  # where the vectors are from, as JSON values


def starting_concepts(
    folder: Path | None, model: str, config_class: type[ModelConfig], values: dict, index: ForwardIndex
) -> StartingConcepts:
    """The concept part of a new model with the hyper-parameters ``values``, trained on an annotated index.

    Raises:
        InputError: a model of concepts lacks a folder, a model without concepts has one, or it cannot be read.
    """
    if not config_class.reads_concepts(values):
        if folder is not None:
            raise InputError(f"the model '{model}' reads no concepts: leave out their vectors")
        return StartingConcepts({}, {}, {})
    if folder is None:
        raise InputError(
            f"the model '{model}' reads concepts: give their vectors (written by rerank-plugin embed concepts), or "
            "train ktrel-w, the model of words alone"
        )
    vectors = load_concept_vectors(folder)
    count, dimension = vectors.matrix.shape
    vocabulary = ConceptVocabulary(vectors.ids, None if index.knowledge is None else index.knowledge.settings)
    return StartingConcepts(
        {"concepts": count, "concept_dimension": dimension},
        {"concept_vectors": torch.from_numpy(vectors.matrix), "concept_vocabulary": vocabulary},
        {"concepts": str(folder), "concepts_checksum": zlib.crc32(vectors.matrix.tobytes())},
    )


def starting_folder(name: str | Path | None) -> Path | None:
    """A folder of word vectors or of a checkpoint; a name without a folder is that of a bundled model."""
    if name is None:
        return None
    return Path(name) if Path(name).is_dir() else checkpoint_folder(name)


def starting_values(model: str, folder: Path, values: dict, with_concepts: bool) -> dict:
    """The hyper-parameters of a checkpoint, overridden by ``values``.

    A model of words alone that gets concept vectors drops its hyper-parameters of concepts.

    Raises:
        InputError: the checkpoint cannot be read, or is of another model.
    """
    entry = entry_of(model)
    config = Checkpoint.open(folder, entry.load("module").name).description["config"]
    if with_concepts and not entry.load("config").reads_concepts(config):
        of_concepts = ("parts", "concepts", "concept_dimension")
        config = {name: value for name, value in config.items() if name not in of_concepts}
    return {**config, **values}


def start_from(model: RankingModel, folder: Path, vectors: WordVectors | None) -> None:
    """Load the weights of a checkpoint into a model.

    Raises:
        InputError: the checkpoint has another model, other hyper-parameters, word vectors or concepts.
    """
    checkpoint = Checkpoint.open(folder, model.name)
    start = checkpoint.module()
    if start.config.lexical_features != model.config.lexical_features:
        raise InputError(f"{folder} has other lexical features: {' '.join(start.config.lexical_features) or 'none'}")
    if vectors is not None:
        trained = checkpoint.words
        if trained.vocabulary.words != vectors.vocabulary.words or not np.array_equal(trained.matrix, vectors.matrix):
            raise InputError(f"{folder} was trained on other word vectors: give it as the word vectors, too")
    weights = start.state_dict()
    if model.starts_from_words and model.config.concepts and not start.config.concepts:
        weights = {**model.state_dict(), **weights}  # concepts keep their initial weights
    else:
        ids, expected = (side.concept_vocabulary and side.concept_vocabulary.ids for side in (start, model))
        if ids != expected:
            raise InputError(f"{folder} was trained on other concepts: give the concept vectors that it was trained on")
    check_weights(weights, model.state_dict(), str(folder))
    model.load_state_dict(weights)
