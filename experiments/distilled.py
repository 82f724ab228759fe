"""KTRel trained on a collection's own judgments, starting from the bundled encoder: the page docs/results/distilled.md.

    python -m experiments.distilled --data data/nfcorpus --work runs/distilled --output docs/results/distilled.md

Everything is chosen on the validation queries; the test queries are searched once, with what was chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import rerank_plugin as rp
from experiments.plan import Runner, Step
from rerank_plugin.benchmark import machine
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.evaluation.fusing import Fusion, fuse, tune
from rerank_plugin.evaluation.subsets import overlapping, restricted
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.files.tables import markdown
from rerank_plugin.options import run
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.hybrid import HYBRID_RM3, HybridConfig
from rerank_plugin.retrieval.neighbours import NeighboursConfig

DEPTH = 1000
MEASURES = ["nDCG@10", "AP"]
STRATA = [(0.0, 0.3), (0.3, 0.5), (0.5, 0.9), (0.9, 1.0)]
RM3, KTREL, FEEDBACK, HYBRID = "BM25+RM3", "KTRel", "feedback", "hybrid"
SIMILAR, SIMILAR_BUNDLED = "similar", "similar, bundled"
TRAINING = (  # chosen on the validation queries, as everything here
    "--model ktrel-w --first-stage all --loss softmax --temperature 0.1 --ndcg-share 0.3 --grade-power 2 "
    "--negatives collection --averaging 0.8 --start-share 0.3 --learning-rate 0.003 --epochs 9 --patience 3 "
    "--set layers=0 word_dropout=0.3 factor=1 document_words=250 query_words=32"
).split()
TITLE = "# Trained on judgments, from the distilled encoder"
PAGE = FileKind("this page", lambda path: beginning(path).startswith(TITLE.encode()))

Run = Mapping[str, rp.RankedList]


class Mixture(NamedTuple):
    """A row of the table: a run, or a linear fusion of several whose weights the validation queries choose."""

    title: str
    parts: tuple[str, ...]
    search: str = "grid"
    step: float = 0.05


ROWS = [
    Mixture("BM25+RM3", (RM3,)),
    Mixture("KTRel", (KTREL,)),
    Mixture("KTRel with feedback", (FEEDBACK,)),
    Mixture("BM25+RM3 and KTRel", (RM3, KTREL)),
    Mixture("BM25+RM3 and KTRel with feedback", (RM3, FEEDBACK)),
    Mixture("hybrid+rm3 of KTRel: feedback for both, and regularization", (HYBRID,)),
    Mixture("judgments of similar queries, by the bundled encoder", (SIMILAR_BUNDLED,)),
    Mixture("judgments of similar queries, by KTRel", (SIMILAR,)),
    Mixture("the hybrid and similar queries by KTRel", (HYBRID, SIMILAR)),
    Mixture("the same, with queries that are similar by the bundled encoder, too", (HYBRID, SIMILAR, SIMILAR_BUNDLED)),
]
BASELINE = ROWS[3].title


class Experiment:
    """The trained encoder of a BEIR folder with the splits train, dev and test, and the runs with it."""

    def __init__(self, data: Path, work: Path):
        self.data, self.train = data, f"{data}:{'train.graded' if _graded(data) else 'train'}"
        self.place, self.words, self.checkpoint = work / "index", work / "words", work / "checkpoint"
        self.validation = queries_and_judgments(f"{data}:dev")
        index = ("index", "--index", str(self.place))
        judged = ("--judged", self.train, "--overwrite")
        extend = ("embed", "extend", "--words", "ktrel", "--index", str(self.place), "--output", str(self.words))
        train = ("train", *TRAINING, "--index", str(self.place), "--words", str(self.words), *self._training_queries())
        train = (*train, "--validation", f"{data}:dev", "--output", str(self.checkpoint))
        self.steps = [
            Step("index", (*index, "--corpus", str(data)), self.place),
            Step("words", extend, self.words),
            Step("training", train, self.checkpoint),
            *(
                Step(f"encoding-{number}", (*index, "--encode", model, *judged), work / f"encoded-{number}.txt", True)
                for number, model in enumerate([str(self.checkpoint), "ktrel"], 1)
            ),
        ]

    def _training_queries(self) -> tuple[str, ...]:
        """The judged queries, and descriptions of some of them where the folder has them."""
        types = self.data / "queries_by_type.jsonl"
        qrels = f"{self.data}/qrels/{self.train.partition(':')[2]}.tsv"
        more = ("--train", f"{types}:split=train:type=vid-desc,{qrels}") if types.is_file() else ()
        return ("--train", self.train, *more)

    @cached_property
    def index(self) -> rp.Index:
        return rp.Index(self.place)

    def search(self, config: object, queries: list[rp.Query]) -> Run:
        return rp.rank_many(self.index, queries, None, config, DEPTH)

    def best(self, configs: list) -> object:
        """The configuration with the highest mean of the measures on the validation queries."""
        queries, judged = self.validation
        runs = {str(number): self.search(config, queries) for number, config in enumerate(configs)}
        reached = rp.evaluate_runs(judged, runs, MEASURES)["runs"]
        return configs[max(range(len(configs)), key=lambda number: sum(reached[str(number)].values()))]

    @cached_property
    def stages(self) -> dict[str, object]:
        """The first stages by name, their settings chosen."""
        model = str(self.checkpoint)
        moved = product((0.7, 0.8, 0.9), ((3, 0.3), (5, 0.5)))
        hybrids = [
            HybridConfig(HYBRID_RM3, model, weight, feedback=n, feedback_weight=w, regularized=DEPTH)
            for weight, (n, w) in moved
        ]
        feedback = [DenseConfig(model, feedback=n, feedback_weight=w) for n, w in product((3, 5), (0.15, 0.3, 0.6))]
        return {
            RM3: "bm25+rm3",
            KTREL: DenseConfig(model),
            FEEDBACK: self.best(feedback),
            HYBRID: self.best(hybrids),
            SIMILAR: self.best(_neighbours(model, "hybrid")),
            SIMILAR_BUNDLED: self.best(_neighbours("ktrel", f"dense:{model}")),
        }

    def runs(self, queries: list[rp.Query]) -> dict[str, Run]:
        return {name: self.search(config, queries) for name, config in self.stages.items()}


def _graded(data: Path) -> bool:
    return (data / "qrels" / "train.graded.tsv").is_file()


def _neighbours(checkpoint: str, other: str) -> list[NeighboursConfig]:
    """Listening by the checkpoint's usual ranking, or by another first stage's."""
    settings = product(("", other), (0.03, 0.05, 0.1))
    return [NeighboursConfig(checkpoint, ranking=ranking, temperature=one) for ranking, one in settings]


def chosen_fusions(runs: Mapping[str, Run], judged: dict) -> dict[str, Fusion]:
    """By row, the weights with the highest mean of the measures."""
    return {
        row.title: tune([runs[name] for name in row.parts], judged, MEASURES, "linear", row.step, search=row.search)
        .best.fusion
        for row in ROWS
        if len(row.parts) > 1
    }  # fmt: skip


def mixed(runs: Mapping[str, Run], fusions: Mapping[str, Fusion]) -> dict[str, Run]:
    """The runs of the table's rows, of the best `DEPTH` documents."""
    rows = {}
    for row in ROWS:
        parts = [runs[name] for name in row.parts]
        found = parts[0] if len(parts) == 1 else fuse(parts, fusions[row.title])
        rows[row.title] = {
            query: rp.RankedList(one.doc_ids[:DEPTH], one.scores[:DEPTH]) for query, one in found.items()
        }
    return rows


