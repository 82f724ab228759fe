"""Contrastive training of an encoder with in-batch negatives.

It is for models whose score is the inner product of two encodings (KTRel). A batch has some documents and, for each
document, a few queries that it is relevant for; every query is scored against every document. All judgments between
queries and documents of a batch count, not only the drawn ones. There are two losses:

* ``hinge`` is [K]'s margin loss (equation 2) of all pairs of a batch: of each query, each relevant document against
  each less relevant or non-relevant one. The paper does not say which less relevant documents it trained with.
* ``softmax`` is the cross-entropy of the softmax over the documents of each query, and over the queries of each
  document, with targets in proportion to relevance: the usual loss of retrieval encoders since the paper. The
  temperature applies to scores divided by the model's largest score. A share of this loss may be a smooth nDCG, which
  looks at the top of the ranking.

Documents are much longer than queries, so batches are made from documents: an epoch encodes each relevant document
once, with several of its queries.

For small collections, a batch can instead have some queries and all documents of the index.

Letters in shapes: B documents of a batch, Q queries of a batch, E numbers of an encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import ModelQuery
from rerank_plugin.models.ranking_model import EncodingModel, RankingModel
from rerank_plugin.models.register import entry_of
from rerank_plugin.training.config import COLLECTION, SOFTMAX
from rerank_plugin.training.objectives import pairwise_hinge, relevance_weights
from rerank_plugin.training.pairs import Pool
from rerank_plugin.training.trainer import Trainer

RANK_TEMPERATURE = 0.03  # of the smooth nDCG: differences of scores, as shares of the largest score
CUTOFF = 10  # of the smooth nDCG
PARTS = 4  # parts of similar lengths in which a batch's documents are encoded: less padding


class Relevances(NamedTuple):
    """The relevant documents of all pools."""

    rows: np.ndarray  # the documents, increasing, int64 [D]
    grades: sparse.csc_array  # their relevance by pool and document, sparse float32 [P, D]; 0 for not relevant


def relevances(pools: Sequence[Pool]) -> Relevances:
    """The relevant documents of all pools, sorted by document and then by pool."""
    numbers = np.repeat(np.arange(len(pools)), [len(pool.rows) for pool in pools])
    grades = np.concatenate([pool.relevance for pool in pools])
    relevant = grades > 0
    rows, places = np.unique(np.concatenate([pool.rows for pool in pools])[relevant], return_inverse=True)
    matrix = sparse.coo_array((grades[relevant], (numbers[relevant], places)), shape=(len(pools), len(rows))).tocsc()
    matrix.sort_indices()
    return Relevances(rows, matrix)


class Batch(NamedTuple):
    """Documents int64 [B], numbers of pools int64 [Q], and grades float32 [Q, B], 0 for non-relevant documents."""

    rows: np.ndarray
    pools: np.ndarray
    grades: np.ndarray


def batches(
    relevant: Relevances, size: int, queries_per_document: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """Batches of all relevant documents, in random order, with some queries of each; a batch holds a query once."""
    grades = relevant.grades
    order = generator.permutation(len(relevant.rows))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        drawn = []
        for first, stop in zip(grades.indptr[places].tolist(), grades.indptr[places + 1].tolist()):
            count = min(queries_per_document, stop - first)
            drawn.append(grades.indices[first + generator.choice(stop - first, count, replace=False)])
        pools = np.unique(np.concatenate(drawn)).astype(np.int64)
        yield Batch(relevant.rows[places], pools, grades[:, places].tocsr()[pools].toarray())


def whole_index_batches(
    pools: Sequence[Pool], rows: np.ndarray, size: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """Batches of ``size`` queries, in random order, each with all documents of an index: increasing rows int64 [B]."""
    order = generator.permutation(len(pools))
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        grades = np.zeros((len(numbers), len(rows)), np.float32)
        for of_query, number in zip(grades, numbers.tolist()):
            of_query[np.searchsorted(rows, pools[number].rows)] = pools[number].relevance
        yield Batch(rows, numbers, grades)


def softmax_loss(scores: Tensor, grades: Tensor, temperature: float) -> Tensor:
    """Mean of the softmax cross-entropies over documents and over queries, a scalar.

    Args:
        scores: float [Q, B], divided by the temperature.
        grades: float [Q, B], proportional to the targets; a row or a column of zeros has no loss.
    """
    scores = scores / temperature
    return (_cross_entropy(scores, grades) + _cross_entropy(scores.T, grades.T)) / 2


def _cross_entropy(scores: Tensor, grades: Tensor) -> Tensor:
    """Mean over the rows that have a grade."""
    mass = grades.sum(dim=1)  # [n]
    losses = -(functional.log_softmax(scores, dim=1) * grades).sum(dim=1) / mass.clamp_min(torch.finfo(mass.dtype).tiny)
    return losses[mass > 0].mean()


def ndcg_loss(scores: Tensor, grades: Tensor) -> Tensor:
    """Mean over the queries that have a grade of 1 - nDCG@10 by smooth ranks, with the grades as gains; a scalar.

    The smooth rank of a document is 1 plus the sum, over the other documents, of the sigmoid of their lead in score;
    its membership in the top ten is a sigmoid of that rank (Qin, Liu and Li, A general approximation framework for
    direct optimization of information retrieval measures, Information Retrieval 13, 2010).

    Args:
        scores: float [Q, B], as shares of the largest score.
        grades: float [Q, B].
    """
    queries, relevant = (grades > 0).nonzero(as_tuple=True)  # [n]
    ahead = (scores[queries] - scores[queries, relevant, None]) / RANK_TEMPERATURE  # [n, B]
    ranks = torch.sigmoid(ahead).sum(dim=1) + 0.5  # [n]; the document itself counted 1/2
    in_top = torch.sigmoid((CUTOFF + 0.5 - ranks) * 5 / CUTOFF)  # [n]
    gains = grades[queries, relevant] * in_top / torch.log2(1 + ranks)
    dcg = torch.zeros_like(scores[:, 0]).index_add(0, queries, gains)  # [Q]
    best = grades.topk(min(CUTOFF, grades.shape[1]), dim=1).values
    ideal = (best / torch.log2(torch.arange(best.shape[1], device=best.device) + 2)).sum(dim=1)  # [Q]
    return 1 - (dcg[ideal > 0] / ideal[ideal > 0]).mean()


def margin_loss(scores: Tensor, grades: Tensor, weighted: bool = False) -> Tensor:
    """Mean of ``max(0, 1 - rel(Q, D+) + rel(Q, D-))`` over all pairs of a batch ([K] equation 2), a scalar.

    It is 0 where all documents are equally relevant.

    Args:
        scores: float [Q, B].
        grades: float [Q, B]; that of D+ is higher than that of D-.
        weighted: whether pairs are weighted by relevance ([D18] 4.2.1) or equally.
    """
    queries, better = (grades > 0).nonzero(as_tuple=True)  # [n]
    is_worse = grades[queries] < grades[queries, better, None]  # [n, B]
    pairs, worse = is_worse.nonzero(as_tuple=True)  # [pairs]
    queries, better = queries[pairs], better[pairs]
    if not len(pairs):
        return scores.sum() * 0.0
    weights = relevance_weights(grades[queries, better], grades[queries, worse]) if weighted else torch.ones(())
    return pairwise_hinge(scores[queries, better], scores[queries, worse], weights.to(scores))


class ContrastiveTrainer(Trainer):
    """Trains an encoder with :func:`softmax_loss` or :func:`margin_loss`.

    A batch has ``batch_size`` documents, or as many queries if their negatives are the whole collection.

    Raises:
        InputError: the model has no encodings.
    """

    model: EncodingModel

    def __init__(self, model: RankingModel, *arguments: Any, **named: Any):
        super().__init__(model, *arguments, **named)
        if not entry_of(model.name).has_inner_products:
            raise InputError(
                f"{self.config.of_batches} is for models whose scores are products of encodings (ktrel), not for "
                f"{model.name}"
            )
        self.relevant = relevances(self.pools)

    def _batches(self, generator: np.random.Generator) -> Iterator[Batch]:
        if self.config.negatives == COLLECTION:
            return whole_index_batches(self.pools, self.builder.index.live_rows, self.config.batch_size, generator)
        return batches(self.relevant, self.config.batch_size, self.config.queries_per_document, generator)

    def _losses(self, generator: np.random.Generator) -> Iterator[tuple[Tensor, int]]:
        for batch in self._batches(generator):
            queries = self._encode_queries([self.pools[number].words for number in batch.pools.tolist()])  # [Q, E]
            order, documents = self._encode_documents(batch.rows)  # [B, E]
            grades = torch.from_numpy(batch.grades[:, order]).to(self.device)  # [Q, B]
            yield self._loss(queries @ documents.T, grades), len(batch.rows)

    def _loss(self, scores: Tensor, grades: Tensor) -> Tensor:
        if self.config.loss != SOFTMAX:
            return margin_loss(scores, grades, self.config.weights == "sqrt")
        # Scores between -1 and 1: learned factors weigh the parts without sharpening the softmax.
        scores, grades = scores / self.model.largest_score, grades**self.config.grade_power
        loss = softmax_loss(scores, grades, self.config.temperature)
        share = self.config.ndcg_share
        return torch.lerp(loss, ndcg_loss(scores, grades), share) if share else loss

    def _encode_queries(self, queries: Sequence[ModelQuery]) -> Tensor:
        """Encodings, float [Q, E]."""
        arrays = [[query.ids for query in queries], [query.mask for query in queries]]
        if queries[0].concepts is not None:
            arrays.append([query.concepts for query in queries if query.concepts is not None])
            arrays.append([query.concept_mask for query in queries if query.concept_mask is not None])
        return self.model.encode_queries(*self._tensors(*map(np.stack, arrays)))

    def _encode_documents(self, rows: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """Positions in ``rows`` by increasing length, int64 [B], and the encodings in that order, float [B, E]."""
        order = np.argsort(self.candidates(rows).lengths, kind="stable")
        encoded = []
        parts = 1 if self.config.negatives == COLLECTION else PARTS  # each has a gradient of the whole vocabulary
        for part in np.array_split(order, min(parts, len(order))):
            words = self.builder.documents(self.candidates(rows[part]))
            concepts = () if words.concepts is None else (words.concepts, words.concept_mask)
            encoded.append(self.model.encode_documents(*self._tensors(words.ids, words.mask, *concepts)))
        return order, torch.cat(encoded)

    def _tensors(self, *arrays: np.ndarray) -> list[Tensor]:
        """Ids and masks in turn, each pair cut to its longest row."""
        tensors = []
        for ids, mask in zip(arrays[::2], arrays[1::2]):
            longest = max(int(mask.sum(axis=1).max()), 1)
            tensors += [torch.from_numpy(part[:, :longest].copy()).to(self.device) for part in (ids, mask)]
        return tensors
