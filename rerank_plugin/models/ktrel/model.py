"""KTRel ([K] 3 and 4.2): a transformer layer over words, another one over concepts, and cosines of their sums.

Each part encodes a sequence in [K] 3's four steps: embeddings, self-attention, a position-wise feed-forward network,
and the sum over the sequence. The score is equation (1), ``a cos(q_w, d_w) + b cos(q_c, d_c)`` with a and b learned.
KTRel-W has the words alone and KTRel-C the concepts alone ([K] 4.3). All embeddings are trained ([K] 4.2), so they are
parameters: a checkpoint has them in its weights, and its word vectors are those that the training started from.

A cosine is the inner product of unit vectors. So a document's encoding is its unit vectors side by side, a query's has
a and b multiplied in, and the score is one inner product of the two: documents can be encoded once.

Letters in shapes: B batch, N document words, M query words, L items of any sequence, D dimension of an embedding,
E numbers of an encoding, V vocabulary.

Where the paper is silent:

* The layer is the encoder layer of its reference (Vaswani et al. 2017), with residual connections and normalization
  after each block, as PyTorch builds it.
* Positions are not encoded: none of the paper's four steps does it, and the up to 8 candidate concepts of one n-gram
  have no order.
* Queries and documents share a part's embeddings and layer.
* a and b start at 20, and a single part keeps its factor: the margin of the loss is 1, so where a factor is 1 nearly
  every pair violates it, and the pairs that are ranked right already outweigh the others. By Adam's default steps a
  factor grows by 1 in a thousand batches, so it should start near where it is to be.
* Of heads, feed-forward width and dropout only the grids are given; the defaults lie inside them.
* Lengths at which texts are cut: 200 and 16 words, 200 and 64 concepts.
* A concept that is mentioned again is another item of the sequence, as a word is.
* A sequence without items has the zero vector, and cosine 0 with everything.
* Concepts without pre-trained vectors start in U[-0.25, 0.25].

Concepts are the model's own numbers (:mod:`rerank_plugin.inputs.concept_reader`); an index may number its
knowledge base's otherwise.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import InputBuilder, Inputs
from rerank_plugin.inputs.concept_reader import ConceptVocabulary
from rerank_plugin.models.attribution import Attribution, ScorePart, of_cells
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ranking_model import EncodingModel, SparseEmbeddings

if TYPE_CHECKING:
    from rerank_plugin.kernels.vector_sums import VectorSums

UNTRAINED_RANGE = 0.25


class SequenceEncoder(SparseEmbeddings):
    """One part of KTRel: a sequence of ids becomes a unit vector, or several side by side by the spaces' weights.

    Args:
        vectors: what the embeddings start from, float32 [V, D]; copied, because they are trained.
        config: for heads, feed-forward width and dropout.
        fixed: whether the embeddings are ``vectors`` themselves, and no parameter.
    """

    def __init__(self, vectors: Tensor, config: KtrelConfig, fixed: bool = False):
        super().__init__()
        dimension, self.lengths = vectors.shape[1], config.lengths
        config.check_dimension(dimension)
        if fixed:
            self.register_buffer("embeddings", vectors, persistent=False)
        else:
            start = functional.normalize(vectors, dim=1) if config.unit_vectors else vectors.clone()
            self.embeddings = nn.Parameter(start)
        self.dropout, self.layer = nn.Dropout(config.embedding_dropout), None
        self.word_dropout = config.word_dropout
        if config.layers:
            self.layer = nn.TransformerEncoderLayer(
                dimension, config.heads, config.feed_forward, config.dropout, activation="relu", batch_first=True
            )
            if config.identity_start:
                for last in (self.layer.self_attn.out_proj, self.layer.linear2):
                    nn.init.zeros_(last.weight)
                    nn.init.zeros_(last.bias)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """ids int64 [B, L] and mask bool [B, L] to float [B, D]; 0 of an empty sequence.

        In each space its length is the root of the space's weight.
        """
        if self.training and self.word_dropout:
            mask = mask & (torch.rand(mask.shape, device=mask.device) >= self.word_dropout)
        if self.training and self.layer is None and not self.dropout.p:  # sums of a whole collection fit into memory
            weights = mask.to(self.embeddings.dtype)
            total = functional.embedding_bag(ids, self.embeddings, mode="sum", per_sample_weights=weights)  # [B, D]
        else:
            total = self.items(ids, mask).sum(dim=1)  # [B, D]
        spaces = zip(self.lengths, total.chunk(len(self.lengths), dim=1))
        return torch.cat([length * functional.normalize(part, dim=1) for length, part in spaces], dim=1)

    def items(self, ids: Tensor, mask: Tensor) -> Tensor:
        """What is summed over the sequence, float [B, L, D]; 0 where padded."""
        first = torch.arange(ids.shape[1], device=ids.device) == 0  # [L]
        unseen = ~(mask | (first & ~mask.any(dim=1, keepdim=True)))  # [B, L]; attention to nothing would be NaN
        items = self.dropout(functional.embedding(ids, self.embeddings, sparse=self.sparse_gradients))  # [B, L, D]
        hidden = items if self.layer is None else self.layer(items, src_key_padding_mask=unseen)  # [B, L, D]
        return hidden.masked_fill(~mask[..., None], 0.0)


class Ktrel(EncodingModel[KtrelConfig]):
    """KTRel as a module; ``forward`` takes :class:`~rerank_plugin.inputs.builder.Inputs` and returns scores [B].

    Args:
        config: the hyper-parameters.
        vectors: what the word embeddings start from, float32 [V, D], row 0 for UNK.
        concept_vectors: what the concept embeddings start from, float32 [concepts, concept_dimension].
        concept_vocabulary: the concepts in the order of those rows.
    """

    name = "ktrel"
    any_width = True  # padding is inert
    starts_from_words = True  # a training of both parts may start from a checkpoint of words alone

    def __init__(
        self,
        config: KtrelConfig,
        vectors: Tensor,
        concept_vectors: Tensor | None = None,
        concept_vocabulary: ConceptVocabulary | None = None,
    ):
        super().__init__()
        if concept_vocabulary is not None and len(concept_vocabulary) != config.concepts:
            raise InputError(f"{len(concept_vocabulary)} concepts are named, expected {config.concepts}")
        self.config, self.concept_vocabulary = config, concept_vocabulary
        self.words, self.concepts = None, None
        if config.parts != "concepts":
            self.words = SequenceEncoder(vectors, config, config.fixed_words)
            self.a = nn.Parameter(torch.tensor(float(config.factor)))
        if config.parts != "words":
            shape = (config.concepts, config.concept_dimension)
            if concept_vectors is None:
                concept_vectors = torch.empty(shape).uniform_(-UNTRAINED_RANGE, UNTRAINED_RANGE)
            if tuple(concept_vectors.shape) != shape:
                raise InputError(f"concept vectors are {list(concept_vectors.shape)}, expected {list(shape)}")
            self.concepts = SequenceEncoder(concept_vectors, config)
            self.b = nn.Parameter(torch.tensor(float(config.factor)))

    @property
    def encoding_size(self) -> int:
        """Numbers of an encoding, E: the parts' dimensions together."""
        return sum(part.embeddings.shape[1] for part in (self.words, self.concepts) if part is not None)

    def vector_sums(self, builder: InputBuilder) -> VectorSums | None:
        if self.words is None or self.concepts is not None or self.config.layers or not len(builder.model_ids):
            return None
        from rerank_plugin.kernels.vector_sums import VectorSums  # numba is slow to import

        vectors = self.words.embeddings.detach().cpu().numpy()
        return VectorSums(vectors, builder.model_ids, self.config.lengths, self.config.document_words)

    def encode_documents(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """Unit vectors of the parts side by side, float [B, E]; an `InputError` if concepts are read and not given."""
        return torch.cat([vectors for _, vectors in self._encode(ids, mask, concept_ids, concept_mask)], dim=1)

    def encode_queries(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None = None, concept_mask: Tensor | None = None
    ) -> Tensor:
        """The same with a and b multiplied in, float [B, E]: the inner product with a document's is equation (1)."""
        parts = self._encode(ids, mask, concept_ids, concept_mask)
        return torch.cat([factor * vectors for factor, vectors in parts], dim=1)

    def _encode(
        self, ids: Tensor, mask: Tensor, concept_ids: Tensor | None, concept_mask: Tensor | None
    ) -> list[tuple[Tensor, Tensor]]:
        """(factor [], vectors [B, D] as `SequenceEncoder` gives them) of each part."""
        parts = []
        if self.words is not None:
            parts.append((self.a, self.words(ids, mask)))
        if self.concepts is not None:
            if concept_ids is None or concept_mask is None:
                raise InputError(
                    f"KTRel with parts '{self.config.parts}' reads concepts, and the index holds no concepts; "
                    "use a model of words alone (ktrel-w)"
                )
            parts.append((self.b, self.concepts(concept_ids, concept_mask)))
        return parts

    @property
    def largest_score(self) -> Tensor:
        """``|a| + |b|``, times the spaces' weights, which no score exceeds; a scalar."""
        factors = [factor for name, factor in self.named_parameters(recurse=False) if name in ("a", "b")]
        return sum(self.config.space_weights) * sum(factor.abs() for factor in factors)

    def forward(self, inputs: Inputs) -> Tensor:
        queries = self.encode_queries(
            inputs.queries, inputs.query_mask, inputs.query_concepts, inputs.query_concept_mask
        )  # [B, E]
        documents = self.encode_documents(
            inputs.documents, inputs.document_mask, inputs.document_concepts, inputs.document_concept_mask
        )  # [B, E]
        return (queries * documents).sum(dim=1)  # [B]


SMALLEST_NORM = 1e-12  # torch.nn.functional.normalize's


def explain(model: Ktrel, inputs: Inputs) -> Attribution:
    """What KTRel's score of a document is made of: exact, as a cosine of sums is the sum of all pairs' inner products.

    Where there is a transformer layer, a word's or concept's vector is what the layer makes of it among its neighbours.

    A concept is a part whose value is how often the document mentions it.

    Args:
        inputs: of one document; B is 1.
    """
    cells, more = np.zeros((inputs.queries.shape[1], inputs.documents.shape[1])), dict[str, Any]()
    with torch.inference_mode():
        if model.words is not None:
            documents = (inputs.documents, inputs.document_mask)
            cells, more["matrix"] = _cells(model.words, model.a, (inputs.queries, inputs.query_mask), documents)
        if model.concepts is not None:
            more["parts"] = _concepts(model, model.concepts, inputs)
    known = (inputs.queries[0] > 0).numpy() & model.config.reads_words
    return of_cells(0.0, cells, known=known, exact=True, **more)


def _concepts(model: Ktrel, encoder: SequenceEncoder, inputs: Inputs) -> tuple[ScorePart, ...]:
    assert inputs.document_concepts is not None and model.concept_vocabulary is not None, "the model reads concepts"
    documents = (inputs.document_concepts, inputs.document_concept_mask)
    queries = (inputs.query_concepts, inputs.query_concept_mask)
    cells, _ = _cells(encoder, model.b, queries, documents)
    ids = inputs.document_concepts[inputs.document_concept_mask].tolist()
    added: Counter[int] = Counter()
    for id, contribution in zip(ids, cells.sum(axis=0).tolist()):
        added[id] += contribution
    names = model.concept_vocabulary.ids
    return tuple(ScorePart(f"concept {names[id]}", float(count), added[id]) for id, count in Counter(ids).items())


def _cells(
    encoder: SequenceEncoder, factor: Tensor, query: tuple[Tensor, Tensor], document: tuple[Tensor, Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    """What every pair of items adds to the score, and the pairs' cosines, over the spaces; float64 [M, N] each."""
    lengths = torch.tensor(encoder.lengths, dtype=torch.float64)[:, None]  # [S, 1]
    sides = [
        encoder.items(ids, mask)[0].double().cpu().unflatten(1, (len(lengths), -1)) for ids, mask in (query, document)
    ]  # [M, S, D / S], [N, S, D / S]
    sums = [items.sum(dim=0).norm(dim=1, keepdim=True).clamp_min(SMALLEST_NORM) for items in sides]  # [S, 1]
    shares = [(lengths * items / size).flatten(1) for items, size in zip(sides, sums)]
    units = [(lengths * functional.normalize(items, dim=2)).flatten(1) for items in sides]
    cells = factor.double().cpu() * (shares[0] @ shares[1].T)  # [M, N]
    return cells.numpy(), (units[0] @ units[1].T / (lengths**2).sum()).numpy()
