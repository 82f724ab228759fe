"""The experiments of [D18] on a judged collection: its rows, and the steps that make a run of each.

Each row re-ranks two sets of documents: the first stage's candidates ([D18] 5.3), and the judged documents alone
([D18] 5.1), if there are judgments of non-relevant documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from experiments.plan import SENTENCES, SENTENCES_TITLE, Plan, Step, checkpoint_config, merged, once
from experiments.settings import Settings, check_known, option, size
from rerank_plugin.inputs.lexical_features import FIRST_STAGE, FIRST_STAGE_SHARE, LEX3

ORDER, SELECTED, WEAK, TUNED = "order", "delta32-selected", "delta32-lex3-weak", "delta32-lex3-tuned"
CANDIDATES, JUDGED = "candidates", "judged"  # the two settings, and the folders of their runs
WORDS, STEM_WORDS, CBOW_WORDS = "words", "stem_words", "cbow_words"  # settings

# The best hyper-parameters on NFCorpus's dev split.
DELTA = (
    "--model delta --query-words 16 --dropout 0.5 --learning-rate 0.003 --l2-convolution 1e-3 --l2-feed-forward 1e-3"
)
WITH_LEX3 = f"{DELTA} --lexical-features {' '.join(LEX3)}"
DRMM = (  # [D18] 4.3.4: the same pairwise loss as Delta's
    "--model drmm --sampling balanced --weights sqrt --batch-size 256 --optimizer adagrad --measures nDCG@20 AP"
)
SEVMOS = "--model sevmos --query-words 16 --dropout 0.5 --set classifier_dropout=0.5"
CLASSIFIER = "--model delta-classifier --query-words 16 --dropout 0.5 --set classifier_dropout=0.5"


@dataclass(frozen=True, kw_only=True)
class DeltaSettings(Settings):
    """Tables 2 to 7 and figure 3 of the Delta paper (WWW 2018) on a judged collection: trains every model, re-ranks the
    first stage's candidates and, with --judged, the judged documents, and writes a Markdown page."""

    corpus: str = option("documents to index")
    train: str = option("queries and judgments", metavar="QJ")
    validation: str = option("queries and judgments", metavar="QJ")
    test: str = option("queries and judgments", metavar="QJ")
    judged: str | None = option("judgments of the test queries, with grade 0", None, metavar="J")
    weak: tuple[str, ...] = option("corpus to pre-train on", (), action="append", metavar="CORPUS")
    stem_words: str | None = option("word vectors on Krovetz stems, for Delta on stems", None, metavar="WORDS")
    cbow_words: str | None = option(
        "word vectors on Krovetz stems by CBOW, for DRMM as the paper ran it", None, metavar="WORDS"
    )
    only: tuple[str, ...] = option("run only these rows", (), metavar="ROW")
    depth: int = size("candidates of each query", 500)
    quick_depth: int = size("candidates in the validation of classifiers and of figure 3's models", 100)
    epochs: int = size("largest number of epochs", 12)
    pairs: int = size("largest number of pairs per query and epoch", 30)
    filters: tuple[int, ...] = size("filters of figure 3", (8, 16, 32, 64, 128, 256))
    classifier_epochs: int = size("largest number of epochs of a classifier", 5)
    classifier_documents: int = size("documents per query and epoch of a classifier", 12)
    sweep_pairs: int = size("pairs per query for figure 3 and for pre-training", 5)
    selected: int = size("lexical features to select", 3)
    selection_epochs: int = size("epochs of the trainings in the selection", 3)
    selection_pairs: int = size("pairs per query of the trainings in the selection", 5)
    weak_queries: int = size("weakly labelled queries", 5000, least=2)

    def __post_init__(self) -> None:
        check_known("rows", self.only, [row.name for row in all_rows(self)])


class DeltaRow(NamedTuple):
    """A row of a table."""

    name: str  # of its run and checkpoint
    title: str
    train: str = ""  # options of the training, if any
    reranker: str = ""  # a known name; "" for the first-stage order, and for a row with a training
    words: str = WORDS  # the setting of its word vectors; those other than WORDS are of Krovetz stems


