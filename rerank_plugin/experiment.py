"""``python -m rerank_plugin.experiment``: a paper's experiments on any judged collection, and a page of the results."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rerank_plugin import options as commandline

DELTA_DESCRIPTION = """\
Tables 2 to 7 and figure 3 of the Delta paper (WWW 2018) on a judged collection: trains every model, re-ranks the first
stage's candidates and, with --judged, the judged documents, and writes a Markdown page. Steps that are done are kept in
the work folder, so an interrupted experiment goes on where it stopped."""
DELTA_EXAMPLE = """\
example:
  python -m rerank_plugin.experiment delta --corpus sample --train sample:train --validation sample:dev \\
      --test sample:test --words embeddings/sample --work runs/delta --output runs/delta/page.md"""

PACRR_DESCRIPTION = """\
Tables 1 to 3 and figures 2, 3 and 5 of the PACRR paper (2017) on judged collections: trains PACRR-firstk and -kwindow,
DRMM, DUET-local, MatchPyramid, KNRM and Conv-KNRM, re-ranks BM25 and query likelihood, some thirty runs of other first
stages and, with --judged, the judged documents alone, and writes a Markdown page. The hyper-parameters of
PACRR-kwindow are chosen on the validation queries of the first collection. Steps that are done are kept in the work
folder, so an interrupted experiment goes on where it stopped."""
PACRR_EXAMPLE = """\
example:
  python -m rerank_plugin.experiment pacrr --collection sample sample sample:train sample:dev sample:test \\
      --words embeddings/sample --work runs/pacrr --output runs/pacrr/page.md"""

KTREL_DESCRIPTION = """\
Table 1 and figure 2 of the KTRel paper (CIRCLE 2020) on a judged collection with a knowledge base: tunes BM25 and RM3,
trains DUET, KNRM, DRMM, Conv-KNRM and KTRel by the paper's recipe, KTRel by ours, and hybrids of KTRel and BM25-RM3,
ranks the whole collection with each, and writes a Markdown page with the published values beside ours. Several --test
are given one by one and pooled, as the paper pools titles and descriptions. Steps that are done are kept in the work
folder, so an interrupted experiment goes on where it stopped; --dry-run prints them."""
MAY_BE_ZERO = ("grid", "validation_candidates")
KTREL_EXAMPLE = """\
example:
  python -m rerank_plugin.knowledge compile --source sample --output knowledge-bases/sample
  python -m rerank_plugin.embed concepts --knowledge knowledge-bases/sample --output embeddings/sample-concepts
  python -m rerank_plugin.experiment ktrel --corpus sample --train sample:train --validation sample:dev \\
      --test titles sample:test --words embeddings/sample --knowledge knowledge-bases/sample \\
      --concepts embeddings/sample-concepts --work runs/ktrel --output runs/ktrel/page.md"""


def arguments():
    parser = commandline.parser("experiment", "Run a paper's experiments and write a page of the results.")
    papers = parser.add_subparsers(dest="paper", required=True, metavar="PAPER")
    add_delta(papers)
    add_pacrr(papers)
    add_ktrel(papers)
    return parser


def add_paper(papers, name: str, title: str, description: str, example: str):
    """The parser of one paper's experiments, with the options that all have."""
    paper = papers.add_parser(
        name, help=title, description=description, epilog=example, formatter_class=commandline.HelpFormatter
    )
    commandline.add_common_options(paper)
    paper.add_argument("--words", required=True, help="word vectors, written by rerank_plugin.embed words")
    paper.add_argument("--work", type=Path, required=True, help="folder of everything that is made on the way")
    paper.add_argument("--output", type=Path, required=True, help="Markdown page to write; figures go beside it")
    paper.add_argument("--notes", type=Path, help="Markdown to put on the page, below its head")
    paper.add_argument("--at-once", type=int, default=2, help="steps that run at the same time")
    return paper


