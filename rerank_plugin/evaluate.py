"""``python -m rerank_plugin.evaluate``: measures runs, and compares them with a baseline."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from rerank_plugin import commandline

log = logging.getLogger(__name__)

DESCRIPTION = """\
Measure TREC run files against judgments. Every judged query counts: one that a run lacks scores 0.

Measures are those of ir-measures (nDCG@10, AP, P@5, R@500, RR@10, AP(rel=2), ...) and the papers' names:
NDCG.20 has gain 2^rel - 1 (nDCG@20 has gain rel), Prec.5 is P@5, MAP is AP. ERR@k takes the highest grade
in the judgments as the top of the scale."""
EXAMPLE = """\
example:
  python -m rerank_plugin.evaluate --qrels sample:test runs/bm25.run runs/delta.run --baseline runs/bm25.run
The runs come before --measures, or after a -- of their own."""
FORMATS = ("table", "markdown", "csv", "json")  # those of evaluation.report, which is too slow to import for --help


def arguments():
    from rerank_plugin.evaluation.measures import DEFAULTS

    parser = commandline.parser("evaluate", DESCRIPTION, EXAMPLE)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="TREC run file, also .gz")
    parser.add_argument(
        "--qrels", required=True, metavar="J", help="TREC qrels, BEIR tsv or folder:split, ir-datasets id, sample:test"
    )
    parser.add_argument("--measures", nargs="+", default=list(DEFAULTS), metavar="M", help="what to measure")
    parser.add_argument("--baseline", metavar="RUN", help="run to compare the others with, among them or another one")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of significance; the Delta paper takes 0.01")
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print")
    parser.add_argument("--per-query", action="store_true", help="add the values of each query")
    parser.add_argument(
        "--agreement",
        action="store_true",
        help="add Kendall's tau and the share of the top 10 in common with --baseline",
    )
    parser.add_argument("--output", type=Path, help="file to write instead of printing")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if not 0 < options.alpha < 1:
        parser.error("--alpha must be between 0 and 1")
    if options.agreement and options.baseline is None:
        parser.error("--agreement needs --baseline")
    paths, baseline = run_paths(options.runs, options.baseline)

    from rerank_plugin.corpora import judgments
    from rerank_plugin.evaluation import report
    from rerank_plugin.evaluation.evaluation import evaluate
    from rerank_plugin.evaluation.measures import parse
    from rerank_plugin.runs import read_run, replacing

    for name in options.measures:
        parse(name)  # a mistyped name must not wait for millions of lines to be read
    judged = judgments(options.qrels)
    evaluation = evaluate(
        judged, {path: read_run(path) for path in paths}, options.measures, baseline, options.agreement
    )
    for line in report.warnings(evaluation):
        log.warning("%s", line)
    text = report.FORMATS[options.format](evaluation, options.alpha, options.per_query)
    if options.output is None:
        print(text, end="")
    else:
        with replacing(options.output) as file:
            file.write(text.encode())


def run_paths(runs: list[str], baseline: str | None) -> tuple[list[str], str | None]:
    """The runs to read, as the user wrote them, and the baseline's name among them; it goes first if it is another."""
    from rerank_plugin.errors import InputError

    by_file: dict[str, str] = {}
    for path in runs:
        if by_file.setdefault(os.path.realpath(path), path) != path or runs.count(path) > 1:
            raise InputError(f"{path}: is given twice")
    if baseline is None:
        return runs, None
    known = by_file.get(os.path.realpath(baseline))
    return (runs, known) if known else ([baseline, *runs], baseline)


if __name__ == "__main__":
    commandline.run(main)
