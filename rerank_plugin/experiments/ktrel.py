"""The experiments of [K] on any judged collection: the steps that make a run of every row.

Each model is trained once and ranks the whole collection ([K] 4.2). What is chosen on the validation queries (the
parameters of BM25 and RM3, the shapes of the paper's KTRel, the weights of fused runs) is read when the steps before
have made it, so the stages come one by one. Outputs are named after a digest of the commands that lead to them: after
a change of options nothing is taken for done that is not, and what is still the same is not made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path

from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.experiments import ktrel_rows as rows_of
from rerank_plugin.experiments.ktrel_rows import (
    BEST,
    BY_NAME,
    ENCODERS,
    FEEDBACK,
    FUSED,
    HYBRID,
    INTERACTION,
    LEXICAL,
    NEIGHBOURS,
    NOT_RUN,
    OURS,
    PAPER,
    RERANKED,
    RM3,
    TRAINED,
    VALIDATION_MEASURES,
    Ingredient,
    KtrelRow,
    merged,
)
from rerank_plugin.experiments.ktrel_settings import (
    ALL,
    VALIDATION,
    KtrelSettings,
    Queries,
    judgments_of,
    queries_of,
    restricted,
)
from rerank_plugin.experiments.ktrel_tuning import Bm25, Feedback, Rm3, Shape, best, drawn, mean_average_precision
from rerank_plugin.experiments.steps import Step
from rerank_plugin.files.records import Judgments, Query
from rerank_plugin.models.checkpoints import read_config


class KtrelPlan:
    """The steps of the experiments, in stages: what stands in one stage needs nothing of the same stage.

    Args:
        dry: whether what would be chosen is taken as the first that would be tried, to see steps before any has run.
    """

    def __init__(self, settings: KtrelSettings, dry: bool = False):
        self.settings, self.work, self.dry = settings, Path(settings.work), dry

    # What there is to do.

    def rows(self) -> list[KtrelRow]:
        """The rows of the tables; the one that all are compared with is always there."""
        only, weak = self.settings.only, self.settings.weak
        there = [row for row in rows_of.ROWS if weak or not _pretrained(row)]
        return [row for row in there if not only or row.name in only or row.name == RM3]

    def needed(self) -> list[KtrelRow]:
        """The rows, and those that they are made from, each once, in the tables' order."""
        names = {name for row in self.rows() for name in self._with_stages(row)}
        names |= {name for row in self.figure_rows() for name in self._with_stages(row)}
        return [row for row in rows_of.ROWS if row.name in names and row.kind != NOT_RUN]

    def _with_stages(self, row: KtrelRow) -> set[str]:
        stages = [HYBRID] if row.kind == RERANKED else list(row.stages)
        if BEST in stages:
            stages = [*(name for name in stages if name != BEST), *(one.name for one in self.of_our_recipe())]
        return {row.name}.union(*(self._with_stages(BY_NAME[name]) for name in stages))

    def of_our_recipe(self) -> list[KtrelRow]:
        """The rows that BEST is chosen of: those that are run, or KTRel where none is."""
        shown = [row for row in self.rows() if row.kind == OURS]
        return shown or [BY_NAME["ktrel-ours"]]

    def stages_of(self, row: KtrelRow) -> tuple[str, ...]:
        """What a row is made of, once the trainings have run."""
        return tuple(self.best().name if name == BEST else name for name in row.stages)

    def best(self) -> KtrelRow:
        """The row of our recipe with the highest MAP on the validation queries."""
        rows = self.of_our_recipe()
        return rows[0] if self.dry else max(rows, key=lambda row: self.reached(self.training(row))["AP"])

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
            and (settings.ingredients is None or one.name in settings.ingredients)
            and (settings.plain_words or not one.plain)
            and (one.sets is None or one.sets < len(settings.train))
        ]

    def stages(self) -> Iterator[list[Step]]:
        """The stages one by one: what one chose is read when it has run."""
        settings, needed = self.settings, self.needed()
        ingredients = self.ingredients()
        plain = [self.plain_indexing()] if any(one.plain for one in ingredients) else []
        random = [self.random_concepts()] if any(not one.concepts for one in ingredients) else []
        weak = [self.titles()] if any(row.pretrained for row in needed) else []
        yield [self.indexing(), *plain, *random, *weak]
        yield [self.extended()] if any(row.kind in ENCODERS for row in needed) else []
        yield [self.titles_indexing()] if weak else []
        yield [self.pretraining()] if weak else []
        tuned = [row for row in needed if row.kind == PAPER and settings.grid]
        shapes = [self.grid_training(row, shape) for row in tuned for shape in self.shapes(row)]
        yield [*shapes, *(self.validation_search(f"bm25-{one.k1}-{one.b}", one.options) for one in self.bm25_grid())]
        yield [self.rm3_search(one) for one in self.rm3_grid()]
        if settings.validation_candidates:
            yield [self.run(BY_NAME[RM3], self.validation)]
        yield from self._trainings([row for row in needed if row.kind != RERANKED])
        if any(row.kind == FEEDBACK for row in needed):
            yield [self.feedback_search(one) for one in self.feedback_grid()]
        fused = [row for row in needed if row.kind == FUSED]
        members = [BY_NAME[name] for name in dict.fromkeys(name for row in fused for name in self.stages_of(row))]
        plain_rows = [row for row in needed if row.kind not in (FUSED, RERANKED)]
        found = [self.run(row, self.validation) for row in members]
        found += [self.run(row, test) for row in plain_rows for test in settings.tests]
        found += [self.run(row, test, size) for row, size in self.sized() for test in settings.tests]
        yield _once(found)
        yield [self.fusion_weights(row) for row in fused if row.method == "linear"]
        reranked = [row for row in needed if row.kind == RERANKED]
        yield [
            *(self.training(row) for row in reranked),
            *(self.run(row, test) for row in fused for test in settings.tests),
        ]
        yield [self.run(row, test) for row in reranked for test in settings.tests]

    def _trainings(self, needed: Sequence[KtrelRow]) -> Iterator[list[Step]]:
        """All trainings but those of re-rankers, and then what KTRel encodes."""
        sized = list(self.sized())
        trained = [self.training(row) for row in needed if row.kind in TRAINED]
        trained += [self.ingredient(one) for one in self.ingredients()]
        yield _once([*trained, *(self.training(row, size) for row, size in sized)])
        encoders = [(row, ALL) for row in needed if row.kind in ENCODERS]
        encoders += [(row, size) for row, size in sized if row.kind in ENCODERS]
        yield [self.encoding(row, size) for row, size in encoders]

    def sized(self) -> Iterator[tuple[KtrelRow, str]]:
        """The models of figure 2 with each smaller number of training queries; those with all are the rows'."""
        for row in self.figure_rows():
            yield from ((row, size) for size in self.settings.sizes if size != ALL)

    # What is read.

    @property
    def validation(self) -> Queries:
        return Queries(VALIDATION, self.settings.validation)

    @cached_property
    def validation_judgments(self) -> Judgments:
        """Of those queries that there are."""
        return restricted(*queries_and_judgments(self.settings.validation))

    def training_queries(self) -> list[Query]:
        return [query for spec in self.settings.train for query in queries_and_judgments(spec)[0]]

    def reached(self, training: Step) -> dict:
        """The measures of a training's best epoch on the validation queries."""
        return read_config(training.output)["measures"]

    # Indexes, encodings.

    def step(self, kind: str, name: str, command: Sequence, suffix: str = "", prints: bool = False) -> Step:
        """A step whose output is named after its command."""
        words = tuple(map(str, (*command, "--seed", self.settings.seed)))
        name = f"{name}-{hashlib.sha256(' '.join(words).encode()).hexdigest()[:8]}"
        output = self.work / kind / f"{name}{suffix}"
        option = () if prints else (("--index" if kind == "indexes" else "--output"), str(output))
        return Step(f"{kind}-{name}".replace("/", "-"), (*words, *option), output, prints)

    def indexing(self) -> Step:
        settings = self.settings
        stem = ("--stem", settings.stem) if settings.stem else ()
        command = ("index", "--corpus", settings.corpus, "--knowledge", settings.knowledge, *stem, "--overwrite")
        return self.step("indexes", "index", command)

    def plain_indexing(self) -> Step:
        """An index without stemming."""
        return self.step("indexes", "plain", ("index", "--corpus", self.settings.corpus, "--overwrite"))

    @property
    def index(self) -> Path:
        return self.indexing().output

    def extended(self) -> Step:
        """Word vectors for all words of the index."""
        command = ("embed", "extend", "--words", self.settings.words, "--index", self.index, "--overwrite")
        return self.step("words", "extended", command)

    # Pre-training.

    def titles(self) -> Step:
        """Titles as queries, with their abstracts as what is relevant."""
        settings = self.settings
        corpora = (word for corpus in settings.weak for word in ("--corpus", corpus))
        held_out = min(500, settings.weak_queries // 2)
        sizes = ("--queries", settings.weak_queries, "--held-out", held_out)
        return self.step("titles", "titles", ("weak", *corpora, *sizes, "--overwrite"))

    def titles_indexing(self) -> Step:
        stem = ("--stem", self.settings.stem) if self.settings.stem else ()
        return self.step("indexes", "titles", ("index", "--corpus", self.titles().output, *stem, "--overwrite"))

    def pretraining(self) -> Step:
        """Our recipe for words on titles and abstracts; each abstract has one title, so a batch has more of them."""
        titles = self.titles().output
        options = merged(rows_of.RECIPE, ("--queries-per-document", "1", "--batch-size", "256"))
        command = [
            "train", "--index", self.titles_indexing().output, "--words", self.extended().output,
            "--train", f"{titles}:train", "--validation", f"{titles}:dev", "--depth", "100", "--model", "ktrel-w",
            *merged(options, ("--epochs", str(self.settings.weak_epochs), "--measures", "AP")), *self._device,
            "--overwrite", "--resume",
        ]  # fmt: skip
        return self.step("checkpoints", "pretrained", command)

    def random_concepts(self) -> Step:
        """Concept vectors as their training starts."""
        command = ("embed", "concepts", "--knowledge", self.settings.knowledge, "--holdout", 0, "--epochs", 1)
        return self.step("concepts", "random", (*command, "--learning-rate", "1e-9", "--overwrite"))

    def encoding(self, row: KtrelRow, size: str = ALL) -> Step:
        """The documents' encodings, which are kept in the index; the output is what the command says of them.

        Where judgments of similar queries are searched with this model, the training queries are kept beside them.
        """
        checkpoint = self.training(row, size).output
        asked = size == ALL and row.kind == OURS and any(one.kind == NEIGHBOURS for one in self.needed())
        judged = [word for spec in self.settings.train for word in ("--judged", spec)] if asked else []
        command = ("index", "--encode", checkpoint, "--index", self.index, *judged, *self._device, "--overwrite")
        return self.step("encodings", checkpoint.name, command, ".txt", prints=True)

    @property
    def _device(self) -> tuple[str, ...]:
        return ("--device", self.settings.device) if self.settings.device != "cpu" else ()

    # Tuning.

    def bm25_grid(self) -> list[Bm25]:
        return [Bm25(*one) for one in product(self.settings.k1, self.settings.b)]

    def rm3_grid(self) -> list[Rm3]:
        settings = self.settings
        return [
            Rm3(self.bm25, *one) for one in product(settings.rm3_terms, settings.rm3_documents, settings.rm3_weights)
        ]

    def validation_search(self, name: str, options: Sequence[str]) -> Step:
        return self._search(f"{VALIDATION}/{name}", self.settings.validation, options)

    def rm3_search(self, one: Rm3) -> Step:
        return self.validation_search(f"rm3-{one.terms}-{one.documents}-{one.weight}", one.options)

    def validation_ap(self, search: Step) -> float:
        return mean_average_precision(search.output, self.validation_judgments)

    @cached_property
    def bm25(self) -> Bm25:
        """The parameters with the best MAP on the validation queries."""
        if self.dry:
            return self.bm25_grid()[0]
        return best(
            self.bm25_grid(),
            lambda one: self.validation_ap(self.validation_search(f"bm25-{one.k1}-{one.b}", one.options)),
        )

    @cached_property
    def rm3(self) -> Rm3:
        """The same of BM25-RM3."""
        if self.dry:
            return self.rm3_grid()[0]
        return best(self.rm3_grid(), lambda one: self.validation_ap(self.rm3_search(one)))

    def feedback_grid(self) -> list[Feedback]:
        settings = self.settings
        return [Feedback(*one) for one in product(settings.feedback_documents, settings.feedback_weights)]

    def feedback_search(self, one: Feedback) -> Step:
        """The validation queries by the model whose feedback is tuned."""
        options = (*self._dense(self.training(self.best())), *one.options)
        return self._search(f"{VALIDATION}/feedback-{one.documents}-{one.weight}", self.settings.validation, options)

    @cached_property
    def feedback(self) -> Feedback:
        """The same of dense search's feedback."""
        if self.dry:
            return self.feedback_grid()[0]
        return best(self.feedback_grid(), lambda one: self.validation_ap(self.feedback_search(one)))

    def shapes(self, row: KtrelRow) -> list[Shape]:
        """What is tried for a row of the paper's KTRel."""
        return drawn(row.name, self.settings.grid, self.settings.seed)

    def grid_training(self, row: KtrelRow, shape: Shape) -> Step:
        options = (*self._paper(shape), "--epochs", self.settings.grid_epochs)
        return self._train("grid", f"{row.name}-{'-'.join(map(str, shape))}", row, options)

    def shape(self, row: KtrelRow) -> Shape:
        """The shape whose short training reached the best MAP on the validation queries."""
        tried = self.shapes(row)
        if self.dry or not tried:
            return tried[0] if tried else self.settings.shape
        measure = VALIDATION_MEASURES[0]
        return best(tried, lambda shape: self.reached(self.grid_training(row, shape))[measure])

    # Trainings.

    def training(self, row: KtrelRow, size: str = ALL) -> Step:
        """A row's training, on so many queries."""
        some = () if size == ALL else ("--train-queries", size)
        name = row.name if size == ALL else f"{row.name}@{size}"
        return self._train("checkpoints", name, row, (*self._training_options(row), *some))

    def _training_options(self, row: KtrelRow) -> tuple:
        settings = self.settings
        usual = ("--patience", settings.patience, "--epochs", settings.epochs, "--pairs-per-query", settings.pairs)
        if row.kind == OURS:
            return self._recipe()
        if row.kind == PAPER:
            return self._paper(self.shape(row))
        if row.kind == RERANKED:
            return (*usual, *self._hybrid(), "--depth", settings.rerank_depth)
        if not settings.validation_candidates:
            return (*usual, "--first-stage", "all")
        run = self.run(BY_NAME[RM3], self.validation).output
        few = ("--validation-run", run, "--validation-depth", settings.validation_candidates)
        return (*usual, "--first-stage", "all", *few)

    def _recipe(self, epochs: int | None = None) -> tuple:
        """Ours, with its epochs or fewer."""
        own = int(rows_of.RECIPE[rows_of.RECIPE.index("--epochs") + 1])
        at_most = [one for one in (own, epochs, self.settings.recipe_epochs) if one is not None]
        return (*rows_of.RECIPE, "--first-stage", "all", "--epochs", min(at_most))

    def _paper(self, shape: Shape) -> tuple:
        length = ("--patience", self.settings.patience, "--epochs", self.settings.epochs)
        return merged([*map(str, length), "--first-stage", "all", *rows_of.LENGTHS], shape.options)

    def ingredient(self, one: Ingredient) -> Step:
        """The training of an ingredient; of the recipe itself with all its epochs, it is the row's."""
        row, settings = BY_NAME[one.base], self.settings
        options = merged(list(map(str, self._recipe(settings.ingredient_epochs))), one.train)
        if self._train("checkpoints", row.name, row, options, one) == self.training(row):
            return self.training(row)
        return self._train("ingredients", one.name, row, options, one)

    def _train(self, kind: str, name: str, row: KtrelRow, options: Sequence, one: Ingredient | None = None) -> Step:
        settings = self.settings
        plain, sets, graph = (one.plain, one.sets, one.concepts) if one else (False, None, True)
        index = self.plain_indexing().output if plain else self.index
        concepts = settings.concepts if graph else self.random_concepts().output
        words = self.extended().output if row.kind in ENCODERS and (one is None or one.extended) else settings.words
        start = ("--start-from", self.pretraining().output) if row.pretrained else ()
        usual = ("--measures", *VALIDATION_MEASURES, *self._device)
        command = [
            "train", "--index", index, "--words", settings.plain_words if plain else words, *start,
            *(("--concepts", concepts) if row.reads_concepts else ()),
            *(word for spec in settings.train[:sets] for word in ("--train", spec)),
            "--validation", settings.validation,
            *merged(usual, row.train, list(map(str, options)), settings.train_options), "--overwrite", "--resume",
        ]  # fmt: skip
        return self.step(kind, name, command)

    # Runs.

    def run(self, row: KtrelRow, queries: Queries, size: str = ALL) -> Step:
        """A row's run of some queries, the model trained on so many."""
        name = f"{queries.name}/{row.name}" + ("" if size == ALL else f"@{size}")
        if row.kind == FUSED:
            return self._fused(row, queries)
        return self._search(name, queries.spec, self._searched(row, size), self._depth(row))

    def _depth(self, row: KtrelRow) -> int:
        return self.settings.rerank_depth if row.kind == RERANKED else self.settings.depth

    def _searched(self, row: KtrelRow, size: str) -> tuple:
        """Options of a search."""
        if row.kind == LEXICAL:
            return self.rm3.options if row.name == RM3 else self.bm25.options
        if row.kind == NEIGHBOURS:
            return ("--first-stage", f"neighbours:{self.training(BY_NAME[self.stages_of(row)[0]]).output}")
        if row.kind == FEEDBACK:
            return (*self._dense(self.training(BY_NAME[self.stages_of(row)[0]])), *self.feedback.options)
        checkpoint = self.training(row, size).output
        if row.kind == INTERACTION:
            return ("--first-stage", "all", "--reranker", checkpoint, *self._device)
        if row.kind == RERANKED:
            return (*self._hybrid(), "--reranker", checkpoint, *self._device)
        return self._dense(self.training(row, size))

    def _dense(self, training: Step) -> tuple:
        """Options of dense search with a trained model."""
        device = (*self._device, "--dense-device", "cpu") if self._device else ()
        return ("--first-stage", f"dense:{training.output}", *device)

    def _search(self, name: str, spec: str, options: Sequence, depth: int | None = None) -> Step:
        command = ("search", "--index", self.index, "--queries", queries_of(spec), *options, "--overwrite")
        return self.step("runs", name, (*command, "--depth", depth or self.settings.depth), ".run")

    def _fused(self, row: KtrelRow, queries: Queries) -> Step:
        runs = [self.run(BY_NAME[name], queries).output for name in self.stages_of(row)]
        how = ("--method", "rrf") if row.method == "rrf" else ("--tuned", self.fusion_weights(row).output)
        command = ("fuse", *runs, *how, "--output-depth", self.settings.depth, "--overwrite")
        return self.step("runs", f"{queries.name}/{row.name}", command, ".run")

    def fusion_weights(self, row: KtrelRow) -> Step:
        """What the validation queries say of a row's weights, in JSON."""
        runs = [self.run(BY_NAME[name], self.validation).output for name in self.stages_of(row)]
        tuning = ("--tune", judgments_of(self.settings.validation), "--step", self.settings.fusion_step)
        command = ("fuse", *runs, "--method", "linear", *tuning, "--measure", "AP", "--format", "json")
        return self.step("weights", row.name, command, ".json", prints=True)

    def weights(self, row: KtrelRow) -> list[float]:
        if self.dry:
            return [1 / len(row.stages)] * len(row.stages)
        return json.loads(self.fusion_weights(row).output.read_text(encoding="utf-8"))["best"]["weights"]

    def _hybrid(self) -> tuple:
        """Options of the hybrid as a first stage: the same documents and scores as its run has."""
        row = BY_NAME[HYBRID]
        encoder = self.training(BY_NAME[self.stages_of(row)[1]]).output
        how = ("--fuse", f"dense:{encoder}", "--fusion", "linear", "--fusion-depth", self.settings.depth)
        return (*self.rm3.options, *how, "--fusion-weight", *self.weights(row))


def _pretrained(row: KtrelRow) -> bool:
    """Whether a row, or one that it is made from, is pre-trained."""
    return row.pretrained or any(_pretrained(BY_NAME[name]) for name in row.stages if name != BEST)


def _once(steps: Sequence[Step]) -> list[Step]:
    """The steps without repetitions, in their order."""
    return list({step.name: step for step in steps}.values())
