"""``rerank-plugin search``: searches and re-ranks; writes a TREC run, or prints a list for one query."""

from __future__ import annotations

import logging
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.corpora import QUERIES, accepted
from rerank_plugin.models.base import RerankerOptions

if TYPE_CHECKING:
    import numpy as np

    from rerank_plugin.base.filters import Filter
    from rerank_plugin.base.records import Query
    from rerank_plugin.indexes.forward import ForwardIndex
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.ranking.pipeline import Pipeline, Ranking
    from rerank_plugin.rerankers import Scorer
    from rerank_plugin.retrieval.register import FirstStage, FirstStageConfig

log = logging.getLogger(__name__)
LIST, EXPORT_FORMATS = "list", ("ris", "nbib", "bibtex", "csv", "json")  # corpora.exports is too slow for --help
LISTED = 10  # hits by default
MOST_LINES = 10_000  # of a strategy

EXAMPLES = """examples:
  rerank-plugin search --index indexes/sample --query "heart attack aspirin" --reranker delta
  rerank-plugin search --index indexes/sample --queries sample:test --output runs/bm25.run

  rerank-plugin search --index indexes/sample --queries sample:test --run runs/bm25.run \\
      --reranker checkpoints/d --output runs/delta.run
  rerank-plugin search --index indexes/sample --queries sample:test --first-stage judged:sample:test \\
      --reranker checkpoints/d --output runs/judged.run
  rerank-plugin search --index indexes/sample --queries sample:test --first-stage bm25+rm3 \\
      --fuse dense:checkpoints/ktrel --fusion linear --fusion-weight 0.3 --output runs/hybrid.run
  rerank-plugin search --index indexes/web --queries topics.txt --run submitted/ \\
      --judged-only qrels.txt --reranker checkpoints/pacrr --output reranked/"""


def arguments() -> commandline.Parser:
    parser = commandline.parser(
        "search",
        "Search an index: the first stage retrieves candidates, a reranker scores them, and the result is a TREC run\n"
        "(--queries and --output), or a readable list for one query (--query).",
        EXAMPLES,
    )
    add = parser.add_argument
    add("--index", type=Path, help="index folder")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--query", metavar="TEXT", help="words, or PubMed's language; prints a readable list")
    mode.add_argument("--queries", help=f"queries of a run: {accepted(QUERIES)}")
    add("--output", type=Path, metavar="RUN", help="run to write; a folder if --run is a folder")
    add("--reranker", action="append", default=[], metavar="R", help=_reranker_help())
    mode.add_argument("--list-rerankers", action="store_true", help="print the known rerankers, one a line, and exit")
    add("--run", type=Path, help="run to re-rank, or a folder of runs (no first stage)")
    depth = (
        "candidates of each query, or of --run; with --first-stage all, every document is ranked, the top DEPTH "
        f"written (default: {DEPTH}, or a strategy's set)"
    )
    add("--depth", type=int, help=depth)
    add("--show", type=int, help=f"hits to print for --query (default: {LISTED})")
    add("--overwrite", action="store_true", help="replace an existing run")
    _add_candidate_options(parser.add_argument_group("candidates and output").add_argument)
    running = parser.add_argument_group("running")
    commandline.add_settings(running, RerankerOptions)
    add = running.add_argument
    add("--threads", type=int, default=2, help="threads of first-stage searches, which run ahead of the scoring")
    add("--queries-at-once", type=int, default=8, help="queries that a reranker scores together")
    commandline.add_places(running, "Ray cluster that searches an index of shards, with a process for each")
    add("--plain", action="store_true", help="score with the PyTorch module instead of the fast path")
    commandline.add_first_stage_options(parser, basic=True)
    return parser


def _reranker_help() -> str:
    """The forms of a reranker's name, and the bundled models with their purposes."""
    from rerank_plugin.models.register import MODELS

    bundled = "; ".join(f"{entry.name}: {entry.good_for}" for entry in MODELS.built_in() if entry.good_for)
    return (
        "NAME, NAME:CHECKPOINT, a checkpoint folder, ORG/NAME on the Hugging Face hub, or package.module:Class; "
        f"bundled: {bundled}. R@N re-ranks the top N only, R+0.5 keeps half of the score before; may be repeated: "
        "each R re-ranks the ranking before it"
    )


