"""``python -m experiments``: the experiments of a paper on any judged collection, with a page of results; or tables."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from inspect import cleandoc

from experiments.settings import add_options, settings_from
from rerank_plugin import options as commandline

RESUMED = """
The work folder keeps finished steps, so an interrupted experiment resumes; --dry-run prints the steps."""
EXAMPLES = {
    "delta": """\
example:
  python -m experiments delta --corpus sample --train sample:train --validation sample:dev \\
      --test sample:test --words embeddings/sample --work runs/delta --output runs/delta/page.md""",
    "pacrr": """\
example:
  python -m experiments pacrr --collection sample sample sample:train sample:dev sample:test \\
      --words embeddings/sample --work runs/pacrr --output runs/pacrr/page.md""",
    "ktrel": """\
example:
  python -m rerank_plugin.knowledge compile --source sample --output knowledge-bases/sample
  python -m rerank_plugin.embed concepts --knowledge knowledge-bases/sample --output embeddings/sample-concepts
  python -m experiments ktrel --corpus sample --train sample:train --validation sample:dev \\
      --test titles sample:test --words embeddings/sample --knowledge knowledge-bases/sample \\
      --concepts embeddings/sample-concepts --work runs/ktrel --output runs/ktrel/page.md""",
}

# Other commands: summary and module.
COMMANDS = {
    "tables": ("the papers' tables over any runs, and measures of some queries", "experiments.tables"),
    "cross-encoders": ("latency of cross-encoders", "experiments.cross_encoders"),
    "vocabulary": ("growth of the vocabulary, of real and of generated citations", "experiments.vocabulary_growth"),
    "annotation": ("the annotator against gold mentions", "experiments.annotation_quality"),
}


def papers() -> dict[str, tuple]:
    """By paper: title, settings, plan and page."""
    from experiments.delta import DeltaPlan, DeltaSettings
    from experiments.delta_page import DeltaPage
    from experiments.ktrel import KtrelPlan
    from experiments.ktrel_page import KtrelPage
    from experiments.ktrel_settings import KtrelSettings
    from experiments.pacrr import PacrrPlan, PacrrSettings
    from experiments.pacrr_page import PacrrPage

    return {
        "delta": ("Delta (WWW 2018 and BioNLP 2017)", DeltaSettings, DeltaPlan, DeltaPage),
        "pacrr": ("PACRR and the interaction models", PacrrSettings, PacrrPlan, PacrrPage),
        "ktrel": ("KTRel (CIRCLE 2020)", KtrelSettings, KtrelPlan, KtrelPage),
    }


def arguments():
    parser = commandline.parser("experiment", "Run a paper's experiments and write a page of the results.")
    parser.prog = "python -m experiments"
    subparsers = parser.add_subparsers(dest="paper", required=True, metavar="PAPER")
    for name, (title, settings, *_) in papers().items():
        description = cleandoc(settings.__doc__) + RESUMED
        paper = subparsers.add_parser(
            name, help=title, description=description, epilog=EXAMPLES[name], formatter_class=commandline.HelpFormatter
        )
        commandline.add_common_options(paper)
        add_options(paper, settings)
        paper.add_argument(
            "--dry-run", action="store_true", help="print the commands of all steps without running them"
        )
    for name, (summary, _) in COMMANDS.items():
        subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if words[:1] and words[0] in COMMANDS:
        import_module(COMMANDS[words[0]][1]).main(words[1:])
        return
    from experiments.plan import Runner

    parser = arguments()
    options = parser.parse_args(words)
    commandline.set_up_logging(options.verbose)
    if options.notes and not options.notes.is_file():
        parser.error(f"--notes {options.notes}: no such file")
    _, settings_class, plan_class, page_class = papers()[options.paper]
    settings = settings_from(settings_class, options)
    plan = plan_class(settings, options.dry_run)
    if options.dry_run:
        for number, stage in enumerate(plan.stages(), 1):
            print("\n".join([f"# stage {number}: {len(stage)} steps", *(step.shown for step in stage)]))
        return
    runner = Runner(settings.work)
    runner.run(plan.stages(), settings.at_once)
    page_class(plan, runner, f"python -m experiments {shlex.join(words)}").write()
    print(f"{settings.output}: {len(plan.rows())} rows")


if __name__ == "__main__":
    commandline.run(main)
