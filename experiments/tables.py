"""``python -m experiments tables``: the papers' tables over any runs, and measures on a subset of the queries."""

from __future__ import annotations

import os
from pathlib import Path

from experiments import document_pairs, letters, many_runs, marks
from experiments.letters import check as check_letters
from experiments.subset_options import add_subset_options, check_subset, chosen_judgments, subset_description
from rerank_plugin import InputError, read_run
from rerank_plugin import evaluate as command
from rerank_plugin import options as commandline
from rerank_plugin.evaluate import checked, evaluated, log_warnings, run_paths
from rerank_plugin.evaluation import report
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.evaluation.measures import DEFAULTS

DESCRIPTION = """\
Print the tables of the papers (two-tailed paired t-tests, no correction), or measures on a subset of the queries.

  --format paper    Delta: baselines by number (--against), +, - or = where a value is significantly higher, lower or
                    not different, the best in bold
  --format letters  PACRR, table 1: baselines by letter (--letters), upper case if a value differs from that of the
                    baseline at 95%, lower case at 90%
  --before FOLDER   PACRR, table 2 and figure 3: FOLDER has the runs before re-ranking; each RUN is a folder with the
                    same file names after re-ranking by a method
  --pairs           PACRR, table 3 and figure 4: how often runs rank the more relevant of two documents higher

--subset measures a part of the judged queries only: those of the Delta paper (neg20+, one-new-word, all-new-words),
those by overlap with training queries, or the ids in a file. The scale of ERR@k then ends at the highest grade of the
subset. Without a table of a paper, the output is that of rerank-plugin evaluate."""
EXAMPLE = """\
examples:
  python -m experiments tables --qrels sample:test runs/bm25.run runs/delta.run --subset one-new-word \\
      --queries sample:test --seen-queries sample:train --seen-queries sample:dev
  python -m experiments tables --qrels sample:test runs/bm25.run runs/delta.run --format paper \\
      --against runs/delta.run=runs/bm25.run
  python -m experiments tables --qrels sample:test runs/pacrr.run runs/drmm.run runs/qld.run --format letters \\
      --letters D=runs/drmm.run Q=runs/qld.run
  python -m experiments tables --qrels sample:test --before runs/first runs/pacrr runs/drmm --letters D=runs/drmm \\
      --scatter figure3.png
  python -m experiments tables --qrels sample:test runs/pacrr.run runs/drmm.run --pairs --label 2=HRel 1=Rel 0=NRel
Give the runs before --measures, --letters and --label, or after --."""

PAPER, LETTERS = "paper", "letters"
FORMATS = (*command.FORMATS, PAPER, LETTERS)
OTHER_FORMATS = ("table", "markdown", "json")  # of --before and --pairs

# The kinds of output, by the option that requests them, and the kinds that each option is for.
PLAIN, OF_PAPER, OF_LETTERS = "", f"--format {PAPER}", f"--format {LETTERS}"
BEFORE, PAIRS, SUBSETS = "--before", "--pairs", "--describe-subsets"
TAKEN_BY = {
    "measures": (PLAIN, OF_PAPER, OF_LETTERS, BEFORE),
    "highest_grade": (PLAIN, OF_PAPER, OF_LETTERS, BEFORE),
    "baseline": (PLAIN,),
    "agreement": (PLAIN,),
    "per_query": (PLAIN,),
    "alpha": (PLAIN, OF_PAPER),
    "against": (OF_PAPER,),
    "letters": (OF_LETTERS, BEFORE, PAIRS),
    "scatter": (BEFORE,),
    "label": (PAIRS,),
    "unjudged_as_nonrelevant": (PAIRS,),
}


