"""KTRel trained on a collection's own judgments, starting from the bundled encoder: experiments/results/distilled.md.

    python -m experiments.distilled --data data/nfcorpus --work runs/distilled --output experiments/results/distilled.md

All settings are chosen on the validation queries; the test queries are searched once, with the chosen settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import rerank_plugin as rp
from experiments.overlap import compared, strata
from experiments.plan import Runner, Step
from rerank_plugin.benchmark import machine
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.evaluation.run_fusion import Fusion, Run, fuse, tune
from rerank_plugin.evaluation.significance import EQUIVALENT, Comparison
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.files.tables import markdown
from rerank_plugin.options import run
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.hybrid import HYBRID_RM3, REGULARIZED_RM3, HybridConfig
from rerank_plugin.retrieval.neighbours import NeighboursConfig

DEPTH = 1000
MEASURES = ["nDCG@10", "AP"]
BM25, RM3, PLAIN, KTREL, FEEDBACK, HYBRID = "BM25", "BM25+RM3", "KTRel as trained", "KTRel", "feedback", "hybrid"
SIMILAR, SIMILAR_BUNDLED, SIMILAR_MINILM = "similar", "similar, bundled", "similar, MiniLM"
TRAINING = (  # chosen on the validation queries
    "--model ktrel-w --first-stage all --loss softmax --temperature 0.1 --ndcg-share 0.3 --grade-power 2 "
    "--negatives collection --averaging 0.8 --start-share 0.3 --learning-rate 0.003 --epochs 27 --restart 9 "
    "--patience 9 --set layers=0 word_dropout=0.3 factor=1 document_words=250 query_words=32"
).split()
TITLE = "# Trained on judgments, from the distilled encoder"
PAGE = FileKind("this page", lambda path: beginning(path).startswith(TITLE.encode()))


class Mixture(NamedTuple):
    """A row of the table: a run, or a linear fusion of several whose weights the validation queries choose."""

    title: str
    parts: tuple[str, ...]
    step: float = 0.05


ROWS = [
    Mixture("BM25", (BM25,)),
    Mixture("BM25+RM3", (RM3,)),
    Mixture("KTRel as trained", (PLAIN,)),
    Mixture("KTRel", (KTREL,)),
    Mixture("KTRel with feedback", (FEEDBACK,)),
    Mixture("BM25+RM3 and KTRel", (RM3, KTREL)),
    Mixture("BM25+RM3 and KTRel with feedback", (RM3, FEEDBACK)),
    Mixture("hybrid+rm3 of KTRel: feedback for both, and regularization", (HYBRID,)),
    Mixture("judgments of similar queries, by the bundled encoder", (SIMILAR_BUNDLED,)),
    Mixture("judgments of similar queries, by KTRel", (SIMILAR,)),
    Mixture("judgments of similar queries, by MiniLM", (SIMILAR_MINILM,)),
    Mixture("the hybrid and similar queries by KTRel", (HYBRID, SIMILAR)),
    Mixture("the hybrid and similar queries by KTRel and the bundled encoder", (HYBRID, SIMILAR, SIMILAR_BUNDLED)),
    Mixture("the hybrid and similar queries by MiniLM", (HYBRID, SIMILAR_MINILM)),
    Mixture("the hybrid and similar queries by all", (HYBRID, SIMILAR, SIMILAR_BUNDLED, SIMILAR_MINILM), step=0.1),
]
BASELINE, ALONE = ROWS[5].title, ROWS[7].title
ON_TOP = [ALONE, *(row.title for row in ROWS if HYBRID in row.parts[:-1])]  # fusions with the hybrid
CHOSEN = ON_TOP[-2]  # by the validation queries


class Experiment:
    """The trained encoder of a BEIR folder with the splits train, dev and test, and the runs with it."""

    def __init__(self, data: Path, work: Path):
        self.data, self.train = data, f"{data}:{'train.graded' if _graded(data) else 'train'}"
        self.place, self.words, self.trained = work / "index", work / "words", work / "checkpoint"
        self.checkpoint = work / "adapted"
        self.validation = queries_and_judgments(f"{data}:dev")
        index = ("index", "--index", str(self.place))
        judged = ("--judged", self.train, "--overwrite")
        extend = ("embed", "extend", "--words", "ktrel", "--index", str(self.place), "--output", str(self.words))
        train = ("train", *TRAINING, "--index", str(self.place), "--words", str(self.words), *self._training_queries())
        train = (*train, "--validation", f"{data}:dev", "--output", str(self.trained))
        adapt = ("embed", "contexts", "--index", str(self.place), "--checkpoint", str(self.trained))
        self.steps = [
            Step("index", (*index, "--corpus", str(data)), self.place),
            Step("words", extend, self.words),
            Step("training", train, self.trained),
            Step("contexts", (*adapt, "--output", str(self.checkpoint)), self.checkpoint),
            *(
                Step(f"encode-{number}", (*index, "--encode", model, *judged), work / f"encoded-{number}.txt", True)
                for number, model in enumerate([str(self.trained), str(self.checkpoint), "ktrel", "minilm"], 1)
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
        model, own = str(self.checkpoint), f"dense:{self.checkpoint}"
        moved = product((0.7, 0.8, 0.9), ((3, 0.3), (5, 0.5)))
        hybrids = [
            HybridConfig(HYBRID_RM3, model, weight, feedback=n, feedback_weight=w, regularized=REGULARIZED_RM3)
            for weight, (n, w) in moved
        ]
        feedback = [DenseConfig(model, feedback=n, feedback_weight=w) for n, w in product((3, 5), (0.15, 0.3, 0.6))]
        return {
            BM25: "bm25",
            RM3: "bm25+rm3",
            PLAIN: DenseConfig(str(self.trained)),
            KTREL: DenseConfig(model),
            FEEDBACK: self.best(feedback),
            HYBRID: self.best(hybrids),
            SIMILAR: self.best(_neighbours(model, (own,), (own, "hybrid"))),
            SIMILAR_BUNDLED: self.best(_neighbours("ktrel", ("hybrid",), (own, "hybrid"))),
            SIMILAR_MINILM: self.best(_neighbours("minilm", (own,), (own, "hybrid"), (own, "hybrid", "dense:minilm"))),
        }

    def runs(self, queries: list[rp.Query]) -> dict[str, Run]:
        return {name: self.search(config, queries) for name, config in self.stages.items()}


def _graded(data: Path) -> bool:
    return (data / "qrels" / "train.graded.tsv").is_file()


def _neighbours(checkpoint: str, *rankings: tuple[str, ...]) -> list[NeighboursConfig]:
    """Similar queries weighted by the rankings of one or several first stages, at some temperatures."""
    settings = product(rankings, (0.03, 0.05, 0.1))
    return [NeighboursConfig(checkpoint, rankings=names, temperature=value) for names, value in settings]


def chosen_fusions(runs: Mapping[str, Run], judged: dict) -> dict[str, Fusion]:
    """By row, the weights with the highest mean of the measures."""
    return {
        row.title: tune([runs[name] for name in row.parts], judged, MEASURES, "linear", row.step).best.fusion
        for row in ROWS
        if len(row.parts) > 1
    }


def mixed(runs: Mapping[str, Run], fusions: Mapping[str, Fusion]) -> dict[str, Run]:
    """The runs of the table's rows, with the top `DEPTH` documents."""
    rows = {}
    for row in ROWS:
        parts = [runs[name] for name in row.parts]
        fused = parts[0] if len(parts) == 1 else fuse(parts, fusions[row.title])
        rows[row.title] = {
            query: rp.RankedList(ranking.doc_ids[:DEPTH], ranking.scores[:DEPTH]) for query, ranking in fused.items()
        }
    return rows


