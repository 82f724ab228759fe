"""The experiments of [K] on any judged collection: the steps that make a run of every row.

Each model is trained once and ranks the whole collection ([K] 4.2). Choices on the validation queries (the parameters
of BM25 and RM3, the models' hyper-parameters, the weights of fused runs) need the outputs of earlier steps, so the
stages are made one by one.
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
    OF_ENCODER,
    RECIPE,
    RM3,
    TRAINED,
    TUNED,
    VALIDATION_MEASURES,
    Ingredient,
    Kind,
    KtrelRow,
)
from experiments.ktrel_settings import ALL, VALIDATION, KtrelSettings, Queries, TriedSetting
from experiments.plan import Plan, Step, merged, once
from experiments.trials import Trial, trains_words
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.files.outputs import INNER, replacing
from rerank_plugin.models.register import packaged_folder

# Where nothing is tried, sizes in the middle of KTRel's grid, and the others' defaults.
UNTUNED = {Kind.PAPER: Trial((("heads", "2"), ("feed_forward", "200"), ("batch_size", "20"), ("dropout", "0.2")))}


class KtrelPlan(Plan):
    """The steps of [K]'s experiments."""

    settings: KtrelSettings

    # The rows and stages.

    def rows(self) -> list[KtrelRow]:
        """The rows of the tables, always with the baseline."""
        only, weak, encoder = self.settings.only, self.settings.weak, self.settings.encoder
        available = [
            row for row in rows_of.ROWS if (weak or not _pretrained(row)) and (encoder or row.kind not in OF_ENCODER)
        ]
        return [row for row in available if not only or row.name in only or row.name == RM3]

    def needed(self) -> list[KtrelRow]:
        """The rows and the rows they are made from, each once, in the tables' order."""
        names = {name for row in (*self.rows(), *self.figure_rows()) for name in self._with_stages(row)}
        return [row for row in rows_of.ROWS if row.name in names and row.kind != Kind.NOT_RUN]

    def _with_stages(self, row: KtrelRow) -> set[str]:
        stages = [HYBRID] if row.kind == Kind.RERANKED else list(row.stages)
        if BEST in stages:
            stages = [*(name for name in stages if name != BEST), *(row.name for row in self.of_our_recipe())]
        return {row.name}.union(*(self._with_stages(BY_NAME[name]) for name in stages))

    def of_our_recipe(self) -> list[KtrelRow]:
        """The candidates for BEST: the rows of our recipe that are run, or KTRel if there are none."""
        rows = [row for row in self.rows() if row.kind == Kind.OURS]
        return rows or [BY_NAME["ktrel-ours"]]

    def stages_of(self, row: KtrelRow) -> list[KtrelRow]:
        """The rows that a row is made from; the trainings must have run."""
        return [self.best() if name == BEST else BY_NAME[name] for name in row.stages]

    def best(self) -> KtrelRow:
        """The row of our recipe with the highest MAP on the validation queries."""
        return self.chosen(self.of_our_recipe(), lambda row: self.reached(self.training(row))["AP"])

    def figure_rows(self) -> list[KtrelRow]:
        """The models of figure 2 among the rows that are run."""
        names = {row.name for row in self.rows()}
        return [BY_NAME[name] for name in self.settings.figure_models if name in names and self.settings.sizes]

    def seeded_rows(self) -> list[KtrelRow]:
        """The rows that are trained with several seeds."""
        return [row for row in self.rows() if row.kind in TUNED and self.settings.seeds > 1]

    def ingredients(self) -> list[Ingredient]:
        """Ingredients whose base is run and whose data exist: word vectors without stemming, several training sets."""
        settings, names = self.settings, {row.name for row in self.rows()}
        return [
            ingredient
            for ingredient in rows_of.INGREDIENTS
            if ingredient.base in names
            and ingredient.name in settings.ingredients
            and (settings.plain_words or not ingredient.plain)
            and (ingredient.sets is None or ingredient.sets < len(settings.train))
        ]

    def stages(self) -> Iterator[list[Step]]:
        settings, needed, ingredients = self.settings, self.needed(), self.ingredients()
        of = {kind: [row for row in needed if row.kind == kind] for kind in {row.kind for row in rows_of.ROWS}}
        encoders = [row for row in needed if row.kind in ENCODERS]
        weak = any(row.pretrained for row in needed)
        plain = [self.plain_index()] if any(ingredient.plain for ingredient in ingredients) else []
        plain += [self.index_of_words()] if of[Kind.CROSS] else []
        random = [self.random_concepts()] if any(not ingredient.concepts for ingredient in ingredients) else []
        yield once([self.index(), *plain, *random, *([self.titles()] if weak else [])])
        trials = [(row, trial) for row in needed if row.kind in TUNED for trial in self.trials(row)]
        yield [self.extended()] if encoders or any(trains_words(trial.options) for _, trial in trials) else []
        yield [self.titles_index()] if weak else []
        yield [self.pretraining()] if weak else []
        yield [self.validation_search(tried) for tried in settings.bm25()]
        yield [self.validation_search(tried) for tried in settings.rm3(self.bm25)]
        if settings.validation_candidates:
            yield [self.run(BY_NAME[RM3], self.validation)]
        yield [self.trial_training(row, trial) for row, trial in trials]
        sized = [(row, size) for row in self.figure_rows() for size in settings.sizes if size != ALL]
        trained = [self.training(row) for row in needed if row.kind in TRAINED and row.kind != Kind.RERANKED]
        trained += [self.ingredient(ingredient) for ingredient in ingredients]
        seeded = [(row, seed) for row in self.seeded_rows() for seed in settings.training_seeds]
        trained += [self.training(row, seed=seed) for row, seed in seeded]
        yield once([*trained, *(self.training(row, size) for row, size in sized)])
        sized_encoders = [(row, size) for row, size in sized if row.kind in ENCODERS]
        every = [*((row, ALL) for row in encoders + of[Kind.TEXTS]), *sized_encoders]
        encodings = [self.encoding(row, size) for row, size in every]
        encodings += [self.encoding(row, seed=seed) for row, seed in seeded if row.kind in ENCODERS]
        yield from ([encoding] for encoding in once(encodings))  # one after the other, since all write into one index
        if of[Kind.FEEDBACK]:
            yield [self.feedback_search(tried) for tried in settings.feedback()]
        yield once(
            [
                *(self.run(stage, self.validation) for row in of[Kind.FUSED] for stage in self.stages_of(row)),
                *(
                    self.run(row, test)
                    for row in needed
                    if row.kind not in (Kind.FUSED, Kind.RERANKED)
                    for test in settings.tests
                ),
                *(self.run(row, test, size) for row, size in sized for test in settings.tests),
                *(self.run(row, test, seed=seed) for row, seed in seeded for test in settings.tests),
            ]
        )
        yield [self.fusion_weights(row) for row in of[Kind.FUSED] if row.method == "linear"]
        reranked = [self.training(row) for row in of[Kind.RERANKED]]
        yield [*reranked, *(self.run(row, test) for row in of[Kind.FUSED] for test in settings.tests)]
        yield [self.run(row, test) for row in of[Kind.RERANKED] for test in settings.tests]

    # Queries and judgments.

    @property
    def validation(self) -> Queries:
        return Queries(VALIDATION, self.settings.validation)

    @cached_property
    def validation_judgments(self) -> Judgments:
        """The judgments of the validation queries."""
        return read(self.validation)[1]

    def training_queries(self) -> list[rp.Query]:
        return [query for spec in self.settings.train for query in queries_and_judgments(spec)[0]]

    def known_queries(self) -> list[rp.Query]:
        """The queries that trained or chose a model."""
        return [*self.training_queries(), *read(self.validation)[0]]

    def training_judgments(self) -> Judgments:
        specs = self.settings.train
        return {query: judged for spec in specs for query, judged in queries_and_judgments(spec)[1].items()}

    # Indexes, word and concept vectors, encodings.

    def index(self) -> Step:
        settings = self.settings
        return self.indexing("indexes", "index", settings.corpus, "--knowledge", settings.knowledge, stem=settings.stem)

    def index_of_words(self) -> Step:
        """The index that an encoder can read, which was trained on whole words."""
        return self.plain_index() if self.settings.stem else self.index()

    def plain_index(self) -> Step:
        """An index without stemming."""
        return self.indexing("indexes", "plain", self.settings.corpus)

    def extended(self) -> Step:
        """Word vectors for all words of the index."""
        return self.extended_words("words", self.index())

    def titles(self) -> Step:
        """Titles as queries, with their abstracts as relevant documents."""
        settings = self.settings
        corpora = (word for corpus in settings.weak for word in ("--corpus", corpus))
        held_out = min(500, settings.weak_queries // 2)
        sizes = ("--queries", settings.weak_queries, "--held-out", held_out)
        return self.step("titles", "titles", ("weak", *corpora, *sizes, "--overwrite"))

    def titles_index(self) -> Step:
        return self.indexing("indexes", "titles", self.titles().output, stem=self.settings.stem)

    def pretraining(self) -> Step:
        """Our recipe for words on titles and abstracts; batches have more abstracts, since each has only one title."""
        titles = self.titles().output
        own = f"--queries-per-document 1 --batch-size 256 --epochs {self.settings.weak_epochs} --measures AP".split()
        command = [
            "--train", f"{titles}:train", "--validation", f"{titles}:dev", "--depth", "100", "--model", "ktrel-w",
            *merged(RECIPE, own), *self._device,
        ]  # fmt: skip
        return self.train("checkpoints", "pretrained", self.titles_index(), self.extended().output, *command)

    def random_concepts(self) -> Step:
        """The initial concept vectors of a training."""
        command = ("embed", "concepts", "--knowledge", self.settings.knowledge, "--holdout", 0, "--epochs", 1)
        return self.step("concepts", "random", (*command, "--learning-rate", "1e-9", "--overwrite"))

    def encoding(self, row: KtrelRow, size: str = ALL, seed: int | None = None) -> Step:
        """The documents' encodings, which are stored in the index; the output is the command's standard output.

        For judgments of similar queries, the encodings of the training queries are stored, too.
        """
        if row.kind == Kind.TEXTS:
            return self.encode("encodings", row.name, self.index(), self.settings.encoder)
        checkpoint = self.training(row, size, seed).output
        similar = any(other.kind == Kind.NEIGHBOURS for other in self.needed())
        stores_queries = size == ALL and row.kind == Kind.OURS and similar
        judged = [word for spec in self.settings.train for word in ("--judged", spec)] if stores_queries else []
        return self.encode("encodings", checkpoint.name, self.index(), checkpoint, *judged, *self._device)

    @property
    def _device(self) -> tuple[str, ...]:
        return ("--device", self.settings.device) if self.settings.device != "cpu" else ()

    # Tuning.

    def validation_search(self, tried: TriedSetting) -> Step:
        return self._search(f"{VALIDATION}/{tried.name}", self.validation, tried.options)

    def validation_ap(self, search: Step) -> float:
        return mean_average_precision(search.output, self.validation_judgments)

    @cached_property
    def bm25(self) -> TriedSetting:
        """The parameters with the best MAP on the validation queries."""
        return self.chosen(self.settings.bm25(), lambda tried: self.validation_ap(self.validation_search(tried)))

    @cached_property
    def rm3(self) -> TriedSetting:
        tried = self.settings.rm3(self.bm25)
        return self.chosen(tried, lambda each: self.validation_ap(self.validation_search(each)))

    @cached_property
    def feedback(self) -> TriedSetting:
        return self.chosen(self.settings.feedback(), lambda tried: self.validation_ap(self.feedback_search(tried)))

    def feedback_search(self, tried: TriedSetting) -> Step:
        """The validation queries, searched by the model whose feedback is tuned."""
        options = (*self._dense(self.training(self.best())), *tried.options)
        return self.validation_search(tried._replace(options=options))

    def trials(self, row: KtrelRow) -> list[Trial]:
        """The hyper-parameters to try for a row of the paper."""
        return self.settings.drawn(row.name)

    def trial_training(self, row: KtrelRow, trial: Trial) -> Step:
        options = (*self._of_paper(row, trial), "--epochs", self.settings.trial_epochs)
        return self._train("trials", f"{row.name}-{trial.name}", row, options)

    def trial(self, row: KtrelRow) -> Trial:
        """The hyper-parameters with the best validation MAP in their short training."""
        measure, tried = VALIDATION_MEASURES[0], self.trials(row)
        if not tried:
            return UNTUNED.get(row.kind, Trial())
        return self.chosen(tried, lambda trial: self.reached(self.trial_training(row, trial))[measure])

    # Trainings.

    def training(self, row: KtrelRow, size: str = ALL, seed: int | None = None) -> Step:
        """A row's training on ``size`` queries."""
        sample = () if size == ALL else ("--train-queries", size)
        options = (*self._training_options(row), *sample)
        return self._train("checkpoints", _sized(row, size), row, options, seed=seed)

    def _training_options(self, row: KtrelRow) -> Sequence:
        settings = self.settings
        if row.kind == Kind.OURS:
            return self._recipe()
        if row.kind == Kind.RERANKED:
            return (*self._common(), *self._hybrid(), "--depth", settings.rerank_depth)
        fewer = settings.fewer_epochs(row.name)
        if row.kind == Kind.CROSS:
            encoder = f"encoder={packaged_folder(settings.encoder)}"
            own = ("--depth", settings.cross_depth, "--epochs", settings.cross_epochs)
            own = (*own, "--precision", settings.cross_precision, "--set", encoder)
            return merged((*self._common(), *self.rm3.options), own, *fewer)
        return merged(self._of_paper(row, self.trial(row)), *fewer)

    def _common(self) -> Sequence:
        settings = self.settings
        return ("--patience", settings.patience, "--epochs", settings.epochs, "--pairs-per-query", settings.pairs)

    def _of_paper(self, row: KtrelRow, trial: Trial) -> Sequence:
        """The options of a model of the paper; all are validated on the same documents."""
        settings, own = self.settings, self._common()
        if row.kind == Kind.PAPER:
            own = merged(["--patience", settings.patience, "--epochs", settings.epochs, *rows_of.LENGTHS])
        validation: tuple = ()
        if settings.validation_candidates:
            run = self.run(BY_NAME[RM3], self.validation).output
            validation = ("--validation-run", run, "--validation-depth", settings.validation_candidates)
        return merged((*own, "--first-stage", "all", *validation), trial.options)

    def _recipe(self, epochs: int | None = None) -> Sequence:
        """Our recipe, with at most ``epochs`` epochs."""
        own = int(RECIPE[RECIPE.index("--epochs") + 1])
        at_most = [limit for limit in (own, epochs, self.settings.recipe_epochs) if limit is not None]
        return (*RECIPE, "--first-stage", "all", "--epochs", min(at_most))

    def ingredient(self, ingredient: Ingredient) -> Step:
        """The training of an ingredient; the row's own training if they are equal."""
        row = BY_NAME[ingredient.base]
        options = merged(self._recipe(self.settings.ingredient_epochs), ingredient.train.split())
        if self._train("checkpoints", row.name, row, options, ingredient) == self.training(row):
            return self.training(row)
        return self._train("ingredients", ingredient.name, row, options, ingredient)

    def _train(
        self,
        kind: str,
        name: str,
        row: KtrelRow,
        options: Sequence,
        ingredient: Ingredient | None = None,
        seed: int | None = None,
    ) -> Step:
        settings, ingredient = self.settings, ingredient or Ingredient("", "", row.name)
        index, words = self.index(), settings.words
        if row.kind == Kind.CROSS:
            index, words = self.index_of_words(), None
        if ingredient.plain:
            index, words = self.plain_index(), settings.plain_words
        elif (row.kind in ENCODERS and ingredient.extended) or trains_words(options):
            words = self.extended().output
        concepts = settings.concepts if ingredient.concepts else self.random_concepts().output
        command = [
            *(("--start-from", self.pretraining().output) if row.pretrained else ()),
            *(("--concepts", concepts) if row.reads_concepts else ()),
            *(word for spec in settings.train[: ingredient.sets] for word in ("--train", spec)),
            "--validation", settings.validation,
            *merged(("--measures", *VALIDATION_MEASURES, *self._device), row.train.split(), options,
                    settings.train_option),
        ]  # fmt: skip
        return self.train(kind, name, index, words, *command, seed=seed)

    # Runs.

    def run(self, row: KtrelRow, queries: Queries, size: str = ALL, seed: int | None = None) -> Step:
        """A row's run of some queries, by the model trained on ``size`` queries with a seed."""
        name, settings = f"{queries.name}/{_sized(row, size)}", self.settings
        if row.kind == Kind.FUSED:
            runs = [self.run(stage, queries).output for stage in self.stages_of(row)]
            weights = ("--method", "rrf") if row.method == "rrf" else ("--tuned", self.fusion_weights(row).output)
            command = ("fuse", *runs, *weights, "--output-depth", settings.depth, "--overwrite")
            return self.step("runs", name, command, ".run")
        depth = {Kind.RERANKED: settings.rerank_depth, Kind.CROSS: settings.cross_depth}.get(row.kind, settings.depth)
        index = self.index_of_words() if row.kind == Kind.CROSS else self.index()
        return self._search(name, queries, self._searched(row, size, seed), depth, index)

    def _searched(self, row: KtrelRow, size: str, seed: int | None) -> Sequence:
        """Options of a search."""
        if row.kind == Kind.LEXICAL:
            return self.rm3.options if row.name == RM3 else self.bm25.options
        if row.kind == Kind.TEXTS:
            return ("--first-stage", f"dense:{self.settings.encoder}")
        if row.kind in (Kind.NEIGHBOURS, Kind.FEEDBACK):
            encoder = self.training(self.stages_of(row)[0])
            if row.kind == Kind.NEIGHBOURS:
                by_cosine = "--neighbours 100 --neighbour-documents 0 --neighbour-power 4".split()
                return ("--first-stage", f"neighbours:{encoder.output}", *by_cosine)
            return (*self._dense(encoder), *self.feedback.options)
        training = self.training(row, size, seed)
        if row.kind == Kind.INTERACTION:
            return ("--first-stage", "all", "--reranker", training.output, *self._device)
        if row.kind == Kind.RERANKED:
            return (*self._hybrid(), "--reranker", training.output, *self._device)
        if row.kind == Kind.CROSS:
            precision = ("--precision", self.settings.cross_precision)
            return (*self.rm3.options, "--reranker", f"bert:{training.output}", *precision, *self._device)
        return self._dense(training)

    def _dense(self, training: Step) -> Sequence:
        """Options of dense search with a trained model."""
        device = (*self._device, "--dense-device", "cpu") if self._device else ()
        return ("--first-stage", f"dense:{training.output}", *device)

    def _search(
        self, name: str, queries: Queries, options: Sequence, depth: int | None = None, index: Step | None = None
    ) -> Step:
        words = (*options, "--depth", depth or self.settings.depth)
        return self.search("runs", name, index or self.index(), queries.texts, *words)

    def fusion_weights(self, row: KtrelRow) -> Step:
        """The tuning of a row's weights on the validation queries, as JSON."""
        runs = [self.run(stage, self.validation).output for stage in self.stages_of(row)]
        tuning = ("--tune", self.validation.judgments, "--step", self.settings.fusion_step)
        command = ("fuse", *runs, "--method", "linear", *tuning, "--measure", "AP", "--format", "json")
        return self.step("weights", row.name, command, ".json", prints=True)

    def weights(self, row: KtrelRow) -> list[float]:
        if self.dry:
            return [1 / len(row.stages)] * len(row.stages)
        return json.loads(self.fusion_weights(row).output.read_text(encoding="utf-8"))["best"]["weights"]

    def _hybrid(self) -> Sequence:
        """Options of the hybrid as a first stage, with the documents and scores of its run."""
        row = BY_NAME[HYBRID]
        encoder = self.training(self.stages_of(row)[1]).output
        fusion = ("--fuse", f"dense:{encoder}", "--fusion", "linear", "--fusion-depth", self.settings.depth)
        return (*self.rm3.options, *fusion, "--fusion-weight", *self.weights(row))


def read(named: Queries) -> tuple[list[rp.Query], Judgments]:
    """Queries and their judgments, without those of other queries."""
    queries, judgments = queries_and_judgments(named.spec)
    return queries, {query.id: judgments[query.id] for query in queries}


def mean_average_precision(run: Path, judgments: Judgments) -> float:
    """A run's MAP over all judged queries, cached beside the run, since runs are many and long."""
    kept = run.with_suffix(".ap.json")
    if kept.exists() and kept.stat().st_mtime_ns >= run.stat().st_mtime_ns:
        return json.loads(kept.read_text(encoding="utf-8"))["AP"]
    value = rp.evaluate_runs(judgments, {"run": run}, ["AP"])["runs"]["run"]["AP"]
    with replacing(kept, INNER, overwrite=True) as file:
        file.write(json.dumps({"AP": value}).encode())
    return value


def _pretrained(row: KtrelRow) -> bool:
    """Whether a row, or a row that it is made from, is pre-trained."""
    return row.pretrained or any(_pretrained(BY_NAME[name]) for name in row.stages if name != BEST)


def _sized(row: KtrelRow, size: str) -> str:
    return row.name if size == ALL else f"{row.name}@{size}"
