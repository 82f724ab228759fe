"""How often a few judged queries show the difference of many: the table of docs/cookbook.md.

python -m experiments.few_queries --qrels data/nfcorpus:test --baseline runs/bm25.run runs/delta.run runs/hybrid.run
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import ttest_rel

import rerank_plugin as rp
from rerank_plugin.files.tables import markdown
from rerank_plugin.options import run

DRAWN = 10_000  # samples of queries


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.few_queries", description=__doc__.splitlines()[0])
    parser.add_argument("--qrels", required=True, help="judgments, as evaluate takes them")
    parser.add_argument("--baseline", required=True)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--measure", default="nDCG@10")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100])
    options = parser.parse_args(argv)
    runs = [options.baseline, *options.runs]
    per_query = rp.evaluate_runs(options.qrels, runs, [options.measure], per_query=True)["per_query"]
    values = {name: by_measure[options.measure] for name, by_measure in per_query.items()}
    queries, random = sorted(values[options.baseline]), np.random.default_rng(42)
    before = np.array([values[options.baseline][query] for query in queries])
    rows = [["run", "queries", "mean higher", "significantly higher", "significantly lower"]]
    for name in options.runs:
        after = np.array([values[name][query] for query in queries])
        for size in options.sizes:
            drawn = random.integers(len(queries), size=(DRAWN, size))  # [samples, size]
            t, p = ttest_rel(after[drawn], before[drawn], axis=1)
            shares = [(t > 0).mean(), ((t > 0) & (p < 0.05)).mean(), ((t < 0) & (p < 0.05)).mean()]
            rows.append([name, str(size), *(f"{share:.0%}" for share in shares)])
    print(markdown(rows), end="")


if __name__ == "__main__":
    run(main)