def all_rows(settings: DeltaSettings) -> list[DeltaRow]:
    """The rows of the tables, in order; at the end those of figure 3, trained on fewer pairs."""
    quick = f"--epochs {settings.epochs} --patience 2"
    long = f"--pairs-per-query {settings.pairs} --epochs {settings.epochs} --patience 3"
    short = (
        f"--pairs-per-query {settings.classifier_documents} --epochs {settings.classifier_epochs} --patience 2 "
        f"--validation-depth {settings.quick_depth}"
    )
    by_accuracy = f"{short} --measures accuracy nDCG@20 AP"  # [D17] 4.6
    swept = f"--pairs-per-query {settings.sweep_pairs} {quick}"
    filters = f"{swept} --validation-depth {settings.quick_depth}"
    weak = [
        DeltaRow(WEAK, "Delta-32-Lex3, weak labels only", f"{WITH_LEX3} {swept}"),
        DeltaRow(TUNED, "Delta-32-Lex3, weak labels, then tuned", f"{WITH_LEX3} {long}"),
    ]
    share = "Delta-32-Lex3 + share of the best first-stage score"
    stems = [
        DeltaRow("drmm-d18", "DRMM as in [D18]", f"{DRMM} {long} --set query_stopwords=remove", words=CBOW_WORDS),
        DeltaRow("delta32-lex3-stems", "Delta-32-Lex3 on stems", f"{WITH_LEX3} {long}", words=STEM_WORDS),
        DeltaRow(
            "delta32-lex3-share-stems",
            f"{share}, on stems",
            f"{WITH_LEX3} {FIRST_STAGE_SHARE} {long}",
            words=STEM_WORDS,
        ),
    ]
    return [
        DeltaRow(ORDER, "Original order"),
        DeltaRow("docid", "rev DocID", reranker="docid"),
        DeltaRow("bm25-title", "BM25-Title", reranker="bm25-title"),
        DeltaRow("bm25-abstract", "BM25-Abstract", reranker="bm25-abstract"),
        DeltaRow("bm25-text", "BM25-Text", reranker="bm25-text"),
        DeltaRow("qld-title", "UQLM-Title", reranker="qld-title"),
        DeltaRow("wmd-title", "WMD-Title", reranker=f"wmd-title:{settings.words}"),
        DeltaRow("wmd-title-nostop", "WMD-Title, no stop-words", reranker=f"wmd-title-nostop:{settings.words}"),
        *([DeltaRow(SENTENCES, SENTENCES_TITLE, reranker=f"encoder:{settings.encoder}")] if settings.encoder else []),
        DeltaRow("drmm", "DRMM", f"{DRMM} {long}"),
        DeltaRow("sevmos-c1", "SevMos-C1", f"{SEVMOS} {short}"),
        DeltaRow("sevmos-c3", "SevMos-C3", f"{SEVMOS} convolutions=3 {short}"),
        DeltaRow("delta-classifier", "Delta classifier [D17]", f"{CLASSIFIER} {short}"),
        DeltaRow(
            "delta-classifier-accuracy", "Delta classifier [D17], best epoch by accuracy", f"{CLASSIFIER} {by_accuracy}"
        ),
        DeltaRow("delta-classifier-w", "Delta classifier, weighted", f"{CLASSIFIER} {short} --weights log"),
        DeltaRow("delta32", "Delta-32", f"{DELTA} {long}"),
        DeltaRow("delta32-lex3", "Delta-32-Lex3", f"{WITH_LEX3} {long}"),
        DeltaRow(
            "delta32-no-differences", "Delta-32, no difference vectors", f"{DELTA} {long} --set differences=false"
        ),
        DeltaRow("delta32-no-features", "Delta-32, no Delta features", f"{DELTA} {long} --set delta_features=false"),
        DeltaRow("delta32-lex3-first", "Delta-32-Lex3 + first-stage score", f"{WITH_LEX3} {FIRST_STAGE} {long}"),
        DeltaRow("delta32-lex3-share", share, f"{WITH_LEX3} {FIRST_STAGE_SHARE} {long}"),
        DeltaRow(SELECTED, f"Delta-32-Lex{settings.selected}, our own", f"{DELTA} {long}"),
        *(row for row in stems if getattr(settings, row.words)),
        *(weak if settings.weak else []),
        *(DeltaRow(sweep_row(n), f"Delta-{n}", f"{DELTA} {filters} --set filters={n}") for n in settings.filters),
    ]


def sweep_row(filters: int) -> str:
    """The row of figure 3's model with this number of filters."""
    return f"sweep-{filters}"


