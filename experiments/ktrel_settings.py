"""The settings of [K]'s experiments: data, sizes, and parameters to try on the validation queries.

BM25 and RM3 are tuned by grid search ([K] 4.3): first k1 and b, then RM3's terms, documents and weight. The models are
tuned by equally many short trainings each, with hyper-parameters drawn at random from a grid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import rerank_plugin as rp
from experiments import ktrel_rows as rows_of
from experiments.ktrel_rows import BY_NAME
from experiments.settings import check_known, option, size
from experiments.trials import GRIDS, TrialSettings
from rerank_plugin.corpora.specs import exists

VALIDATION = "validation"
ALL = "all"  # a size: all training queries


class Queries(NamedTuple):
    """Queries to search: a name, and the source of the queries and judgments."""

    name: str
    spec: str

    @property
    def texts(self) -> str:
        """The queries of ``QUERIES,QRELS``; other specs name both."""
        return self._parts()[0]

    @property
    def judgments(self) -> str:
        """The judgments of ``QUERIES,QRELS``; other specs name both."""
        return self._parts()[-1]

    def _parts(self) -> list[str]:
        return self.spec.split(",") if "," in self.spec and not exists(self.spec) else [self.spec]


class TriedSetting(NamedTuple):
    """Parameters of a search: the name of the run, the options of the search, and their text on the page."""

    name: str
    options: tuple[str, ...]
    shown: str


@dataclass(frozen=True, kw_only=True)
class KtrelSettings(TrialSettings):
    """Table 1 and figure 2 of the KTRel paper (CIRCLE 2020) on a judged collection with a knowledge base: tunes BM25
    and RM3, tunes and trains DUET, KNRM, DRMM, Conv-KNRM and KTRel by the paper's recipe, trains KTRel by ours, and
    hybrids of KTRel and BM25-RM3, ranks the whole collection with each, and writes a Markdown page with the published
    values beside ours. Several --test are given one by one and pooled, as the paper pools titles and descriptions."""

    corpus: str = option("documents to index")
    train: tuple[str, ...] = option(
        "queries and judgments; may be repeated, with other texts of the same queries, too",
        action="append",
        metavar="QJ",
    )
    validation: str = option("queries and judgments of the validation", metavar="QJ")
    test: tuple[tuple[str, str], ...] = option(
        "name, and queries and judgments to measure; may be repeated, and is then pooled, too",
        nargs=2,
        action="append",
        metavar=("NAME", "QJ"),
    )
    knowledge: str = option("compiled knowledge base", metavar="KB")
    concepts: str = option("its concept vectors, written by rerank_plugin.embed concepts")
    stem: str | None = option("stemmer of the forward index: krovetz, with word vectors of the same", None)
    plain_words: str | None = option(
        "word vectors without stemming, to measure what stemming contributes", None, metavar="WORDS"
    )
    weak: tuple[str, ...] = option(
        "corpus to pre-train on, by its titles and abstracts", (), action="append", metavar="CORPUS"
    )
    only: tuple[str, ...] = option("run only these rows, and BM25-RM3", (), metavar="ROW")
    figure_models: tuple[str, ...] = option(
        "models of figure 2; none: no figure", rows_of.FIGURE, nargs="*", metavar="ROW"
    )
    ingredients: tuple[str, ...] = option(
        "ingredients to train; none: no table",
        tuple(ingredient.name for ingredient in rows_of.INGREDIENTS),
        nargs="*",
        metavar="NAME",
    )
    device: str = option("torch device of trainings and searches", "cpu")
    depth: int = size("documents of a measured run per query", 1000)
    rerank_depth: int = size("documents of the hybrid to re-rank", 500)
    cross_depth: int = size("documents of BM25-RM3 that cross-encoders re-rank", 100)
    cross_precision: str = option("precision of cross-encoders: float32 or bfloat16", "float32")
    cross_epochs: int = size("largest number of epochs of cross-encoders", 4)
    epochs: int = size("largest number of epochs, except of our recipe", 30)
    recipe_epochs: int | None = size("largest number of epochs of our recipe (default: the recipe's)", None)
    pairs: int = size("largest number of pairs per query and epoch", 10)
    patience: int = size("epochs without a better MAP before a training stops", 5)
    ingredient_epochs: int | None = size("largest number of epochs of an ingredient (default: the recipe's)", None)
    validation_candidates: int = size(
        "documents of the tuned BM25-RM3 to validate the models of the paper on; 0: all documents",
        0,
        least=0,
    )
    sizes: tuple[str, ...] = size("numbers of training queries in figure 2", ("100", "200", "500", "1000", "2000", ALL))
    weak_queries: int = size("titles to pre-train on", 38_000)
    weak_epochs: int = size("epochs of the pre-training", 3)
    k1: tuple[float, ...] = size("k1 of BM25 to try", (0.5, 0.9, 1.2, 1.6, 2.0))
    b: tuple[float, ...] = size("b of BM25 to try", (0.2, 0.4, 0.6, 0.75, 0.9))
    rm3_terms: tuple[int, ...] = size("terms of RM3 to try", (10, 20, 50, 100))
    rm3_documents: tuple[int, ...] = size("documents of RM3 to try", (5, 10, 20))
    rm3_weights: tuple[float, ...] = size("query weights of RM3 to try", (0.3, 0.5, 0.7))
    feedback_documents: tuple[int, ...] = size("documents of KTRel's feedback to try", (3, 5, 10))
    feedback_weights: tuple[float, ...] = size("weights of KTRel's feedback to try", (0.3, 0.6, 1.0))
    fusion_step: float = size("step between weights of hybrids", 0.05)

    def __post_init__(self) -> None:
        names = [name for name, _ in self.test]
        if len(set(names)) < len(names) or VALIDATION in names:
            raise rp.InputError(f"give at least one set of test queries, each with its own name, not '{VALIDATION}'")
        if bad := [name for name in names if not re.fullmatch(r"[\w.-]+", name)]:
            raise rp.InputError(f"'{bad[0]}' cannot name a set of test queries: use letters, digits, '-', '_' and '.'")
        check_known("rows", self.only, BY_NAME)
        self.check_row_epochs([*GRIDS, *(row.name for row in rows_of.ROWS if row.kind == rows_of.Kind.CROSS)])
        check_known("models of the figure", self.figure_models, rows_of.FIGURE)
        check_known("ingredients", self.ingredients, [ingredient.name for ingredient in rows_of.INGREDIENTS])
        if bad := [size for size in self.sizes if size != ALL and not (size.isdecimal() and int(size) > 0)]:
            raise rp.InputError(f"'{bad[0]}' is not a number of training queries: expected 1, 2, ... or '{ALL}'")

    @property
    def tests(self) -> list[Queries]:
        """Sets of test queries; the tables are of the first set, and of all pooled."""
        return [Queries(*named) for named in self.test]

    def bm25(self) -> list[TriedSetting]:
        return [
            TriedSetting(f"bm25-{k1}-{b}", ("--first-stage", "bm25", "--k1", str(k1), "--b", str(b)), f"k1 {k1}, b {b}")
            for k1, b in product(self.k1, self.b)
        ]

    def rm3(self, bm25: TriedSetting) -> list[TriedSetting]:
        """The parameters of RM3 to try, with those of its BM25."""
        return [
            TriedSetting(
                f"rm3-{terms}-{documents}-{weight}",
                f"--first-stage bm25+rm3 --rm3-terms {terms} --rm3-documents {documents} --rm3-weight {weight} ".split()
                + list(bm25.options[2:]),
                f"{terms} terms of {documents} documents, weight {weight} of the query, BM25 as above",
            )
            for terms, documents, weight in product(self.rm3_terms, self.rm3_documents, self.rm3_weights)
        ]

    def feedback(self) -> list[TriedSetting]:
        """The parameters of dense search's pseudo-relevance feedback to try."""
        return [
            TriedSetting(
                f"feedback-{documents}-{weight}",
                ("--dense-feedback", str(documents), "--dense-feedback-weight", str(weight)),
                f"{documents} documents, weight {weight:g}",
            )
            for documents, weight in product(self.feedback_documents, self.feedback_weights)
        ]