def _add_candidate_options(add: Callable[..., Any]) -> None:
    recommended = (
        "rank as is recommended without judgments: hybrid, then delta+0.5, if the index is encoded by ktrel, otherwise "
        "bm25, then delta; instead of --first-stage and --reranker"
    )
    add("--recommended", action="store_true", help=recommended)
    filter = (
        "search only documents with this metadata: year:2015-2020, type:Review, journal, author, mesh, language or "
        "retracted:no; may be repeated: all fields must match, each by any of its values"
    )
    add("--filter", action="append", default=[], metavar="FIELD:VALUE", help=filter)
    add("--offset", type=int, default=0, help="hits of --query to skip")
    add("--sort", choices=["score", "date"], default="score", help="order of the hits of --query: date, newest first")
    formats = "format of the hits of --query: but for list, all are written, also to --output"
    add("--format", choices=[LIST, *EXPORT_FORMATS], default=LIST, help=formats)
    syntax = (
        "how queries are read: plain, words to rank by; pubmed, also PubMed's language, ids, authors and journals "
        "(default: pubmed for --query, plain for --queries)"
    )
    add("--strategy", type=Path, metavar="FILE", help="--query from a file, as a strategy of numbered lines")
    add("--query-syntax", choices=["plain", "pubmed"], help=syntax)
    add("--rank-by", metavar="TEXT", help="text that ranks a strategy's set, instead of its own words")
    mapping = "do not add MeSH headings to words of a strategy, as PubMed and an index with MeSH do"
    add("--no-term-mapping", action="store_true", help=mapping)
    add("--judged-only", metavar="J", help="keep only the candidates with a judgment in J (see evaluate)")
    add("--tag", help="run tag (default: the name of the reranker or of the first stage)")
    resume = "resume an interrupted run with the same settings; finished runs are left unchanged"
    add("--resume", action="store_true", help=resume)


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    options.entire_sets, options.depth = options.depth is None, DEPTH if options.depth is None else options.depth
    if options.strategy is not None:
        from rerank_plugin.files.text_files import lines

        if options.query is not None:
            parser.error("--strategy is a --query from a file: give one of them")
        strategy = [line.rstrip("\r\n") for _, line in islice(lines(options.strategy), MOST_LINES + 1)]
        if len(strategy) > MOST_LINES:
            raise InputError(f"{options.strategy}: has more than {MOST_LINES:,} lines: name the file of a strategy")
        options.query = "\n".join(strategy)
        if not options.query.strip():
            raise InputError(f"{options.strategy}: is empty: write a strategy into it, as cats AND dogs")
    if options.list_rerankers:
        from rerank_plugin.rerankers import known_names

        print("\n".join(known_names()))
        return
    _check(parser, options)
    if options.recommended:
        _set_recommended(options)
    if options.query is not None:
        search_one(options)
    elif options.run and options.run.is_dir():
        search_folder(options)
    else:
        search_batch(options)


def _check(parser: commandline.Parser, options: Namespace) -> None:
    """Refuse options that need or exclude one another."""
    from rerank_plugin.retrieval.register import entry_of

    if options.index is None:
        parser.error("--index is required")
    if options.query is options.queries is None and options.filter:
        options.query = ""  # all documents that match
    if options.sort == "date":
        options.reranker = []
    if (options.queries is None) == (options.query is None):
        parser.error("give --queries or --query")
    if options.queries is not None and options.output is None:
        parser.error("--queries needs --output")
    if options.query is not None and options.run:
        parser.error("--query searches: it takes no --run")
    if options.query is not None and options.output and options.format == LIST:
        parser.error(f"--output with --query needs --format: {', '.join(EXPORT_FORMATS)}")
    if options.offset < 0:
        parser.error("--offset must be at least 0")
    if options.queries is not None and (options.format != LIST or options.offset or options.sort != "score"):
        parser.error("--format, --offset and --sort are for --query")
    if options.rank_by is not None and options.query_syntax == "plain":
        parser.error("--rank-by ranks a strategy's set: it is not for --query-syntax plain")
    if options.run and (options.query_syntax == "pubmed" or options.rank_by is not None):
        parser.error("--query-syntax pubmed and --rank-by are for searches, not for --run, whose documents are fixed")
    if options.queries is not None and options.query_syntax is None and options.rank_by is not None:
        parser.error("--rank-by with --queries needs --query-syntax pubmed")
    if options.queries is not None and options.partial_answers:
        parser.error("--partial-answers is for --query: a run has all documents, or fails")
    if options.run and not (options.reranker or options.judged_only):
        parser.error("--run needs --reranker or --judged-only")
    first_stage_given = any(action.dest == "first_stage" for action in parser.parsed)
    if options.recommended and (options.reranker or options.run or options.fuse or first_stage_given):
        parser.error(
            "--recommended names first stage and reranker: it takes no --first-stage, --fuse, --reranker, --run"
        )
    by_id = entry_of(options.first_stage).needs_query_id
    if options.query is not None and (by_id or options.judged_only):
        parser.error("--query has no judgments and no run: give --queries, whose ids are looked up")
    if options.run and by_id:
        parser.error(
            f"--run replaces --first-stage {options.first_stage}: to keep the judged documents of a run, give "
            "--judged-only J instead"
        )
    if options.run and options.filter:
        parser.error("--filter is for searches, not for --run, whose documents are fixed")
    if options.run and options.fuse:
        parser.error("--fuse is for searches: to fuse a run, give --first-stage run:RUN instead of --run")
    parser.check_counts(options, "depth", "show", "threads", "queries_at_once")


