"""What the experiments of [K] choose on the validation queries: parameters of BM25 and RM3, KTRel's shape and feedback.

BM25 and RM3 are tuned by grid search ([K] 4.3): first k1 and b, then with them RM3's terms, documents and weight. Of
equal values the first one tried counts. KTRel's grid ([K] 4.2) has 240 shapes; some are drawn from it by chance.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

from rerank_plugin.files.outputs import INNER, replacing
from rerank_plugin.files.records import Judgments
from rerank_plugin.files.runs import read_run

T = TypeVar("T")


class Bm25(NamedTuple):
    """BM25's parameters."""

    k1: float
    b: float

    @property
    def options(self) -> tuple[str, ...]:
        return "--first-stage", "bm25", "--k1", str(self.k1), "--b", str(self.b)


class Rm3(NamedTuple):
    """RM3's parameters, with those of its BM25."""

    bm25: Bm25
    terms: int
    documents: int
    weight: float

    @property
    def options(self) -> tuple[str, ...]:
        words = ("--rm3-terms", self.terms, "--rm3-documents", self.documents, "--rm3-weight", self.weight)
        return ("--first-stage", "bm25+rm3", *self.bm25.options[2:], *map(str, words))


class Feedback(NamedTuple):
    """Parameters of dense search's pseudo-relevance feedback."""

    documents: int
    weight: float

    @property
    def options(self) -> tuple[str, ...]:
        return "--dense-feedback", str(self.documents), "--dense-feedback-weight", str(self.weight)


class Shape(NamedTuple):
    """What [K] 4.2 chooses of KTRel by grid search."""

    heads: int
    feed_forward: int
    batch: int
    dropout: float

    @property
    def options(self) -> tuple[str, ...]:
        """Of its training."""
        values = (f"heads={self.heads}", f"feed_forward={self.feed_forward}", f"dropout={self.dropout}")
        return ("--batch-size", str(self.batch), "--set", *values)

    def __str__(self) -> str:
        return (
            f"heads {self.heads}, feed-forward {self.feed_forward}, batches of {self.batch}, dropout {self.dropout:g}"
        )


GRID = [Shape(*one) for one in product((1, 2, 5, 10), (50, 100, 200, 500), (10, 20, 50), (0.1, 0.2, 0.3, 0.4, 0.5))]


def drawn(model: str, count: int, seed: int) -> list[Shape]:
    """So many different shapes of the grid, by chance; more of them begin with the fewer ones."""
    return random.Random(f"{model} {seed}").sample(GRID, len(GRID))[:count]


def best(tried: Sequence[T], value: Callable[[T], float]) -> T:
    """The one with the highest value, of equal ones the first."""
    return max(tried, key=value)


def mean_average_precision(run: Path, judgments: Judgments) -> float:
    """A run's MAP over all judged queries; kept beside the run, for there are many of them and they are long."""
    kept = run.with_suffix(".ap.json")
    if kept.exists() and kept.stat().st_mtime_ns >= run.stat().st_mtime_ns:
        return json.loads(kept.read_text(encoding="utf-8"))["AP"]
    from rerank_plugin.evaluation.values import Evaluator

    evaluator = Evaluator(judgments, ["AP"])
    value = evaluator.summary(evaluator.values(read_run(run)))["AP"]
    with replacing(kept, INNER, overwrite=True) as file:
        file.write(json.dumps({"AP": value}).encode())
    return value