def measured(rows: Mapping[str, Run], judged: dict, baseline: str = BASELINE) -> list[list[str]]:
    """The cells of the rows, with marks against the baseline."""
    evaluation = rp.evaluate_runs(judged, rows, MEASURES, baseline=baseline)
    cells = []
    for name, values in evaluation["runs"].items():
        test = evaluation["tests"]["runs"].get(name)
        marks = {m: Comparison(**test[m]).mark(0.05).replace(EQUIVALENT, "") if test else "" for m in MEASURES}
        cells.append([f"{values[m]:.4f}{marks[m]}" for m in MEASURES])
    return cells


def page(experiment: Experiment, command: str, minutes: str) -> str:
    queries, judged = experiment.validation
    runs = experiment.runs(queries)
    fusions = chosen_fusions(runs, judged)
    on_validation = measured(mixed(runs, fusions), judged)
    queries, judged = queries_and_judgments(f"{experiment.data}:test")
    rows = mixed(experiment.runs(queries), fusions)
    _, seen = queries_and_judgments(experiment.train)
    parts = strata(judged, seen)
    of_strata = [measured(rows, stratum) for stratum in parts.values()]
    titles = [row.title for row in ROWS]
    table = [["", *(f"{split} {name}" for split in ("validation", "test") for name in MEASURES)]]
    table += [[title, *dev, *test] for title, dev, test in zip(titles, on_validation, measured(rows, judged))]
    on_top = {title: rows[title] for title in ON_TOP}
    above = [["", *(f"test {name}" for name in MEASURES)]]
    above += [[title, *cells] for title, cells in zip(ON_TOP, measured(on_top, judged, ALONE))]
    by_stratum = [["largest overlap", *(f"{name}: {measure}" for name in parts for measure in MEASURES)]]
    by_stratum.append(["queries", *(cell for stratum in parts.values() for cell in (str(len(stratum)), ""))])
    by_stratum += [[title, *(cell for part in cells for cell in part)] for title, *cells in zip(titles, *of_strata)]
    versus = [(ALONE, BM25), (CHOSEN, BM25), (CHOSEN, ALONE)]
    tables = [compared(judged, seen, {name: rows[name] for name in pair[::-1]}, pair[1], MEASURES) for pair in versus]
    tested = [["against", *tables[0][0]]]
    tested += [[pair[1], *row] for pair, table_of_pair in zip(versus, tables) for row in table_of_pair[1:]]
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
            f"on {machine.cpu_model()}, one thread. It took {minutes} minutes of CPU time, with these commands:",
            "```sh\n" + "\n".join(step.shown.partition(" > ")[0] for step in experiment.steps) + "\n```",
            "## Measured",
            markdown(table).strip(),
            READING,
            "## Does it help to put similar queries on top of the hybrid?",
            ABOVE,
            markdown(above).strip(),
            "## By the overlap with training queries",
            OVERLAP,
            markdown(by_stratum).strip(),
            TESTED,
            markdown(tested).strip(),
            "## What the validation queries chose",
            markdown(weights).strip(),
            settings,
            "## What was tried",
            TRIED,
        ]
    ) + "\n"  # fmt: skip