def _set_recommended(options: Namespace) -> None:
    """Set the first stage and the reranker of ``--recommended``."""
    from rerank_plugin.ranking.recommended import recommended

    options.first_stage, reranker = recommended(_place(options))
    options.reranker = [] if options.sort == "date" else [reranker]


def _first_stage_config(options: Namespace) -> FirstStageConfig:
    """The configuration of the first stage, which is a run with ``--run``."""
    from rerank_plugin.retrieval.run_file import RunConfig

    return RunConfig(str(options.run)) if options.run else commandline.first_stage_config(options)


def _pipeline(options: Namespace, config: FirstStageConfig) -> Pipeline:
    """The pipeline of the options over the first stage of ``config``."""
    from rerank_plugin.ranking.cascade import Stage
    from rerank_plugin.ranking.pipeline import Pipeline
    from rerank_plugin.retrieval.judged import JudgedOnlyConfig

    if options.judged_only:
        config = JudgedOnlyConfig(config, options.judged_only)
    running = commandline.configured(RerankerOptions, options, fast=not options.plain)
    stages = tuple(map(Stage.parse, options.reranker))
    return Pipeline(_place(options), config, options.depth, stages, _filter(options), running, options.entire_sets)


def _place(options: Namespace) -> str | Path:
    """Where the index is searched: its folder, or its location on a cluster."""
    location = commandline.location_of(options)
    return options.index if location is None else location.url(options.index)


def _filter(options: Namespace) -> Filter | None:
    from rerank_plugin.base.filters import Filter

    return Filter.parse(options.filter) if options.filter else None


def _judged_rows(options: Namespace, index: ForwardIndex) -> dict[str, np.ndarray] | None:
    """The rows of each query's judged documents, int64 [n]; None without ``--judged-only``."""
    if not options.judged_only:
        return None
    from rerank_plugin.corpora import judgments
    from rerank_plugin.retrieval.judged import judged_rows

    return judged_rows(judgments(options.judged_only), index, options.judged_only)


def search_batch(options: Namespace) -> None:
    """Write a run; if interrupted, finished queries are kept for ``--resume``."""
    from rerank_plugin.corpora import queries as read_queries
    from rerank_plugin.files.outputs import check_free, is_stream
    from rerank_plugin.files.run_writer import RunWriter
    from rerank_plugin.files.runs import RUN, check_not_read
    from rerank_plugin.ranking.notes import NotesLog
    from rerank_plugin.ranking.reading import PUBMED

    stages = (options.first_stage, *options.fuse)
    runs = [stage.removeprefix("run:") for stage in stages if stage.startswith("run:")]
    check_not_read(options.output, [options.run, *runs])
    check_free(options.output, RUN, options.overwrite or options.resume)
    queries = read_queries(options.queries)
    config = _first_stage_config(options)
    pipeline = _pipeline(options, config).open()
    if options.query_syntax == PUBMED:
        queries = _strategies(options, queries, pipeline.index)
    _warn_of_cut(options, pipeline.first_stage, queries)
    tag, settings = _tag(options, pipeline.scorer, config), _settings(options, config, pipeline.index)
    with RunWriter(options.output, tag, settings, options.resume, options.overwrite) as writer:
        open_queries = [query for query in queries if not writer.complete and query.id not in writer.finished]
        _log_finished(queries, open_queries)
        NotesLog().log(open_queries, pipeline.first_stage, pipeline.scorer)
        started = time.monotonic()
        empty: list[str] = []
        rankings = pipeline.rank_all(open_queries, options.threads, options.queries_at_once)
        for ranking in commandline.progress(rankings, "searching", "queries", total=len(open_queries)):
            writer.write_ranked(ranking.query.id, ranking.doc_ids, ranking.ranked_scores)
            if not len(ranking.order):
                empty.append(ranking.query.id)
    _warn_of_empty(empty)
    seconds = time.monotonic() - started
    rate = len(open_queries) / max(seconds, 1e-9)
    summary = f"{options.output}: {len(queries):,} queries in {seconds:.1f} s ({rate:,.0f} a second)"
    print(summary, file=sys.stderr if is_stream(options.output) else sys.stdout)  # not among the lines of a run


