"""Checkpoints: folders with config.json, model.safetensors, vocab.txt and embeddings.safetensors, loaded strictly.

``statistics.safetensors`` holds the statistics of the training collection (:mod:`rerank_plugin.indexes.statistics`).
A model with concepts adds ``concepts.txt``, the ids of its concepts row by row. A cross-encoder has the folder
``encoder`` in place of words, with its architecture and its tokenizer.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.artifact import Artifact, has_type
from rerank_plugin.files.downloads import check_downloaded
from rerank_plugin.files.outputs import INNER, link_or_copy, replacing, replacing_folder, restore_interrupted
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.statistics import STATISTICS_FILE, CollectionStatistics
from rerank_plugin.inputs.concept_vocabulary import CONCEPTS_FILE, ConceptVocabulary
from rerank_plugin.inputs.lexical_features import frequency_fields
from rerank_plugin.models.base import ModelConfig, ShapedConfig
from rerank_plugin.models.classes import class_of, classes_of
from rerank_plugin.models.reader import StoredModel
from rerank_plugin.models.register import MODELS, entry_of
from rerank_plugin.text import word_vectors
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors

if TYPE_CHECKING:
    from rerank_plugin.models.ranking_model import RankingModel

CONFIG_FILE: str = "config.json"
WEIGHTS_FILE: str = "model.safetensors"
SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
MIXED = "files of different checkpoints are mixed; copy the checkpoint again"
WORDS = (word_vectors.VOCABULARY_FILE, word_vectors.VECTORS_FILE, word_vectors.SETTINGS_FILE)
CHECKPOINT: Artifact = Artifact(
    "a checkpoint",
    CONFIG_FILE,
    {"model": str, "config": dict[str, Any]},
    (WEIGHTS_FILE, *WORDS, CONCEPTS_FILE, "encoder/*", STATISTICS_FILE),
    optional={
        "words": int,
        "dimension": int,
        "measures": dict[str, float | None],
        "annotation": dict[str, Any] | None,
        **dict.fromkeys(("training", "distillation", "adapted"), dict[str, Any]),
    },
    editable=True,
    # Its own checksums are in the file of statistics, which may be replaced, and those of the words in words.json.
    apart=(STATISTICS_FILE, word_vectors.VOCABULARY_FILE, word_vectors.VECTORS_FILE),
    again="copy the checkpoint again, or train again",
)


def model_classes(name: str) -> tuple[type[RankingModel], type[ModelConfig]]:
    """The module class and the configuration class of a model.

    Raises:
        InputError: the model is unknown, or its package cannot be loaded.
    """
    classes = classes_of(name)
    return classes.module, classes.config


def build_config(config_class: type[ModelConfig], values: dict[str, Any], where: str) -> ModelConfig:
    """A configuration from JSON values; lists become tuples.

    Args:
        where: the beginning of error messages.

    Raises:
        InputError: a hyper-parameter is unknown or has an invalid value.
    """
    known = {field.name for field in fields(config_class)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"{where}: unknown hyper-parameters {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, hint in get_type_hints(config_class).items():
        if name in arguments and not has_type(arguments[name], hint):
            raise InputError(f"{where}: the hyper-parameter {name} is {values[name]!r}, expected {hint}")
    try:
        return config_class(**arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def save_checkpoint(
    folder: Path,
    model: RankingModel,
    vectors: WordVectors | None,
    description: dict[str, Any],
    words: Path | None = None,
    statistics: CollectionStatistics | None = None,
) -> None:
    """Write a checkpoint, atomically; an existing one is replaced.

    Args:
        model: the model whose parameters and persistent buffers are saved.
        vectors: the vocabulary and word vectors float32 [V, D]; None for a model without word
            vectors (``has_word_vectors``), which writes its other files with ``write_files``.
        description: further metadata (training data, measures, seed), as JSON values.
        words: a folder with the same word vectors, whose files are linked instead of written again.
        statistics: the statistics of the training collection.
    """
    import safetensors
    import torch
    from safetensors.torch import save_file

    concepts = model.concept_vocabulary
    if concepts is None and model.config.concepts:
        raise ValueError(f"the model '{model.name}' has {model.config.concepts} concepts without names")
    config: dict[str, Any] = {"model": model.name, "config": asdict(model.config)}
    if vectors is not None:
        rows, dimension = vectors.numbers.shape
        config |= {"tokenizer": vectors.vocabulary.tokenizer, "words": rows, "dimension": dimension}
    libraries = {library.__name__: library.__version__ for library in (torch, np, safetensors)}
    config["versions"] = {"rerank_plugin": __version__, "python": platform.python_version(), **libraries}
    if concepts is not None:
        config["annotation"] = concepts.annotation
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    with replacing_folder(folder, CHECKPOINT, overwrite=True) as writing:
        if vectors is None:
            model.write_files(writing)
        elif words is None:
            word_vectors.write(vectors, writing, {})
        else:
            for name in WORDS:
                link_or_copy(words / name, writing / name)
        if concepts is not None:
            concepts.save(writing / CONCEPTS_FILE)
        save_file(weights, writing / WEIGHTS_FILE)
        if statistics is not None:
            (writing / STATISTICS_FILE).write_bytes(_statistics_file(statistics, asdict(model.config)))
        CHECKPOINT.seal(writing, {**config, **description})


def write_statistics(folder: Path, index: ForwardIndex, overwrite: bool = False) -> Path:
    """Write the statistics of an index that a checkpoint's model reads into the checkpoint; return the file.

    Raises:
        InputError: the folder is not a checkpoint, its words were tokenized differently, or the file exists already.
    """
    config = read_config(folder)
    index.check_tokenizer(config.get("tokenizer", index.tokenizer.settings), str(folder))
    path = folder / STATISTICS_FILE
    with replacing(path, INNER, overwrite) as file:
        file.write(_statistics_file(CollectionStatistics.of_index(index), config["config"]))
    return path


def _statistics_file(statistics: CollectionStatistics, config: dict[str, Any]) -> bytes:
    """The content of the file with the statistics that a model with these hyper-parameters reads."""
    return statistics.as_file(frequency_fields(config.get("lexical_features", ())))


def read_config(folder: Path) -> dict[str, Any]:
    """A checkpoint's config.json; an `InputError` if it is missing, unreadable, or names no model."""
    check_downloaded(restore_interrupted(folder))
    return CHECKPOINT.read(folder)


