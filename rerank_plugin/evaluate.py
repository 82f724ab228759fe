"""``rerank-plugin evaluate``: measures runs, and compares them with one another."""

from __future__ import annotations

import logging
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import JUDGMENTS, accepted
from rerank_plugin.evaluation import subset_options
from rerank_plugin.evaluation.run_names import comparisons, letters_of, run_paths

log = logging.getLogger(__name__)

DESCRIPTION = """\
Measure TREC run files against judgments. Every judged query counts: one that a run lacks scores 0.

Measures are those of ir-measures (nDCG@10, AP, P@5, R@500, RR@10, AP(rel=2), ...) and the papers' names:
NDCG.20 has gain 2^rel - 1 (nDCG@20 has gain rel), Prec.5 is P@5, MAP is AP. ERR@k takes the highest grade
in the judgments as the top of the scale (with --subset, in those of the subset), or --highest-grade.

--subset measures a part of the judged queries only: those of the Delta paper (neg20+, one-new-word, all-new-words), or
the ids in a file.

Tables of the papers (two-tailed paired t-tests, no correction):
  --format paper    Delta: baselines by number (--against), +, - or = where a value is significantly higher, lower or
                    not different, the best in bold
  --format letters  PACRR, table 1: baselines by letter (--letters), upper case where a value differs from that of the
                    baseline at 95%, lower case at 90%
  --before FOLDER   PACRR, table 2 and figure 3: the runs in a folder before re-ranking, and by the same file names in
                    the folders RUN ... after it, one for each method
  --pairs           PACRR, table 3 and figure 4: how often runs rank the more relevant of two documents higher"""
EXAMPLE = """\
examples:
  rerank-plugin evaluate --qrels sample:test runs/bm25.run runs/delta.run --baseline runs/bm25.run

  rerank-plugin evaluate --qrels sample:test runs/bm25.run runs/delta.run --subset one-new-word \\
      --queries sample:test --seen-queries sample:train --seen-queries sample:dev
  rerank-plugin evaluate --qrels sample:test runs/bm25.run runs/delta.run --format paper \\
      --against runs/delta.run=runs/bm25.run
  rerank-plugin evaluate --qrels sample:test runs/pacrr.run runs/drmm.run runs/qld.run --format letters \\
      --letters D=runs/drmm.run Q=runs/qld.run
  rerank-plugin evaluate --qrels sample:test --before runs/first runs/pacrr runs/drmm --letters D=runs/drmm \\
      --scatter figure3.png
  rerank-plugin evaluate --qrels sample:test runs/pacrr.run runs/drmm.run --pairs --label 2=HRel 1=Rel 0=NRel
The runs come before --measures, --letters and --label, or after a -- of their own."""

PAPER, LETTERS = "paper", "letters"  # of evaluation.marks and evaluation.letters
FORMATS = ("table", "markdown", "csv", "json", PAPER, LETTERS)  # evaluation.report is too slow to import for --help
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
    from rerank_plugin.evaluation.measures import DEFAULTS

    parser = commandline.parser("evaluate", DESCRIPTION, EXAMPLE)
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="TREC run file, also .gz; with --before a folder of runs")
    add("--qrels", required=True, metavar="J", help=f"judgments: {accepted(JUDGMENTS)}")
    measures = f"measures (default: {' '.join(DEFAULTS)}; ERR@20 NDCG.20 for the tables of PACRR)"
    add("--measures", nargs="+", metavar="M", help=measures)
    add("--baseline", metavar="RUN", help="run to compare the other runs with (default: no tests)")
    add("--format", choices=FORMATS, default="table", help="format of the output")
    add("--output", type=Path, help="file to write (default: print)")
    add = parser.add_argument_group("comparisons and output").add_argument
    highest = "highest grade of ERR's scale (default: that of the judgments; TREC's script has 4)"
    add("--highest-grade", type=float, metavar="G", help=highest)
    add("--alpha", type=float, help="significance level (default: 0.05; 0.01 for --format paper)")
    against = "run and the baselines it is compared with, for --format paper; once for each run"
    add("--against", action="append", default=[], metavar="RUN=RUN,...", help=against)
    add("--per-query", action="store_true", help="print the values of each query, too")
    agreement = "print Kendall's tau and the shared part of the top 10 with --baseline, too"
    add("--agreement", action="store_true", help=agreement)
    add("--overwrite", action="store_true", help="replace an existing --output or --scatter")
    add = parser.add_argument_group("tables of the PACRR paper").add_argument
    letters = "baselines and their letters, for --format letters, --pairs and --before (there L=FOLDER)"
    add("--letters", nargs="+", default=[], metavar="L=RUN", help=letters)
    add(
        "--before",
        metavar="FOLDER",
        help="folder of runs before re-ranking, to compare with those after it (see above)",
    )
    add("--scatter", type=Path, metavar="FILE.png", help="plot to write for --before: every run before and after")
    add("--pairs", action="store_true", help="compare runs on pairs of documents (see above)")
    label = "names of grades, for --pairs; neighbouring grades of one name count as one"
    add("--label", nargs="+", default=[], metavar="GRADE=NAME", help=label)
    unjudged = "take unjudged documents as non-relevant in --pairs, for judgments of relevant documents only"
    add("--unjudged-as-nonrelevant", action="store_true", help=unjudged)
    subset_options.add_subset_options(parser)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    check(parser, options)
    text = result(options)
    if options.output is None:
        print(text, end="")
        return
    from rerank_plugin.evaluation.report import REPORT
    from rerank_plugin.files.outputs import replacing

    with replacing(options.output, REPORT, options.overwrite) as file:
        file.write(text.encode())


