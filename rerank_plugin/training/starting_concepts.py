"""The initial concept vectors of a model with concepts, and their concept ids."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import torch

from rerank_plugin.features.concept_vocabulary import ConceptVocabulary
from rerank_plugin.files.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.ranking_model import RankingModel


class StartingConcepts(NamedTuple):
    """The concept part of a new model; all empty for a model that reads no concepts.

    Attributes:
        values: hyper-parameters that follow from the vectors.
        arguments: constructor arguments of the model beside word vectors.
        described: the source of the vectors, as JSON values.
    """

    values: dict
    arguments: dict
    described: dict


def starting_concepts(
    folder: Path | None, model: str, config_class: type[ModelConfig], values: dict, index: ForwardIndex
) -> StartingConcepts:
    """Read the concept vectors of a new model.

    Args:
        folder: of concept vectors, or None.
        model: its name. config_class: of its configuration. values: hyper-parameters that are given.
        index: whose annotation the model learns from.

    Raises:
        InputError: the model reads concepts but no folder is given, or the reverse, or the vectors cannot be read.
    """
    if not config_class.reads_concepts(values):
        if folder is not None:
            raise InputError(f"the model '{model}' reads no concepts: leave their vectors out")
        return StartingConcepts({}, {}, {})
    if folder is None:
        raise InputError(
            f"the model '{model}' reads concepts: give it their vectors (written by rerank_plugin.embed concepts), "
            "or train the model of words alone, ktrel-w"
        )
    from rerank_plugin.knowledge.concept_vectors import load_concept_vectors

    vectors = load_concept_vectors(folder)
    count, dimension = vectors.matrix.shape
    annotation = None if index.knowledge is None else index.knowledge.settings
    return StartingConcepts(
        {"concepts": count, "concept_dimension": dimension},
        {
            "concept_vectors": torch.from_numpy(vectors.matrix),
            "concept_vocabulary": ConceptVocabulary(vectors.ids, annotation),
        },
        {"concepts": str(folder), "concepts_checksum": zlib.crc32(vectors.matrix.tobytes())},
    )


def check_same_concepts(found: RankingModel, expected: RankingModel, where: str) -> None:
    """Check that two models have the same concepts.

    Raises:
        InputError: the concepts or their order differ.
    """
    ids, expected_ids = (model.concept_vocabulary and model.concept_vocabulary.ids for model in (found, expected))
    if ids != expected_ids:
        raise InputError(f"{where} was trained with other concepts than those of the vectors given")
