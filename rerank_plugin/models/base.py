"""The runtime options, training recipes and configurations of models. Imports neither torch nor numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import check_bounds, setting

PRECISIONS = ("float32", "tf32", "bfloat16", "float16")


@dataclass(frozen=True)
class RerankerOptions:
    """Runtime options of a reranker.

    Attributes:
        device: torch device.
        batch_size: number of candidates scored at once; by default 1,024, or 32,768 on a device's own path.
        fast: whether to score on the model's fast path for the device, if it has one; otherwise the module scores.
        threads: number of threads of the compiled fast paths; by default ``OMP_NUM_THREADS``, or all cores.
        precision: ``float32``, or for GPUs ``tf32``, whose products are rounded to ten bits by tensor cores, and
            ``bfloat16`` or ``float16``, under torch's autocast. Scores change in the third digit. On a CPU that
            multiplies in it, ``bfloat16`` makes cross-encoders faster; models with a fast path there lose it.
        compile: whether torch compiles the module, with CUDA graphs on a GPU. It takes half a minute; it pays off for
            many queries that arrive one by one.
    """

    device: str = setting("cpu", "torch device of a neural reranker: cpu, cuda, cuda:1, mps")
    batch_size: int | None = setting(
        None,
        "candidates that a neural reranker scores at once (default: 1024; on a GPU, where it can, 32768)",
        type=int,
        ge=1,
    )
    fast: bool = True
    threads: int | None = None
    precision: str = setting(
        "float32", "precision of a neural reranker: float32; on a GPU tf32, bfloat16 or float16; on a CPU bfloat16"
    )
    compile: bool = setting(
        False, "compile a neural reranker with torch (CUDA graphs on a GPU); takes half a minute at the start"
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.threads is not None and self.threads < 1:
            raise InputError(f"the number of threads {self.threads} must be at least 1")
        if self.precision not in PRECISIONS:
            raise InputError(f"unknown precision '{self.precision}'; known: {', '.join(PRECISIONS)}")

    @property
    def on_fast_path(self) -> bool:
        """Whether a model that has a fast path on the CPU scores without its module."""
        return self.fast and self.device == "cpu" and self.precision == "float32" and not self.compile


@dataclass(frozen=True)
class Recipe:
    """The training settings of a model's paper that differ from those of Delta ([D18] 3.4), which are the defaults.

    Attributes:
        training: fields of the training configuration.
        measures: validation measures; the first one selects the epoch.
        documents: source of the documents of training pairs, ``candidates`` or ``collection``.
        summary: these settings in one line, for the help of the train command.
    """

    training: dict[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = ("nDCG@20", "AP")
    documents: str = "candidates"
    summary: str = "weighted hinge loss, balanced pairs, batches of 256, Adagrad, best epoch by nDCG@20"


class ModelConfig:
    """The base of all configurations, which are frozen dataclasses.

    A subclass has at least the fields ``document_words``, ``query_words`` and ``lexical_features``. The other
    attributes are fields only of the models that need them; the other models use the values here.

    Attributes:
        document_words, query_words: N and M, the longest texts; longer ones are cut.
        lexical_features: names from :mod:`rerank_plugin.inputs.lexical_features`.
        query_stopwords: ``keep``, or ``remove`` to leave stop-words out of queries.
        concepts: number of concept vectors.
        concept_dimension: dimension of a concept vector.
        document_concepts, query_concepts: the longest lists of concepts; longer ones are cut.
        trained_words: whether training changes the word vectors, too, which are then among the weights.
        of_training: names of the fields that only training reads; they do not change the encodings of documents.
        later: names of the fields that were added later; at their defaults they do not change a checksum.
        reads_words: whether the model reads words.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every subclass is a dataclass
    of_training: ClassVar[tuple[str, ...]] = ()
    later: ClassVar[tuple[str, ...]] = ()
    document_words: int
    query_words: int
    lexical_features: tuple[str, ...]
    query_stopwords: str = "keep"
    concepts: int = 0
    concept_dimension: int = 0
    document_concepts: int = 0
    query_concepts: int = 0
    trained_words: bool = False

    @property
    def reads_words(self) -> bool:
        return True

    def check(self, model: str, *sizes: str, takes_features: bool = False, **known: tuple[str, ...]) -> None:
        """Check the fields that most models have; called by ``__post_init__``. Sizes that are lists become tuples.

        Args:
            model: the model's name in messages.
            sizes: fields beside ``document_words`` and ``query_words`` that must be, or hold, numbers of at least 1.
            takes_features: whether the model takes lexical features.
            known: the allowed values by field.

        Raises:
            InputError: a size is below 1, a value is unknown, a dropout is not in [0, 1), or a lexical feature is
                unknown, named twice or not taken.
        """
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise InputError(f"unknown {name} '{getattr(self, name)}'; known: {', '.join(values)}")
        for name in ("document_words", "query_words", *sizes):
            value = getattr(self, name)
            if isinstance(value, list | tuple):
                object.__setattr__(self, name, tuple(value))
            if min(value if isinstance(value, list | tuple) else [value], default=1) < 1:
                raise InputError(f"{model}'s {name} is {value}; it must be at least 1")
        for name in (member.name for member in fields(self) if member.name.endswith("dropout")):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)} is not in [0, 1)")
        if takes_features:
            from rerank_plugin.inputs.lexical_features import check_names  # here, because it loads numpy

            object.__setattr__(self, "lexical_features", check_names(self.lexical_features))
        elif self.lexical_features:
            raise InputError(f"{model} takes no lexical features, but was given {', '.join(self.lexical_features)}")

    @classmethod
    def reads_concepts(cls, values: dict[str, Any]) -> bool:
        """Whether a model with these hyper-parameters reads concepts and takes concept vectors."""
        return False


class ShapedConfig(ModelConfig, ABC):
    """The base of configurations that declare the shapes of their model's weights.

    Their checkpoints are checked, and scored on a fast path or from encodings, without the module; torch is imported
    only if the fast path or the encoding scorer imports it.

    Attributes:
        word_vectors: name of the word vectors, or of the embeddings that start from them, in
            :meth:`~rerank_plugin.models.reader.Reader.arrays`; empty if the model has none.
    """

    @property
    def word_vectors(self) -> str:
        return "vectors"

    @abstractmethod
    def weight_shapes(self, words: int, dimension: int) -> dict[str, tuple[int, ...]]:
        """The shapes of a checkpoint's weights by name, with word vectors [words, dimension].

        Raises:
            InputError: the model does not allow word vectors of this dimension.
        """


C = TypeVar("C", bound=ModelConfig)
