"""What the experiments of [K] are run on, and how large they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.corpora.specs import exists
from rerank_plugin.experiments import ktrel_rows as rows_of
from rerank_plugin.experiments.ktrel_rows import BY_NAME
from rerank_plugin.experiments.ktrel_tuning import Shape
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Judgments, Query

VALIDATION = "validation"
ALL = "all"  # a size: all training queries


class Queries(NamedTuple):
    """Queries that are searched with: a name, and where they and their judgments are from."""

    name: str
    spec: str


@dataclass(frozen=True)
class KtrelSettings:
    """What the experiments are run on, and how large they are.

    Attributes:
        train: queries and judgments, which may be other texts of the same ids.
        tests: sets of test queries; the first one has tables of its own, and all of them pooled.
        words, knowledge, concepts: folders of word vectors, a compiled knowledge base and concept vectors.
        stem: stemmer of the forward index, which the word vectors must be of; or None.
        plain_words: word vectors for an index without stemming; None leaves that ingredient out.
        weak: corpora of titles and abstracts to pre-train on; without them rows that are pre-trained are left out.
        weak_queries: titles to pre-train on, at most so many. weak_epochs: of that training.
        only: names of the rows to run; none for all of them.
        figure_models: rows of figure 2. sizes: numbers of training queries of figure 2, or ALL.
        ingredients: names of the ingredients to train; None for all.
        epochs: of a training, at most, but of our recipe. recipe_epochs: of that one; None for as many as it has.
        pairs: of a query in an epoch, at most. patience: epochs without improvement.
        ingredient_epochs: of an ingredient's training, at most; None for as many as the recipe has.
        validation_candidates: documents of the tuned BM25-RM3 that models of pairs are validated on; 0 for all.
        grid: shapes that are tried for each of the paper's KTRel; 0 for ``shape`` alone.
        k1, b, rm3_terms, rm3_documents, rm3_weights, feedback_documents, feedback_weights: of the grids.
        fusion_step: between weights of fused runs.
        rerank_depth: documents of the hybrid that are re-ranked.
        train_options: more options of every training.
        at_once: steps that run at the same time.
    """

    work: Path
    corpus: str
    train: tuple[str, ...]
    validation: str
    tests: tuple[Queries, ...]
    words: str
    knowledge: str
    concepts: str
    stem: str | None = None
    plain_words: str | None = None
    weak: tuple[str, ...] = ()
    weak_queries: int = 38_000
    weak_epochs: int = 3
    only: tuple[str, ...] = ()
    figure_models: tuple[str, ...] = rows_of.FIGURE
    sizes: tuple[str, ...] = ("100", "200", "500", "1000", "2000", ALL)
    ingredients: tuple[str, ...] | None = None
    depth: int = 1000
    epochs: int = 30
    recipe_epochs: int | None = None
    pairs: int = 10
    patience: int = 5
    ingredient_epochs: int | None = None
    validation_candidates: int = 0
    grid: int = 6
    grid_epochs: int = 4
    shape: Shape = Shape(2, 200, 20, 0.2)
    k1: tuple[float, ...] = (0.5, 0.9, 1.2, 1.6, 2.0)
    b: tuple[float, ...] = (0.2, 0.4, 0.6, 0.75, 0.9)
    rm3_terms: tuple[int, ...] = (10, 20, 50, 100)
    rm3_documents: tuple[int, ...] = (5, 10, 20)
    rm3_weights: tuple[float, ...] = (0.3, 0.5, 0.7)
    feedback_documents: tuple[int, ...] = (3, 5, 10)
    feedback_weights: tuple[float, ...] = (0.3, 0.6, 1.0)
    fusion_step: float = 0.05
    rerank_depth: int = 500
    train_options: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 42
    at_once: int = 2

    def __post_init__(self) -> None:
        names = [one.name for one in self.tests]
        if not names or len(set(names)) < len(names) or VALIDATION in names:
            raise InputError(f"give at least one set of test queries, each with a name of its own, not '{VALIDATION}'")
        if bad := [name for name in names if not re.fullmatch(r"[\w.-]+", name)]:
            raise InputError(f"'{bad[0]}' cannot name a set of test queries: use letters, digits, '-', '_' and '.'")
        _check_known("rows", self.only, BY_NAME)
        _check_known("models of the figure", self.figure_models, rows_of.FIGURE)
        _check_known("ingredients", self.ingredients or (), [one.name for one in rows_of.INGREDIENTS])
        if bad := [size for size in self.sizes if size != ALL and not (size.isdecimal() and int(size) > 0)]:
            raise InputError(f"'{bad[0]}' is no number of training queries: expected 1, 2, ... or '{ALL}'")


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"unknown {what} {', '.join(unknown)}; known: {', '.join(known)}")


def queries_of(spec: str) -> str:
    """The part of ``QUERIES,QRELS`` that names queries; other forms name both."""
    return spec.split(",")[0] if "," in spec and not exists(spec) else spec


def judgments_of(spec: str) -> str:
    """The part of ``QUERIES,QRELS`` that names judgments."""
    return spec.split(",")[-1] if "," in spec and not exists(spec) else spec


def restricted(queries: Sequence[Query], judgments: Judgments) -> Judgments:
    """The judgments of those queries alone: a file of judgments may be of more."""
    return {query.id: judgments[query.id] for query in queries}
