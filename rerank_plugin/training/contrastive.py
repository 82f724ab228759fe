"""Contrastive training of an encoder with in-batch negatives.

It is for models whose score is the inner product of two encodings (KTRel). Each batch has some documents and, for each
of them, a few queries that it is relevant for; every query is scored against every document. All judgments between
them count, not only those that were drawn. There are two losses:

* ``hinge`` is [K]'s margin loss (equation 2) of all pairs of a batch: of each query, each relevant document against
  each that is less relevant or not at all. The paper does not say which less relevant documents it trained with.
* ``softmax`` is the cross-entropy of the softmax over the documents of each query, and over the queries of each
  document, to the relevant ones in proportion to their relevance: what encoders for retrieval are trained with since
  the paper. The model says what its largest score is, and the temperature is of scores as shares of that. A share of
  this loss may be a smooth nDCG's, which looks at the top of the ranking.

Documents are much longer than queries, so batches are made from documents: an epoch encodes each document that is
relevant for a query once, with several queries of each.

Where the collection is small, a batch can have some queries and all documents of the index instead.

Letters in shapes: B documents of a batch, Q queries of a batch, E numbers of an encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import ModelQuery
from rerank_plugin.models.classes import has_inner_products
from rerank_plugin.training.config import COLLECTION, SOFTMAX
from rerank_plugin.training.objectives import pairwise_hinge, relevance_weights
from rerank_plugin.training.pairs import Pool
from rerank_plugin.training.trainer import Trainer

RANK_TEMPERATURE = 0.03  # of the smooth nDCG: differences of scores, as shares of the largest score
RANK_CUT = 10  # where the smooth nDCG ends
PIECES = 4  # a batch's documents are encoded in so many pieces of similar lengths: less padding


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
    of_all = sparse.coo_array((grades[relevant], (numbers[relevant], places)), shape=(len(pools), len(rows))).tocsc()
    of_all.sort_indices()
    return Relevances(rows, of_all)


class Batch(NamedTuple):
    """Documents int64 [B], numbers of pools int64 [Q], and grades float32 [Q, B], 0 where not relevant."""

    rows: np.ndarray
    pools: np.ndarray
    grades: np.ndarray


def batches(known: Relevances, size: int, queries_per_document: int, generator: np.random.Generator) -> Iterator[Batch]:
    """Batches of all relevant documents, in random order, with some queries of each; a batch holds a query once."""
    order = generator.permutation(len(known.rows))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        drawn = []
        for first, stop in zip(known.grades.indptr[places].tolist(), known.grades.indptr[places + 1].tolist()):
            count = min(queries_per_document, stop - first)
            drawn.append(known.grades.indices[first + generator.choice(stop - first, count, replace=False)])
        pools = np.unique(np.concatenate(drawn)).astype(np.int64)
        yield Batch(known.rows[places], pools, known.grades[:, places].tocsr()[pools].toarray())


def whole_batches(pools: Sequence[Pool], documents: int, size: int, generator: np.random.Generator) -> Iterator[Batch]:
    """Batches of ``size`` queries, in random order, each with all ``documents`` of an index."""
    order, every = generator.permutation(len(pools)), np.arange(documents)
    for start in range(0, len(order), size):
        numbers = order[start : start + size]
        grades = np.zeros((len(numbers), documents), np.float32)
        for graded, number in zip(grades, numbers.tolist()):
            graded[pools[number].rows] = pools[number].relevance
        yield Batch(every, numbers, grades)


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

    A document's smooth rank is 1 and the sum, over the others, of the sigmoid of how far they are ahead of it. Whether
    it is among the first ten is a sigmoid of that rank. See Qin, Liu and Li, A general approximation framework for
    direct optimization of information retrieval measures, Information Retrieval 13, 2010.

    Args:
        scores: float [Q, B], as shares of the largest score. grades: float [Q, B].
    """
    queries, relevant = (grades > 0).nonzero(as_tuple=True)  # [n]
    ahead = (scores[queries] - scores[queries, relevant, None]) / RANK_TEMPERATURE  # [n, B]
    ranks = torch.sigmoid(ahead).sum(dim=1) + 0.5  # [n]; the document itself counted as 1/2
    among_first = torch.sigmoid((RANK_CUT + 0.5 - ranks) * 5 / RANK_CUT)
    gains = grades[queries, relevant] * among_first / torch.log2(1 + ranks)
    reached = torch.zeros_like(scores[:, 0]).index_add(0, queries, gains)  # [Q]
    best = grades.topk(min(RANK_CUT, grades.shape[1]), dim=1).values
    ideal = (best / torch.log2(torch.arange(best.shape[1], device=best.device) + 2)).sum(dim=1)  # [Q]
    return 1 - (reached[ideal > 0] / ideal[ideal > 0]).mean()