def arguments():
    parser = commandline.parser("tables", DESCRIPTION, EXAMPLE)
    parser.prog = "python -m experiments tables"
    command.add_options(parser, FORMATS, "*")
    add = parser.add_argument_group("tables of the Delta paper").add_argument
    against = "run and its baselines, for --format paper (at 0.01 without --alpha); may be repeated, once for each run"
    add("--against", action="append", default=[], metavar="RUN=RUN,...", help=against)
    add = parser.add_argument_group("tables of the PACRR paper (measures by default ERR@20 NDCG.20)").add_argument
    of_letters = "baselines and their letters, for --format letters, --pairs and --before (there L=FOLDER)"
    add("--letters", nargs="+", default=[], metavar="L=RUN", help=of_letters)
    add("--before", metavar="FOLDER", help="folder of runs before re-ranking; RUN ... are folders of runs after it")
    add("--scatter", type=Path, metavar="FILE.png", help="plot to write for --before, of every run before and after")
    add("--overwrite", action="store_true", help="replace an existing --scatter")
    add("--pairs", action="store_true", help="compare runs on pairs of documents")
    label = "names of grades, for --pairs; neighbouring grades of one name count as one"
    add("--label", nargs="+", default=[], metavar="GRADE=NAME", help=label)
    unjudged = "count unjudged documents as non-relevant in --pairs, for judgments of relevant documents only"
    add("--unjudged-as-nonrelevant", action="store_true", help=unjudged)
    add_subset_options(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    check(parser, options)
    outputs = {SUBSETS: subset_description, BEFORE: before_and_after, PAIRS: pairs_compared}
    print(outputs.get(kinds(options)[0], measured)(options), end="")


def kinds(options) -> list[str]:
    """The requested kinds of output; only one is allowed."""
    requested = {
        SUBSETS: options.describe_subsets,
        BEFORE: options.before is not None,
        PAIRS: options.pairs,
        OF_PAPER: options.format == PAPER,
        OF_LETTERS: options.format == LETTERS,
    }
    return [name for name, is_requested in requested.items() if is_requested] or [PLAIN]


def check(parser, options) -> None:
    """Check that options fit together."""
    kind, *contradicting = kinds(options)
    if contradicting:
        parser.error(f"give either {kind} or {contradicting[0]}")
    for option, takers in TAKEN_BY.items():
        if getattr(options, option) not in (None, False, []) and kind not in takers:
            name = commandline.flag(option)
            parser.error(f"{kind} takes no {name}" if PLAIN in takers else f"{name} needs {' or '.join(takers)}")
    if kind in (BEFORE, PAIRS) and options.format not in OTHER_FORMATS:
        parser.error(f"{kind} takes no --format {options.format}, but {', '.join(OTHER_FORMATS)}")
    if kind == OF_LETTERS and not options.letters:
        parser.error(f"{OF_LETTERS} needs the letters of the baselines: --letters")
    command.check(parser, options)
    if kind == SUBSETS and (options.runs or options.subset is not None):
        parser.error(f"{SUBSETS} measures nothing: it takes neither runs nor --subset")
    if kind != SUBSETS and not options.runs:
        parser.error("the following arguments are required: RUN")
    check_subset(parser, options)


def measured(options) -> str:
    """The report on the runs, or a table of [D18] or [P]."""
    paths, baseline = run_paths(options.runs, options.baseline)
    against, lettered = comparisons(options.against, paths), letters_of(options.letters, paths)
    measures = checked(options.measures or (letters.MEASURES if options.format == LETTERS else DEFAULTS))
    judged, part = chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    if options.format not in (PAPER, LETTERS):
        return evaluated(judged, runs, measures, baseline, options)
    evaluation = evaluate(judged, runs, measures, highest=options.highest_grade)
    log_warnings(report.warnings(evaluation))
    if options.format == PAPER:
        return marks.marked_table(evaluation, against, options.alpha or marks.ALPHA)
    return letters.markdown(evaluation, lettered)


def before_and_after(options) -> str:
    """[P], table 2; writes figure 3 to a file."""
    folders, _ = run_paths(options.runs, None)
    lettered = letters_of(options.letters, folders)
    measures = checked(options.measures or letters.MEASURES)
    judged, part = chosen_judgments(options)
    after = {folder: many_runs.RunFolder(folder, part) for folder in folders}
    bulk = many_runs.evaluate_bulk(
        judged, many_runs.RunFolder(options.before, part), after, measures, options.highest_grade
    )
    log_warnings(many_runs.warnings(bulk))
    if options.scatter is not None:
        many_runs.plot_scatter(bulk, options.scatter, overwrite=options.overwrite)
    return many_runs.report(bulk, lettered).text(options.format)


def pairs_compared(options) -> str:
    """[P], table 3 and the numbers of figure 4."""
    paths, _ = run_paths(options.runs, None)
    lettered = letters_of(options.letters, paths)
    labels = document_pairs.parse_labels(options.label)
    judged, part = chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    pairs = document_pairs.document_pairs(judged, runs, options.unjudged_as_nonrelevant, labels)
    log_warnings(document_pairs.warnings(pairs))
    return document_pairs.report(pairs, lettered).text(options.format)


def comparisons(values: list[str], paths: list[str]) -> dict[str, list[str]]:
    """``--against`` as {run: baselines}, by the names in ``paths``."""
    result: dict[str, list[str]] = {}
    for value in values:
        run, equals, baselines = value.partition("=")
        names = [run, *baselines.split(",")]
        if not equals or not all(names):
            raise InputError(f"--against {value}: expected a run, =, and its baselines joined by commas")
        run, *baselines = (spelled_as(paths, name) for name in names)
        result.setdefault(run, []).extend(baselines)
    return result


def letters_of(values: list[str], paths: list[str]) -> dict[str, str]:
    """``--letters`` as {baseline: letter}, by the names in ``paths``."""
    result: dict[str, str] = {}
    for value in values:
        letter, _, name = value.partition("=")
        if not letter or not name:
            raise InputError(f"--letters {value}: expected a letter, =, and a baseline; give the runs before --letters")
        baseline = spelled_as(paths, name)
        if baseline in result:
            raise InputError(f"--letters {value}: {baseline} has the letter {result[baseline]} already")
        result[baseline] = letter
    if result:
        check_letters(result, paths)
    return result


def spelled_as(paths: list[str], name: str) -> str:
    """The path in ``paths`` of the same file, or ``name`` if there is none."""
    return next((path for path in paths if os.path.realpath(path) == os.path.realpath(name)), name)


if __name__ == "__main__":
    commandline.run(main)
