"""``python -m experiments.needles``: what the hybrid loses by reading some inverted lists instead of all.

The index is of a large collection with the documents of judged collections as needles (`experiments.large_collection`).
Every other document counts as not relevant, though some may be relevant, so only differences say something.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

import rerank_plugin as rp
from experiments.overlap import shown
from rerank_plugin import options as commandline
from rerank_plugin.base.records import Judgments
from rerank_plugin.base.terminal import progress
from rerank_plugin.corpora import QUERIES, accepted, queries_and_judgments
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.files.tables import markdown
from rerank_plugin.retrieval.hybrid import HybridConfig, HybridStage

MEASURES = ("nDCG@10", "AP", "R@1000")
DEPTH = 1000
ALL = "all"  # the run that reads all lists


def runs(stage: HybridStage, queries: Sequence[rp.Query], probes: Sequence[int]) -> dict[str, dict[str, rp.RankedList]]:
    """The runs of the hybrid that read all lists, and the given numbers of them."""
    found = {}
    for name, number in {ALL: stage.dense.store.inverted_lists, **{f"{number:,}": number for number in probes}}.items():
        stage.dense.probes, found[name] = number, {}
        for query in progress(queries, f"reading {name} lists", "queries", total=len(queries)):
            hits = stage.search(query, DEPTH)
            found[name][query.id] = rp.RankedList(hits.ids, hits.first_stage_scores)
    return found


def compared(name: str, judged: Judgments, found: dict[str, dict[str, rp.RankedList]]) -> list[list[str]]:
    """Rows by number of lists and measure: all lists, these lists, the difference, and its queries and p."""
    evaluation, rows = evaluate(judged, found, MEASURES, baseline=ALL), []
    for lists in found:
        for measure in MEASURES if lists != ALL else ():
            exact, values = evaluation.values[ALL][measure], evaluation.values[lists][measure]
            counts = np.count_nonzero(values < exact), np.count_nonzero(values > exact)
            p = evaluation.comparisons[lists][measure].p
            means = exact.mean(), values.mean()
            figures = *(f"{mean:.4f}" for mean in means), f"{means[1] - means[0]:+.4f}", *map(str, counts), shown(p)
            rows.append([name, str(len(exact)), lists, measure, *figures])
    return rows


def anonymous_megabytes() -> float | None:
    """The memory of this process that is not of mapped files, in MB; None where the system does not tell."""
    with suppress(OSError), open("/proc/self/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon:")), None)
    return None


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("needles", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.needles"
    add = parser.add_argument
    add("--index", required=True, help="index of the large collection, encoded")
    add("--queries", nargs="+", required=True, metavar="SPEC", help=f"judged queries: {accepted(QUERIES)}")
    add("--most", type=int, default=200, help="queries of each collection, taken at random (default: 200)")
    add("--nprobe", type=int, nargs="+", help="numbers of lists to read (default: that of the index's searches)")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "most", "nprobe")
    rows = [["queries", "number", "lists", "measure", "all lists", "these", "difference", "lower", "higher", "p"]]
    stage = HybridConfig().open(rp.Index(options.index))
    store = stage.dense.store
    for spec in options.queries:
        queries, judged = queries_and_judgments(spec)
        queries = random.Random(options.seed).sample(queries, min(options.most, len(queries)))
        found = runs(stage, queries, options.nprobe or [store.probes])
        rows += compared(spec, {query.id: judged[query.id] for query in queries}, found)
    memory = anonymous_megabytes()
    print(f"{len(store):,} documents in {store.inverted_lists:,} lists\n\n{markdown(rows)}", end="")
    if memory is not None:
        print(f"\nAnonymous memory of this process: {memory:,.0f} MB.")


if __name__ == "__main__":
    commandline.run(main)
