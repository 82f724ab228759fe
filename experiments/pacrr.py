"""The experiments of [P] on any judged collections: its rows, and the steps that make a run of each.

On every collection each model is trained on BM25's candidates, and re-ranks the test queries' candidates of BM25 and of
query likelihood (table 1), a folder of runs (table 2, figure 3) and, if there are judgments of non-relevant documents,
the judged documents alone (table 3, figure 4). Equally many trials of each model, on the collection's own validation
queries, choose its hyper-parameters. PACRR-kwindow is also trained at length with several hyper-parameters (figure 5);
the best of them, and PACRR-firstk with its n_s and l_g, are rows of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import rerank_plugin as rp
from experiments.plan import SENTENCES, SENTENCES_TITLE, Plan, Step, digest, merged, once
from experiments.settings import check_known, option, size
from experiments.trials import Trial, TrialSettings, trains_words

ORDER, FIRSTK, KWINDOW = "order", "pacrr-firstk", "pacrr-kwindow"  # ORDER: the runs before re-ranking
SWEPT = {"pacrr-firstk-swept": FIRSTK, "pacrr-kwindow-swept": KWINDOW}  # with the best hyper-parameters of figure 5
FIRST_STAGES = ("bm25", "qld")
MEASURES = ("ERR@20", "NDCG.20")  # [P] takes both from the TREC script: gains 2^rel - 1

PACRR = "--model pacrr --learning-rate 0.003 --set"  # the learning rate of figure 5, tuned on NFCorpus's dev split


class Model(NamedTuple):
    """A model whose hyper-parameters trials choose."""

    title: str
    letter: str  # of a baseline in the tables
    train: str  # options of its training, which those of a trial override


BASELINES = {
    "duet-local": Model("DUET-local", "L", "--model duet --set parts=local"),
    "drmm": Model("DRMM", "D", "--model drmm"),
    "matchpyramid": Model("MatchPyramid", "M", "--model matchpyramid"),
    "knrm": Model("KNRM", "K", "--model knrm"),
    "conv-knrm": Model("Conv-KNRM", "C", "--model conv-knrm"),
}
OURS = {
    FIRSTK: Model("PACRR-firstk", "", f"{PACRR} distillation=firstk"),
    KWINDOW: Model("PACRR-kwindow", "", f"{PACRR} distillation=kwindow"),
}

# Varied runs, instead of those of a track's participants: name and options of the search.
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


class Collection(NamedTuple):
    """A judged collection: documents, and queries with judgments of three splits."""

    name: str
    corpus: str
    train: str
    validation: str
    test: str
    judged: str | None = None  # judgments of the test queries with non-relevant documents, if any


class Sizes(NamedTuple):
    """Hyper-parameters of PACRR-kwindow: l_d, n_s and l_g."""

    words: int
    signals: int
    longest: int

    @property
    def row(self) -> str:
        return f"kwindow-{self.words}-{self.signals}-{self.longest}"

    @property
    def options(self) -> str:
        return f"{PACRR} distillation=kwindow distilled_words={self.words} {self.shared}"

    @property
    def shared(self) -> str:
        """The hyper-parameters shared with PACRR-firstk."""
        return f"signals={self.signals} longest_ngram={self.longest}"


@dataclass(frozen=True, kw_only=True)
class PacrrSettings(TrialSettings):
    """Tables 1 to 3 and figures 2 to 5 of the PACRR paper (2017) on judged collections: tunes and trains PACRR-firstk
    and -kwindow, DRMM, DUET-local, MatchPyramid, KNRM and Conv-KNRM, re-ranks BM25 and query likelihood, some thirty
    runs of other first stages and, with --judged, the judged documents alone, and writes a Markdown page. The
    hyper-parameters of figure 5 are chosen on the validation queries of the first collection, all others by trials on
    the collection's own."""

    collection: tuple[tuple[str, ...], ...] = option(
        "name, documents, and queries with judgments; may be repeated",
        nargs=5,
        action="append",
        metavar=("NAME", "CORPUS", "TRAIN", "VALIDATION", "TEST"),
    )
    judged: tuple[tuple[str, str], ...] = option(
        "judgments of a collection's test queries, with grade 0", (), nargs=2, action="append",
        metavar=("NAME", "J"),
    )  # fmt: skip
    sweep: tuple[str, ...] = option("collections for figure 5 (default: the first)", (), metavar="NAME")
    only: tuple[str, ...] = option("baselines to run (default: all five)", (), flags=("--models",), metavar="ROW")
    stem: str | None = option("stemmer of the forward indexes: krovetz, with word vectors of the same", None)
    depth: int = size("candidates of each query", 500)
    epochs: int = size("largest number of epochs", 12)
    pairs: int = size("mean pairs per query and epoch", 10)
    runs: int | None = size("largest number of runs of table 2 (default: all)", None)
    distilled: tuple[int, ...] = size("l_d of figure 5", (32, 64, 128, 256, 512))
    signals: tuple[int, ...] = size("n_s of figure 5", (1, 2, 4, 8, 16))
    longest: tuple[int, ...] = size("l_g of figure 5", (2, 3, 4))
    base: Sizes = Sizes(256, 8, 3)  # of figure 5, which varies one at a time; [P] 3.1 has the full grid

    def __post_init__(self) -> None:
        names = [name for name, *_ in self.collection]
        if len(set(names)) < len(names):
            raise rp.InputError("give at least one collection, each with its own name")
        for used, option_name in ((self.sweep, "--sweep"), ([name for name, _ in self.judged], "--judged")):
            if unknown := set(used) - set(names):
                raise rp.InputError(
                    f"{option_name}: unknown collection {', '.join(sorted(unknown))}; known: {', '.join(names)}"
                )
        check_known("models", self.only, BASELINES)
        self.check_row_epochs([*OURS, *BASELINES])
        object.__setattr__(self, "sweep", self.sweep or tuple(names[:1]))

    @cached_property
    def collections(self) -> list[Collection]:
        return [Collection(*values, dict(self.judged).get(values[0])) for values in self.collection]

    @property
    def baselines(self) -> dict[str, Model]:
        return {name: baseline for name, baseline in BASELINES.items() if not self.only or name in self.only}

    @property
    def tuned(self) -> dict[str, Model]:
        """The models that have trials."""
        return {**OURS, **self.baselines}

    def sizes(self) -> list[Sizes]:
        """The models of figure 5, each once, the base first."""
        return list(dict.fromkeys([self.base, *(sizes for name in Sizes._fields for sizes in self.along(name))]))

    def along(self, name: str) -> list[Sizes]:
        """The models of figure 5 that differ from the base in one hyper-parameter at most, by its value."""
        values = getattr(self, {"words": "distilled"}.get(name, name))
        return [self.base._replace(**{name: value}) for value in sorted({*values, getattr(self.base, name)})]


