"""``python -m rerank_plugin.clicks``: makes judgments for training and testing of a click log; or simulates a log."""

from __future__ import annotations

import logging
from pathlib import Path

from rerank_plugin import options as commandline

log = logging.getLogger(__name__)

DESCRIPTION = """\
Turn a click log into queries and graded judgments, filtered and split as in the Delta papers (docs/click-logs.md):
a folder that train, search and evaluate take as FOLDER:train, FOLDER:dev and FOLDER:test.
With --simulate, write a log instead, of simulated users who search a judged collection."""
EXAMPLES = """\
examples:
  python -m rerank_plugin.clicks --log log.tsv.gz --output data/clicks
  python -m rerank_plugin.clicks --simulate sample --run runs/bm25.run --output log.tsv"""


def arguments():
    from rerank_plugin.corpora.register import accepted_together

    parser = commandline.parser("clicks", DESCRIPTION, EXAMPLES)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--log", type=Path, help="click log, tab-separated with a header, also .gz")
    mode.add_argument("--simulate", metavar="QJ", help=f"judged queries to simulate: {accepted_together()}")
    parser.add_argument(
        "--output", type=Path, required=True, help="folder to write; with --simulate, the log (.gz too)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace such a folder, or a log, there already")
    relevance = parser.add_argument_group("relevance")
    relevance.add_argument("--formula", choices=("d18", "d17"), default="d18", help="of the 2018 or the 2017 paper")
    relevance.add_argument("--mu", type=float, help="weight of clicks to the summary (d18: 0.333, d17: 0.33)")
    relevance.add_argument(
        "--lambda", type=float, dest="lambda_", metavar="LAMBDA", help="for documents without full text (0.067; 15)"
    )
    _add_filter_options(parser)
    _add_simulation_options(parser)
    return parser


def _add_filter_options(parser) -> None:
    kept = parser.add_argument_group("which queries are kept")
    kept.add_argument("--max-words", type=int, default=7, help="words (tokens) of a query at most")
    kept.add_argument("--min-documents", type=int, default=21, help="documents of a query at least")
    kept.add_argument("--min-clicked", type=int, default=3, help="clicked documents of a query at least")
    for name, what in (("boolean", "with AND, OR, NOT"), ("field", "with field tags"), ("author", "for authors")):
        kept.add_argument(f"--keep-{name}", action="store_true", help=f"keep searches {what}")
    kept.add_argument(
        "--balance",
        type=int,
        metavar="N",
        help="in train and dev, the N most relevant documents a query at most, and as many others (2017 paper: 20)",
    )


def _add_simulation_options(parser) -> None:
    simulation = parser.add_argument_group("simulation")
    simulation.add_argument("--run", type=Path, help="TREC run that users see (default: judged documents, shuffled)")
    simulation.add_argument("--sessions", type=int, default=50, help="searches of each query")
    simulation.add_argument("--eta", type=float, default=1.0, help="rank r is looked at with probability 1/r^eta")
    simulation.add_argument("--noise", type=float, default=0.03, help="probability to click what is not relevant")
    simulation.add_argument("--depth", type=int, default=100, help="documents of the run that can be reached")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name in ("max_words", "min_documents", "min_clicked", "balance", "sessions", "depth"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.seed < 0:
        parser.error("--seed must not be negative")
    if options.simulate is not None:
        simulate(options)
    elif options.run:
        parser.error("--run needs --simulate")
    else:
        convert(options)


def convert(options) -> None:
    from rerank_plugin.corpora import click_filters, click_folder, click_logs
    from rerank_plugin.corpora.click_relevance import formula

    by = formula(options.formula, options.mu, options.lambda_)
    keep = tuple(name for name in ("boolean", "field", "author") if getattr(options, f"keep_{name}"))
    texts, counts = click_filters.filters(options.max_words, options.min_documents, options.min_clicked, keep)
    read = click_logs.read(options.log, lambda lines: commandline.progress(lines, "reading", "lines"))
    summary = click_folder.write(
        options.output, read, by, texts, counts, options.seed, options.balance, str(options.log), options.overwrite
    )
    print(f"{options.log}: {summary.read:,} queries")
    for reason, count in summary.left_out.items():
        print(f"  left out, {reason}: {count:,}")
    if not read.ids_given:
        print(f"  merged, as they differ in letter case only: {summary.merged:,}")
    for name, sizes in summary.splits.items():
        of = f"{sizes['documents']:,} documents, {sizes['relevant']:,} of them relevant"
        print(f"{options.output}:{name}: {sizes['queries']:,} queries, {of}")


def simulate(options) -> None:
    from rerank_plugin.corpora import click_simulation
    from rerank_plugin.files.outputs import check_free, is_stream
    from rerank_plugin.files.runs import read_run

    if not is_stream(options.output):
        check_free(options.output, click_simulation.CLICK_LOG, options.overwrite)
    users = click_simulation.Users(options.sessions, options.eta, options.noise, options.depth)
    queries, judgments = click_simulation.all_judgments(options.simulate)
    run = read_run(options.run) if options.run else None
    simulated = click_simulation.simulate(queries, judgments, run, users, options.seed)
    written, lines = click_simulation.write_log(
        options.output,
        commandline.progress(simulated, "simulating", "queries", total=len(queries)),
        options.overwrite,
    )
    if written < len(queries):
        log.warning("%d of %d queries have no click, or are not in the run", len(queries) - written, len(queries))
    print(f"{options.output}: {written:,} queries, {lines:,} lines, {options.sessions:,} sessions a query")


if __name__ == "__main__":
    commandline.run(main)