def _strategies(options: Namespace, queries: Sequence[Query], index: Index) -> list[Query]:
    """The queries as read in PubMed's language; what was left out is logged."""
    from rerank_plugin.ranking.reading import read

    read_queries = []
    for query in queries:
        try:
            query = query._replace(filter=_filter(options))
            reading = read(
                index, query, options.query_syntax, options.rank_by, term_mapping=not options.no_term_mapping
            )
        except InputError as error:
            raise InputError(f"query {query.id}: {error}") from None
        for note in reading.notes:
            log.warning("query %s: %s", query.id, note)
        read_queries.append(reading.query)
    return read_queries


def _warn_of_cut(options: Namespace, first_stage: FirstStage, queries: Sequence[Query]) -> None:
    """Warn of the documents of ``--run`` below the depth."""
    from rerank_plugin.retrieval.judged import JudgedOnly
    from rerank_plugin.retrieval.run_file import RunFile, warn_of_cut

    run = first_stage.first_stage if isinstance(first_stage, JudgedOnly) else first_stage
    if options.run and isinstance(run, RunFile):
        below, ranked = run.below(queries, options.depth)
        warn_of_cut(run.path, below, ranked, options.depth)


def _log_finished(queries: list[Query], open_queries: list[Query]) -> None:
    if len(open_queries) < len(queries):
        log.info("%d of %d queries were finished before", len(queries) - len(open_queries), len(queries))


def _warn_of_empty(query_ids: list[str], prefix: str = "") -> None:
    if query_ids:
        first_ids = ", ".join(query_ids[:10]) + (", ..." if query_ids[10:] else "")
        log.warning("%s%d queries found no document: %s", prefix, len(query_ids), first_ids)


def search_folder(options: Namespace) -> None:
    """Re-rank all runs of a folder into files of the same names; score each document of a query once for all runs.

    Each file is written and resumed as by a search for its run alone: query by query into a partial file, with the same
    settings. All files get their names after the last query.
    """
    from rerank_plugin.corpora import queries as read_queries
    from rerank_plugin.files.run_writer import RunWriter, replaces
    from rerank_plugin.files.runs import run_files
    from rerank_plugin.indexes.locations import open_index
    from rerank_plugin.ranking.bulk import rank_lists, read_runs
    from rerank_plugin.ranking.notes import NotesLog
    from rerank_plugin.retrieval.run_file import RunConfig

    started, output = time.monotonic(), options.output
    if output.exists() and not output.is_dir():
        raise InputError(
            f"--run {options.run} is a folder, but --output {output} is a file: name a folder for its runs"
        )
    if output.resolve() == options.run.resolve():
        raise InputError(
            f"--output {output} is the folder of --run, whose runs would be overwritten: name another folder"
        )
    paths = run_files(options.run)
    index = open_index(_place(options))
    queries = read_queries(options.queries)
    configs = [RunConfig(str(path)) for path in paths]
    reranker = _pipeline(options, configs[0]).scorer(index)
    reading = read_runs(paths, queries, index.forward, options.depth, _judged_rows(options, index.forward))
    # Each source gives the candidates of a query once, and then frees them.
    runs = list(commandline.progress(reading, "reading", "runs", total=len(paths)))
    tag = _tag(options, reranker, configs[0])
    empty: list[list[str]] = [[] for _ in paths]
    # If one run was begun to replace another, so were all: those without a part or a journal are not finished yet.
    overwrite = options.overwrite or (options.resume and any(replaces(output / path.name) for path in paths))
    with ExitStack() as files:
        writers = []
        for path, config in zip(paths, configs):
            settings = _settings(options, config, index)
            writer = RunWriter(output / path.name, tag, settings, options.resume, overwrite)
            writers.append(files.enter_context(writer))
        # An interruption leaves different queries finished in each run: a query is ranked for the runs that lack it.
        lacking = {
            query: [i for i, writer in enumerate(writers) if not writer.complete and query.id not in writer.finished]
            for query in queries
        }
        open_queries = [query for query in queries if lacking[query]]
        _log_finished(queries, open_queries)
        NotesLog().log(open_queries, None, reranker)
        tasks = ((query, [runs[i](query) for i in lacking[query]]) for query in open_queries)
        rankings = zip(open_queries, rank_lists(tasks, reranker, options.queries_at_once))
        for query, run_rankings in commandline.progress(rankings, "re-ranking", "queries", total=len(open_queries)):
            for i, ranking in zip(lacking[query], run_rankings):
                writers[i].write_ranked(query.id, ranking.doc_ids, ranking.ranked_scores)
                if not len(ranking.order):
                    empty[i].append(query.id)
        for writer in writers:  # before the first journal is removed
            writer.rename()
    for path, query_ids in zip(paths, empty):
        _warn_of_empty(query_ids, f"{path}: ")
    seconds = time.monotonic() - started
    print(f"{output}: {len(paths):,} runs of {len(queries):,} queries in {seconds:.1f} s")


