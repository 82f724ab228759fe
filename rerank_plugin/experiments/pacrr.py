"""The experiments of [P] on any judged collections: its rows, and the steps that make a run of each.

On every collection each model is trained once, on the candidates of BM25, and re-ranks the test queries' candidates of
BM25 and of query likelihood (table 1), a folder of runs (table 2, figure 3) and, where there are judgments of documents
that are not relevant, the judged documents alone (table 3). PACRR-kwindow is trained with several hyper-parameters
(figure 5); the best on the validation queries stands in the tables, and gives PACRR-firstk n_s and l_g.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.experiments.steps import Step
from rerank_plugin.files.errors import InputError
from rerank_plugin.models.checkpoints import read_config

FIRSTK, KWINDOW = "pacrr-firstk", "pacrr-kwindow"
FIRST_STAGES = ("bm25", "qld")
MEASURES = ("ERR@20", "NDCG.20")  # [P] takes both from the TREC script: gains 2^rel - 1

# Learning rates and epochs other than a training's defaults were found on NFCorpus's dev split.
PACRR = "--model pacrr --learning-rate 0.003 --set".split()


class Baseline(NamedTuple):
    """A model that PACRR is compared with.

    Attributes:
        title: in the tables. letter: of comparisons with it. train: options of its training.
    """

    name: str
    title: str
    letter: str
    train: str


BASELINES = (
    Baseline("duet-local", "DUET-local", "L", "--model duet --set parts=local"),
    Baseline("drmm", "DRMM", "D", "--model drmm"),
    Baseline("matchpyramid", "MatchPyramid", "M", "--model matchpyramid"),
    Baseline("knrm", "KNRM", "K", "--model knrm"),
    Baseline("conv-knrm", "Conv-KNRM", "C", "--model conv-knrm --epochs 4"),
)

# Runs of many kinds, for there are no participants' runs: name and options of the search.
RUNS = {
    **{
        f"bm25-{field}-{k1}-{b}": f"--field {field} --k1 {k1} --b {b}"
        for field in ("contents", "abstract")
        for k1 in (0.5, 0.9, 2.0)
        for b in (0.2, 0.4, 0.75)
    },
    "bm25-title": "--field title",
    **{
        f"qld-{field}-{mu}": f"--first-stage qld --field {field} --mu {mu}"
        for field in ("contents", "title")
        for mu in (100, 500, 1000, 2500)
    },
    **{
        f"rm3-{terms}-{weight}": f"--first-stage bm25+rm3 --rm3-terms {terms} --rm3-weight {weight}"
        for terms in (10, 30)
        for weight in (0.5, 0.8)
    },
}


class PacrrCollection(NamedTuple):
    """A judged collection.

    Attributes:
        corpus: documents. train, validation, test: queries and judgments.
        judged: judgments of the test queries with documents that are not relevant; None where there are none.
    """

    name: str
    corpus: str
    train: str
    validation: str
    test: str
    judged: str | None = None


class Sizes(NamedTuple):
    """Hyper-parameters of PACRR-kwindow: l_d, n_s and l_g."""

    words: int
    signals: int
    longest: int

    @property
    def row(self) -> str:
        return f"kwindow-{self.words}-{self.signals}-{self.longest}"

    @property
    def options(self) -> list[str]:
        values = ["distillation=kwindow", f"distilled_words={self.words}", *_shared(self)]
        return [*PACRR, *values]


def _shared(sizes: Sizes) -> list[str]:
    return [f"signals={sizes.signals}", f"longest_ngram={sizes.longest}"]


@dataclass(frozen=True)
class PacrrSettings:
    """What the experiments are run on, and how large they are.

    Attributes:
        words: folder of word vectors. stem: stemmer of the forward indexes, which the vectors must be of; or None.
        models: names of the baselines; none for all of them.
        sweep: names of the collections that PACRR-kwindow's hyper-parameters are chosen on; the others take the first
            one's.
        base: of the sweep, in which one hyper-parameter varies at a time.
        distilled, signals, longest: the values that are tried beside the base's ([P] 3.1 has the grid of all three).
        pairs: of a query in an epoch, on average.
        runs: how many of RUNS, the first ones; None for all.
        train: more options of every training.
        at_once: steps that run at the same time.
    """

    work: Path
    collections: tuple[PacrrCollection, ...]
    words: str
    stem: str | None = None
    models: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    base: Sizes = Sizes(256, 8, 3)
    distilled: tuple[int, ...] = (32, 64, 128, 256, 512)
    signals: tuple[int, ...] = (1, 2, 4, 8, 16)
    longest: tuple[int, ...] = (2, 3, 4)
    depth: int = 500
    epochs: int = 12
    pairs: int = 10
    runs: int | None = None
    train: tuple[str, ...] = ()
    seed: int = 42
    at_once: int = 2

    def __post_init__(self) -> None:
        names = [collection.name for collection in self.collections]
        if not names or len(set(names)) < len(names):
            raise InputError("give at least one collection, each with a name of its own")
        if unknown := set(self.sweep) - set(names):
            raise InputError(f"no collection {', '.join(sorted(unknown))} to sweep; there are: {', '.join(names)}")
        known = [model.name for model in BASELINES]
        if unknown := set(self.models) - set(known):
            raise InputError(f"unknown models {', '.join(sorted(unknown))}; known: {', '.join(known)}")
        object.__setattr__(self, "sweep", self.sweep or tuple(names[:1]))

    @property
    def baselines(self) -> list[Baseline]:
        return [model for model in BASELINES if not self.models or model.name in self.models]

    def sizes(self) -> list[Sizes]:
        """The models of figure 5, each once, the base first."""
        return list(dict.fromkeys([self.base, *(one for name in Sizes._fields for one in self.along(name))]))

    def along(self, name: str) -> list[Sizes]:
        """The models of figure 5 that differ from the base in one hyper-parameter at most, by its value."""
        values = getattr(self, {"words": "distilled"}.get(name, name))
        return [self.base._replace(**{name: value}) for value in sorted({*values, getattr(self.base, name)})]


class PacrrPlan:
    """The steps of the experiments, in stages: what stands in one stage needs nothing of the same stage."""

    def __init__(self, settings: PacrrSettings):
        self.settings, self.work = settings, Path(settings.work)

    def stages(self) -> Iterator[list[Step]]:
        """The stages one by one: what the sweep chose is read when it has run."""
        collections = self.settings.collections
        yield [self._indexing(collection) for collection in collections]
        yield [step for collection in collections for step in self._first_stages(collection)]
        first = [
            self._training(one, sizes.row, sizes.options) for one in self._swept() for sizes in self.settings.sizes()
        ]
        others = [(one, model) for one in collections for model in self.settings.baselines]
        yield first + [self._training(one, model.name, model.train.split()) for one, model in others]
        yield [step for collection in collections for step in self._trainings_of_chosen(collection)]
        yield [step for collection in collections for step in self._searches(collection)]

    def _swept(self) -> list[PacrrCollection]:
        return [collection for collection in self.settings.collections if collection.name in self.settings.sweep]

    def chosen(self, collection: PacrrCollection) -> Sizes:
        """The hyper-parameters of PACRR-kwindow with the best measure on the validation queries."""
        swept = collection.name if collection.name in self.settings.sweep else self.settings.sweep[0]
        return max(self.settings.sizes(), key=lambda sizes: self.reached(swept, sizes.row)[MEASURES[0]])

    def reached(self, collection: str, row: str) -> dict:
        """The measures of a row's best epoch on the validation queries."""
        return read_config(self.checkpoint(collection, row))["measures"]

    def checkpoint(self, collection: str, row: str) -> Path:
        return self.work / collection / "checkpoints" / row

    def run(self, collection: PacrrCollection, name: str) -> Path:
        return self.work / collection.name / "runs" / name

    def titles(self) -> dict[str, str]:
        """The rows of the tables and their titles."""
        baselines = {model.name: model.title for model in self.settings.baselines}
        return {FIRSTK: "PACRR-firstk", KWINDOW: "PACRR-kwindow", **baselines}

    def row(self, collection: PacrrCollection, name: str) -> str:
        """The checkpoint of a row of the tables."""
        return self.chosen(collection).row if name == KWINDOW else name

    def documents_of_runs(self, collection: PacrrCollection) -> list[str]:
        """Which documents of table 2's runs are re-ranked: all, and the judged ones where that says anything."""
        return ["all", "judged"] if collection.judged else ["all"]

    def _trainings_of_chosen(self, collection: PacrrCollection) -> list[Step]:
        sizes = self.chosen(collection)
        firstk = [*PACRR, "distillation=firstk", *_shared(sizes)]
        steps = [self._training(collection, FIRSTK, firstk)]
        if collection.name not in self.settings.sweep:
            steps.append(self._training(collection, sizes.row, sizes.options))
        return steps

    def _step(self, collection: PacrrCollection, name: str, command: Sequence, output: Path) -> Step:
        words = (*command, "--seed", self.settings.seed)
        return Step(f"{collection.name}-{name}", tuple(map(str, words)), output)

    def index(self, collection: PacrrCollection) -> Path:
        return self.work / collection.name / "index"

    def _indexing(self, collection: PacrrCollection) -> Step:
        index = self.index(collection)
        command = ["index", "--corpus", collection.corpus, "--index", index, "--overwrite"]
        stem = ["--stem", self.settings.stem] if self.settings.stem else []
        return self._step(collection, "index", [*command, *stem], index)

    def _search(self, collection: PacrrCollection, name: str, split: str, output: str, *options) -> Step:
        path = self.run(collection, output)
        command = ["search", "--index", self.index(collection), "--queries", getattr(collection, split), "--overwrite"]
        return self._step(
            collection, name, [*command, "--depth", self.settings.depth, *options, "--output", path], path
        )

    def _first_stages(self, collection: PacrrCollection) -> list[Step]:
        """Candidates of training and validation, the test queries' in table 1, and the folder of table 2."""
        found = [
            self._search(collection, f"candidates-{split}", split, f"{split}.run") for split in ("train", "validation")
        ]
        found += [
            self._search(collection, stage, "test", f"{stage}/order.run", "--first-stage", stage)
            for stage in FIRST_STAGES
        ]
        return found + [
            self._search(collection, f"run-{name}", "test", f"all/order/{name}.run", *options.split())
            for name, options in list(RUNS.items())[: self.settings.runs]
        ]

    def _training(self, collection: PacrrCollection, row: str, options: Sequence[str]) -> Step:
        settings, output = self.settings, self.checkpoint(collection.name, row)
        command = [
            "train", "--index", self.index(collection), "--words", settings.words, "--train", collection.train,
            "--validation", collection.validation, "--train-run", self.run(collection, "train.run"),
            "--validation-run", self.run(collection, "validation.run"), "--depth", settings.depth,
            "--measures", *MEASURES, "--epochs", settings.epochs, "--pairs-per-query", settings.pairs,
            *settings.train, *options, "--output", output, "--overwrite", "--resume",
        ]  # fmt: skip
        return self._step(collection, f"train-{row}", command, output)

    def _searches(self, collection: PacrrCollection) -> list[Step]:
        """What the tables are made of: runs of every row in every setting."""
        steps = []
        if collection.judged:
            judged = ("--judged-only", collection.judged)
            run = ("--run", self.run(collection, "all/order"))
            steps.append(self._search(collection, "judged-runs", "test", "judged/order", *run, *judged))
        for name in self.titles():
            steps += self._searches_of(collection, name)
        if collection in self._swept():
            for sizes in self.settings.sizes():
                reranker = ("--reranker", self.checkpoint(collection.name, sizes.row))
                run = ("--run", self.run(collection, "qld/order.run"))
                steps.append(
                    self._search(collection, f"sweep-{sizes.row}", "test", f"sweep/{sizes.row}.run", *run, *reranker)
                )
        return steps

    def _searches_of(self, collection: PacrrCollection, name: str) -> Iterator[Step]:
        reranker = ("--reranker", self.checkpoint(collection.name, self.row(collection, name)), "--tag", name)
        for stage in FIRST_STAGES:
            run = ("--run", self.run(collection, f"{stage}/order.run"))
            yield self._search(collection, f"{stage}-{name}", "test", f"{stage}/{name}.run", *run, *reranker)
        run = ("--run", self.run(collection, "all/order"))
        yield self._search(collection, f"all-{name}", "test", f"all/{name}", *run, *reranker)
        if collection.judged:
            judged = ("--judged-only", collection.judged)
            yield self._search(collection, f"judged-{name}", "test", f"judged/{name}", *run, *judged, *reranker)
            stage = ("--first-stage", f"judged:{collection.judged}")
            yield self._search(collection, f"pairs-{name}", "test", f"pairs/{name}.run", *stage, *reranker)
