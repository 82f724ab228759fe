"""Integrated gradients (Sundararajan, Taly, Yan: Axiomatic Attribution for Deep Networks, ICML 2017).

A model says with numbers from 0 to 1 how much of each of its inputs is there: *presences*. The contribution of an input
is the integral of its gradient while all presences go from 0 to 1 together, so that all contributions add up to the
difference of the two scores.

The authors sum over equal steps. But a score may change within a thousandth of the way (the logarithm of a count), so
the steps are adapted here: of every piece of the way the sum is known, which is the difference of the scores at its
ends, and pieces that miss it are divided.

In shapes S are points of the way and P presences.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution, Part, of_cells
from rerank_plugin.models.ranking_model import FixedVectorModel, StandardizedFeatures

LARGEST_ERROR = 5e-3  # of the sum of contributions, as a share of the difference of the scores
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)  # in a piece
MOST_PIECES = 1 << 11
SPLIT = 8  # parts of a piece that misses it
AT_ONCE = 256  # points of the way in one batch
Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
Model = TypeVar("Model", bound=FixedVectorModel)


def in_double(model: Model, inputs: Inputs) -> tuple[Model, Inputs]:
    """A copy of a model in double precision, with the word vectors of one batch only, and the batch for it."""
    used, places = torch.cat(
        [torch.zeros(1, dtype=torch.int64), inputs.documents.flatten(), inputs.queries.flatten()]
    ).unique(return_inverse=True)  # row 0 stays UNK's
    few = model.vectors[used.to(model.vectors.device)]
    copied = copy.deepcopy(model, {id(model.vectors): few}).double().cpu().eval()
    documents, queries = places[1:].split([inputs.documents.numel(), inputs.queries.numel()])
    return copied, inputs._replace(
        documents=documents.view_as(inputs.documents),
        queries=queries.view_as(inputs.queries),
        features=inputs.features.double(),
        query_idf=None if inputs.query_idf is None else inputs.query_idf.double(),
    )


def of_words(
    model: StandardizedFeatures,
    inputs: Inputs,
    score: Callable[[Tensor, Tensor], Tensor],
    of_word: tuple[int, ...] = (),
    **more: Any,
) -> Attribution:
    """The attribution by the words of a document, and its lexical features instead of their means in training data.

    Args:
        score: of the words' presences, float64 [S, N, *of_word], and features, float64 [S, F], the scores, float64 [S].
        of_word: shape of the presences, and so of the contributions, of one word.
        more: other attributes; the matrix is by default that of the cosines.
    """
    mean = model.feature_mean
    base, (words, features) = integrated_gradients(
        lambda words, present: score(words, mean + present * (inputs.features - mean)),
        [(inputs.documents.shape[1], *of_word), inputs.features.shape[1:]],
    )
    parts = tuple(map(Part, model.config.lexical_features, inputs.features[0].tolist(), features.tolist()))
    more.setdefault("matrix", cosine_matrix(model.vectors, inputs)[0].numpy())
    return Attribution(base, known=known_words(model, inputs), words=words, parts=parts, **more)


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
    score: Callable[..., Tensor], shapes: Sequence[tuple[int, ...]]
) -> tuple[float, list[np.ndarray]]:
    """The score without any input, and what each input adds to it: float64 arrays in the shapes of the presences.

    Their sum misses the difference of the scores by more than ``LARGEST_ERROR`` where ``MOST_PIECES`` do not do.

    Args:
        score: of presences, float64 [S, ...] for each shape, the scores, float64 [S]; continuous.
        shapes: of the presences.
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
        pieces = torch.tensor([[0.0, 1.0]], dtype=torch.float64)  # [n, 2]
        parts, errors, values = _integrals(evaluate, pieces)  # [n, P], [n], [n, 2]
        base, allowed = float(values[0, 0]), LARGEST_ERROR * abs(float(values[0, 1] - values[0, 0]))
        while float(errors.sum()) > allowed and len(pieces) < MOST_PIECES:
            bad = errors > allowed / 2 / len(pieces)
            new = _divided(pieces[bad])
            added = (*_integrals(evaluate, new)[:2], new)
            parts, errors, pieces = (torch.cat([one[~bad], more]) for one, more in zip((parts, errors, pieces), added))
    total = parts.sum(dim=0).split(sizes)
    return base, [part.view(shape).numpy() for part, shape in zip(total, shapes)]


def _divided(pieces: Tensor) -> Tensor:
    """The equal parts of pieces [n, 2]: [n * SPLIT, 2]."""
    edges = pieces[:, :1] + (pieces[:, 1:] - pieces[:, :1]) * torch.linspace(0, 1, SPLIT + 1, dtype=torch.float64)
    return torch.stack([edges[:, :-1], edges[:, 1:]], dim=2).flatten(0, 1)


def _integrals(evaluate: Evaluate, pieces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of pieces of the way: the contributions [n, P], by how much these miss the difference [n], the scores [n, 2]."""
    starts, widths = pieces[:, :1], pieces[:, 1:] - pieces[:, :1]  # [n, 1]
    places = torch.cat([pieces, starts + widths * torch.from_numpy((NODES + 1) / 2)], dim=1)  # [n, 2 + nodes]
    values, gradients = (one.unflatten(0, places.shape) for one in evaluate(places.flatten()))
    parts = (gradients[:, 2:] * torch.from_numpy(WEIGHTS / 2)[:, None]).sum(dim=1) * widths  # [n, P]
    return parts, (parts.sum(dim=1) - (values[:, 1] - values[:, 0])).abs(), values[:, :2]
