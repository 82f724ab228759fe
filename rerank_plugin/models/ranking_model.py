"""The base classes of all models, and the precision of their scores: single, unless the options ask for less."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from rerank_plugin.base.records import Document
from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.models.base import C, RerankerOptions
from rerank_plugin.models.reader import Reader

if TYPE_CHECKING:
    from rerank_plugin.kernels.vector_sums import VectorSums


SMALLEST_DEVIATION = 1e-6  # limits the scale of a feature that hardly varies


class RankingModel(nn.Module, Reader[C], ABC):
    """A model that scores documents for queries: ``forward`` takes :class:`Inputs` and returns scores, float [B].

    The constructor is ``Model(config, vectors)`` with word vectors float32 [V, D], row 0 for UNK; if the configuration
    has concepts, it also takes ``concept_vectors`` and ``concept_vocabulary``. The constructor of a model without word
    vectors is ``Model(config)``, or ``Model(config, folder)`` for a checkpoint, whose weights are loaded afterwards.

    Attributes:
        any_width: whether scores are independent of the padding of documents.
        by_length: whether training splits a batch into parts of documents of similar length.
        has_word_vectors: whether the constructor takes word vectors.
        starts_from_words: whether training on words and concepts may start from a checkpoint of words only.
        roles: the ``fast``, ``device`` and ``explain`` of an entry that names none.
    """

    name: str = ""
    any_width: ClassVar[bool] = False
    by_length: ClassVar[bool] = False
    has_word_vectors: ClassVar[bool] = True
    starts_from_words: ClassVar[bool] = False
    roles: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor:
        """Scores, float [B]."""

    def arrays(self) -> dict[str, np.ndarray]:
        tensors = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}

    def regularized(self) -> dict[str, list[nn.Parameter]]:
        """The weights with an L2 cost, under ``convolution`` and ``feed_forward``; by default none."""
        return {}

    def set_feature_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        """Take mean and standard deviation of the lexical features over the training data, float [F] each."""

    def write_files(self, folder: Path) -> None:
        """Write the additional checkpoint files of a model without word vectors."""

    @classmethod
    def from_folder(cls, folder: Path) -> RankingModel:
        """A ready model from a folder that is not a checkpoint (``ModelEntry.foreign``).

        Raises:
            InputError: the folder holds no such model.
        """
        raise NotImplementedError


class EncodingModel(RankingModel[C]):
    """A model that encodes documents independently of the query, so that an index can store the encodings.

    An :class:`~rerank_plugin.models.fast_paths.EncodingScorer` scores from the encodings; an
    :class:`~rerank_plugin.models.fast_paths.InnerProductScorer` if the score is their inner product.

    Attributes:
        reads_texts: whether the model reads the stored texts of documents instead of the index's words, as a
            :class:`TextEncodingModel` does.
    """

    reads_texts: ClassVar[bool] = False

    @property
    @abstractmethod
    def encoding_size(self) -> int:
        """Length of a document's encoding, E."""

    @property
    def largest_score(self) -> Tensor:
        """An upper bound of the scores, a scalar; for a model whose score is an inner product."""
        raise NotImplementedError

    def vector_sums(self, builder: InputBuilder) -> VectorSums | None:
        """The compiled sums of word vectors that encode the documents of an index faster than the module; or None."""
        return None

    @abstractmethod
    def encode_documents(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """Encodings, float [B, E], of ids int64 [B, N] with a mask bool [B, N], and likewise of concepts.

        Padding does not change them.
        """

    @abstractmethod
    def encode_queries(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """Encodings of queries, with the arguments and result of :meth:`encode_documents`."""


class TextEncodingModel(EncodingModel[C]):
    """A model that encodes unprocessed texts; it scores only from stored encodings, and is not trained.

    Attributes:
        folder: the model's folder, for messages.
    """

    reads_texts = True
    folder: Path

    @abstractmethod
    def encode_texts(self, documents: Sequence[Document]) -> np.ndarray:
        """Encodings of documents, float32 [B, E]."""

    @abstractmethod
    def encode_query(self, text: str) -> np.ndarray:
        """The encoding of a query, float32 [E]; may be called by several threads."""

    def forward(self, *_: Any, **__: Any) -> Tensor:
        raise NotImplementedError

    encode_documents = encode_queries = forward


class FixedVectorModel(RankingModel[C]):
    """A model with fixed word vectors, which are not saved with its weights, unless it has ``trained_words``.

    In training, trained vectors are a table of the batch's words alone: word ids may only look up ``vectors``.

    Args:
        config: the hyper-parameters.
        vectors: word vectors, float32 [V, D], row 0 for UNK.
    """

    def __init__(self, config: C, vectors: Tensor):
        super().__init__()
        self.config = config
        if config.trained_words:
            self.vectors = nn.Parameter(vectors.clone())
        else:
            self.register_buffer("vectors", vectors, persistent=False)


class StandardizedFeatures(FixedVectorModel[C]):
    """A model that standardizes its lexical features by statistics of the training data, saved with its weights.

    Its ``convolutions`` and its feed-forward ``layers`` have separate L2 costs ([D18] 3.4).
    """

    convolutions: nn.ModuleList
    layers: nn.ModuleList

    def __init__(self, config: C, vectors: Tensor):
        super().__init__(config, vectors)
        self.register_buffer("feature_mean", torch.zeros(len(config.lexical_features)))
        self.register_buffer("feature_scale", torch.ones(len(config.lexical_features)))

    def set_feature_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        self.feature_mean.copy_(mean)
        self.feature_scale.copy_(torch.where(deviation > 0, 1 / deviation.clamp_min(SMALLEST_DEVIATION), 1.0))

    def regularized(self) -> dict[str, list[nn.Parameter]]:
        return {
            "convolution": [layer.weight for layer in self.convolutions],
            "feed_forward": [layer.weight for layer in self.layers],
        }

    def standardized(self, features: Tensor) -> Tensor:
        """Raw features, float [B, F], at zero mean and unit variance."""
        return (features - self.feature_mean) * self.feature_scale


def linear_layers(*widths: int) -> nn.ModuleList:
    """Linear layers from each width to the next."""
    return nn.ModuleList(nn.Linear(inward, outward) for inward, outward in zip(widths, widths[1:]))


class ConvolutionSizes(Protocol):
    """The sizes of convolutions in a configuration: their number, their filters, and the words that a filter sees."""

    @property
    def convolutions(self) -> int: ...
    @property
    def filters(self) -> int: ...
    @property
    def width(self) -> int | None: ...  # an int once the configuration is created; None stands for a derived width


def convolution_layers(rows: int, config: ConvolutionSizes, padding: int) -> nn.ModuleList:
    """Convolutions of the sizes in a configuration; the first one reads [B, rows, N]."""
    widths = [rows] + [config.filters] * config.convolutions
    return nn.ModuleList(
        nn.Conv1d(inward, outward, config.width, padding=padding) for inward, outward in zip(widths, widths[1:])
    )


def masked_softmax(values: Tensor, mask: Tensor) -> Tensor:
    """The softmax of values, float [B, M], over the True positions of a mask, bool [B, M]; 0 at the others."""
    lowest = torch.finfo(values.dtype).min  # not -infinity, which makes NaN of a row that is all padding
    return values.masked_fill(~mask, lowest).softmax(dim=1) * mask


class SparseEmbeddings(nn.Module):
    """A module whose embeddings may have sparse gradients, with only the rows of the batch.

    Attributes:
        embeddings: float [V, D]. sparse_gradients: whether their gradient is sparse.
    """

    embeddings: nn.Parameter
    sparse_gradients: bool = False


HALF = ("bfloat16", "float16")


@contextmanager
def in_precision(options: RerankerOptions) -> Iterator[None]:
    """Compute in the precision of the options.

    By default, torch's convolutions on a GPU round to ten bits (TF32): scores would differ in the fourth digit.
    """
    rounds, before = options.precision == "tf32", torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if rounds else "highest")
    half = getattr(torch, options.precision) if options.precision in HALF else None
    try:
        with (
            torch.backends.cudnn.flags(enabled=True, allow_tf32=rounds),
            torch.autocast(torch.device(options.device).type, half, enabled=half is not None),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
