"""Relevance levels from clicks: the formulas of both papers.

With c clicks to a document's summary page, f clicks to its full text, and m = 1 if the full text is missing, else 0:

    [D17] appendix A   level = mu c + (1 - mu) f + 1/lambda m c                mu = 0.33, lambda = 15
    [D18] 4.1          c_w = (mu + m lambda) c + (1 - mu) f                    mu = 0.333, lambda = 0.067
                       rel = c_w / (sum of c_w over the query's documents)
                       level = 1 + 99 rel, or 0 where rel = 0

Both reward clicks to the full text without penalizing documents that have none, and both weight clicks alike (0.067 is
1/15). D18's level is a share of the query's clicks, in (1, 100]; D17's levels grow with the number of clicks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks.logs import LoggedQuery

MU, LAMBDA = {"d17": 0.33, "d18": 0.333}, {"d17": 15.0, "d18": 0.067}  # the papers' values


class Formula(NamedTuple):
    """A paper's formula with its parameters, which `formula` checks."""

    name: str
    mu: float
    lambda_: float

    def levels(self, summary: np.ndarray, full_text: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Relevance levels of a query's documents, float64 [n]; 0 without a click.

        Args:
            summary, full_text: clicks of each kind [n].
            missing: 1 or True for a document without an available full text [n].
        """
        bonus = 1 / self.lambda_ if self.name == "d17" else self.lambda_
        weighted = (self.mu + missing * bonus) * summary + (1 - self.mu) * full_text  # [n]
        if self.name == "d17" or not weighted.any():
            return weighted
        return np.where(weighted > 0, 1 + 99 * (weighted / weighted.sum()), 0.0)


def formula(name: str, mu: float | None = None, lambda_: float | None = None) -> Formula:
    """The formula ``d17`` or ``d18``; None stands for the paper's value of a parameter."""
    if name not in MU:
        raise InputError(f"unknown formula {name!r}; known: {', '.join(MU)}")
    mu, lambda_ = MU[name] if mu is None else mu, LAMBDA[name] if lambda_ is None else lambda_
    if not 0 < mu < 1:
        raise InputError(f"mu is {mu}: it must be between 0 and 1, otherwise one kind of clicks has no weight")
    if not 0 < lambda_ < float("inf"):
        raise InputError(f"lambda is {lambda_}: it must be above 0")
    return Formula(name, mu, lambda_)


def grades(query: LoggedQuery, full_text: set[str], formula: Formula) -> dict[str, float]:
    """The levels of a query's documents, ordered by document id. A level of 0 is an int, all others are floats."""
    ids = sorted(query.documents)
    counts = np.array([query.documents[id] for id in ids], np.float64).reshape(-1, 3)
    missing = np.array([id not in full_text for id in ids])
    levels = formula.levels(counts[:, 1], counts[:, 2], missing)
    return {id: level if level > 0 else 0 for id, level in zip(ids, levels.tolist())}