def measured(rows: Mapping[str, Run], judged: dict) -> list[list[str]]:
    """The rows' cells, marked against `BASELINE`."""
    found = rp.evaluate_runs(judged, rows, MEASURES, baseline=BASELINE)
    cells = []
    for name, values in found["runs"].items():
        test = found["tests"]["runs"].get(name)
        marks = {one: _mark(test[one]) if test else "" for one in MEASURES}
        cells.append([f"{values[one]:.4f}{marks[one]}" for one in MEASURES])
    return cells


def _mark(test: dict) -> str:
    return "" if test["p"] >= 0.05 else "+" if test["difference"] > 0 else "-"


def page(experiment: Experiment, command: str, minutes: str) -> str:
    queries, judged = experiment.validation
    runs = experiment.runs(queries)
    fusions = chosen_fusions(runs, judged)
    on_validation = measured(mixed(runs, fusions), judged)
    queries, judged = queries_and_judgments(f"{experiment.data}:test")
    rows = mixed(experiment.runs(queries), fusions)
    _, seen = queries_and_judgments(experiment.train)
    strata = {
        f"{low:g} to {high:g}": restricted(judged, overlapping(judged, seen, low, high), "stratum")
        for low, high in STRATA
    }
    of_strata = [measured(rows, one) for one in strata.values()]
    titles = [row.title for row in ROWS]
    table = [["", *(f"{split} {name}" for split in ("validation", "test") for name in MEASURES)]]
    table += [[title, *dev, *test] for title, dev, test in zip(titles, on_validation, measured(rows, judged))]
    by_stratum = [["largest overlap", *(f"{name}: {one}" for name in strata for one in MEASURES)]]
    by_stratum.append(["queries", *(cell for one in strata.values() for cell in (str(len(one)), ""))])
    by_stratum += [[title, *(cell for part in cells for cell in part)] for title, *cells in zip(titles, *of_strata)]
    weights = [["", "weights"]]
    for row in ROWS:
        if row.title in fusions:
            shares = zip(row.parts, fusions[row.title].weights)
            weights.append([row.title, ", ".join(f"{name} {weight:.2f}" for name, weight in shares)])
    settings = "\n".join(f"* {name}: `{config}`" for name, config in experiment.stages.items())
    return "\n\n".join(
        [
            TITLE,
            INTRODUCTION,
            f"```sh\n{command}\n```",
            f"on {machine.processor()}, one thread. Its commands are these, and took {minutes} processor minutes:",
            "```sh\n" + "\n".join(step.shown.partition(" > ")[0] for step in experiment.steps) + "\n```",
            "## Measured",
            markdown(table).strip(),
            READING,
            "## By the overlap with training queries",
            OVERLAP,
            markdown(by_stratum).strip(),
            "## What the validation queries chose",
            markdown(weights).strip(),
            settings,
            "## What was tried",
            TRIED,
        ]
    ) + "\n"  # fmt: skip