def result(options) -> str:
    asked = kinds(options)[0]
    if asked == SUBSETS:
        return subset_options.subset_description(options)
    return {BEFORE: before_and_after, PAIRS: pairs_compared}.get(asked, measured)(options)


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
    if options.alpha is not None and not 0 < options.alpha < 1:
        parser.error("--alpha must be between 0 and 1")
    if options.agreement and options.baseline is None:
        parser.error("--agreement needs --baseline")
    if asked == SUBSETS and (options.runs or options.subset is not None):
        parser.error(f"{SUBSETS} measures nothing: it takes neither runs nor --subset")
    if asked != SUBSETS and not options.runs:
        parser.error("the following arguments are required: RUN")
    subset_options.check_subset(parser, options)


def measured(options) -> str:
    """The report on the runs, or a table of [D18] or [P]."""
    paths, baseline = run_paths(options.runs, options.baseline)
    against, lettered = comparisons(options.against, paths), letters_of(options.letters, paths)

    from rerank_plugin.evaluation import letters, marks, report
    from rerank_plugin.evaluation.evaluation import evaluate
    from rerank_plugin.evaluation.measures import DEFAULTS
    from rerank_plugin.files.runs import read_run

    measures = parsed(options.measures or (letters.MEASURES if options.format == LETTERS else DEFAULTS))
    judged, part = subset_options.chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    evaluation = evaluate(judged, runs, measures, baseline, options.agreement, options.highest_grade)
    say(report.warnings(evaluation))
    if options.format == PAPER:
        return marks.marked_table(evaluation, against, options.alpha or marks.ALPHA)
    if options.format == LETTERS:
        return letters.markdown(evaluation, lettered)
    return report.report(evaluation, options.alpha or 0.05, options.per_query).text(options.format)


def before_and_after(options) -> str:
    """[P], table 2, and figure 3 into a file."""
    folders, _ = run_paths(options.runs, None)
    lettered = letters_of(options.letters, folders)

    from rerank_plugin.evaluation import letters, many_runs

    measures = parsed(options.measures or letters.MEASURES)
    judged, part = subset_options.chosen_judgments(options)
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

    from rerank_plugin.evaluation import document_pairs
    from rerank_plugin.files.runs import read_run

    labels = document_pairs.parse_labels(options.label)
    judged, part = subset_options.chosen_judgments(options)
    runs = {path: part(read_run(path)) for path in paths}
    found = document_pairs.document_pairs(judged, runs, options.unjudged_as_nonrelevant, labels)
    say(document_pairs.warnings(found))
    return document_pairs.report(found, lettered).text(options.format)


def say(lines) -> None:
    for line in lines:
        log.warning("%s", line)


def parsed(measures) -> list[str]:
    """The measures; a mistyped name must not wait for millions of lines to be read."""
    from rerank_plugin.evaluation.measures import parse

    for name in measures:
        parse(name)
    return list(measures)


if __name__ == "__main__":
    commandline.run(main)