def _tag(options: Namespace, reranker: Scorer | None, config: FirstStageConfig) -> str:
    name = reranker.name if reranker else "judged-only" if options.run else config.name
    return options.tag or name


def _settings(options: Namespace, config: FirstStageConfig, index: Index) -> dict[str, Any]:
    """Settings that a resumed run must share with its first part: options, and the contents of their files."""
    from rerank_plugin.files.fingerprints import fingerprints
    from rerank_plugin.ranking.cascade import Stage

    named = asdict(config)
    named.pop("device", None)  # does not change the candidates
    named |= {name: getattr(options, name) for name in ("queries", "judged_only", "reranker")}
    if options.filter:
        named["filter"] = sorted(options.filter)
    if options.query_syntax == "pubmed":
        read_by = ("query_syntax", "rank_by", "entire_sets", "no_term_mapping")
        named |= {name: getattr(options, name) for name in read_by}
    contents = fingerprints(named | {"reranker": [Stage.parse(spec).reranker for spec in options.reranker]})
    searched = {"index": str(options.index), "commit": index.build, "contents": contents}
    return named | searched | {name: getattr(options, name) for name in ("depth", "seed", "tag")}


def search_one(options: Namespace) -> None:
    """Print the top documents for one query, or write them in a format of other programs."""
    from rerank_plugin.corpora import Query
    from rerank_plugin.corpora.exports import EXPORTED
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.ranking.notes import NotesLog
    from rerank_plugin.ranking.pipeline import read
    from rerank_plugin.ranking.reading import PUBMED
    from rerank_plugin.ranking.reading import read as read_query

    if options.output is not None:
        check_free(options.output, EXPORTED, options.overwrite)
    query, syntax = Query("query", options.query, _filter(options)), options.query_syntax or PUBMED
    pipeline, reading, candidates = _pipeline(options, _first_stage_config(options)).open_for(
        lambda index: read_query(
            index, query, syntax, options.rank_by, options.sort == "date", not options.no_term_mapping
        )
    )
    if reading.read_as is not None:
        matching = f"{reading.matches:,} document{'' if reading.matches == 1 else 's'}"
        print(f"read as {reading.read_as}: {matching} (plain words: --query-syntax plain)", file=sys.stderr)
    for note in reading.notes:
        log.warning("%s", note)
    NotesLog().log([reading.query], pipeline.first_stage, pipeline.scorer)
    (ranking,) = pipeline.rank_together([reading.query], [candidates])
    read(ranking, lambda ranking: _show(options, ranking, pipeline.index))


def _show(options: Namespace, ranking: Ranking, index: Index) -> None:
    """Print or write the part of the ranking that the options ask for."""
    from rerank_plugin.ranking.listing import exported, print_list
    from rerank_plugin.ranking.pipeline import by_date

    ranking = by_date(ranking) if options.sort == "date" else ranking
    show = LISTED if options.show is None and options.format == LIST else options.show
    ranking = ranking._replace(order=ranking.order[options.offset :][:show])
    if options.format == LIST:
        print_list(ranking, index, options.offset + 1)
        return
    texts = exported(ranking, index, options.format, options.offset + 1)
    if options.output is None:
        for text in texts:
            print(text, end="")
        return
    from rerank_plugin.corpora.exports import EXPORTED
    from rerank_plugin.files.outputs import replacing

    with replacing(options.output, EXPORTED, options.overwrite) as file:
        for text in texts:
            file.write(text.encode())
    log.info("%s: %d documents", options.output, len(ranking.order))


if __name__ == "__main__":
    commandline.run(main)