def add_delta(papers) -> None:
    delta = add_paper(papers, "delta", "Delta (WWW 2018 and BioNLP 2017)", DELTA_DESCRIPTION, DELTA_EXAMPLE)
    delta.add_argument("--corpus", required=True, help="documents to index")
    for name in ("train", "validation", "test"):
        delta.add_argument(f"--{name}", required=True, metavar="QJ", help="queries and judgments")
    delta.add_argument("--judged", metavar="J", help="judgments of the test queries that hold grade 0, too")
    delta.add_argument("--weak", action="append", default=[], metavar="CORPUS", help="corpus to pre-train on")
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


def add_pacrr(papers) -> None:
    pacrr = add_paper(papers, "pacrr", "PACRR and the interaction models", PACRR_DESCRIPTION, PACRR_EXAMPLE)
    pacrr.add_argument(
        "--collection",
        nargs=5,
        action="append",
        required=True,
        metavar=("NAME", "CORPUS", "TRAIN", "VALIDATION", "TEST"),
        help="a name, documents, and queries with judgments; may be repeated",
    )
    pacrr.add_argument(
        "--judged",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "J"),
        help="a collection's judgments of the test queries that hold grade 0, too",
    )
    pacrr.add_argument(
        "--sweep", nargs="+", default=[], metavar="NAME", help="collections for figure 5 (the first one)"
    )
    pacrr.add_argument("--models", nargs="+", default=[], metavar="M", help="baselines to run (all five)")
    pacrr.add_argument("--stem", help="stemmer of the forward indexes: krovetz, with word vectors of the same")
    pacrr.add_argument(
        "--train-option", action="append", default=[], help="option of every training, as --train-option=--patience=4"
    )
    size = pacrr.add_argument_group("size of the experiment")
    size.add_argument("--depth", type=int, default=500, help="candidates a query")
    size.add_argument("--epochs", type=int, default=12, help="epochs of a training")
    size.add_argument("--pairs", type=int, default=10, help="pairs a query in an epoch, on average")
    size.add_argument("--runs", type=int, help="runs of table 2, at most (all there are)")
    size.add_argument("--distilled", type=int, nargs="+", default=[32, 64, 128, 256, 512], help="l_d of figure 5")
    size.add_argument("--signals", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="n_s of figure 5")
    size.add_argument("--longest", type=int, nargs="+", default=[2, 3, 4], help="l_g of figure 5")


def add_ktrel(papers) -> None:
    ktrel = add_paper(papers, "ktrel", "KTRel (CIRCLE 2020)", KTREL_DESCRIPTION, KTREL_EXAMPLE)
    ktrel.add_argument("--corpus", required=True, help="documents to index")
    ktrel.add_argument(
        "--train",
        required=True,
        action="append",
        metavar="QJ",
        help="queries and judgments; may be repeated, with other texts of the same queries, too",
    )
    ktrel.add_argument("--validation", required=True, metavar="QJ", help="queries and judgments to choose by")
    ktrel.add_argument(
        "--test",
        required=True,
        nargs=2,
        action="append",
        metavar=("NAME", "QJ"),
        help="a name, and queries and judgments to measure on; may be repeated, and is then pooled, too",
    )
    ktrel.add_argument("--knowledge", required=True, metavar="KB", help="a compiled knowledge base")
    ktrel.add_argument(
        "--concepts", required=True, help="concept vectors of it, written by rerank_plugin.embed concepts"
    )
    ktrel.add_argument("--stem", help="stemmer of the forward index: krovetz, with word vectors of the same")
    ktrel.add_argument(
        "--plain-words", metavar="WORDS", help="word vectors without stemming, to measure what stemming contributes"
    )
    ktrel.add_argument(
        "--weak",
        action="append",
        default=[],
        metavar="CORPUS",
        help="corpus to pre-train on, by its titles and abstracts",
    )
    ktrel.add_argument("--only", nargs="+", default=[], metavar="ROW", help="run only these rows, and BM25-RM3")
    ktrel.add_argument(
        "--figure-models", nargs="*", metavar="ROW", help="models of figure 2 (all six); none: no figure"
    )
    ktrel.add_argument("--ingredients", nargs="*", metavar="NAME", help="ingredients to train (all); none: no table")
    ktrel.add_argument(
        "--train-option", action="append", default=[], help="option of every training, as --train-option=--patience=4"
    )
    ktrel.add_argument("--device", default="cpu", help="torch device of trainings and searches")
    ktrel.add_argument("--dry-run", action="store_true", help="print the commands of all steps, and run none")
    _add_ktrel_sizes(ktrel)


