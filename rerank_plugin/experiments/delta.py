"""The experiments of [D18] on a judged collection: its rows, and the steps that make a run of each.

Rows are re-ranked in two settings: the first stage's candidates ([D18] 5.3), and the judged documents alone
([D18] 5.1), where there are judgments of documents that are not relevant, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.experiments.steps import Step
from rerank_plugin.features.lexical_features import FIRST_STAGE, FIRST_STAGE_SHARE, LEX3
from rerank_plugin.files.errors import InputError

ORDER, SELECTED, WEAK, TUNED = "order", "delta32-selected", "delta32-lex3-weak", "delta32-lex3-tuned"
CANDIDATES, JUDGED = "candidates", "judged"  # the two settings, and the folders of their runs


@dataclass(frozen=True)
class DeltaSettings:
    """What the experiments are run on, and how large they are.

    The hyper-parameters are those that did best on NFCorpus's dev split.

    Attributes:
        corpus: documents. words: folder of word vectors.
        train, validation, test: queries and judgments.
        judged: judgments of the test queries with documents that are not relevant; None leaves that setting out.
        weak: corpora that weak labels are made of; none leaves pre-training out.
        quick_depth: of validation while models of many filters are trained.
        only: names of the rows to run; none for all of them.
        filters: of the sweep ([D18] figure 3).
        pairs, sweep_pairs, selection_pairs: of a query in an epoch; the sweep's hold for pre-training, too.
        classifier_documents: of a query in an epoch, for models that are trained as classifiers.
        at_once: steps that run at the same time.
    """

    work: Path
    corpus: str
    train: str
    validation: str
    test: str
    words: str
    judged: str | None = None
    weak: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    depth: int = 500
    quick_depth: int = 100
    filters: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    epochs: int = 12
    pairs: int = 30
    classifier_epochs: int = 5
    classifier_documents: int = 12
    sweep_pairs: int = 5
    selected: int = 3
    selection_epochs: int = 3
    selection_pairs: int = 5
    weak_queries: int = 5000
    seed: int = 42
    at_once: int = 2


class DeltaRow(NamedTuple):
    """A row of a table.

    Attributes:
        name: of its run and checkpoint. title: in the tables.
        reranker: a known name, or None for a checkpoint of that name, or "" for the candidates' own order.
        train: options of the training, where there is one.
    """

    name: str
    title: str
    reranker: str | None = None
    train: tuple[str, ...] = ()


DELTA = (
    "--model delta --query-words 16 --dropout 0.5 --learning-rate 0.003 --l2-convolution 1e-3 --l2-feed-forward 1e-3"
).split()
DRMM = (  # [D18] 4.3.4: the same pairwise loss as Delta's
    "--model drmm --sampling balanced --weights sqrt --batch-size 256 --optimizer adagrad --measures nDCG@20 AP"
).split()
SEVMOS = "--model sevmos --query-words 16 --dropout 0.5 --set classifier_dropout=0.5".split()
CLASSIFIER = "--model delta-classifier --query-words 16 --dropout 0.5 --set classifier_dropout=0.5".split()


def untrained(settings: DeltaSettings) -> list[DeltaRow]:
    return [
        DeltaRow(ORDER, "Original order", ""),
        DeltaRow("docid", "rev DocID", "docid"),
        DeltaRow("bm25-title", "BM25-Title", "bm25-title"),
        DeltaRow("bm25-abstract", "BM25-Abstract", "bm25-abstract"),
        DeltaRow("bm25-text", "BM25-Text", "bm25-text"),
        DeltaRow("qld-title", "UQLM-Title", "qld-title"),
        DeltaRow("wmd-title", "WMD-Title", f"wmd-title:{settings.words}"),
        DeltaRow("wmd-title-nostop", "WMD-Title, no stop-words", f"wmd-title-nostop:{settings.words}"),
    ]


def trained(settings: DeltaSettings) -> list[DeltaRow]:
    """Rows with a training of their own, without the sweep, the selection and the pre-trained ones."""
    pairs = ["--pairs-per-query", str(settings.pairs), "--epochs", str(settings.epochs), "--patience", "3"]
    short = ["--pairs-per-query", str(settings.classifier_documents), "--epochs", str(settings.classifier_epochs)]
    short += ["--patience", "2", "--validation-depth", str(settings.quick_depth)]
    lex3 = ["--lexical-features", *LEX3]
    return [
        DeltaRow("drmm", "DRMM", train=(*DRMM, *pairs)),
        DeltaRow("sevmos-c1", "SevMos-C1", train=(*SEVMOS, *short)),
        DeltaRow("sevmos-c3", "SevMos-C3", train=(*SEVMOS, "convolutions=3", *short)),
        DeltaRow("delta-classifier", "Delta classifier [D17]", train=(*CLASSIFIER, *short)),
        DeltaRow("delta-classifier-w", "Delta classifier, weighted", train=(*CLASSIFIER, *short, "--weights", "log")),
        DeltaRow("delta32", "Delta-32", train=(*DELTA, *pairs)),
        DeltaRow("delta32-lex3", "Delta-32-Lex3", train=(*DELTA, *lex3, *pairs)),
        DeltaRow(
            "delta32-no-differences",
            "Delta-32, no difference vectors",
            train=(*DELTA, *pairs, "--set", "differences=false"),
        ),
        DeltaRow(
            "delta32-no-features",
            "Delta-32, no Delta features",
            train=(*DELTA, *pairs, "--set", "delta_features=false"),
        ),
        DeltaRow(
            "delta32-lex3-first",
            "Delta-32-Lex3 + first-stage score",
            train=(*DELTA, "--lexical-features", *LEX3, FIRST_STAGE, *pairs),
        ),
        DeltaRow(
            "delta32-lex3-share",
            "Delta-32-Lex3 + share of the best first-stage score",
            train=(*DELTA, "--lexical-features", *LEX3, FIRST_STAGE_SHARE, *pairs),
        ),
    ]


def sweep(settings: DeltaSettings) -> list[DeltaRow]:
    """Delta by its number of filters ([D18] figure 3), on fewer pairs."""
    pairs = ["--pairs-per-query", str(settings.sweep_pairs), "--epochs", str(settings.epochs), "--patience", "2"]
    pairs += ["--validation-depth", str(settings.quick_depth)]
    return [
        DeltaRow(f"sweep-{count}", f"Delta-{count}", train=(*DELTA, "--filters", str(count), *pairs))
        for count in settings.filters
    ]


class DeltaPlan:
    """The steps of the experiments, in stages: what stands in one stage needs nothing of the same stage."""

    def __init__(self, settings: DeltaSettings):
        self.settings, self.work = settings, Path(settings.work)
        self.index = self.work / "index"
        self.checkpoints = self.work / "checkpoints"

    def all_rows(self) -> list[DeltaRow]:
        settings = self.settings
        rows = [*untrained(settings), *trained(settings)]
        rows.append(DeltaRow(SELECTED, f"Delta-32-Lex{settings.selected}, our own"))
        if settings.weak:
            rows.append(DeltaRow(WEAK, "Delta-32-Lex3, weak labels only"))
            rows.append(DeltaRow(TUNED, "Delta-32-Lex3, weak labels, then tuned"))
        return rows + sweep(settings)

    def rows(self) -> list[DeltaRow]:
        """The rows of the tables, in their order.

        Raises:
            InputError: a row is asked for that does not exist.
        """
        rows, only = self.all_rows(), self.settings.only
        if unknown := set(only) - {row.name for row in rows}:
            raise InputError(f"unknown rows {', '.join(sorted(unknown))}; known: {', '.join(row.name for row in rows)}")
        return [row for row in rows if not only or row.name in only or row.name == ORDER]

    def stages(self) -> Iterator[list[Step]]:
        """The stages one by one: what the selection chose is read when it has run."""
        settings, names = self.settings, {row.name for row in self.rows()}
        weak = bool(names & {WEAK, TUNED})
        command = ["index", "--corpus", settings.corpus, "--index", self.index, "--overwrite"]
        yield [self._step("index", command, self.index), *([self._weak_labels()] if weak else [])]
        candidates = [self._candidates(split) for split in ("train", "validation", "test")]
        yield [*candidates, *([self._weak_index()] if weak else [])]
        trainings = sorted([self._training(row) for row in self.rows() if row.train], key=_longest_first)
        first = [self._selection()] if SELECTED in names else []
        yield [*first, *([self._weak_training()] if weak else []), *trainings]
        yield [
            *([self._with_selected()] if SELECTED in names else []),
            *([self._tuning()] if TUNED in names else []),
        ]
        yield [step for row in self.rows() for step in self._searches(row)]

    def runs(self, setting: str) -> Path:
        return self.work / "runs" / setting

    def _step(self, name: str, command: list, output: Path) -> Step:
        return Step(name, tuple(map(str, [*command, "--seed", self.settings.seed])), output)

    def _candidates(self, split: str) -> Step:
        queries, output = getattr(self.settings, split), self.work / "runs" / f"{split}.run"
        command = ["search", "--index", self.index, "--queries", queries, "--depth", self.settings.depth, "--overwrite"]
        return self._step(f"candidates-{split}", [*command, "--output", output], output)

    def _training(self, row: DeltaRow) -> Step:
        return self._step(f"train-{row.name}", self._train(row.name, *row.train), self.checkpoints / row.name)

    def _train(self, name: str, *options) -> list:
        settings = self.settings
        runs = self.work / "runs"
        return [
            "train", "--index", self.index, "--words", settings.words, "--train", settings.train,
            "--validation", settings.validation, "--train-run", runs / "train.run",
            "--validation-run", runs / "validation.run", "--depth", settings.depth, *options,
            "--output", self.checkpoints / name, "--overwrite", "--resume",
        ]  # fmt: skip

    def _selection(self) -> Step:
        """Greedy, with trainings that are shorter than those of the tables."""
        settings = self.settings
        options = [
            "--pairs-per-query",
            settings.selection_pairs,
            "--epochs",
            settings.selection_epochs,
            "--patience",
            3,
        ]
        command = self._train("selection", *DELTA, *options, "--select-lexical-features", settings.selected)
        return self._step("train-selection", command, self.checkpoints / "selection")

    def _with_selected(self) -> Step:
        """The chosen features, trained as long as the others; their names are known once the selection has run."""
        settings, name = self.settings, SELECTED
        pairs = ["--pairs-per-query", settings.pairs, "--epochs", settings.epochs, "--patience", 3]
        command = self._train(name, *DELTA, "--lexical-features", *self.selected_features(), *pairs)
        return self._step(f"train-{name}", command, self.checkpoints / name)

    def selected_features(self) -> list[str]:
        from rerank_plugin.models.checkpoints import read_config

        return read_config(self.checkpoints / "selection")["config"]["lexical_features"]

    def _weak_labels(self) -> Step:
        settings, folder = self.settings, self.work / "weak"
        corpora = [part for corpus in settings.weak for part in ("--corpus", corpus)]
        sizes = ["--queries", settings.weak_queries, "--held-out", max(settings.weak_queries // 10, 1)]
        return self._step("weak-labels", ["weak", *corpora, *sizes, "--output", folder, "--overwrite"], folder)

    def _weak_index(self) -> Step:
        index = self.work / "weak-index"
        return self._step(
            "weak-index", ["index", "--corpus", self.work / "weak", "--index", index, "--overwrite"], index
        )

    def _weak_training(self) -> Step:
        """Delta-32-Lex3 on weak labels alone."""
        settings, folder = self.settings, self.work / "weak"
        pairs = ["--pairs-per-query", settings.sweep_pairs, "--epochs", settings.epochs, "--patience", 2]
        training = [
            "train", "--index", self.work / "weak-index", "--words", settings.words, "--train", f"{folder}:train",
            "--validation", f"{folder}:dev", "--depth", settings.quick_depth, *DELTA, "--lexical-features", *LEX3,
            *pairs, "--output", self.checkpoints / WEAK, "--overwrite", "--resume",
        ]  # fmt: skip
        return self._step(f"train-{WEAK}", training, self.checkpoints / WEAK)

    def _tuning(self) -> Step:
        """The same model, trained on from there as the others are."""
        settings = self.settings
        pairs = ["--pairs-per-query", settings.pairs, "--epochs", settings.epochs, "--patience", 3]
        start = ["--start-from", self.checkpoints / WEAK]
        command = self._train(TUNED, *DELTA, "--lexical-features", *LEX3, *pairs, *start)
        return self._step(f"train-{TUNED}", command, self.checkpoints / TUNED)

    def _searches(self, row: DeltaRow) -> list[Step]:
        """A run of the row in each setting."""
        settings = self.settings
        reranker = row.reranker if row.reranker is not None else self.checkpoints / row.name
        queries = ["search", "--index", self.index, "--queries", settings.test, "--overwrite"]
        steps = []
        if row.reranker != "":
            output = self.runs(CANDIDATES) / f"{row.name}.run"
            candidates = ["--run", self.work / "runs" / "test.run", "--depth", settings.depth, "--tag", row.name]
            command = [*queries, *candidates, "--reranker", reranker, "--output", output]
            steps.append(self._step(f"candidates-{row.name}", command, output))
        if settings.judged and row.reranker != "":
            output = self.runs(JUDGED) / f"{row.name}.run"
            judged = ["--first-stage", f"judged:{settings.judged}", "--tag", row.name]
            command = [*queries, *judged, "--reranker", reranker, "--output", output]
            steps.append(self._step(f"judged-{row.name}", command, output))
        return steps


def _longest_first(step: Step) -> int:
    """So that no long training is left for the end: those with many filters take longest."""
    words = " ".join(step.command)
    if "--filters" in words:
        return -int(step.command[step.command.index("--filters") + 1])
    return -200 if "sevmos" in words or "classifier" in words else -32