class PacrrPlan(Plan):
    """The steps of [P]'s experiments."""

    settings: PacrrSettings

    def rows(self) -> dict[str, str]:
        """The rows of the tables, and their titles."""
        ours = {name: model.title for name, model in OURS.items()}
        swept = {name: f"{OURS[model].title}, best of figure 5" for name, model in SWEPT.items()}
        encoder = {SENTENCES: SENTENCES_TITLE} if self.settings.encoder else {}
        return {**ours, **swept, **{name: model.title for name, model in self.settings.baselines.items()}, **encoder}

    def stages(self) -> Iterator[list[Step]]:
        settings = self.settings
        every, swept = settings.collections, [each for each in settings.collections if each.name in settings.sweep]
        trials = [(name, trial) for name in settings.tuned for trial in settings.drawn(name)]
        trained_words = any(trains_words(trial.options) for _, trial in trials)
        yield [self.index(collection) for collection in every]
        yield [
            step
            for collection in every
            for step in (
                *(self.candidates(collection, split) for split in ("train", "validation")),
                *(self.run(collection, stage, ORDER) for stage in FIRST_STAGES),
                *self.many_runs(collection),
                *([self.extended(collection)] if trained_words else []),
                *([self.encodings(collection)] if settings.encoder else []),
            )
        ]
        yield [
            *(self.training(collection, sizes.row) for collection in swept for sizes in settings.sizes()),
            *(self.trial_training(collection, name, trial) for collection in every for name, trial in trials),
        ]
        seeded = [(name, seed) for name in settings.tuned for seed in settings.training_seeds]
        trained = [self.training(collection, name, seed) for collection in every for name, seed in seeded]
        best = [self.training(collection, name) for collection in every for name in SWEPT]
        known = {self.training(collection, sizes.row) for collection in swept for sizes in settings.sizes()}
        yield once(step for step in (*trained, *best) if step not in known)
        yield once(
            [
                *(self.run(collection, "judged", ORDER) for collection in every if collection.judged),
                *(
                    self.run(collection, setting, name)
                    for collection in every
                    for name in self.rows()
                    for setting in _settings(collection)
                ),
                *(self.run(collection, "sweep", sizes.row) for collection in swept for sizes in settings.sizes()),
                *(
                    self.run(collection, stage, name, seed)
                    for collection in every
                    for stage in FIRST_STAGES
                    for name, seed in seeded
                ),
            ]
        )

    def trial_training(self, collection: Collection, name: str, trial: Trial) -> Step:
        options = (*merged(self.settings.tuned[name].train.split(), trial.options),)
        epochs = ("--epochs", self.settings.trial_epochs)
        return self._train(collection, "trials", f"{name}-{trial.name}", (*options, *epochs))

    def trial(self, collection: Collection, name: str) -> Trial:
        """The hyper-parameters with the best measure on the collection's validation queries in their trial."""
        if not (tried := self.settings.drawn(name)):
            return Trial()
        return self.chosen(tried, lambda trial: self.reached(self.trial_training(collection, name, trial))[MEASURES[0]])

    def extended(self, collection: Collection) -> Step:
        return self.extended_words(f"{collection.name}/words", self.index(collection))

    def encodings(self, collection: Collection) -> Step:
        return self.encode(f"{collection.name}/encodings", SENTENCES, self.index(collection), self.settings.encoder)

    def best(self, collection: Collection) -> Sizes:
        """The hyper-parameters of PACRR-kwindow with the best measure on the validation queries."""
        swept = collection.name if collection.name in self.settings.sweep else self.settings.sweep[0]
        tuned_on = next(each for each in self.settings.collections if each.name == swept)
        return self.chosen(
            self.settings.sizes(), lambda sizes: self.reached(self.training(tuned_on, sizes.row))[MEASURES[0]]
        )

    def index(self, collection: Collection) -> Step:
        return self.indexing(collection.name, "index", collection.corpus, stem=self.settings.stem)

    def candidates(self, collection: Collection, split: str) -> Step:
        return self._search(collection, split, split)

    def many_runs(self, collection: Collection) -> list[Step]:
        """The runs of table 2, in a folder named after all of their commands."""
        named = {name: options.split() for name, options in list(RUNS.items())[: self.settings.runs]}
        steps = [self._search(collection, "test", name, *options) for name, options in named.items()]
        folder = self.work / collection.name / f"many-{digest(step.name for step in steps)}"
        return [
            self._search(collection, "test", name, *options, output=folder / f"{name}.run")
            for name, options in named.items()
        ]

    def runs_before(self, collection: Collection, documents: str) -> Path:
        """The folder of table 2's runs before re-ranking, with ``all`` documents or the ``judged`` ones."""
        if documents == "judged":
            return self.run(collection, documents, ORDER).output
        return self.many_runs(collection)[0].output.parent

    def training(self, collection: Collection, name: str, seed: int | None = None) -> Step:
        """The training of a row of the tables, or of figure 5."""
        options = {sizes.row: sizes.options for sizes in self.settings.sizes()}
        if name in SWEPT:
            best = self.best(collection)
            if SWEPT[name] == KWINDOW:
                name = best.row
            options[name] = best.options if name == best.row else f"{OURS[FIRSTK].train} {best.shared}"
        if name in options:
            return self._train(collection, "checkpoints", name, options[name].split(), seed)
        trial = self.trial(collection, name)
        tuned = merged(self.settings.tuned[name].train.split(), trial.options, *self.settings.fewer_epochs(name))
        return self._train(collection, "checkpoints", name, tuned, seed)

    def _train(self, collection: Collection, kind: str, name: str, options: Sequence, seed: int | None = None) -> Step:
        settings, index = self.settings, self.index(collection)
        candidates = [self.candidates(collection, split).output for split in ("train", "validation")]
        command = [
            "--train", collection.train, "--validation", collection.validation, "--train-run", candidates[0],
            "--validation-run", candidates[1], "--depth", settings.depth, "--measures", *MEASURES,
            "--epochs", settings.epochs, "--pairs-per-query", settings.pairs, *settings.train_option,
        ]  # fmt: skip
        words = self.extended(collection).output if trains_words(options) else settings.words
        return self.train(f"{collection.name}/{kind}", name, index, words, *merged(command, options), seed=seed)

    def run(self, collection: Collection, setting: str, name: str, seed: int | None = None) -> Step:
        """A row's run of the test queries in a setting; `ORDER` is the run before re-ranking.

        Settings are the first stages of table 1, ``all`` or ``judged`` documents of table 2's runs (folders), the
        document ``pairs`` of table 3, and the ``sweep`` of figure 5.
        """
        if setting in FIRST_STAGES and name == ORDER:
            options = ["--first-stage", setting]
        elif setting in FIRST_STAGES or setting == "sweep":
            stage = "qld" if setting == "sweep" else setting
            options = ["--run", self.run(collection, stage, ORDER).output]
        elif setting == "pairs":
            options = ["--first-stage", f"judged:{collection.judged}"]
        else:
            options = ["--run", self.runs_before(collection, "all")]
            options += ["--judged-only", collection.judged] if setting == "judged" else []
        if name != ORDER:
            encoder = f"encoder:{self.settings.encoder}"
            reranker = encoder if name == SENTENCES else self.training(collection, name, seed).output
            options += ["--reranker", reranker, "--tag", name]
        folder = setting in ("all", "judged")
        return self._search(collection, "test", f"{setting}/{name}", *options, suffix="" if folder else ".run")

    def _search(self, collection: Collection, split: str, name: str, *options, **more) -> Step:
        words = ("--depth", self.settings.depth, *options)
        kind = f"{collection.name}/runs"
        return self.search(kind, name, self.index(collection), getattr(collection, split), *words, **more)


def _settings(collection: Collection) -> tuple[str, ...]:
    """The settings in which the rows of the tables are run."""
    return (*FIRST_STAGES, "all", *(("judged", "pairs") if collection.judged else ()))