def _add_ktrel_sizes(ktrel) -> None:
    size = ktrel.add_argument_group("size of the experiment")
    size.add_argument("--depth", type=int, default=1000, help="documents a query that are measured")
    size.add_argument("--rerank-depth", type=int, default=500, help="documents of the hybrid that are re-ranked")
    size.add_argument("--epochs", type=int, default=30, help="epochs of a training, at most, but of our recipe")
    size.add_argument("--recipe-epochs", type=int, help="epochs of our recipe, at most (as it says)")
    size.add_argument(
        "--pairs", type=int, default=10, help="pairs a query in an epoch, at most, where pairs are learned"
    )
    size.add_argument("--patience", type=int, default=5, help="epochs without a better MAP before a training stops")
    size.add_argument(
        "--ingredient-epochs", type=int, help="epochs of an ingredient's training, at most (as the recipe's)"
    )
    size.add_argument(
        "--validation-candidates",
        type=int,
        default=0,
        help="documents of the tuned BM25-RM3 on which DUET, KNRM, DRMM and Conv-KNRM are validated; 0: all there are",
    )
    size.add_argument("--sizes", nargs="+", default=["100", "200", "500", "1000", "2000", "all"], help="of figure 2")
    size.add_argument(
        "--grid", type=int, default=6, help="configurations of the paper's grid that are tried for each KTRel; 0: one"
    )
    size.add_argument("--weak-queries", type=int, default=38_000, help="titles to pre-train on")
    size.add_argument("--weak-epochs", type=int, default=3, help="epochs of the pre-training")
    size.add_argument("--grid-epochs", type=int, default=4, help="epochs of these trials")
    size.add_argument("--k1", type=float, nargs="+", default=[0.5, 0.9, 1.2, 1.6, 2.0], help="of BM25, to try")
    size.add_argument("--b", type=float, nargs="+", default=[0.2, 0.4, 0.6, 0.75, 0.9], help="of BM25, to try")
    size.add_argument("--rm3-terms", type=int, nargs="+", default=[10, 20, 50, 100], help="of RM3, to try")
    size.add_argument("--rm3-documents", type=int, nargs="+", default=[5, 10, 20], help="of RM3, to try")
    size.add_argument("--rm3-weights", type=float, nargs="+", default=[0.3, 0.5, 0.7], help="of RM3, to try")
    size.add_argument(
        "--feedback-documents", type=int, nargs="+", default=[3, 5, 10], help="of KTRel's feedback, to try"
    )
    size.add_argument(
        "--feedback-weights", type=float, nargs="+", default=[0.3, 0.6, 1.0], help="of KTRel's feedback, to try"
    )
    size.add_argument("--fusion-step", type=float, default=0.05, help="between weights of hybrids")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name, value in vars(options).items():
        if type(value) is int and value < 1 and not (name == "seed" or value == 0 and name in MAY_BE_ZERO):
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.notes and not options.notes.is_file():
        parser.error(f"--notes {options.notes}: no such file")
    argv = sys.argv[1:] if argv is None else argv
    if options.paper == "pacrr":
        for name in ("distilled", "signals", "longest"):
            if min(getattr(options, name)) < 1:
                parser.error(f"--{name} must be at least 1")
        pacrr(options, argv)
        return
    if options.paper == "ktrel":
        if min(*options.rm3_terms, *options.rm3_documents, *options.feedback_documents) < 1:
            parser.error("--rm3-terms and --rm3-documents, and --feedback-documents, must be at least 1")
        ktrel(options, argv)
        return
    if options.weak_queries < 2 or min(options.filters) < 1:
        parser.error("--weak-queries must be at least 2, and --filters at least 1")
    delta(options, argv)