class DeltaPlan(Plan):
    """The steps of [D18]'s experiments."""

    settings: DeltaSettings

    def rows(self) -> list[DeltaRow]:
        """The rows of the tables, in order."""
        only = self.settings.only
        return [row for row in all_rows(self.settings) if not only or row.name in only or row.name == ORDER]

    def stages(self) -> Iterator[list[Step]]:
        rows = {row.name: row for row in self.rows()}
        weak = bool(rows.keys() & {WEAK, TUNED})
        indexes = once(self.index_of(row) for row in rows.values())
        yield [*indexes, *([self.weak_labels()] if weak else [])]
        splits = [self.candidates(split) for split in ("train", "validation", "test")]
        encodings = (
            [self.encode("encodings", SENTENCES, self.index(), self.settings.encoder)] if SENTENCES in rows else []
        )
        yield [*splits, *([self.weak_index()] if weak else []), *encodings]
        later = [rows[name] for name in (SELECTED, TUNED) if name in rows]
        trained = [row for row in rows.values() if row.train and row.name != WEAK and row not in later]
        first = [self.selection()] if SELECTED in rows else []
        first += [self.training(WEAK)] if weak else []
        yield first + sorted((self.training(row.name) for row in trained), key=_longest_first)
        yield [self.training(row.name) for row in later]
        settings = [CANDIDATES, *([JUDGED] if self.settings.judged else [])]
        yield [self.run(row, setting) for row in rows.values() for setting in settings if row.name != ORDER]

    def index(self) -> Step:
        return self.indexing("indexes", "index", self.settings.corpus)

    def index_of(self, row: DeltaRow) -> Step:
        """The index whose words a row reads."""
        if row.words == WORDS:
            return self.index()
        return self.indexing("indexes", "stems", self.settings.corpus, stem="krovetz")

    def candidates(self, split: str) -> Step:
        queries = getattr(self.settings, split)
        return self.search("runs", split, self.index(), queries, "--depth", self.settings.depth)

    def training(self, name: str) -> Step:
        """A row's training; that of `SELECTED` is known once the selection has run."""
        row = next(row for row in all_rows(self.settings) if row.name == name)
        options = row.train.split()
        if name == WEAK:
            return self._weak_training(options)
        if name == SELECTED:
            options += ["--lexical-features", *self.selected_features()]
        if name == TUNED:
            options += ["--start-from", self.training(WEAK).output]
        return self._training(row, *options)

    def _training(self, row: DeltaRow, *options) -> Step:
        settings = self.settings
        command = [
            "--train", settings.train, "--validation", settings.validation,
            "--train-run", self.candidates("train").output, "--validation-run", self.candidates("validation").output,
            "--depth", settings.depth, *options, *settings.train_option,
        ]  # fmt: skip
        words = getattr(settings, row.words)
        return self.train("checkpoints", row.name, self.index_of(row), words, *merged(command))

    def selection(self) -> Step:
        """The greedy selection, with shorter trainings than those of the tables."""
        settings = self.settings
        pairs = ["--pairs-per-query", settings.selection_pairs, "--epochs", settings.selection_epochs, "--patience", 3]
        return self._training(
            DeltaRow("selection", ""), *DELTA.split(), *pairs, "--select-lexical-features", settings.selected
        )

    def selected_features(self) -> list[str]:
        return list(LEX3) if self.dry else checkpoint_config(self.selection())["config"]["lexical_features"]

    def weak_labels(self) -> Step:
        settings = self.settings
        corpora = [part for corpus in settings.weak for part in ("--corpus", corpus)]
        sizes = ["--queries", settings.weak_queries, "--held-out", max(settings.weak_queries // 10, 1)]
        return self.step("weak", "labels", ["weak", *corpora, *sizes, "--overwrite"])

    def weak_index(self) -> Step:
        return self.indexing("indexes", "weak", self.weak_labels().output)

    def _weak_training(self, options: list[str]) -> Step:
        """Delta-32-Lex3 on weak labels alone."""
        settings, labels = self.settings, self.weak_labels().output
        splits = ["--train", f"{labels}:train", "--validation", f"{labels}:dev", "--depth", settings.quick_depth]
        more = (*splits, *options, *settings.train_option)
        return self.train("checkpoints", WEAK, self.weak_index(), settings.words, *merged(more))

    def run(self, row: DeltaRow, setting: str) -> Step:
        """A row's run of the test queries in a setting; the first-stage order is the same in all settings."""
        settings = self.settings
        if row.name == ORDER:
            return self.candidates("test")
        reranker = self.training(row.name).output if row.train else row.reranker
        documents = ["--run", self.candidates("test").output, "--depth", settings.depth]
        if setting == JUDGED:
            documents = ["--first-stage", f"judged:{settings.judged}"]
        options = (*documents, "--tag", row.name, "--reranker", reranker)
        return self.search(f"runs/{setting}", row.name, self.index_of(row), settings.test, *options)


def _longest_first(step: Step) -> int:
    """Sort key that starts long trainings, those with many filters, first."""
    words = " ".join(step.command)
    if filters := re.search(r"\bfilters=(\d+)", words):
        return -int(filters[1])
    return -200 if "sevmos" in words or "classifier" in words else -32
