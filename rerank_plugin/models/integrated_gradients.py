"""Integrated gradients (Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017).

A model says with numbers from 0 to 1 how much of each of its inputs is there: *presences*. The contribution of an input
is the integral of its gradient while all presences go from 0 to 1 together, so that all contributions add up to the
difference of the two scores.

The authors sum over equal steps. But a score may change within a thousandth of the way (the logarithm of a count), so
the steps are adapted here: of every piece of the way the sum is known, which is the difference of the scores at its
ends, and pieces that miss it are halved.

In shapes S are points of the way and P presences.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.features.inputs import Inputs
from rerank_plugin.models.attribution import Attribution, Part, of_cells
from rerank_plugin.models.ranking_model import FixedVectorModel, StandardizedFeatures

LARGEST_ERROR = 5e-3  # of the sum of contributions, as a share of the difference of the scores
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)  # in a piece
MOST_PIECES = 1 << 11
AT_ONCE = 64  # points of the way in one batch
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=FixedVectorModel)


class Contributions(NamedTuple):
    """The score without any input, and what each input adds to it: float64 arrays in the shapes of the presences."""

    base: float
    of: list[np.ndarray]


def in_double(model: Model, inputs: Inputs) -> tuple[Model, Inputs]:
    """A copy of a model in double precision, with the word vectors of one batch only, and the batch for it."""
    used, places = torch.cat(
        [torch.zeros(1, dtype=torch.int64), inputs.documents.flatten(), inputs.queries.flatten()]
    ).unique(return_inverse=True)  # row 0 stays UNK's
    few = model.vectors[used.to(model.vectors.device)]
    copied = copy.deepcopy(model, {id(model.vectors): few}).double().cpu().eval()
    documents, queries = places[1:].split([inputs.documents.numel(), inputs.queries.numel()])
    features = inputs.features.double()
    idf = None if inputs.query_idf is None else inputs.query_idf.double()
    return copied, inputs._replace(
        documents=documents.view_as(inputs.documents),
        queries=queries.view_as(inputs.queries),
        features=features,
        query_idf=idf,
    )


def features_at(model: StandardizedFeatures, inputs: Inputs, presences: Tensor) -> Tensor:
    """Lexical features, float64 [S, F], between their means in the training data and those of one document."""
    return model.feature_mean + presences * (inputs.features - model.feature_mean)


def features_of(model: StandardizedFeatures, inputs: Inputs, contributions: np.ndarray) -> tuple[Part, ...]:
    """The lexical features of one document with their contributions, float64 [F]."""
    return tuple(map(Part, model.config.lexical_features, inputs.features[0].tolist(), contributions.tolist()))


def of_interaction(
    model: FixedVectorModel, inputs: Inputs, score: Callable[[Tensor], Tensor], matrix: Tensor, **more: Any
) -> Attribution:
    """The attribution by the cells of an interaction matrix.

    Args:
        score: of the cells' presences, float64 [S, M, N], the scores, float64 [S].
        matrix: float64 [1, M, N].
        more: other attributes.
    """
    base, (cells,) = integrated_gradients(score, [matrix.shape[1:]])
    return of_cells(base, cells, known=known_words(model, inputs), matrix=matrix[0].numpy(), **more)


def known_words(model: FixedVectorModel, inputs: Inputs) -> np.ndarray:
    """Which words of a query have a vector, or can be matched by identity, bool [M]."""
    known = inputs.queries[0] > 0
    return (known | (inputs.query_terms[0] >= 0) if model.matches_unknown_words else known).numpy()


def integrated_gradients(
    score: Callable[..., Tensor], shapes: Sequence[tuple[int, ...]], largest_error: float = LARGEST_ERROR
) -> Contributions:
    """The contributions of inputs.

    Args:
        score: of presences, float64 [S, ...] for each shape, the scores, float64 [S]; continuous.
        shapes: of the presences.
        largest_error: as a share of the difference of the scores; it is missed where ``MOST_PIECES`` do not do.
    """
    sizes = [prod(shape) for shape in shapes]

    def evaluate(places: Tensor) -> tuple[Tensor, Tensor]:
        """Scores [S] and gradients [S, P] at places of the way."""
        scores, gradients = [], []
        for some in places.split(AT_ONCE):
            flat = some[:, None].repeat(1, sum(sizes)).requires_grad_()  # [S, P]
            given = [part.unflatten(1, shape) for part, shape in zip(flat.split(sizes, dim=1), shapes)]
            found = score(*given)  # [S]
            gradients.append(torch.autograd.grad(found.sum(), flat, materialize_grads=True)[0])
            scores.append(found.detach())
        return torch.cat(scores), torch.cat(gradients)

    with torch.inference_mode(False), torch.enable_grad():
        ends = torch.tensor([0.0, 1.0], dtype=torch.float64)
        first, last = evaluate(ends)[0]
        allowed = largest_error * abs(float(last - first))
        pieces, values = ends[None], torch.stack([first, last])[None]  # [n, 2] each
        parts, errors = _integrals(evaluate, pieces, values)  # [n, P], [n]
        while float(errors.sum()) > allowed and len(pieces) < MOST_PIECES:
            halved = errors > allowed / 2 / len(pieces)
            middles = pieces[halved].mean(dim=1)
            new, between = _halves(pieces[halved], middles), _halves(values[halved], evaluate(middles)[0])
            known = (parts, errors, pieces, values)
            added = (*_integrals(evaluate, new, between), new, between)
            parts, errors, pieces, values = (torch.cat([one[~halved], more]) for one, more in zip(known, added))
    total = parts.sum(dim=0).split(sizes)
    return Contributions(float(first), [part.view(shape).numpy() for part, shape in zip(total, shapes)])


def _halves(ends: Tensor, middles: Tensor) -> Tensor:
    """Two halves of each pair of [n, 2]: [2n, 2]."""
    return torch.cat([torch.stack([ends[:, 0], middles], dim=1), torch.stack([middles, ends[:, 1]], dim=1)])


def _integrals(evaluate: Evaluate, pieces: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The contributions of pieces of the way [n, P], and by how much their sums miss the differences of values [n]."""
    starts, widths = pieces[:, :1], pieces[:, 1:] - pieces[:, :1]  # [n, 1]
    places = starts + widths * torch.from_numpy((NODES + 1) / 2)  # [n, nodes]
    gradients = evaluate(places.flatten())[1].unflatten(0, places.shape)  # [n, nodes, P]
    parts = (gradients * torch.from_numpy(WEIGHTS / 2)[:, None]).sum(dim=1) * widths  # [n, P]
    return parts, (parts.sum(dim=1) - (values[:, 1] - values[:, 0])).abs()
