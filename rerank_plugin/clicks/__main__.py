"""``rerank-plugin clicks``: makes judgments from a click log, or simulates a log."""

from __future__ import annotations

import logging
from argparse import Namespace
from pathlib import Path

from rerank_plugin import options as commandline

log = logging.getLogger(__name__)

DESCRIPTION = """\
Turn a click log into queries and graded judgments, filtered and split as in the Delta papers (docs/click-logs.md):
a folder for train, search and evaluate, as FOLDER:train, FOLDER:dev and FOLDER:test.
With --simulate, write a log of simulated users who search a judged collection."""
EXAMPLES = """\
examples:
  rerank-plugin clicks --log log.tsv.gz --output data/clicks
  rerank-plugin clicks --simulate sample --run runs/bm25.run --output log.tsv"""


def arguments() -> commandline.Parser:
    from rerank_plugin.corpora.register import accepted_together

    parser = commandline.parser("clicks", DESCRIPTION, EXAMPLES)
    mode = parser.add_mutually_exclusive_group(required=True)
    log_files = "files of a click log, tab-separated with a header, also .gz"
    mode.add_argument("--log", type=Path, nargs="+", metavar="FILE", help=log_files)
    mode.add_argument("--simulate", metavar="QJ", help=f"judged queries to simulate: {accepted_together()}")
    output = "folder to write; with --simulate, the log to write, also .gz"
    parser.add_argument("--output", type=Path, required=True, help=output)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing folder or log")
    add = parser.add_argument_group("relevance").add_argument
    add("--formula", choices=("d18", "d17"), default="d18", help="formula of the 2018 or the 2017 paper")
    add("--mu", type=float, help="weight of clicks to the summary (default: 0.333; d17 0.33)")
    missing = "weight for documents without full text (default: 0.067; d17 15)"
    add("--lambda", type=float, dest="lambda_", metavar="LAMBDA", help=missing)
    add = parser.add_argument_group("filters of queries").add_argument
    add("--max-words", type=int, default=7, help="largest number of words (tokens) of a query")
    add("--min-documents", type=int, default=21, help="smallest number of documents of a query")
    add("--min-clicked", type=int, default=3, help="smallest number of clicked documents of a query")
    for name, kind in (("boolean", "with AND, OR, NOT"), ("field", "with field tags"), ("author", "for authors")):
        add(f"--keep-{name}", action="store_true", help=f"keep searches {kind}")
    balance = "keep N relevant documents of a query in train and dev, and as many others (2017 paper: 20; default: all)"
    add("--balance", type=int, metavar="N", help=balance)
    add = parser.add_argument_group("simulation").add_argument
    add("--run", type=Path, help="TREC run that users see (default: judged documents, shuffled)")
    add("--sessions", type=int, default=50, help="number of sessions of each query")
    add("--eta", type=float, default=1.0, help="exponent of the examination probability of rank r, 1/r^eta")
    add("--noise", type=float, default=0.03, help="probability of a click on a non-relevant document")
    add("--depth", type=int, default=100, help="cutoff of the run: users see no document below it")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "max_words", "min_documents", "min_clicked", "balance", "sessions", "depth")
    if options.seed < 0:
        parser.error("--seed must not be negative")
    if options.simulate is not None:
        simulate(options)
    elif options.run:
        parser.error("--run needs --simulate")
    else:
        convert(options)


def convert(options: Namespace) -> None:
    """Convert a click log to a folder of queries and judgments."""
    from rerank_plugin.clicks import judgments as click_judgments
    from rerank_plugin.clicks import logs as click_logs

    relevance = click_judgments.formula(options.formula, options.mu, options.lambda_)
    keep = tuple(name for name in ("boolean", "field", "author") if getattr(options, f"keep_{name}"))
    texts, counts = click_logs.filters(options.max_words, options.min_documents, options.min_clicked, keep)
    source = " ".join(map(str, options.log))
    click_log = click_logs.read(*options.log, progress=lambda lines: commandline.progress(lines, "reading", "lines"))
    summary = click_judgments.write(
        options.output, click_log, relevance, texts, counts, options.seed, options.balance, source, options.overwrite
    )
    print(f"{source}: {summary.read:,} queries")
    for reason, count in summary.left_out.items():
        print(f"  left out, {reason}: {count:,}")
    if not click_log.ids_given:
        print(f"  merged, as they differ in letter case only: {summary.merged:,}")
    for name, sizes in summary.splits.items():
        documents = f"{sizes['documents']:,} documents, {sizes['relevant']:,} of them relevant"
        print(f"{options.output}:{name}: {sizes['queries']:,} queries, {documents}")


def simulate(options: Namespace) -> None:
    """Write a simulated click log."""
    from rerank_plugin.clicks import simulation as click_simulation
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.files.runs import read_run

    check_free(options.output, click_simulation.CLICK_LOG, options.overwrite)
    users = click_simulation.ClickModel(options.sessions, options.eta, options.noise, options.depth)
    queries, judgments = click_simulation.all_judgments(options.simulate)
    run = read_run(options.run) if options.run else None
    simulated = click_simulation.simulate(queries, judgments, run, users, options.seed)
    simulated = commandline.progress(simulated, "simulating", "queries", total=len(queries))
    written, lines = click_simulation.write_log(options.output, simulated, options.overwrite)
    if written < len(queries):
        log.warning("%d of %d queries have no click, or are not in the run", len(queries) - written, len(queries))
    print(f"{options.output}: {written:,} queries, {lines:,} lines, {options.sessions:,} sessions a query")


if __name__ == "__main__":
    commandline.run(main)