def check_holds(name: str, folder: Path, described: dict[str, Any]) -> None:
    """Check that a checkpoint holds the model of this name.

    Args:
        described: the checkpoint's :func:`read_config`.

    Raises:
        InputError: it holds another model, or one with other hyper-parameters than the name requires.
    """
    model, entry = described["model"], entry_of(name)
    if model != name and getattr(MODELS.find(model), "module", None) != entry.module:
        raise InputError(f"{folder} holds the model '{model}', not '{name}'")
    for field, required in entry.requires.items():
        value = described["config"].get(field)
        if value != required:
            raise InputError(f"{folder} holds the model '{model}' with {field} {value}, not '{name}'")


def load_checkpoint(folder: Path, described: dict[str, Any] | None = None) -> tuple[RankingModel, Vocabulary]:
    """A trained model and its vocabulary.

    Args:
        described: the folder's :func:`read_config`, if it was read already.

    Returns:
        (module in eval mode, Vocabulary)

    Raises:
        InputError: a file is missing, the tokenizer differs, or a tensor is missing, unexpected or of another shape.
    """
    folder = Path(folder)
    config = described or read_config(folder)
    CHECKPOINT.check_files(folder, config)
    model_class, config_class = model_classes(config["model"])
    model_config = build_config(config_class, config["config"], str(folder / CONFIG_FILE))
    if model_class.has_word_vectors:
        model, vocabulary = _build_with_words(folder, config, model_class, model_config)
    else:
        model, vocabulary = model_class(model_config, folder), Vocabulary([])
    weights = _read_weights(folder / WEIGHTS_FILE, "torch")
    check_weights(weights, model.state_dict(), str(folder / WEIGHTS_FILE))
    model.load_state_dict(weights, strict=True)
    return model.eval(), vocabulary


def load_stored(folder: Path, described: dict[str, Any]) -> tuple[StoredModel, Vocabulary] | None:
    """:func:`load_checkpoint` without the module, with the same errors; None for a model that needs its module.

    A checkpoint that is in use is not read again until a file of it changes: a service opens the same for each index,
    for texts and for reloads.

    Imports no torch, unless the model's :class:`~rerank_plugin.models.base.ShapedConfig` does.
    """
    state = json.dumps(described, sort_keys=True, default=str), *_state(folder)
    if (model := _in_use.get(state)) is not None:
        return model, _vocabularies[model]
    if (loaded := _load_stored(folder, described)) is not None:
        _in_use[state], _vocabularies[loaded[0]] = loaded
    return loaded


_in_use: WeakValueDictionary[tuple, StoredModel] = WeakValueDictionary()  # by the state of a checkpoint's files
_vocabularies: WeakKeyDictionary[StoredModel, Vocabulary] = WeakKeyDictionary()


def _state(folder: Path) -> Iterator[tuple]:
    """Path, inode, time and size of each file that a checkpoint's model is read from."""
    files = [folder / name for name in (CONFIG_FILE, WEIGHTS_FILE, CONCEPTS_FILE, *WORDS)]
    for path in (*files, *(word_vectors.vectors_folder(folder) / name for name in WORDS)):
        if path.is_file():
            stat = path.stat()
            yield path.resolve(), stat.st_ino, stat.st_mtime_ns, stat.st_size