INTRODUCTION = """\
What KTRel gains from training on the judged queries of a collection, starting from the word vectors of [the bundled
encoder](../models/ktrel.md). Words of the collection that the encoder does not know get random vectors. Each training
query is scored against the whole collection, words are dropped at random, and the weights are a moving average over
the epochs. After nine epochs the training restarts, twice; the mean of the three, interpolated with the initial
weights (0.3), is validated and kept. The loss is a softmax over the collection, with a share of 0.3 of a smooth
nDCG@10. In the end the encoder is [adapted to the collection](../dense-retrieval.md#adapted-to-the-collection), for
the sake of words that no training query has; 'KTRel as trained' is the encoder before that. Made by"""
READING = f"""\
`+` higher, `-` lower than '{BASELINE}': two-tailed paired t-test, p < 0.05 after Bonferroni correction for the rows of
the table. Runs of the best 1,000 documents; queries without results count as 0. The epoch was chosen by AP on the
validation queries, all other settings by the mean of nDCG@10 and AP there, so the validation columns are upper bounds.
If a part has weight 0, a row repeats another: 'BM25+RM3 and KTRel with feedback' is 'KTRel with feedback', and 'by
all' is 'by MiniLM'.

The test columns are optimistic, too: the test queries were looked at eight times on the way to these settings (below),
and many of NFCorpus's queries are near-duplicates. In 99.9% of the 12,334 relevant pairs of the test queries, the
document is also relevant for a training query. The relevant documents of 65 of the 323 test queries have a Jaccard
coefficient of 0.9 or more with those of one training query, those of 13 with those of a validation query.

```sh
python -m experiments.overlap --qrels data/nfcorpus:test --seen data/nfcorpus:train --seen data/nfcorpus:dev
```"""
ABOVE = f"""\
The same rows, but marked against '{ALONE}', after Bonferroni correction for {len(ON_TOP) - 1} comparisons.
There are few test queries: over the 2,590 training queries, each ranked by models that were not trained on it,
[MiniLM's row is significantly above the hybrid](../nfcorpus.md#on-top-of-the-trained-hybrid-cross-fitted). **These are
totals; the next section says which queries gain.**"""
OVERLAP = f"""\
Test queries by the largest overlap (Jaccard coefficient) of their relevant documents with those of any training query,
split as by `tables --subset overlap0.3-0.5 --seen-qrels`. Marks are within a stratum, against
'{BASELINE}'. **Judgments of similar queries help where a training query has nearly the same relevant documents; below
0.3 every row with them has a lower nDCG@10 than the hybrid alone.** So use them where your queries recur, and not for
new ones."""
TESTED = """\
Pairs of rows, tested over all queries and by stratum: p of two-tailed paired t-tests, in a stratum after Bonferroni
correction for the strata."""
TRIED = """\
Earlier states of the command above, with nDCG@10 and AP on the test queries. Each state is one of the eight looks at
them:

| state | KTRel | best row |
| --- | ---: | ---: |
| similar queries weighted by their cosine alone | | 0.4344, 0.3620 |
| softmax loss at temperature 0.15, similar queries weighted by root of share | 0.4585, 0.3483 | 0.4746, 0.3890 |
| no interpolation with the initial weights | 0.4584, 0.3526 | |
| one training, one ranking to weight similar queries | 0.4679, 0.3537 | 0.4794, 0.3872 |
| the encoders not adapted | 0.4704, 0.3600 (with feedback) | 0.4945, 0.4031 |
| this page | 0.4835, 0.3599 | 0.4923, 0.4063 |

The other two measurements were of a first version of the share, and of a state without and with the hybrid.

Losses and settings were compared on the validation queries and on 324 held-out training queries, by scripts whose
figures are not repeated here; the choices are in part due to chance. Not better were, among others: a smooth nDCG of
the whole ranking, or more of it; cubed grades; other temperatures; more or less word dropout; pairs of LambdaRank;
queries of another type; marginally relevant documents as further relevant ones; two rounds of similar queries;
documents moved towards their judged queries; ridge regression over the judged queries; the documents' titles as
further queries; and a network instead of the weights of similar queries."""


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.distilled", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="BEIR folder with the splits train, dev and test")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps index, checkpoint and journal")
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