def delta(options, argv: list[str]) -> None:
    from dataclasses import fields

    from rerank_plugin.experiments.delta import DeltaPlan, DeltaSettings
    from rerank_plugin.experiments.delta_page import write_page
    from rerank_plugin.experiments.steps import Runner

    values = {field.name: getattr(options, field.name) for field in fields(DeltaSettings)}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    settings = DeltaSettings(**plain)
    plan = DeltaPlan(settings)
    Runner(settings.work).run_stages(plan.stages(), settings.at_once)
    write_page(plan, options.output, options.notes, f"python -m rerank_plugin.experiment {shlex.join(argv)}")
    print(f"{options.output}: {len(plan.rows())} rows")


def pacrr(options, argv: list[str]) -> None:
    from rerank_plugin.experiments.pacrr import PacrrCollection, PacrrPlan, PacrrSettings
    from rerank_plugin.experiments.pacrr_page import write_page
    from rerank_plugin.experiments.steps import Runner
    from rerank_plugin.files.errors import InputError

    collections = {name: PacrrCollection(name, *rest) for name, *rest in options.collection}
    for name, judged in options.judged:
        if name not in collections:
            raise InputError(f"--judged {name}: no such collection; there are: {', '.join(collections)}")
        collections[name] = collections[name]._replace(judged=judged)
    settings = PacrrSettings(
        work=options.work,
        collections=tuple(collections.values()),
        words=options.words,
        stem=options.stem,
        models=tuple(options.models),
        sweep=tuple(options.sweep),
        distilled=tuple(options.distilled),
        signals=tuple(options.signals),
        longest=tuple(options.longest),
        depth=options.depth,
        epochs=options.epochs,
        pairs=options.pairs,
        runs=options.runs,
        train=tuple(options.train_option),
        seed=options.seed,
        at_once=options.at_once,
    )
    plan, runner = PacrrPlan(settings), Runner(settings.work)
    runner.run_stages(plan.stages(), settings.at_once)
    write_page(plan, runner, options.output, options.notes, f"python -m rerank_plugin.experiment {shlex.join(argv)}")
    print(f"{options.output}: {len(settings.collections)} collections")


def ktrel(options, argv: list[str]) -> None:
    from rerank_plugin.experiments.ktrel import KtrelPlan
    from rerank_plugin.experiments.ktrel_page import write_page
    from rerank_plugin.experiments.steps import Runner

    settings = _ktrel_settings(options)
    if options.dry_run:
        for number, stage in enumerate(KtrelPlan(settings, dry=True).stages(), 1):
            print("\n".join([f"# stage {number}: {len(stage)} steps", *(step.shown for step in stage)]))
        return
    plan, runner = KtrelPlan(settings), Runner(settings.work)
    runner.run_stages(plan.stages(), settings.at_once)
    write_page(plan, runner, options.output, options.notes, f"python -m rerank_plugin.experiment {shlex.join(argv)}")
    print(f"{options.output}: {len(plan.rows())} rows")


def _ktrel_settings(options):
    """The :class:`~rerank_plugin.experiments.ktrel_settings.KtrelSettings` of the command line."""
    from dataclasses import fields

    from rerank_plugin.experiments.ktrel_settings import KtrelSettings, Queries

    given = vars(options)
    values = {field.name: given[field.name] for field in fields(KtrelSettings) if given.get(field.name) is not None}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    tests = tuple(Queries(*one) for one in options.test)
    return KtrelSettings(**values, tests=tests, train_options=tuple(options.train_option))


if __name__ == "__main__":
    commandline.run(main)
