"""Checkpoints: folders with config.json, model.safetensors, vocab.txt and embeddings.safetensors, read strictly.

:meth:`Checkpoint.open` reads ``config.json``; what else a folder holds is read, and checked, when it is asked for.
``statistics.safetensors`` holds the statistics of the training collection
(:mod:`rerank_plugin.indexes.collection_statistics`). A model with concepts adds ``concepts.txt``, the ids of its
concepts row by row. A cross-encoder has the folder ``encoder`` in place of words, with its architecture and its
tokenizer.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints
from weakref import WeakValueDictionary

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.artifact import Artifact, has_type
from rerank_plugin.files.checksums import SEAL
from rerank_plugin.files.outputs import INNER, link_or_copy, replacing, replacing_folder
from rerank_plugin.indexes.collection_statistics import STATISTICS_FILE, CollectionStatistics
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.concept_reader import CONCEPTS_FILE, ConceptVocabulary
from rerank_plugin.inputs.lexical_features import frequency_fields
from rerank_plugin.models.base import ModelConfig, ShapedConfig
from rerank_plugin.models.reader import Reader
from rerank_plugin.models.register import MODELS, entry_of
from rerank_plugin.text import word_vectors
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import EmbeddingTable, WordVectors

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
    shared=True,
    # Its own checksums are in the file of statistics, which may be replaced, and those of the words in words.json.
    apart=(STATISTICS_FILE, word_vectors.VOCABULARY_FILE, word_vectors.VECTORS_FILE),
    again="copy the checkpoint again, or train again",
)


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
    description = Checkpoint.open(folder).description
    index.check_tokenizer(description.get("tokenizer", index.tokenizer.settings), str(folder))
    path = folder / STATISTICS_FILE
    with replacing(path, INNER, overwrite) as file:
        file.write(_statistics_file(CollectionStatistics.of_index(index), description["config"]))
    return path


def _statistics_file(statistics: CollectionStatistics, config: dict[str, Any]) -> bytes:
    """The content of the file with the statistics that a model with these hyper-parameters reads."""
    return statistics.as_file(frequency_fields(config.get("lexical_features", ())))


class Checkpoint(Reader[Any]):
    """A trained model in a folder. A model that has a :class:`ShapedConfig` is scored by its arrays, without torch.

    Every attribute and method raises an `InputError` of one line that names the file which is missing, has changed, or
    does not fit the others.

    Attributes:
        folder: the folder.
        description: its ``config.json``.
        name: the model's name.
    """

    training: ClassVar[bool] = False

    def __init__(self, folder: Path, description: dict[str, Any]):
        self.folder, self.description, self.name = folder, description, description["model"]

    @classmethod
    def open(cls, folder: str | Path, name: str | None = None) -> Checkpoint:
        """The checkpoint of a folder.

        One that is in use is not read again until a file of it changes: a service opens the same for each index, for
        texts and for reloads.

        Args:
            name: of the model that it must hold.

        Raises:
            InputError: the folder is no checkpoint, is not downloaded completely, or holds another model, or one with
                other hyper-parameters than the name requires.
        """
        checkpoint = cls(Path(folder), CHECKPOINT.read(folder))
        if name is not None:
            checkpoint._check_holds(name)
        return _in_use.setdefault(checkpoint._state(), checkpoint)

    def _check_holds(self, name: str) -> None:
        entry = entry_of(name)
        if self.name != name and getattr(MODELS.find(self.name), "module", None) != entry.module:
            raise InputError(f"{self.folder} holds the model '{self.name}', not '{name}'")
        for field, required in entry.requires.items():
            value = self.description["config"].get(field)
            if value != required:
                raise InputError(f"{self.folder} holds the model '{self.name}' with {field} {value}, not '{name}'")

    def _state(self) -> tuple:
        """The description, and path, inode, time and size of each file; the folder, if that is no path everywhere."""
        files = [path for pattern in (CONFIG_FILE, *CHECKPOINT.files) for path in sorted(self.folder.glob(pattern))]
        if self.has_words and (source := word_vectors.vectors_folder(self.folder)) != self.folder:
            files += [path for name in WORDS if (path := source / name).exists()]
        states = [(path.resolve(), path.stat()) for path in files]
        description = json.dumps(self.description, sort_keys=True, default=str)
        named = None if self.folder.is_absolute() else (self.folder, Path.cwd())
        return named, description, *((path, stat.st_ino, stat.st_mtime_ns, stat.st_size) for path, stat in states)

    @property
    def has_words(self) -> bool:
        """Whether it has word vectors."""
        return (self.folder / word_vectors.SETTINGS_FILE).is_file()

    @property
    def has_arrays(self) -> bool:
        """Whether the model is scored without its module."""
        return isinstance(self.config, ShapedConfig)

    @cached_property
    def config(self) -> Any:
        """The hyper-parameters, a :class:`ModelConfig`."""
        config_class = entry_of(self.name).load("config")
        return build_config(config_class, self.description["config"], str(self.folder / CONFIG_FILE))

    @cached_property
    def words(self) -> WordVectors:
        """The word vectors; of a trained embedding those that it started from."""
        description, vectors = self.description, word_vectors.load(self.folder)
        if description.get("tokenizer") != vectors.vocabulary.tokenizer:
            raise InputError(
                f"{self.folder}: the model was trained on texts tokenized with {description.get('tokenizer')} but the "
                f"vocabulary comes from texts tokenized with {vectors.vocabulary.tokenizer}: {MIXED}"
            )
        words, dimension = vectors.numbers.shape
        if (words, dimension) != (description.get("words"), description.get("dimension")):
            raise InputError(
                f"{self.folder}: the model was trained with {description.get('words')} words of "
                f"{description.get('dimension')} dimensions but the vocabulary has {words} of {dimension}: {MIXED}"
            )
        return vectors

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary; empty of a model without word vectors."""
        return self.words.vocabulary if self.has_words or self.has_arrays else Vocabulary([])

    @cached_property
    def concept_vocabulary(self) -> ConceptVocabulary | None:  # type: ignore[override]  # read when first asked for
        """The concepts in the order of their vectors; None if the model reads none."""
        if not self.config.concepts:
            return None
        vocabulary = ConceptVocabulary.load(self.folder / CONCEPTS_FILE, self.description.get("annotation"))
        if len(vocabulary) != self.config.concepts:
            raise InputError(
                f"{self.folder}: the model was trained with {self.config.concepts} concepts but {CONCEPTS_FILE} has "
                f"{len(vocabulary)}: {MIXED}"
            )
        return vocabulary

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The tensors by name, float32 [...] each; of a :class:`ShapedConfig` those that it declares."""
        path, config = self.folder / WEIGHTS_FILE, self.config
        shapes = config.weight_shapes(*self.words.numbers.shape) if isinstance(config, ShapedConfig) else None
        weights = _read_weights(path)
        if shapes is not None:
            check_weights(weights, {name: np.empty(shape, np.float32) for name, shape in shapes.items()}, str(path))
        return weights

    @property
    def statistics(self) -> CollectionStatistics:
        """The statistics of the training collection."""
        return CollectionStatistics.load(self.folder)

    @property
    def seals(self) -> list[str] | None:
        """The checksums of all that :meth:`read` reads; None if a description was written without one."""
        description = self.description, word_vectors.WORD_VECTORS.read(word_vectors.vectors_folder(self.folder))
        return [one[SEAL] for one in description] if all(SEAL in one for one in description) else None

    def verify(self) -> None:
        """Compare its files, apart from word vectors and statistics, with their checksums."""
        CHECKPOINT.check_files(self.folder, self.description)

    def read(self) -> Checkpoint:
        """Verify and read everything that scores depend on, now; returns the checkpoint."""
        self.verify()
        self.vocabulary, self.concept_vocabulary, self.weights  # noqa: B018 (they are kept)
        return self

    def module(self) -> RankingModel:
        """A new module with the weights, in eval mode."""
        self.verify()
        module_class, config = entry_of(self.name).load("module"), self.config
        import torch  # after the module: its error names the extra to install if torch is missing

        if module_class.has_word_vectors:
            concepts = {"concept_vocabulary": self.concept_vocabulary} if config.concepts else {}
            model = module_class(config, torch.from_numpy(self.words.matrix), **concepts)
        else:
            model = module_class(config, self.folder)
        weights = {name: torch.from_numpy(array) for name, array in self.weights.items()}
        check_weights(weights, model.state_dict(), str(self.folder / WEIGHTS_FILE))
        model.load_state_dict(weights, strict=True)
        return model.eval()

    def stored_arrays(self) -> Mapping[str, np.ndarray | EmbeddingTable]:
        words, name = self.words, self.config.word_vectors
        vectors = {name: words.numbers if words.scales is None else words.table} if name else {}
        return {**vectors, **self.weights}

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            name: array.decoded() if isinstance(array, EmbeddingTable) else array
            for name, array in self.stored_arrays().items()
        }


_in_use: WeakValueDictionary[tuple, Checkpoint] = WeakValueDictionary()  # by the state of its files


def _read_weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint; subnormal numbers become 0.

    Weight decay leaves subnormal weights. They do not change scores, but products with them are slow on Intel CPUs: the
    61 of a bundled model made it eight times as slow.
    """
    weights = word_vectors.read_tensors(path)
    for tensor in weights.values():
        tensor[(tensor > -SMALLEST_NORMAL) & (tensor < SMALLEST_NORMAL)] = 0
    return weights


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
