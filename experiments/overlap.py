"""Overlap of test judgments with those of other queries, and gains of runs by this overlap.

    python -m experiments.overlap --qrels data/nfcorpus:test --seen data/nfcorpus:train --seen data/nfcorpus:dev
    python -m experiments.overlap --qrels data/nfcorpus:test --seen data/nfcorpus:train \
        --baseline runs/hybrid.run runs/judged.run

Queries of some collections come from pages that link to each other, or to nearly the same articles. Judgments of one
query then reveal the answers of another, and a mean over all queries says little about new queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rerank_plugin as rp
from experiments.subsets import largest_overlaps, overlapping, restricted
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora import judgments
from rerank_plugin.files.tables import markdown
from rerank_plugin.options import run

STRATA = [(0.0, 0.3), (0.3, 0.5), (0.5, 0.9), (0.9, 1.0)]
SAME = 0.9  # overlap from which a query counts as seen before


def strata(judged: Judgments, seen: Judgments) -> dict[str, Judgments]:
    """The judged queries by their largest overlap with a seen query, without empty ranges."""
    ids_of = {f"{low:g} to {high:g}": overlapping(judged, seen, low, high) for low, high in STRATA}
    return {name: restricted(judged, ids, name) for name, ids in ids_of.items() if ids}


def described(judged: Judgments, seen: Mapping[str, Judgments]) -> list[list[str]]:
    """A table: by seen judgments, the share of relevant pairs with a document they know, and repeated queries."""
    rows = [["judged before", "relevant pairs", "document relevant there", "queries", f"overlap of {SAME:g} or more"]]
    pairs = [document for of_query in judged.values() for document, grade in of_query.items() if grade > 0]
    for name, before in seen.items():
        known = {document for of_query in before.values() for document, grade in of_query.items() if grade > 0}
        share = sum(document in known for document in pairs) / len(pairs)
        overlaps = largest_overlaps(judged, before).values()
        same = sum(overlap >= SAME for overlap in overlaps)
        rows.append([name, f"{len(pairs):,}", f"{share:.1%}", f"{len(overlaps):,}", f"{same:,}"])
    return rows


def compared(
    judged: Judgments, seen: Judgments, runs: Mapping[str, Any], baseline: str, measures: Sequence[str]
) -> list[list[str]]:
    """A table of runs against a baseline, over all queries and by stratum.

    p is of two-tailed paired t-tests, after Bonferroni correction for the runs, in a stratum also for the strata.
    """
    of_strata = strata(judged, seen)
    rows = [["run", "largest overlap", "queries", *(cell for measure in measures for cell in (measure, "before", "p"))]]
    for name, part in {"all": judged, **of_strata}.items():
        evaluation = rp.evaluate_runs(part, runs, measures, baseline=baseline)
        for compared_run, of_run in evaluation["tests"]["runs"].items():
            row = [compared_run, name, str(evaluation["queries"])]
            for measure in measures:
                p = min(1.0, of_run[measure]["p"] * (1 if name == "all" else len(of_strata)))
                values = (evaluation["runs"][each][measure] for each in (compared_run, baseline))
                row += [*(f"{value:.4f}" for value in values), shown(p)]
            rows.append(row)
    return [rows[0], *sorted(rows[1:], key=lambda row: list(runs).index(row[0]))]


def shown(p: float) -> str:
    """A p-value with two digits."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def merged(parts: Iterable[Judgments]) -> Judgments:
    return {query: judged for part in parts for query, judged in part.items()}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.overlap", description=__doc__.splitlines()[0])
    parser.add_argument("--qrels", required=True, help="judgments of the test queries, as evaluate takes them")
    parser.add_argument("--seen", required=True, action="append", help="judgments of other queries; may be repeated")
    parser.add_argument("--baseline", help="run to compare the other runs with, by overlap with all seen queries")
    parser.add_argument("runs", nargs="*", help="runs to compare with the baseline (default: count overlaps)")
    parser.add_argument("--measures", nargs="+", default=["nDCG@10", "AP"], help="measures (default: nDCG@10 AP)")
    options = parser.parse_args(argv)
    if bool(options.runs) != bool(options.baseline):
        parser.error("give runs and --baseline, or neither")
    judged, seen = judgments(options.qrels), {name: judgments(name) for name in options.seen}
    if not options.runs:
        print(markdown(described(judged, seen)), end="")
        return
    names = [options.baseline, *options.runs]
    runs = {name: rp.read_run(name) for name in names}
    print(markdown(compared(judged, merged(seen.values()), runs, options.baseline, options.measures)), end="")


if __name__ == "__main__":
    run(main)