INTRODUCTION = """\
This page is for you if your collection has judged queries: what KTRel gains when it is trained on them, starting from
the word vectors of [the bundled encoder](../models/ktrel.md). Words of the collection that the encoder does not know
get random vectors. Each training query is scored against the whole collection, words are left out by chance, and the
moving average of the epochs' weights, mixed with 0.3 of those of the start, is what is validated and kept. Made by"""
READING = f"""\
`+` higher, `-` lower than '{BASELINE}': two-tailed paired t-test, p < 0.05 after Bonferroni correction for the rows of
the table. Runs of the best 1,000 documents; queries without results count as 0. The epoch was chosen by AP on the
validation queries, everything else by the mean of nDCG@10 and AP there, so their own columns are upper bounds."""
OVERLAP = """\
Test queries by the largest overlap (Jaccard coefficient) of their relevant documents with those of any training query,
as `evaluate --subset overlap0.3-0.5 --seen-qrels` splits them. Marks are within a stratum."""
TRIED = """\
Similar queries counted by their cosine alone before: with `--neighbours 100 --neighbour-documents 0` they had nDCG@10
and AP of 0.4204 and 0.3512 on validation, 0.4344 and 0.3620 on test, and the last row had 0.4567 and 0.3559, 0.4796 and
0.3753. A first version of the share chose other weights of the cosine, 0.4523 and 0.3566 alone on validation, and had
0.4780 and 0.3764 on test in the last row. So test was looked at three times here. nDCG@10 of the last row stays where
it was, though it rose by 0.014 on validation.

KTRel before kept no share of the start and chose everything by AP: 0.4584 and 0.3526 on test, 0.4657 and 0.3584 with
BM25+RM3 and feedback. On validation the share of the start raised it from 0.4336 and 0.3276; test shows little of that.
What the share moves is where the model is good: AP of KTRel rose from 0.3012 to 0.3129 for the queries that overlap
least with the training's, and fell from 0.4551 to 0.4465 for those that overlap most.

Tried on validation in scripts that no command repeats, and not taken. For the share: its value and not its root, other
powers, relevant documents by their grade, descriptions beside titles, the root of the sum (0.001 more nDCG@10 and 0.004
more AP after fusion with equal weights), shares after feedback. For the rest: regularization of the scores
by neighbours of the encoder or of the judgments (at most 0.001 more nDCG@10), ridge regression over the judged queries,
the mean of the weights of two trainings (0.4368 for 0.4334 before the share of the start, 0.4399 for 0.4417 and 0.4408
with it), and the documents' titles as further queries (stopped after two epochs: 0.3944 for 0.4047)."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.distilled", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="BEIR folder with the splits train, dev and test")
    parser.add_argument("--work", type=Path, required=True, help="keep index, checkpoint and a journal here")
    parser.add_argument("--output", type=Path, required=True, help="page to write")
    options = parser.parse_args(argv)
    experiment, runner = Experiment(options.data, options.work), Runner(options.work)
    runner.run([step] for step in experiment.steps)
    command = f"python -m experiments.distilled --data {options.data} --work {options.work} --output {options.output}"
    text = page(experiment, command, runner.minutes(experiment.steps)[1])
    with replacing(options.output, PAGE, overwrite=True) as file:
        file.write(text.encode())


if __name__ == "__main__":
    run(main)
