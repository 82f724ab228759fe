"""``rerank-plugin evaluate``: measures runs, and compares them with a baseline."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext, suppress
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import JUDGMENTS, accepted

log = logging.getLogger(__name__)

DESCRIPTION = """\
Measure TREC run files against judgments. Every judged query counts: a query that a run lacks scores 0.

Measures are those of ir-measures (nDCG@10, AP, P@5, R@500, RR@10, AP(rel=2), ...), also by trec_eval's names
(ndcg_cut_10, map, P_5, recall_500, recip_rank), and the papers' names: NDCG.20 has gain 2^rel - 1 (nDCG@20
has gain rel), Prec.5 is P@5, MAP is AP. ERR@k takes the highest grade in the judgments as the top of the
scale, or --highest-grade."""
EXAMPLE = """\
example:
  rerank-plugin evaluate --qrels sample:test runs/bm25.run runs/delta.run --baseline runs/bm25.run
  rerank-plugin evaluate --qrels sample:test --compare runs/bm25.run runs/delta.run --index indexes/sample

Give the runs before --measures, or after --."""

HTML = "html"  # of a comparison
FORMATS = ("table", "markdown", "csv", "json")  # evaluation.report is too slow to import for --help


def arguments():
    parser = commandline.parser("evaluate", DESCRIPTION, EXAMPLE)
    add = add_options(parser, (*FORMATS, HTML), "+")
    compare = "compare two runs query by query: wins, losses, and the documents behind the largest of them"
    add("--compare", action="store_true", help=compare)
    add("--queries", metavar="Q", help="texts of the queries for --compare (default: those of --qrels, if it has any)")
    add("--index", type=Path, metavar="DIR", help="index with the titles of documents for --compare")
    add("--output", type=Path, help="file to write (default: print)")
    add("--overwrite", action="store_true", help="replace an existing --output")
    return parser


def add_options(parser, formats, nargs: str):
    """Add the options of runs, measures and tests; returns the function that adds options of the output."""
    from rerank_plugin.evaluation.measures import DEFAULTS

    add = parser.add_argument
    add("runs", nargs=nargs, metavar="RUN", help="TREC run file, also .gz")
    add("--qrels", required=True, metavar="J", help=f"judgments: {accepted(JUDGMENTS)}")
    add("--measures", nargs="+", metavar="M", help=f"measures (default: {' '.join(DEFAULTS)})")
    add("--baseline", metavar="RUN", help="run to compare the other runs with (default: no tests)")
    add("--format", choices=formats, default="table", help="format of the output")
    add = parser.add_argument_group("comparisons and output").add_argument
    highest = "highest grade of ERR's scale (default: that of the judgments; TREC's script has 4)"
    add("--highest-grade", type=float, metavar="G", help=highest)
    add("--alpha", type=float, help="significance level (default: 0.05)")
    add("--per-query", action="store_true", help="print the values of each query, too")
    agreement = "print Kendall's tau and the overlap of the top 10 with --baseline, too"
    add("--agreement", action="store_true", help=agreement)
    return add


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    check(parser, options)
    if options.compare and len(options.runs) != 2:
        parser.error("--compare takes two runs")
    if options.compare and (options.baseline or options.agreement or options.per_query):
        parser.error("--compare replaces --baseline, --agreement and --per-query")
    if not options.compare and (options.queries or options.index or options.format == HTML):
        parser.error("--queries, --index and --format html are for --compare")
    text = compared(options) if options.compare else measured(options)
    if options.output is None:
        print(text, end="")
        return
    from rerank_plugin.evaluation.report import REPORT
    from rerank_plugin.evaluation.run_comparison import COMPARISON_PAGE
    from rerank_plugin.files.outputs import replacing

    kind = COMPARISON_PAGE if options.format == HTML else REPORT
    with replacing(options.output, kind, options.overwrite) as file:
        file.write(text.encode())


def check(parser, options) -> None:
    if options.alpha is not None and not 0 < options.alpha < 1:
        parser.error("--alpha must be between 0 and 1")
    if options.agreement and options.baseline is None:
        parser.error("--agreement needs --baseline")


def measured(options) -> str:
    """The report on the runs of the command line."""
    paths, baseline = run_paths(options.runs, options.baseline)

    from rerank_plugin.corpora import judgments
    from rerank_plugin.evaluation.measures import DEFAULTS
    from rerank_plugin.files.runs import read_run

    measures = checked(options.measures or DEFAULTS)
    judged = judgments(options.qrels)
    return evaluated(judged, {path: read_run(path) for path in paths}, measures, baseline, options)


def compared(options) -> str:
    """The comparison of the two runs of the command line."""
    paths, _ = run_paths(options.runs, None)

    from rerank_plugin.corpora import judgments
    from rerank_plugin.evaluation import report, run_comparison
    from rerank_plugin.evaluation.evaluation import evaluate
    from rerank_plugin.evaluation.measures import DEFAULTS
    from rerank_plugin.evaluation.run_comparison import page
    from rerank_plugin.files.runs import read_run

    measures, judged = checked(options.measures or DEFAULTS), judgments(options.qrels)
    runs = {path: read_run(path) for path in paths}
    evaluation = evaluate(judged, runs, measures, paths[0], highest=options.highest_grade)
    log_warnings(report.warnings(evaluation))
    texts, titles = _query_texts(options), _titles(options)
    comparison = run_comparison.compare_runs(evaluation, judged, runs, texts, titles)
    return page(comparison) if options.format == HTML else run_comparison.report(comparison).text(options.format)


def _query_texts(options) -> dict[str, str]:
    """The texts of the queries by id; without ``--queries``, those of a collection that the judgments are of."""
    from rerank_plugin.corpora import queries

    if options.queries is None and Path(options.qrels).is_file():
        return {}
    with suppress(InputError) if options.queries is None else nullcontext():
        return {query.id: query.text for query in queries(options.queries or options.qrels)}
    return {}


def _titles(options):
    """A function: the titles of documents by their ids; empty without an index, and for ids that it lacks."""
    if options.index is None:
        return lambda ids: [""] * len(ids)
    from rerank_plugin.indexes.locations import open_index

    forward = open_index(options.index).forward
    return lambda ids: [forward.titles[row] if row >= 0 else "" for row in forward.rows(ids).tolist()]


def evaluated(judged, runs, measures, baseline, options) -> str:
    """The report on runs in memory."""
    from rerank_plugin.evaluation import report
    from rerank_plugin.evaluation.evaluation import evaluate

    evaluation = evaluate(judged, runs, measures, baseline, options.agreement, options.highest_grade)
    log_warnings(report.warnings(evaluation))
    return report.report(evaluation, options.alpha or 0.05, options.per_query).text(options.format)


def run_paths(runs: list[str], baseline: str | None) -> tuple[list[str], str | None]:
    """The paths of the runs as written, and the baseline's among them; a further baseline comes first."""
    by_file: dict[str, str] = {}
    for path in runs:
        if by_file.setdefault(os.path.realpath(path), path) != path or runs.count(path) > 1:
            raise InputError(f"{path}: is given twice; give each run once")
    if baseline is None:
        return runs, None
    same_file = by_file.get(os.path.realpath(baseline))
    return (runs, same_file) if same_file else ([baseline, *runs], baseline)


def log_warnings(lines) -> None:
    for line in lines:
        log.warning("%s", line)


def checked(measures) -> list[str]:
    """The measures; reports a mistyped name before the runs are read."""
    from rerank_plugin.evaluation.measures import parse

    for name in measures:
        parse(name)
    return list(measures)


if __name__ == "__main__":
    commandline.run(main)
