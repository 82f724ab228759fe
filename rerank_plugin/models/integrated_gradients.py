"""Integrated gradients (Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017).

A *presence* from 0 to 1 says how much of an input the model sees. The contribution of an input is the integral of its
gradient along the path on which all presences go from 0 to 1 together, so that all contributions add up to the
difference of the two scores.

The authors sum over equal steps. But a score may change within a thousandth of the path (the logarithm of a count), so
the steps are adaptive here: the contributions of an interval of the path must add up to the difference of the scores at
its ends, and intervals that miss this difference are divided.

In shapes S are points of the path and P presences.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution, ScorePart, of_cells
from rerank_plugin.models.ranking_model import FixedVectorModel, StandardizedFeatures

LARGEST_ERROR = 5e-3  # of the sum of contributions, as a share of the difference of the scores
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)  # of the quadrature within an interval
MOST_INTERVALS = 1 << 11
SPLIT = 8  # parts that an interval with too large an error is divided into
BATCH_SIZE = 256  # points of the path
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=FixedVectorModel[Any])


def in_double(model: Model, inputs: Inputs) -> tuple[Model, Inputs]:
    """A copy of a model in double precision with the word vectors of one batch only, and the batch with their ids."""
    used, ids = torch.cat(
        [torch.zeros(1, dtype=torch.int64), inputs.documents.flatten(), inputs.queries.flatten()]
    ).unique(return_inverse=True)  # row 0 stays UNK's
    vectors = model.vectors.detach()[used.to(model.vectors.device)]
    if model.config.trained_words:
        vectors = nn.Parameter(vectors, requires_grad=False)
    double = copy.deepcopy(model, {id(model.vectors): vectors}).double().cpu().eval()
    documents, queries = ids[1:].split([inputs.documents.numel(), inputs.queries.numel()])
    return double, inputs._replace(
        documents=documents.view_as(inputs.documents),
        queries=queries.view_as(inputs.queries),
        features=inputs.features.double(),
        query_idf=None if inputs.query_idf is None else inputs.query_idf.double(),
    )


def of_words(
    model: StandardizedFeatures[Any],
    inputs: Inputs,
    score: Callable[[Tensor, Tensor], Tensor],
    word_shape: tuple[int, ...] = (),
    **attributes: Any,
) -> Attribution:
    """The attribution to document words and lexical features; the baseline of a feature is its mean in training data.

    Args:
        score: computes scores, float64 [S], from the words' presences, float64 [S, N, *word_shape], and features,
            float64 [S, F].
        word_shape: shape of the presences, and so of the contributions, of one word.
        attributes: other attributes; the matrix is by default that of the cosines.
    """
    mean = model.feature_mean
    base, (words, features) = integrated_gradients(
        lambda words, present: score(words, mean + present * (inputs.features - mean)),
        [(inputs.documents.shape[1], *word_shape), inputs.features.shape[1:]],
    )
    parts = tuple(map(ScorePart, model.config.lexical_features, inputs.features[0].tolist(), features.tolist()))
    attributes.setdefault("matrix", cosine_matrix(model.vectors, inputs)[0].numpy())
    return Attribution(base, known=known_words(model, inputs), words=words, parts=parts, **attributes)


def interaction_attribution(
    model: FixedVectorModel[Any], inputs: Inputs, score: Callable[[Tensor], Tensor], matrix: Tensor, **attributes: Any
) -> Attribution:
    """The attribution to the cells of an interaction matrix.

    Args:
        score: computes scores, float64 [S], from the cells' presences, float64 [S, M, N].
        matrix: float64 [1, M, N].
        attributes: other attributes.
    """
    base, (cells,) = integrated_gradients(score, [matrix.shape[1:]])
    return of_cells(base, cells, known=known_words(model, inputs), matrix=matrix[0].numpy(), **attributes)


def known_words(model: FixedVectorModel[Any], inputs: Inputs) -> np.ndarray:
    """Which words of a query have a vector, or can be matched by identity, bool [M]."""
    known = inputs.queries[0] > 0
    if model.matches_unknown_words and inputs.query_terms is not None:
        known = known | (inputs.query_terms[0] >= 0)
    return known.numpy()


def integrated_gradients(
    score: Callable[..., Tensor], shapes: Sequence[tuple[int, ...]]
) -> tuple[float, list[np.ndarray]]:
    """The score without any input, and the contribution of each input: float64 arrays in the shapes of the presences.

    Their sum misses the difference of the scores by more than ``LARGEST_ERROR`` if ``MOST_INTERVALS`` are not enough.

    Args:
        score: a continuous function that computes scores, float64 [S], from presences, float64 [S, ...] for each shape.
        shapes: the shapes of the presences.
    """
    sizes = [prod(shape) for shape in shapes]

    def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
        """Scores [S] and gradients [S, P] at points of the path."""
        scores, gradients = [], []
        for batch in points.split(BATCH_SIZE):
            flat = batch[:, None].repeat(1, sum(sizes)).requires_grad_()  # [S, P]
            presences = [part.unflatten(1, shape) for part, shape in zip(flat.split(sizes, dim=1), shapes)]
            values = score(*presences)  # [S]
            gradients.append(torch.autograd.grad(values.sum(), flat, materialize_grads=True)[0])
            scores.append(values.detach())
        return torch.cat(scores), torch.cat(gradients)

    with torch.inference_mode(False), torch.enable_grad():
        intervals = torch.tensor([[0.0, 1.0]], dtype=torch.float64)  # [n, 2]
        contributions, errors, scores = _integrals(evaluate, intervals)  # [n, P], [n], [n, 2]
        base, allowed = float(scores[0, 0]), LARGEST_ERROR * abs(float(scores[0, 1] - scores[0, 0]))
        while float(errors.sum()) > allowed and len(intervals) < MOST_INTERVALS:
            bad = errors > allowed / 2 / len(intervals)
            parts = _divided(intervals[bad])
            replacements = (*_integrals(evaluate, parts)[:2], parts)
            contributions, errors, intervals = (
                torch.cat([rows[~bad], new_rows])
                for rows, new_rows in zip((contributions, errors, intervals), replacements)
            )
    total = contributions.sum(dim=0).split(sizes)
    return base, [part.view(shape).numpy() for part, shape in zip(total, shapes)]


def _divided(intervals: Tensor) -> Tensor:
    """The equal parts of intervals [n, 2]: [n * SPLIT, 2]."""
    edges = intervals[:, :1] + (intervals[:, 1:] - intervals[:, :1]) * torch.linspace(
        0, 1, SPLIT + 1, dtype=torch.float64
    )
    return torch.stack([edges[:, :-1], edges[:, 1:]], dim=2).flatten(0, 1)


def _integrals(evaluate: Evaluate, intervals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Contributions [n, P] of intervals of the path, their errors [n], and the scores at their ends [n, 2]."""
    starts, widths = intervals[:, :1], intervals[:, 1:] - intervals[:, :1]  # [n, 1]
    points = torch.cat([intervals, starts + widths * torch.from_numpy((NODES + 1) / 2)], dim=1)  # [n, 2 + nodes]
    scores, gradients = (values.unflatten(0, points.shape) for values in evaluate(points.flatten()))
    contributions = (gradients[:, 2:] * torch.from_numpy(WEIGHTS / 2)[:, None]).sum(dim=1) * widths  # [n, P]
    errors = (contributions.sum(dim=1) - (scores[:, 1] - scores[:, 0])).abs()  # [n]
    return contributions, errors, scores[:, :2]