def _load_stored(folder: Path, described: dict[str, Any]) -> tuple[StoredModel, Vocabulary] | None:
    name, path = described["model"], folder / WEIGHTS_FILE
    CHECKPOINT.check_files(folder, described)
    config = build_config(class_of(name, "config"), described["config"], str(folder / CONFIG_FILE))
    if not isinstance(config, ShapedConfig):
        return None
    vectors, concepts = _word_vectors(folder, described), _concepts(folder, described, config)
    weights = _read_weights(path, "numpy")
    shapes = config.weight_shapes(*vectors.numbers.shape)
    check_weights(weights, {name: np.empty(shape, np.float32) for name, shape in shapes.items()}, str(path))
    if config.word_vectors:
        weights.setdefault(config.word_vectors, vectors.numbers if vectors.scales is None else vectors.table)
    return StoredModel(name, config, weights, **concepts), vectors.vocabulary


def module_of(model: StoredModel) -> RankingModel:
    """The module of a stored model, in eval mode; both share the weights."""
    module_class, _ = model_classes(model.name)  # first: its error names the extra to install if torch is missing
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in model.arrays().items()}
    concepts = {"concept_vocabulary": model.concept_vocabulary} if model.config.concepts else {}
    module = module_class(model.config, tensors.get(model.config.word_vectors, torch.zeros(0, 0)), **concepts)
    module.load_state_dict({name: tensors[name] for name in module.state_dict()}, assign=True)
    return module.eval()


def _read_weights(path: Path, framework: str) -> dict[str, Any]:
    """The tensors of a checkpoint; subnormal numbers become 0.

    Weight decay leaves subnormal weights. They do not change scores, but products with them are slow on Intel CPUs: the
    61 of a bundled model made it eight times as slow.
    """
    weights = word_vectors.read_tensors(path, framework)
    for tensor in weights.values():
        tensor[(tensor > -SMALLEST_NORMAL) & (tensor < SMALLEST_NORMAL)] = 0
    return weights


def _word_vectors(folder: Path, config: dict[str, Any]) -> WordVectors:
    """The word vectors of a checkpoint, checked against its ``config.json``."""
    vectors = word_vectors.load(folder)
    if config.get("tokenizer") != vectors.vocabulary.tokenizer:
        raise InputError(
            f"{folder}: the model was trained on texts tokenized with {config.get('tokenizer')} but the vocabulary "
            f"comes from texts tokenized with {vectors.vocabulary.tokenizer}: {MIXED}"
        )
    words, dimension = vectors.numbers.shape
    if (words, dimension) != (config.get("words"), config.get("dimension")):
        raise InputError(
            f"{folder}: the model was trained with {config.get('words')} words of {config.get('dimension')} dimensions "
            f"but the vocabulary has {words} of {dimension}: {MIXED}"
        )
    return vectors


def _build_with_words(
    folder: Path, config: dict[str, Any], model_class: type[RankingModel], model_config: ModelConfig
) -> tuple[RankingModel, Vocabulary]:
    """A checkpoint's model without its weights, and its vocabulary."""
    import torch

    vectors = _word_vectors(folder, config)
    concepts = _concepts(folder, config, model_config)
    return model_class(model_config, torch.from_numpy(vectors.matrix), **concepts), vectors.vocabulary


def _concepts(folder: Path, config: dict[str, Any], model_config: ModelConfig) -> dict[str, ConceptVocabulary]:
    """The argument ``concept_vocabulary`` of a checkpoint's model; empty if the model reads no concepts."""
    if not model_config.concepts:
        return {}
    vocabulary = ConceptVocabulary.load(folder / CONCEPTS_FILE, config.get("annotation"))
    if len(vocabulary) != model_config.concepts:
        raise InputError(
            f"{folder}: the model was trained with {model_config.concepts} concepts but {CONCEPTS_FILE} has "
            f"{len(vocabulary)}: {MIXED}"
        )
    return {"concept_vocabulary": vocabulary}


def check_weights(weights: Mapping[str, Any], expected: Mapping[str, Any], where: str) -> None:
    """Compare tensors by name, type and shape.

    Raises:
        InputError: names every tensor that is missing, unexpected, or of another type or shape.
    """
    faults = [f"missing {name}" for name in sorted(expected.keys() - weights.keys())]
    faults += [f"unexpected {name}" for name in sorted(weights.keys() - expected.keys())]
    for name in sorted(expected.keys() & weights.keys()):
        tensor, reference = weights[name], expected[name]
        if tensor.dtype != reference.dtype:
            faults.append(f"{name} is of type {tensor.dtype}, expected {reference.dtype}")
        if tensor.shape != reference.shape:
            faults.append(f"{name} is {list(tensor.shape)}, expected {list(reference.shape)}")
    if faults:
        raise InputError(f"{where} does not fit the model: {'; '.join(faults)}")
