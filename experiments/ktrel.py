"""The experiments of [K] on any judged collection: the steps that make a run of every row.

Each model is trained once and ranks the whole collection ([K] 4.2). What is chosen on the validation queries (the
parameters of BM25 and RM3, the shapes of the paper's KTRel, the weights of fused runs) is read when the steps before
have made it, so the stages come one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import rerank_plugin as rp
from experiments import ktrel_rows as rows_of
from experiments.ktrel_rows import (
    BEST,
    BY_NAME,
    ENCODERS,
    HYBRID,
    RECIPE,
    RM3,
    TRAINED,
    VALIDATION_MEASURES,
    Ingredient,
    Kind,
    KtrelRow,
)
from experiments.ktrel_settings import ALL, VALIDATION, KtrelSettings, Queries, Shape, Tried, drawn
from experiments.plan import Plan, Step, merged, once
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.files.outputs import INNER, replacing


class KtrelPlan(Plan):
    """The steps of [K]'s experiments."""

    settings: KtrelSettings

    # What there is to do.

    def rows(self) -> list[KtrelRow]:
        """The rows of the tables; the one that all are compared with is always there."""
        only, weak = self.settings.only, self.settings.weak
        there = [row for row in rows_of.ROWS if weak or not _pretrained(row)]
        return [row for row in there if not only or row.name in only or row.name == RM3]

    def needed(self) -> list[KtrelRow]:
        """The rows, and those that they are made from, each once, in the tables' order."""
        names = {name for row in (*self.rows(), *self.figure_rows()) for name in self._with_stages(row)}
        return [row for row in rows_of.ROWS if row.name in names and row.kind != Kind.NOT_RUN]

    def _with_stages(self, row: KtrelRow) -> set[str]:
        stages = [HYBRID] if row.kind == Kind.RERANKED else list(row.stages)
        if BEST in stages:
            stages = [*(name for name in stages if name != BEST), *(one.name for one in self.of_our_recipe())]
        return {row.name}.union(*(self._with_stages(BY_NAME[name]) for name in stages))

    def of_our_recipe(self) -> list[KtrelRow]:
        """The rows that BEST is chosen of: those that are run, or KTRel where none is."""
        shown = [row for row in self.rows() if row.kind == Kind.OURS]
        return shown or [BY_NAME["ktrel-ours"]]

    def stages_of(self, row: KtrelRow) -> list[KtrelRow]:
        """What a row is made of, once the trainings have run."""
        return [self.best() if name == BEST else BY_NAME[name] for name in row.stages]

    def best(self) -> KtrelRow:
        """The row of our recipe with the highest MAP on the validation queries."""
        return self.chosen(self.of_our_recipe(), lambda row: self.reached(self.training(row))["AP"])

    def figure_rows(self) -> list[KtrelRow]:
        """The models of figure 2, of those rows that are run."""
        shown = {row.name for row in self.rows()}
        return [BY_NAME[name] for name in self.settings.figure_models if name in shown and self.settings.sizes]

    def ingredients(self) -> list[Ingredient]:
        """Those whose base is run and whose data are given: word vectors without stemming, several training sets."""
        settings, shown = self.settings, {row.name for row in self.rows()}
        return [
            one
            for one in rows_of.INGREDIENTS
            if one.base in shown
            and one.name in settings.ingredients
            and (settings.plain_words or not one.plain)
            and (one.sets is None or one.sets < len(settings.train))
        ]

    def stages(self) -> Iterator[list[Step]]:
        settings, needed, ingredients = self.settings, self.needed(), self.ingredients()
        of = {kind: [row for row in needed if row.kind == kind] for kind in {row.kind for row in rows_of.ROWS}}
        encoders = [row for row in needed if row.kind in ENCODERS]
        weak = any(row.pretrained for row in needed)
        plain = [self.plain_index()] if any(one.plain for one in ingredients) else []
        random = [self.random_concepts()] if any(not one.concepts for one in ingredients) else []
        yield [self.index(), *plain, *random, *([self.titles()] if weak else [])]
        yield [self.extended()] if encoders else []
        yield [self.titles_index()] if weak else []
        yield [self.pretraining()] if weak else []
        shapes = [self.grid_training(row, shape) for row in of[Kind.PAPER] for shape in self.shapes(row)]
        yield [*shapes, *(self.validation_search(one) for one in settings.bm25())]
        yield [self.validation_search(one) for one in settings.rm3(self.bm25)]
        if settings.validation_candidates:
            yield [self.run(BY_NAME[RM3], self.validation)]
        sized = [(row, size) for row in self.figure_rows() for size in settings.sizes if size != ALL]
        trained = [self.training(row) for row in needed if row.kind in TRAINED and row.kind != Kind.RERANKED]
        trained += [self.ingredient(one) for one in ingredients]
        yield once([*trained, *(self.training(row, size) for row, size in sized)])
        sized_encoders = [(row, size) for row, size in sized if row.kind in ENCODERS]
        yield [self.encoding(row, size) for row, size in [*((row, ALL) for row in encoders), *sized_encoders]]
        if of[Kind.FEEDBACK]:
            yield [self.feedback_search(one) for one in settings.feedback()]
        yield once(
            [
                *(self.run(stage, self.validation) for row in of[Kind.FUSED] for stage in self.stages_of(row)),
                *(
                    self.run(row, one)
                    for row in needed
                    if row.kind not in (Kind.FUSED, Kind.RERANKED)
                    for one in settings.tests
                ),
                *(self.run(row, one, size) for row, size in sized for one in settings.tests),
            ]
        )
        yield [self.fusion_weights(row) for row in of[Kind.FUSED] if row.method == "linear"]
        reranked = [self.training(row) for row in of[Kind.RERANKED]]
        yield [*reranked, *(self.run(row, one) for row in of[Kind.FUSED] for one in settings.tests)]
        yield [self.run(row, one) for row in of[Kind.RERANKED] for one in settings.tests]

    # What is read.

    @property
    def validation(self) -> Queries:
        return Queries(VALIDATION, self.settings.validation)

    @cached_property
    def validation_judgments(self) -> Judgments:
        """Of those queries that there are."""
        return read(self.validation)[1]

    def training_queries(self) -> list[rp.Query]:
        return [query for spec in self.settings.train for query in queries_and_judgments(spec)[0]]

    # Indexes, word and concept vectors, encodings.

    def index(self) -> Step:
        settings = self.settings
        return self.indexing("indexes", "index", settings.corpus, "--knowledge", settings.knowledge, stem=settings.stem)

    def plain_index(self) -> Step:
        """An index without stemming."""
        return self.indexing("indexes", "plain", self.settings.corpus)

    def extended(self) -> Step:
        """Word vectors for all words of the index."""
        command = ("embed", "extend", "--words", self.settings.words, "--index", self.index().output, "--overwrite")
        return self.step("words", "extended", command)

    def titles(self) -> Step:
        """Titles as queries, with their abstracts as what is relevant."""
        settings = self.settings
        corpora = (word for corpus in settings.weak for word in ("--corpus", corpus))
        held_out = min(500, settings.weak_queries // 2)
        sizes = ("--queries", settings.weak_queries, "--held-out", held_out)
        return self.step("titles", "titles", ("weak", *corpora, *sizes, "--overwrite"))

    def titles_index(self) -> Step:
        return self.indexing("indexes", "titles", self.titles().output, stem=self.settings.stem)

    def pretraining(self) -> Step:
        """Our recipe for words on titles and abstracts; each abstract has one title, so a batch has more of them."""
        titles = self.titles().output
        own = f"--queries-per-document 1 --batch-size 256 --epochs {self.settings.weak_epochs} --measures AP".split()
        command = [
            "--train", f"{titles}:train", "--validation", f"{titles}:dev", "--depth", "100", "--model", "ktrel-w",
            *merged(RECIPE, own), *self._device,
        ]  # fmt: skip
        return self.train("checkpoints", "pretrained", self.titles_index(), self.extended().output, *command)

    def random_concepts(self) -> Step:
        """Concept vectors as their training starts."""
        command = ("embed", "concepts", "--knowledge", self.settings.knowledge, "--holdout", 0, "--epochs", 1)
        return self.step("concepts", "random", (*command, "--learning-rate", "1e-9", "--overwrite"))

    def encoding(self, row: KtrelRow, size: str = ALL) -> Step:
        """The documents' encodings, which are kept in the index; the output is what the command says of them.

        Where judgments of similar queries are searched with this model, the training queries are kept beside them.
        """
        checkpoint = self.training(row, size).output
        asked = size == ALL and row.kind == Kind.OURS and any(one.kind == Kind.NEIGHBOURS for one in self.needed())
        judged = [word for spec in self.settings.train for word in ("--judged", spec)] if asked else []
        where = ("--encode", checkpoint, "--index", self.index().output)
        command = ("index", *where, *judged, *self._device, "--overwrite")
        return self.step("encodings", checkpoint.name, command, ".txt", prints=True)

    @property
    def _device(self) -> tuple[str, ...]:
        return ("--device", self.settings.device) if self.settings.device != "cpu" else ()

    # Tuning.

    def validation_search(self, one: Tried) -> Step:
        return self._search(f"{VALIDATION}/{one.name}", self.validation, one.options)

    def validation_ap(self, search: Step) -> float:
        return mean_average_precision(search.output, self.validation_judgments)

    @cached_property
    def bm25(self) -> Tried:
        """The parameters with the best MAP on the validation queries."""
        return self.chosen(self.settings.bm25(), lambda one: self.validation_ap(self.validation_search(one)))

    @cached_property
    def rm3(self) -> Tried:
        return self.chosen(self.settings.rm3(self.bm25), lambda one: self.validation_ap(self.validation_search(one)))

    @cached_property
    def feedback(self) -> Tried:
        return self.chosen(self.settings.feedback(), lambda one: self.validation_ap(self.feedback_search(one)))

    def feedback_search(self, one: Tried) -> Step:
        """The validation queries by the model whose feedback is tuned."""
        return self.validation_search(one._replace(options=(*self._dense(self.training(self.best())), *one.options)))

    def shapes(self, row: KtrelRow) -> list[Shape]:
        """What is tried for a row of the paper's KTRel."""
        return drawn(row.name, self.settings.grid, self.settings.seed)

    def grid_training(self, row: KtrelRow, shape: Shape) -> Step:
        options = (*self._paper(shape), "--epochs", self.settings.grid_epochs)
        return self._train("grid", f"{row.name}-{'-'.join(map(str, shape))}", row, options)

    def shape(self, row: KtrelRow) -> Shape:
        """The shape whose short training reached the best MAP on the validation queries."""
        measure, tried = VALIDATION_MEASURES[0], self.shapes(row)
        if not tried:
            return self.settings.shape
        return self.chosen(tried, lambda shape: self.reached(self.grid_training(row, shape))[measure])

    # Trainings.

    def training(self, row: KtrelRow, size: str = ALL) -> Step:
        """A row's training, on so many queries."""
        some = () if size == ALL else ("--train-queries", size)
        return self._train("checkpoints", _sized(row, size), row, (*self._training_options(row), *some))

    def _training_options(self, row: KtrelRow) -> Sequence:
        settings = self.settings
        usual = ("--patience", settings.patience, "--epochs", settings.epochs, "--pairs-per-query", settings.pairs)
        if row.kind == Kind.OURS:
            return self._recipe()
        if row.kind == Kind.PAPER:
            return self._paper(self.shape(row))
        if row.kind == Kind.RERANKED:
            return (*usual, *self._hybrid(), "--depth", settings.rerank_depth)
        if not settings.validation_candidates:
            return (*usual, "--first-stage", "all")
        run = self.run(BY_NAME[RM3], self.validation).output
        few = ("--validation-run", run, "--validation-depth", settings.validation_candidates)
        return (*usual, "--first-stage", "all", *few)

    def _recipe(self, epochs: int | None = None) -> Sequence:
        """Ours, with its epochs or fewer."""
        own = int(RECIPE[RECIPE.index("--epochs") + 1])
        at_most = [one for one in (own, epochs, self.settings.recipe_epochs) if one is not None]
        return (*RECIPE, "--first-stage", "all", "--epochs", min(at_most))

    def _paper(self, shape: Shape) -> Sequence:
        length = ("--patience", self.settings.patience, "--epochs", self.settings.epochs)
        return merged([*length, "--first-stage", "all", *rows_of.LENGTHS], shape.options)

    def ingredient(self, one: Ingredient) -> Step:
        """The training of an ingredient; of the recipe itself with all its epochs, it is the row's."""
        row = BY_NAME[one.base]
        options = merged(self._recipe(self.settings.ingredient_epochs), one.train.split())
        if self._train("checkpoints", row.name, row, options, one) == self.training(row):
            return self.training(row)
        return self._train("ingredients", one.name, row, options, one)

    def _train(self, kind: str, name: str, row: KtrelRow, options: Sequence, one: Ingredient | None = None) -> Step:
        settings, one = self.settings, one or Ingredient("", "", row.name)
        index, words = (self.plain_index(), settings.plain_words) if one.plain else (self.index(), settings.words)
        if row.kind in ENCODERS and one.extended and not one.plain:
            words = self.extended().output
        concepts = settings.concepts if one.concepts else self.random_concepts().output
        command = [
            *(("--start-from", self.pretraining().output) if row.pretrained else ()),
            *(("--concepts", concepts) if row.reads_concepts else ()),
            *(word for spec in settings.train[: one.sets] for word in ("--train", spec)),
            "--validation", settings.validation,
            *merged(("--measures", *VALIDATION_MEASURES, *self._device), row.train.split(), options,
                    settings.train_option),
        ]  # fmt: skip
        return self.train(kind, name, index, words, *command)

    # Runs.

    def run(self, row: KtrelRow, queries: Queries, size: str = ALL) -> Step:
        """A row's run of some queries, the model trained on so many."""
        name, settings = f"{queries.name}/{_sized(row, size)}", self.settings
        if row.kind == Kind.FUSED:
            runs = [self.run(stage, queries).output for stage in self.stages_of(row)]
            how = ("--method", "rrf") if row.method == "rrf" else ("--tuned", self.fusion_weights(row).output)
            command = ("fuse", *runs, *how, "--output-depth", settings.depth, "--overwrite")
            return self.step("runs", name, command, ".run")
        depth = settings.rerank_depth if row.kind == Kind.RERANKED else settings.depth
        return self._search(name, queries, self._searched(row, size), depth)

    def _searched(self, row: KtrelRow, size: str) -> Sequence:
        """Options of a search."""
        if row.kind == Kind.LEXICAL:
            return self.rm3.options if row.name == RM3 else self.bm25.options
        if row.kind in (Kind.NEIGHBOURS, Kind.FEEDBACK):
            encoder = self.training(self.stages_of(row)[0])
            if row.kind == Kind.NEIGHBOURS:
                by_cosine = "--neighbours 100 --neighbour-documents 0 --neighbour-power 4".split()
                return ("--first-stage", f"neighbours:{encoder.output}", *by_cosine)
            return (*self._dense(encoder), *self.feedback.options)
        training = self.training(row, size)
        if row.kind == Kind.INTERACTION:
            return ("--first-stage", "all", "--reranker", training.output, *self._device)
        if row.kind == Kind.RERANKED:
            return (*self._hybrid(), "--reranker", training.output, *self._device)
        return self._dense(training)

    def _dense(self, training: Step) -> Sequence:
        """Options of dense search with a trained model."""
        device = (*self._device, "--dense-device", "cpu") if self._device else ()
        return ("--first-stage", f"dense:{training.output}", *device)

    def _search(self, name: str, queries: Queries, options: Sequence, depth: int | None = None) -> Step:
        words = (*options, "--depth", depth or self.settings.depth)
        return self.search("runs", name, self.index(), queries.texts, *words)

    def fusion_weights(self, row: KtrelRow) -> Step:
        """What the validation queries say of a row's weights, in JSON."""
        runs = [self.run(stage, self.validation).output for stage in self.stages_of(row)]
        tuning = ("--tune", self.validation.judgments, "--step", self.settings.fusion_step)
        command = ("fuse", *runs, "--method", "linear", *tuning, "--measure", "AP", "--format", "json")
        return self.step("weights", row.name, command, ".json", prints=True)

    def weights(self, row: KtrelRow) -> list[float]:
        if self.dry:
            return [1 / len(row.stages)] * len(row.stages)
        return json.loads(self.fusion_weights(row).output.read_text(encoding="utf-8"))["best"]["weights"]

    def _hybrid(self) -> Sequence:
        """Options of the hybrid as a first stage: the same documents and scores as its run has."""
        row = BY_NAME[HYBRID]
        encoder = self.training(self.stages_of(row)[1]).output
        how = ("--fuse", f"dense:{encoder}", "--fusion", "linear", "--fusion-depth", self.settings.depth)
        return (*self.rm3.options, *how, "--fusion-weight", *self.weights(row))


def read(one: Queries) -> tuple[list[rp.Query], Judgments]:
    """Queries, and the judgments of these alone: a file of judgments may be of more."""
    queries, judgments = queries_and_judgments(one.spec)
    return queries, {query.id: judgments[query.id] for query in queries}


def mean_average_precision(run: Path, judgments: Judgments) -> float:
    """A run's MAP over all judged queries; kept beside the run, for there are many of them and they are long."""
    kept = run.with_suffix(".ap.json")
    if kept.exists() and kept.stat().st_mtime_ns >= run.stat().st_mtime_ns:
        return json.loads(kept.read_text(encoding="utf-8"))["AP"]
    value = rp.evaluate_runs(judgments, {"run": run}, ["AP"])["runs"]["run"]["AP"]
    with replacing(kept, INNER, overwrite=True) as file:
        file.write(json.dumps({"AP": value}).encode())
    return value


def _pretrained(row: KtrelRow) -> bool:
    """Whether a row, or one that it is made from, is pre-trained."""
    return row.pretrained or any(_pretrained(BY_NAME[name]) for name in row.stages if name != BEST)


def _sized(row: KtrelRow, size: str) -> str:
    return row.name if size == ALL else f"{row.name}@{size}"
