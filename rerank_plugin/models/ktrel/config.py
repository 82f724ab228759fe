"""The hyper-parameters of KTRel ([K] 4.2). Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rerank_plugin.base.errors import InputError
from rerank_plugin.models.base import ShapedConfig

PARTS = ("words", "concepts", "both")


@dataclass(frozen=True)
class KtrelConfig(ShapedConfig):
    """Hyper-parameters ([K] 4.2).

    Attributes:
        parts: words (KTRel-W), concepts (KTRel-C) or both (KTRel).
        heads: of the attention; the paper's grid is 1, 2, 5, 10.
        feed_forward: width of the feed-forward network; the grid is 50, 100, 200, 500.
        dropout: of the transformer layer; the grid is 0.1 to 0.5.
        layers: of the transformer; the paper has 1 (4.2), and 0 leaves the step out: embeddings are summed as they are.
        unit_vectors: whether all embeddings start with length 1, as vectors of rare words are shorter than others.
        identity_start: whether the layer starts as the two normalizations alone, by zero weights at the end of both its
            blocks: so it starts from what the vectors know, as a sum of them would.
        embedding_dropout: of the embeddings' numbers, before the layer.
        word_dropout: share of a sequence's items that a training step leaves out.
        factor: what a and b start at. For a loss of shares of the largest score (softmax) 1 lets their proportion move.
        space_weights: of the equal spaces that a word's vector falls into. Each has a cosine of its own, and the score
            is ``a`` times their weighted sum; an encoder that is adapted to a collection has two.
        fixed_words: whether the word embeddings are the checkpoint's word vectors as they are. Nothing trains them, and
            they may be 8-bit numbers: so a distilled encoder takes a quarter of the space.
        document_words, query_words: where longer texts are cut.
        document_concepts, query_concepts: the same for concepts, of which a mention has up to 8.
        concepts: rows of the concept embeddings; 0 for words alone.
        concept_dimension: D of a concept.
    """

    of_training = ("dropout", "embedding_dropout", "word_dropout", "unit_vectors", "identity_start", "factor")
    later = ("space_weights",)
    parts: str = "both"
    heads: int = 2
    feed_forward: int = 200
    dropout: float = 0.2
    layers: int = 1
    unit_vectors: bool = False
    identity_start: bool = False
    embedding_dropout: float = 0.0
    word_dropout: float = 0.0
    factor: float = 20.0
    space_weights: tuple[float, ...] = (1.0,)
    fixed_words: bool = False
    document_words: int = 200
    query_words: int = 16
    document_concepts: int = 200
    query_concepts: int = 64
    concepts: int = 0
    concept_dimension: int = 200
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("heads", "feed_forward", "document_concepts", "query_concepts", "concept_dimension")
        self.check("KTRel", *sizes, parts=PARTS)
        if self.layers not in (0, 1):
            raise InputError(f"KTRel has one transformer layer, or none, not {self.layers}")
        if (self.concepts < 1) == (self.parts != "words"):
            raise InputError(f"KTRel's parts '{self.parts}' and its {self.concepts} concepts contradict each other")
        object.__setattr__(self, "space_weights", tuple(map(float, self.space_weights)))
        if not self.space_weights or not all(0 < weight < math.inf for weight in self.space_weights):
            raise InputError(f"KTRel's space_weights are {self.space_weights}; each must be above 0")
        if len(self.space_weights) > 1 and self.parts != "words":
            raise InputError("only KTRel of words alone has several spaces")
        if self.fixed_words and self.unit_vectors:
            raise InputError("fixed_words leaves KTRel's word vectors as they are: unit_vectors does not go with it")

    @classmethod
    def reads_concepts(cls, values: dict) -> bool:
        return values.get("parts", cls.parts) != "words"  # a dataclass keeps its defaults as attributes of the class

    @property
    def reads_words(self) -> bool:
        return self.parts != "concepts"

    @property
    def word_vectors(self) -> str:
        return "words.embeddings" if self.reads_words else ""

    @property
    def lengths(self) -> list[float]:
        """Of an encoding in each space."""
        return [math.sqrt(weight) for weight in self.space_weights]

    def check_dimension(self, dimension: int) -> None:
        """An `InputError` unless embeddings can have this dimension."""
        if dimension % len(self.space_weights):
            raise InputError(
                f"{len(self.space_weights)} spaces do not divide the {dimension} dimensions of an embedding"
            )
        if self.layers and dimension % self.heads:
            raise InputError(f"{self.heads} attention heads do not divide the {dimension} dimensions of an embedding")

    def weight_shapes(self, words: int, dimension: int) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        parts = [("words", "a", words, dimension)] * self.reads_words
        parts += [("concepts", "b", self.concepts, self.concept_dimension)] * (self.parts != "words")
        for part, factor, rows, size in parts:
            self.check_dimension(size)
            shapes |= {factor: (), f"{part}.embeddings": (rows, size)}
            layer = {
                "self_attn.in_proj_": (3 * size, size), "self_attn.out_proj.": (size, size), "norm1.": (size,),
                "linear1.": (self.feed_forward, size), "linear2.": (size, self.feed_forward), "norm2.": (size,),
            }  # fmt: skip
            for name, weight in layer.items() if self.layers else ():
                shapes |= {f"{part}.layer.{name}weight": weight, f"{part}.layer.{name}bias": weight[:1]}
        if self.fixed_words:
            shapes.pop(self.word_vectors, None)
        return shapes


@dataclass(frozen=True)
class KtrelWConfig(KtrelConfig):
    """KTRel-W: words alone."""

    parts: str = "words"


@dataclass(frozen=True)
class KtrelCConfig(KtrelConfig):
    """KTRel-C: concepts alone."""

    parts: str = "concepts"
