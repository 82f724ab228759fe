"""``rerank-plugin fuse``: fuses runs, and tunes their weights on judged queries."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError, damage

log = logging.getLogger(__name__)

DESCRIPTION = """\
Fuse TREC runs of the same queries by reciprocal ranks (rrf), by scores normalized to [0, 1] by query (linear), or by
scores as they are (raw).

--tune tries weights (and values of --k) on judged queries, prints a table, and writes --output with the best.
--format json prints them for --tuned: tune on the runs of validation queries, fuse the runs of test queries."""
EXAMPLES = """\
examples:
  rerank-plugin fuse runs/bm25.run runs/ktrel.run --output runs/hybrid.run
  rerank-plugin fuse dev/bm25.run dev/ktrel.run --method linear --tune sample:dev --measure AP \\
      --format json > weights.json
  rerank-plugin fuse test/bm25.run test/ktrel.run --tuned weights.json --output runs/hybrid.run"""


def arguments():
    parser = commandline.parser("fuse", DESCRIPTION, EXAMPLES)
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="TREC run file, also .gz; at least two")
    add = parser.add_argument
    add("--output", type=Path, metavar="RUN", help="run file to write")
    add("--method", choices=("rrf", "linear", "raw"), help="fusion by reciprocal ranks or by scores (default: rrf)")
    weights = "weights of the runs; for two runs, the share of the first is enough (default: equal)"
    add("--weights", type=float, nargs="+", metavar="W", help=weights)
    add("--k", type=float, nargs="+", metavar="K", help="k of rrf; with --tune, the values to try (default: 60)")
    add("--tune", metavar="J", help="judgments to tune the weights on, as in evaluate")
    add("--overwrite", action="store_true", help="replace an existing run")
    add = parser.add_argument_group("tuning").add_argument
    add("--measure", nargs="+", default=["AP"], help="measure to maximize; the mean of several")
    add("--step", type=float, default=0.05, help="step between weights")
    add("--search", choices=("grid", "ascent"), default="grid", help="search of all weights, or coordinate ascent")
    add("--format", choices=("table", "json"), default="table", help="format of the output")
    add("--tuned", type=Path, metavar="FILE", help="JSON file of --tune, with method, weights and k")
    add = parser.add_argument_group("ranks and output").add_argument
    add("--depth", type=int, help="ranks to read of each run (default: all)")
    add("--output-depth", type=int, help="ranks to write (default: all)")
    add("--tag", help="run tag (default: the method)")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    if len(options.runs) < 2:
        parser.error("fusing needs at least two runs")
    if options.output is None and options.tune is None:
        parser.error("--output or --tune is required")
    parser.check_counts(options, "depth", "output_depth")
    if options.tuned and (options.tune or options.weights or options.k or options.method):
        parser.error("--tuned gives method, weights and k: leave out --method, --weights, --k and --tune")
    if options.tune and options.weights:
        parser.error("--tune finds the weights: leave out --weights")
    if not options.tune and len(options.k or []) > 1:
        parser.error("several values of --k need --tune")
    if options.output is not None:  # checked before the slow tuning
        from rerank_plugin.files.outputs import check_free
        from rerank_plugin.files.runs import RUN, check_not_read

        check_not_read(options.output, options.runs)
        check_free(options.output, RUN, options.overwrite)
    runs = _read(options.runs)
    fusion = _tuned(options, runs) if options.tune else _chosen(options)
    if options.output is not None:
        _write(options, runs, fusion)


def _read(paths: list[Path]) -> list:
    from rerank_plugin.files.runs import read_run

    runs = [read_run(path) for path in paths]
    for path, run in zip(paths[1:], runs[1:]):
        if not run.keys() & runs[0].keys():
            raise InputError(f"{path} and {paths[0]} have no query in common: fuse runs of the same queries")
    return runs


def _chosen(options):
    """The :class:`~rerank_plugin.evaluation.run_fusion.Fusion` of the command line, or of --tuned."""
    from rerank_plugin.evaluation.run_fusion import Fusion

    if options.tuned is None:
        return Fusion.of(options.method or "rrf", options.weights, *(options.k or [60.0]), len(options.runs))
    try:
        best = json.loads(options.tuned.read_text(encoding="utf-8"))["best"]
        values = str(best["method"]), [float(weight) for weight in best["weights"]], float(best["k"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{options.tuned} holds no tuned weights ({damage(error)}); write it with --tune --format json"
        ) from None
    if len(values[1]) != len(options.runs):
        raise InputError(
            f"{options.tuned} has weights for {len(values[1])} runs: give as many, not {len(options.runs)}"
        )
    return Fusion.of(*values, len(options.runs))


def _tuned(options, runs: list):
    """Tune, and print all fusions tried; returns the best."""
    from rerank_plugin.corpora import judgments
    from rerank_plugin.evaluation.measures import parse
    from rerank_plugin.evaluation.run_fusion import tune

    for measure in options.measure:
        parse(measure)
    tuning = tune(
        runs,
        judgments(options.tune),
        options.measure,
        options.method or "rrf",
        options.step,
        options.k or [60.0],
        options.search,
        options.depth,
        lambda weights: commandline.progress(weights, "tuning", "weights"),
    )
    print(_as_json(options, tuning) if options.format == "json" else _as_table(options, tuning))
    return tuning.best.fusion


def _measure(options) -> str:
    """The name of the mean of the measures to maximize."""
    return " + ".join(options.measure)


def _as_json(options, tuning) -> str:
    def description(tried) -> dict:
        fusion = tried.fusion
        settings = {"method": fusion.method, "weights": list(fusion.weights), "k": fusion.k}
        return {**settings, _measure(options): tried.value}

    result = {
        "judgments": options.tune,
        "measure": _measure(options),
        "runs": {str(path): value for path, value in zip(options.runs, tuning.single)},
        "best": description(tuning.best),
        "tried": [description(tried) for tried in tuning.tried],
    }
    return json.dumps(result, indent=1)


def _as_table(options, tuning) -> str:
    """A line for each single run and for each fusion, with a mark for the best fusion."""
    lines = [f"{path}: {_measure(options)} {value:.4f}" for path, value in zip(options.runs, tuning.single)]
    is_rrf = tuning.best.fusion.method == "rrf"
    lines.append(("     k  " if is_rrf else "") + "weights".ljust(8 * len(options.runs)) + f"  {_measure(options)}")
    for tried in tuning.tried:
        weights = " ".join(f"{weight:7.4f}" for weight in tried.fusion.weights)
        k = f"{tried.fusion.k:6g}  " if is_rrf else ""
        lines.append(f"{k}{weights}  {tried.value:.4f}" + ("  best" if tried is tuning.best else ""))
    best = tuning.best.fusion
    command = f"--method {best.method} --weights " + " ".join(f"{weight:.12g}" for weight in best.weights)
    lines.append("best: " + command + (f" --k {best.k:g}" if is_rrf else ""))
    return "\n".join(lines)


def _write(options, runs: list, fusion) -> None:
    from rerank_plugin.evaluation.run_fusion import fuse
    from rerank_plugin.files.runs import RankedList, write_run

    fused = {
        query: RankedList(ranking.doc_ids[: options.output_depth], ranking.scores[: options.output_depth])
        for query, ranking in fuse(runs, fusion, options.depth).items()
    }
    write_run(options.output, fused, options.tag or fusion.method, options.overwrite)
    log.info("%s: %d queries of %d runs", options.output, len(fused), len(runs))


if __name__ == "__main__":
    commandline.run(main)
