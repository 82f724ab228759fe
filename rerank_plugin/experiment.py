"""``python -m rerank_plugin.experiment``: a paper's experiments on any judged collection, and a page of the results."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rerank_plugin import commandline

DELTA_DESCRIPTION = """\
Tables 2 to 7 and figure 3 of the Delta paper (WWW 2018) on a judged collection: trains every model, re-ranks the first
stage's candidates and, with --judged, the judged documents, and writes a Markdown page. Steps that are done are kept in
the work folder, so an interrupted experiment goes on where it stopped."""
DELTA_EXAMPLE = """\
example:
  python -m rerank_plugin.experiment delta --corpus sample --train sample:train --validation sample:dev \\
      --test sample:test --words embeddings/sample --work runs/delta --output runs/delta/page.md"""


def arguments():
    parser = commandline.parser("experiment", "Run a paper's experiments and write a page of the results.")
    papers = parser.add_subparsers(dest="paper", required=True, metavar="PAPER")
    delta = papers.add_parser(
        "delta",
        help="Delta (WWW 2018 and BioNLP 2017)",
        description=DELTA_DESCRIPTION,
        epilog=DELTA_EXAMPLE,
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(delta)
    delta.add_argument("--corpus", required=True, help="documents to index")
    for name in ("train", "validation", "test"):
        delta.add_argument(f"--{name}", required=True, metavar="QJ", help="queries and judgments")
    delta.add_argument("--judged", metavar="J", help="judgments of the test queries that hold grade 0, too")
    delta.add_argument("--weak", action="append", default=[], metavar="CORPUS", help="corpus to pre-train on")
    delta.add_argument("--words", required=True, help="word vectors, written by rerank_plugin.embed words")
    delta.add_argument("--work", type=Path, required=True, help="folder of everything that is made on the way")
    delta.add_argument("--output", type=Path, required=True, help="Markdown page to write; figures go beside it")
    delta.add_argument("--notes", type=Path, help="Markdown to put on the page, below its head")
    delta.add_argument("--at-once", type=int, default=2, help="steps that run at the same time")
    delta.add_argument("--only", nargs="+", default=[], metavar="ROW", help="run only these rows")
    size = delta.add_argument_group("size of the experiment")
    size.add_argument("--depth", type=int, default=500, help="candidates a query")
    size.add_argument(
        "--quick-depth", type=int, default=100, help="candidates in the validation of classifiers and figure 3's models"
    )
    size.add_argument("--epochs", type=int, default=12, help="epochs of a training, at most")
    size.add_argument("--pairs", type=int, default=30, help="pairs a query in an epoch, at most")
    size.add_argument("--filters", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256], help="of figure 3")
    size.add_argument("--classifier-epochs", type=int, default=5, help="epochs of a classifier's training, at most")
    size.add_argument("--classifier-documents", type=int, default=12, help="documents a query in such an epoch")
    size.add_argument("--sweep-pairs", type=int, default=5, help="pairs a query for figure 3 and for pre-training")
    size.add_argument("--selected", type=int, default=3, help="lexical features to select")
    size.add_argument("--selection-epochs", type=int, default=3, help="epochs of a training in the selection")
    size.add_argument("--selection-pairs", type=int, default=5, help="pairs a query of a training in the selection")
    size.add_argument("--weak-queries", type=int, default=5000, help="weakly labelled queries")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name, value in vars(options).items():
        if type(value) is int and value < 1 and name != "seed":
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.weak_queries < 2 or min(options.filters) < 1:
        parser.error("--weak-queries must be at least 2, and --filters at least 1")
    if options.notes and not options.notes.is_file():
        parser.error(f"--notes {options.notes}: no such file")
    delta(options, sys.argv[1:] if argv is None else argv)


def delta(options, argv: list[str]) -> None:
    from dataclasses import fields

    from rerank_plugin.experiments.delta import Plan, Settings
    from rerank_plugin.experiments.delta_page import write_page
    from rerank_plugin.experiments.steps import Runner

    values = {field.name: getattr(options, field.name) for field in fields(Settings)}
    settings = Settings(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
    plan, runner = Plan(settings), Runner(settings.work)
    plan.run(runner)
    write_page(plan, options.output, options.notes, f"python -m rerank_plugin.experiment {shlex.join(argv)}")
    print(f"{options.output}: {len(plan.rows())} rows")


if __name__ == "__main__":
    commandline.run(main)
