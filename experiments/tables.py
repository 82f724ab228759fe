"""``python -m experiments tables``: the tables of the papers over any runs, and measures of a part of the queries."""

from __future__ import annotations

import os
from pathlib import Path

from experiments import document_pairs, letters, many_runs, marks
from experiments.letters import check as check_letters
from experiments.subset_options import add_subset_options, check_subset, chosen_judgments, subset_description
from rerank_plugin import InputError, read_run
from rerank_plugin import evaluate as command
from rerank_plugin import options as commandline
from rerank_plugin.evaluate import parsed, reported, run_paths, say
from rerank_plugin.evaluation import report
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.evaluation.measures import DEFAULTS

DESCRIPTION = """\
Print the tables of the papers (two-tailed paired t-tests, no correction), or the measures of a part of the queries.

  --format paper    Delta: baselines by number (--against), +, - or = where a value is significantly higher, lower or
                    not different, the best in bold
  --format letters  PACRR, table 1: baselines by letter (--letters), upper case where a value differs from that of the
                    baseline at 95%, lower case at 90%
  --before FOLDER   PACRR, table 2 and figure 3: the runs in a folder before re-ranking, and by the same file names in
                    the folders RUN ... after it, one for each method
  --pairs           PACRR, table 3 and figure 4: how often runs rank the more relevant of two documents higher

--subset measures a part of the judged queries only: those of the Delta paper (neg20+, one-new-word, all-new-words),
those by overlap with training queries, or the ids in a file. ERR@k then takes the highest grade in the judgments of
the subset as the top of the scale. Without a table of a paper, the output is that of rerank-plugin evaluate."""
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
The runs come before --measures, --letters and --label, or after a -- of their own."""

PAPER, LETTERS = "paper", "letters"
FORMATS = (*command.FORMATS, PAPER, LETTERS)
FORMATS_OF_OTHERS = ("table", "markdown", "json")  # of --before and --pairs

# What is asked for, in the words that ask for it, and which options each takes besides those that all take.
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
    against = (
        "run and the baselines it is compared with, for --format paper (at 0.01 without --alpha); once for each run"
    )
    add("--against", action="append", default=[], metavar="RUN=RUN,...", help=against)
    add = parser.add_argument_group("tables of the PACRR paper (measures by default ERR@20 NDCG.20)").add_argument
    of_letters = "baselines and their letters, for --format letters, --pairs and --before (there L=FOLDER)"
    add("--letters", nargs="+", default=[], metavar="L=RUN", help=of_letters)
    add("--before", metavar="FOLDER", help="folder of runs before re-ranking; RUN ... are folders of those after it")
    add("--scatter", type=Path, metavar="FILE.png", help="plot to write for --before: every run before and after")
    add("--overwrite", action="store_true", help="replace an existing --scatter")
    add("--pairs", action="store_true", help="compare runs on pairs of documents")
    label = "names of grades, for --pairs; neighbouring grades of one name count as one"
    add("--label", nargs="+", default=[], metavar="GRADE=NAME", help=label)
    unjudged = "take unjudged documents as non-relevant in --pairs, for judgments of relevant documents only"
    add("--unjudged-as-nonrelevant", action="store_true", help=unjudged)
    add_subset_options(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    check(parser, options)
    asked = kinds(options)[0]
    print(
        {SUBSETS: subset_description, BEFORE: before_and_after, PAIRS: pairs_compared}.get(asked, measured)(options),
        end="",
    )


def kinds(options) -> list[str]:
    """What is asked for; more than one are a contradiction."""
    asked = {
        SUBSETS: options.describe_subsets,
        BEFORE: options.before is not None,
        PAIRS: options.pairs,
        OF_PAPER: options.format == PAPER,
        OF_LETTERS: options.format == LETTERS,
    }
    return [name for name, is_asked in asked.items() if is_asked] or [PLAIN]


def check(parser, options) -> None:
    """Fail where options contradict or need one another."""
    asked, *contradicting = kinds(options)
    if contradicting:
        parser.error(f"{asked} does not go with {contradicting[0]}")
    for option, takers in TAKEN_BY.items():
        if getattr(options, option) not in (None, False, []) and asked not in takers:
            name = commandline.flag(option)
            parser.error(f"{asked} takes no {name}" if PLAIN in takers else f"{name} needs {' or '.join(takers)}")
    if asked in (BEFORE, PAIRS) and options.format not in FORMATS_OF_OTHERS:
        parser.error(f"{asked} takes no --format {options.format}, but {', '.join(FORMATS_OF_OTHERS)}")
    if asked == OF_LETTERS and not options.letters:
        parser.error(f"{OF_LETTERS} needs the letters of the baselines: --letters")
    command.check(parser, options)
    if asked == SUBSETS and (options.runs or options.subset is not None):
        parser.error(f"{SUBSETS} measures nothing: it takes neither runs nor --subset")
    if asked != SUBSETS and not options.runs:
        parser.error("the following arguments are required: RUN")
    check_subset(parser, options)


def measured(options) -> str:
    """The report on the runs, or a table of [D18] or [P]."""
    paths, baseline = run_paths(options.runs, options.baseline)
    against, lettered = comparisons(options.against, paths), letters_of(options.letters, paths)
    measures = parsed(options.measures or (letters.MEASURES if options.format == LETTERS else DEFAULTS))
    judged, part = chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    if options.format not in (PAPER, LETTERS):
        return reported(judged, runs, measures, baseline, options)
    evaluation = evaluate(judged, runs, measures, highest=options.highest_grade)
    say(report.warnings(evaluation))
    if options.format == PAPER:
        return marks.marked_table(evaluation, against, options.alpha or marks.ALPHA)
    return letters.markdown(evaluation, lettered)


def before_and_after(options) -> str:
    """[P], table 2, and figure 3 into a file."""
    folders, _ = run_paths(options.runs, None)
    lettered = letters_of(options.letters, folders)
    measures = parsed(options.measures or letters.MEASURES)
    judged, part = chosen_judgments(options)
    after = {folder: many_runs.RunFolder(folder, part) for folder in folders}
    found = many_runs.evaluate_bulk(
        judged, many_runs.RunFolder(options.before, part), after, measures, options.highest_grade
    )
    say(many_runs.warnings(found))
    if options.scatter is not None:
        many_runs.plot_scatter(found, options.scatter, overwrite=options.overwrite)
    return many_runs.report(found, lettered).text(options.format)


def pairs_compared(options) -> str:
    """[P], table 3 and the numbers of figure 4."""
    paths, _ = run_paths(options.runs, None)
    lettered = letters_of(options.letters, paths)
    labels = document_pairs.parse_labels(options.label)
    judged, part = chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    found = document_pairs.document_pairs(judged, runs, options.unjudged_as_nonrelevant, labels)
    say(document_pairs.warnings(found))
    return document_pairs.report(found, lettered).text(options.format)


def comparisons(given: list[str], paths: list[str]) -> dict[str, list[str]]:
    """``--against`` as {run: baselines}, under the names of ``paths``."""
    result: dict[str, list[str]] = {}
    for one in given:
        run, equals, baselines = one.partition("=")
        names = [run, *baselines.split(",")]
        if not equals or not all(names):
            raise InputError(f"--against {one}: expected a run, =, and its baselines joined by commas")
        run, *baselines = (as_given(name, paths) for name in names)
        result.setdefault(run, []).extend(baselines)
    return result


def letters_of(given: list[str], paths: list[str]) -> dict[str, str]:
    """``--letters`` as {baseline: letter}, under the names of ``paths``."""
    result: dict[str, str] = {}
    for one in given:
        letter, equals, name = one.partition("=")
        if not letter or not name:
            raise InputError(f"--letters {one}: expected a letter, =, and a baseline; runs come before --letters")
        baseline = as_given(name, paths)
        if baseline in result:
            raise InputError(f"--letters {one}: {baseline} has the letter {result[baseline]} already")
        result[baseline] = letter
    if result:
        check_letters(result, paths)
    return result


def as_given(name: str, paths: list[str]) -> str:
    """The same file as it is called in ``paths``, or ``name`` where it is not among them."""
    return next((path for path in paths if os.path.realpath(path) == os.path.realpath(name)), name)


if __name__ == "__main__":
    commandline.run(main)
