"""A fixed map of a model's scores to relevance between 0 and 1, kept in the checkpoint's ``config.json``.

With ``x = (score - location) / scale`` relevance is ``1/2 + x / (2 (1 + |x|))``. It increases strictly, and approaches
0 and 1 so slowly that two float32 scores up to a million scales from the location keep their order; a logistic function
rounds scores that are 37 scales away to 1. Location and scale are the median and half the distance of the quartiles of
the model's scores of the candidates of its validation queries: half of all candidates are above 0.5, and a quarter
above 0.75 if the scores are symmetric. Relevance is not a probability.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.artifact import has_type, read_object

RELEVANCE = "relevance"  # the map's key in config.json


class Relevance(NamedTuple):
    """The map of one model; a model without a fitted map has the default."""

    location: float = 0.0
    scale: float = 1.0

    @classmethod
    def fitted(cls, scores: np.ndarray) -> Relevance:
        """The map fitted to scores of a model, float32 [n]; its scale is the default if the scores do not differ."""
        if not len(scores):
            return cls()
        low, middle, high = np.quantile(np.asarray(scores, np.float64), (0.25, 0.5, 0.75)).tolist()
        return cls(middle, (high - low) / 2) if high > low else cls(middle)

    @classmethod
    def of_checkpoint(cls, folder: Path | None) -> Relevance:
        """The map in a checkpoint's config; the default if there is none; an `InputError` if it cannot be read."""
        path = folder and folder / "config.json"
        if path is None or not path.exists():
            return cls()
        again = f"take out its entry {RELEVANCE!r}, or copy the checkpoint again"
        values = read_object(path, again).get(RELEVANCE)
        if values is None:
            return cls()
        if not (has_type(values, dict[str, float]) and set(values) == set(cls._fields) and values["scale"] > 0):
            raise InputError(f"{path}: {RELEVANCE} is {values}, expected a location and a scale above 0; {again}")
        return cls(**values)

    def of(self, scores: npt.ArrayLike) -> np.ndarray:
        """Relevance of scores float32 [n], float64 [n]."""
        x = (np.asarray(scores, np.float64) - self.location) / self.scale
        return 0.5 + 0.5 * x / (1 + np.abs(x))
