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
in the judgments as the top of the scale (with --subset, in those of the subset).

--subset measures a part of the judged queries only: those of the Delta paper (neg20+, one-new-word, all-new-words), or
the ids in a file. --format paper is the paper's table: Markdown with baselines by number (--against), +, - or = where a
value is significantly higher, lower or not different (two-tailed paired t-test, no correction), the best in bold."""
EXAMPLE = """\
examples:
  python -m rerank_plugin.evaluate --qrels sample:test runs/bm25.run runs/delta.run --baseline runs/bm25.run
  python -m rerank_plugin.evaluate --qrels sample:test runs/bm25.run runs/delta.run --subset one-new-word \\
      --queries sample:test --seen-queries sample:train --seen-queries sample:dev
  python -m rerank_plugin.evaluate --qrels sample:test runs/bm25.run runs/delta.run --format paper \\
      --against runs/delta.run=runs/bm25.run
The runs come before --measures, or after a -- of their own."""
PAPER = "paper"  # of evaluation.marks
FORMATS = ("table", "markdown", "csv", "json", PAPER)  # those of evaluation.report, too slow to import for --help


def arguments():
    from rerank_plugin.evaluation.measures import DEFAULTS

    parser = commandline.parser("evaluate", DESCRIPTION, EXAMPLE)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="TREC run file, also .gz")
    parser.add_argument(
        "--qrels", required=True, metavar="J", help="TREC qrels, BEIR tsv or folder:split, ir-datasets id, sample:test"
    )
    parser.add_argument("--measures", nargs="+", default=list(DEFAULTS), metavar="M", help="what to measure")
    parser.add_argument("--baseline", metavar="RUN", help="run to compare the others with, among them or another one")
    parser.add_argument("--alpha", type=float, help="level of significance (default: 0.05; 0.01 for --format paper)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="what to print")
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="RUN=RUN,...",
        help="for --format paper: a run and the baselines it is compared with; once for each run",
    )
    parser.add_argument("--per-query", action="store_true", help="add the values of each query")
    parser.add_argument(
        "--agreement",
        action="store_true",
        help="add Kendall's tau and the share of the top 10 in common with --baseline",
    )
    parser.add_argument("--output", type=Path, help="file to write instead of printing")
    add_subset_options(parser)
    return parser


def add_subset_options(parser) -> None:
    group = parser.add_argument_group("subsets of the queries")
    group.add_argument(
        "--subset",
        metavar="S",
        help="neg20+ (or neg5+, ...), one-new-word, all-new-words, or a file with one query id a line",
    )
    group.add_argument(
        "--describe-subsets", action="store_true", help="print the sizes of the subsets, and no measures"
    )
    group.add_argument("--queries", metavar="Q", help="the texts of the queries, in any form that search takes")
    group.add_argument("--index", type=Path, help="index folder, for the titles that neg20+ asks for")
    group.add_argument(
        "--subset-run",
        metavar="RUN",
        help="for neg20+: the candidates of this run are the documents of a query, the unjudged ones as not relevant, "
        "instead of the judged documents",
    )
    group.add_argument(
        "--seen-queries",
        action="append",
        default=[],
        metavar="Q",
        help="training or validation queries, whose words are not new; may be repeated",
    )


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    check(parser, options)
    text = subset_description(options) if options.describe_subsets else measured(options)
    if options.output is None:
        print(text, end="")
        return
    from rerank_plugin.runs import replacing

    with replacing(options.output) as file:
        file.write(text.encode())


def check(parser, options) -> None:
    """Fail where options contradict or need one another; ``alpha`` gets its default."""
    if options.alpha is None:
        options.alpha = 0.01 if options.format == PAPER else 0.05
    if not 0 < options.alpha < 1:
        parser.error("--alpha must be between 0 and 1")
    if options.agreement and options.baseline is None:
        parser.error("--agreement needs --baseline")
    if options.against and options.format != PAPER:
        parser.error(f"--against needs --format {PAPER}")
    if options.format == PAPER and (options.baseline is not None or options.per_query):
        parser.error(f"--format {PAPER} takes neither --baseline (but --against) nor --per-query")
    if options.describe_subsets and (options.runs or options.subset is not None):
        parser.error("--describe-subsets measures nothing: it takes neither runs nor --subset")
    if not options.describe_subsets and not options.runs:
        parser.error("the following arguments are required: RUN")
    check_subset(parser, options)


def check_subset(parser, options) -> None:
    """Fail where a subset lacks what it is found with."""
    if options.subset is None and not options.describe_subsets:
        return
    from rerank_plugin.evaluation.subsets import ALL_NEW_WORDS, ONE_NEW_WORD, hard_count

    name = "--describe-subsets" if options.describe_subsets else f"--subset {options.subset}"
    of_words = options.subset in (ONE_NEW_WORD, ALL_NEW_WORDS)
    of_titles = options.describe_subsets or hard_count(options.subset) is not None
    if options.queries is None and (of_titles or of_words):
        parser.error(f"{name} needs the texts of the queries: --queries")
    if options.index is None and of_titles:
        parser.error(f"{name} needs the titles of the documents: --index")
    if not options.seen_queries and of_words:
        parser.error(f"{name} needs the training and validation queries: --seen-queries, which may be repeated")


def measured(options) -> str:
    """The report on the runs."""
    paths, baseline = run_paths(options.runs, options.baseline)
    against = comparisons(options.against, paths)

    from rerank_plugin.corpora import judgments
    from rerank_plugin.evaluation import marks, report, subsets
    from rerank_plugin.evaluation.evaluation import evaluate
    from rerank_plugin.evaluation.measures import parse
    from rerank_plugin.runs import read_run

    for name in options.measures:
        parse(name)  # a mistyped name must not wait for millions of lines to be read
    judged = judgments(options.qrels)
    runs = {path: read_run(path) for path in paths}
    if options.subset is not None:
        kept = subsets.restricted(judged, subset_ids(options, judged), options.subset)
        log.info("subset %s: %d of %d judged queries", options.subset, len(kept), sum(map(bool, judged.values())))
        runs = {path: subsets.without_others(run, judged, kept) for path, run in runs.items()}
        judged = kept
    evaluation = evaluate(judged, runs, options.measures, baseline, options.agreement)
    for line in report.warnings(evaluation):
        log.warning("%s", line)
    if options.format == PAPER:
        return marks.marked_table(evaluation, against, options.alpha)
    return report.FORMATS[options.format](evaluation, options.alpha, options.per_query)


def subset_ids(options, judged) -> list[str]:
    """The query ids of ``--subset``."""
    from rerank_plugin.corpora import queries
    from rerank_plugin.evaluation import subsets

    at_least = subsets.hard_count(options.subset)
    of_words = {subsets.ONE_NEW_WORD: subsets.one_new_word, subsets.ALL_NEW_WORDS: subsets.all_new_words}
    if at_least is None and options.subset not in of_words:
        return subsets.read_ids(options.subset)
    asked = subsets.judged_queries(queries(options.queries), judged)
    if at_least is None:
        return of_words[options.subset](asked, seen_words(options))
    of_queries = subsets.samples(asked, judged, forward_index(options), subset_run(options))
    return subsets.hard_queries(of_queries, at_least)


def subset_description(options) -> str:
    from rerank_plugin.corpora import judgments, queries
    from rerank_plugin.evaluation import subsets

    seen = seen_words(options) if options.seen_queries else None
    asked, judged = queries(options.queries), judgments(options.qrels)
    return subsets.markdown(subsets.describe(asked, judged, forward_index(options), seen, subset_run(options)))


def forward_index(options):
    from rerank_plugin.retrieval.index_folder import Index

    return Index(options.index).forward


def subset_run(options):
    """The run of ``--subset-run``; None without one."""
    from rerank_plugin.runs import read_run

    return read_run(options.subset_run) if options.subset_run is not None else None


def seen_words(options) -> set[str]:
    from rerank_plugin.corpora import queries
    from rerank_plugin.evaluation.subsets import words_of

    return {word for spec in options.seen_queries for word in words_of(queries(spec))}


def comparisons(given: list[str], paths: list[str]) -> dict[str, list[str]]:
    """``--against`` as {run: baselines}, under the names of ``paths``."""
    from rerank_plugin.errors import InputError

    by_file = {os.path.realpath(path): path for path in paths}
    result: dict[str, list[str]] = {}
    for one in given:
        run, equals, baselines = one.partition("=")
        names = [run, *baselines.split(",")]
        if not equals or not all(names):
            raise InputError(f"--against {one}: expected a run, =, and its baselines joined by commas")
        run, *baselines = (by_file.get(os.path.realpath(name), name) for name in names)
        result.setdefault(run, []).extend(baselines)
    return result


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
