"""What a new model starts from: concept vectors, and the weights of a checkpoint."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.concept_vocabulary import ConceptVocabulary
from rerank_plugin.knowledge.concept_vectors import load_concept_vectors
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.checkpoints import check_holds, check_weights, load_checkpoint, model_classes, read_config
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.models.register import checkpoint_folder
from rerank_plugin.text import word_vectors
from rerank_plugin.text.word_vectors import WordVectors


class StartingConcepts(NamedTuple):
    """The concept part of a new model; all empty for a model that reads no concepts."""

    values: dict  # hyper-parameters that follow from the vectors
    arguments: dict  # of the model's constructor, beside word vectors
    described: dict  # the source of the vectors, as JSON values


def starting_concepts(
    folder: Path | None, model: str, config_class: type[ModelConfig], values: dict, index: ForwardIndex
) -> StartingConcepts:
    """The concept part of a new model with the hyper-parameters ``values``, which learns from an index's annotation.

    Raises:
        InputError: the model reads concepts but no folder is given, or the reverse, or the vectors cannot be read.
    """
    if not config_class.reads_concepts(values):
        if folder is not None:
            raise InputError(f"the model '{model}' reads no concepts: leave their vectors out")
        return StartingConcepts({}, {}, {})
    if folder is None:
        raise InputError(
            f"the model '{model}' reads concepts: give it their vectors (written by rerank-plugin embed concepts), "
            "or train the model of words alone, ktrel-w"
        )
    vectors = load_concept_vectors(folder)
    count, dimension = vectors.matrix.shape
    vocabulary = ConceptVocabulary(vectors.ids, None if index.knowledge is None else index.knowledge.settings)
    return StartingConcepts(
        {"concepts": count, "concept_dimension": dimension},
        {"concept_vectors": torch.from_numpy(vectors.matrix), "concept_vocabulary": vocabulary},
        {"concepts": str(folder), "concepts_checksum": zlib.crc32(vectors.matrix.tobytes())},
    )


def starting_folder(given: str | Path | None) -> Path | None:
    """A folder of word vectors or of a checkpoint, or, where there is none of that name, that of a bundled model."""
    if given is None:
        return None
    return Path(given) if Path(given).is_dir() else checkpoint_folder(given)


def starting_values(model: str, folder: Path, values: dict, with_concepts: bool) -> dict:
    """The hyper-parameters of a checkpoint, and in their place those that are given.

    A model of words alone that gets concept vectors keeps none of those that say so.

    Raises:
        InputError: the checkpoint cannot be read, or is of another model.
    """
    described, (module, config_class) = read_config(folder), model_classes(model)
    check_holds(module.name, folder, described)
    before = described["config"]
    if with_concepts and not config_class.reads_concepts(before):
        of_concepts = ("parts", "concepts", "concept_dimension")
        before = {name: value for name, value in before.items() if name not in of_concepts}
    return {**before, **values}


def start_from(model: RankingModel, folder: Path, vectors: WordVectors | None) -> None:
    """Give a model the weights of a checkpoint.

    Raises:
        InputError: it is of another model, other hyper-parameters, other word vectors or other concepts.
    """
    described = read_config(folder)
    check_holds(model.name, folder, described)
    before, _ = load_checkpoint(folder, described)
    if before.config.lexical_features != model.config.lexical_features:
        raise InputError(f"{folder} has other lexical features: {' '.join(before.config.lexical_features) or 'none'}")
    if vectors is not None:
        found = word_vectors.load(folder)
        if found.vocabulary.words != vectors.vocabulary.words or not np.array_equal(found.matrix, vectors.matrix):
            raise InputError(
                f"{folder} was trained on other word vectors than those given: give it as the word vectors, too"
            )
    weights = before.state_dict()
    if model.starts_from_words and model.config.concepts and not before.config.concepts:
        weights = {**model.state_dict(), **weights}  # the concepts start as they would without
    else:
        ids, expected = (one.concept_vocabulary and one.concept_vocabulary.ids for one in (before, model))
        if ids != expected:
            raise InputError(f"{folder} was trained with other concepts than those of the vectors given")
    check_weights(weights, model.state_dict(), str(folder))
    model.load_state_dict(weights)