def margin_loss(scores: Tensor, grades: Tensor, weighted: bool = False) -> Tensor:
    """Mean of ``max(0, 1 - rel(Q, D+) + rel(Q, D-))`` over all pairs of a batch ([K] equation 2), a scalar.

    It is 0 where all documents are equally relevant.

    Args:
        scores: float [Q, B]. grades: float [Q, B]; D+ has a higher one than D-.
        weighted: whether pairs are weighted by relevance ([D18] 4.2.1) or equally.
    """
    queries, better = (grades > 0).nonzero(as_tuple=True)  # [n]
    more = grades[queries] < grades[queries, better, None]  # [n, B]; D+ against which documents
    at, worse = more.nonzero(as_tuple=True)  # [pairs]
    queries, better = queries[at], better[at]
    if not len(at):
        return scores.sum() * 0.0
    weights = relevance_weights(grades[queries, better], grades[queries, worse]) if weighted else torch.ones(())
    return pairwise_hinge(scores[queries, better], scores[queries, worse], weights.to(scores))


class ContrastiveTrainer(Trainer):
    """Trains an encoder with :func:`softmax_loss` or :func:`margin_loss`; a batch is ``batch_size`` documents, or
    queries where their negatives are the whole collection.

    Raises:
        InputError: the model has no encodings.
    """

    def __init__(self, model, *arguments, **named):
        super().__init__(model, *arguments, **named)
        if not has_inner_products(model.name):
            raise InputError(
                f"{self.config.of_batches} is for models whose scores are products of encodings (ktrel), not for "
                f"{model.name}"
            )
        self.known = relevances(self.pools)

    def _batches(self, generator: np.random.Generator) -> Iterator[Batch]:
        if self.config.negatives == COLLECTION:
            return whole_batches(self.pools, len(self.builder.index), self.config.batch_size, generator)
        return batches(self.known, self.config.batch_size, self.config.queries_per_document, generator)

    def _losses(self, generator: np.random.Generator) -> Iterator[tuple[Tensor, int]]:
        for batch in self._batches(generator):
            queries = self._encode_queries([self.pools[number].words for number in batch.pools.tolist()])  # [Q, E]
            order, documents = self._encode_documents(batch.rows)  # [B, E]
            grades = torch.from_numpy(batch.grades[:, order]).to(self.device)  # [Q, B]
            yield self._loss(queries @ documents.T, grades), len(batch.rows)

    def _loss(self, scores: Tensor, grades: Tensor) -> Tensor:
        if self.config.loss != SOFTMAX:
            return margin_loss(scores, grades, self.config.weights == "sqrt")
        # Scores between -1 and 1: learned factors say how parts weigh, and not how sharp the softmax is.
        scores, grades = scores / self.model.largest_score, grades**self.config.grade_power
        loss = softmax_loss(scores, grades, self.config.temperature)
        share = self.config.ndcg_share
        return torch.lerp(loss, ndcg_loss(scores, grades), share) if share else loss

    def _encode_queries(self, words: Sequence[ModelQuery]) -> Tensor:
        """Encodings [Q, E]."""
        arrays = [[one.ids for one in words], [one.mask for one in words]]
        if words[0].concepts is not None:
            arrays += [[one.concepts for one in words], [one.concept_mask for one in words]]
        return self.model.encode_queries(*self._tensors(*map(np.stack, arrays)))

    def _encode_documents(self, rows: np.ndarray) -> tuple[np.ndarray, Tensor]:
        """Positions in ``rows`` by increasing length, int64 [B], and the encodings in that order, float [B, E]."""
        order = np.argsort(self.candidates(rows).lengths, kind="stable")
        encoded = []
        pieces = 1 if self.config.negatives == COLLECTION else PIECES  # each makes a gradient of the whole vocabulary
        for piece in np.array_split(order, min(pieces, len(order))):
            words = self.builder.documents(self.candidates(rows[piece]))
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
