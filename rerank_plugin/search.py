"""``rerank-plugin search``: searches and re-ranks; a TREC run, or a list for one query."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import QUERIES, accepted
from rerank_plugin.models.base import RerankerOptions

log = logging.getLogger(__name__)

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


def arguments():
    parser = commandline.parser(
        "search",
        "Search an index: the first stage retrieves candidates, a reranker scores them, and the result is a TREC run\n"
        "(--queries and --output), or a readable list for one query (--query).",
        EXAMPLES,
    )
    add = parser.add_argument
    add("--index", type=Path, help="index folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--query", metavar="TEXT", help="one query; prints a readable list")
    what.add_argument("--queries", help=f"queries of a run: {accepted(QUERIES)}")
    add("--output", type=Path, metavar="RUN", help="TREC run file to write; a folder where --run is one")
    add("--reranker", action="append", default=[], metavar="R", help=_reranker_help())
    what.add_argument("--list-rerankers", action="store_true", help="print the known rerankers, one a line, and exit")
    add("--run", type=Path, help="TREC run to re-rank instead of searching, or a folder of runs")
    depth = (
        "candidates of each query, or documents of --run; with all, every document is ranked and the top DEPTH written"
    )
    add("--depth", type=int, default=500, help=depth)
    add("--show", type=int, default=10, help="hits to print for --query")
    add("--overwrite", action="store_true", help="replace an existing run")
    _add_candidate_options(parser.add_argument_group("candidates and output").add_argument)
    running = parser.add_argument_group("running")
    commandline.add_settings(running, RerankerOptions)
    add = running.add_argument
    add("--threads", type=int, default=2, help="first-stage searches that run ahead of the scoring")
    add("--queries-at-once", type=int, default=8, help="queries that a reranker scores together")
    add("--plain", action="store_true", help="score with the PyTorch module instead of the fast path, to compare them")
    commandline.add_first_stage_options(parser, basic=True)
    return parser


def _reranker_help() -> str:
    """The forms of a reranker, and what those that come along are good for."""
    from rerank_plugin.models.register import MODELS

    bundled = "; ".join(f"{entry.name}: {entry.good_for}" for entry in MODELS.ours() if entry.good_for)
    return (
        "NAME, NAME:CHECKPOINT, a checkpoint folder, ORG/NAME on the Hugging Face hub, or package.module:Class; these "
        f"come trained: {bundled}. R@N re-ranks the best N only; given again, R re-ranks what the one before it ranked"
    )


def _add_candidate_options(add) -> None:
    filter = (
        "search only documents with this metadata: year:2015-2020, type:Review, journal, author, mesh, language or "
        "retracted:no; may be repeated: different fields must all match, of one field any value"
    )
    add("--filter", action="append", default=[], metavar="FIELD:VALUE", help=filter)
    add("--judged-only", metavar="J", help="keep only the candidates with a judgment in J (see evaluate)")
    add("--tag", help="run tag (default: the name of the reranker or of the first stage)")
    resume = "resume an interrupted run of the same settings; finished runs are left unchanged"
    add("--resume", action="store_true", help=resume)


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    if options.list_rerankers:
        from rerank_plugin.rerankers import known_names

        print("\n".join(known_names()))
        return
    _check(parser, options)
    if options.query is not None:
        search_one(options)
    elif options.run and options.run.is_dir():
        search_folder(options)
    else:
        search_batch(options)


def _check(parser, options) -> None:
    """Refuse options that need or exclude one another."""
    from rerank_plugin.retrieval.register import entry_of

    if options.index is None:
        parser.error("--index is required")
    if (options.queries is None) == (options.query is None):
        parser.error("give --queries or --query")
    if options.queries is not None and options.output is None:
        parser.error("--queries needs --output")
    if options.query is not None and (options.run or options.output):
        parser.error("--query prints a list: it takes neither --run nor --output")
    if options.run and not (options.reranker or options.judged_only):
        parser.error("--run needs --reranker or --judged-only")
    by_id = entry_of(options.first_stage).needs_query_id
    if options.query is not None and (by_id or options.judged_only):
        parser.error("--query has no judgments, nor a run: give --queries, whose ids are looked up")
    if options.run and by_id:
        parser.error(
            f"--run is a first stage, as --first-stage {options.first_stage} is: to keep the judged documents of a "
            "run, give --judged-only J instead"
        )
    if options.run and options.filter:
        parser.error("--filter is for searches, not for --run: the documents of a run are given")
    if options.run and options.fuse:
        parser.error("--fuse is for searches: to fuse a run, give --first-stage run:RUN instead of --run")
    parser.check_counts(options, "depth", "show", "batch_size", "threads", "queries_at_once")


def _first_stage_config(options):
    """The configuration of the search's first stage: a run where one is given."""
    from rerank_plugin.retrieval.given_run import RunConfig

    return RunConfig(str(options.run)) if options.run else commandline.first_stage_config(options)


def _pipeline(options, config):
    """The pipeline of the options; ``config`` is of the first stage."""
    from rerank_plugin.ranking.cascade import Stage
    from rerank_plugin.ranking.pipeline import Pipeline
    from rerank_plugin.retrieval.judged import JudgedOnlyConfig

    if options.judged_only:
        config = JudgedOnlyConfig(config, options.judged_only)
    running = commandline.configured(RerankerOptions, options, fast=not options.plain)
    stages = tuple(map(Stage.parse, options.reranker))
    return Pipeline(options.index, config, options.depth, stages, _filter(options), running)


def _filter(options):
    from rerank_plugin.base.filters import Filter

    return Filter.parse(options.filter) if options.filter else None


def _judged_rows(options, index):
    """The rows of the documents with a judgment by query; None for all documents."""
    if not options.judged_only:
        return None
    from rerank_plugin.corpora import judgments
    from rerank_plugin.retrieval.judged import judged_rows

    return judged_rows(judgments(options.judged_only), index, options.judged_only)


def search_batch(options) -> None:
    """Write a run; whatever happens, finished queries are kept for --resume."""
    from rerank_plugin.corpora import queries as read_queries
    from rerank_plugin.files.outputs import check_free, is_stream
    from rerank_plugin.files.run_writer import RunWriter
    from rerank_plugin.files.runs import RUN, check_not_read
    from rerank_plugin.ranking.notes import NotesLog

    stages = (options.first_stage, *options.fuse)
    read = [stage.removeprefix("run:") for stage in stages if stage.startswith("run:")]
    check_not_read(options.output, [options.run, *read])
    check_free(options.output, RUN, options.overwrite or options.resume)
    queries = read_queries(options.queries)
    config = _first_stage_config(options)
    pipeline = _pipeline(options, config).open()
    _warn_of_cut(options, pipeline.first_stage, queries)
    tag, settings = _tag(options, pipeline.scorer, config), _settings(options, config, pipeline.index)
    with RunWriter(options.output, tag, settings, options.resume, options.overwrite) as writer:
        open_queries = [query for query in queries if not writer.complete and query.id not in writer.finished]
        _say_finished(queries, open_queries)
        NotesLog().log(open_queries, pipeline.first_stage, pipeline.scorer)
        started, empty = time.monotonic(), []
        rankings = pipeline.rank_all(open_queries, options.threads, options.queries_at_once)
        for ranking in commandline.progress(rankings, "searching", "queries", total=len(open_queries)):
            writer.write_ranked(ranking.query.id, ranking.doc_ids, ranking.ranked_scores)
            if not len(ranking.order):
                empty.append(ranking.query.id)
    _say_empty(empty)
    seconds = time.monotonic() - started
    rate = len(open_queries) / max(seconds, 1e-9)
    said = f"{options.output}: {len(queries):,} queries in {seconds:.1f} s ({rate:,.0f} a second)"
    print(said, file=sys.stderr if is_stream(options.output) else sys.stdout)  # not among the lines of a run


def _warn_of_cut(options, first_stage, queries) -> None:
    """Say how many documents of ``--run`` are left out."""
    from rerank_plugin.retrieval.given_run import warn_of_cut
    from rerank_plugin.retrieval.judged import JudgedOnly

    given = first_stage.first_stage if isinstance(first_stage, JudgedOnly) else first_stage
    if options.run:
        warn_of_cut(given.path, *given.below(queries, options.depth), options.depth)


def _say_finished(queries: list, open_queries: list) -> None:
    if len(open_queries) < len(queries):
        log.info("%d of %d queries were finished before", len(queries) - len(open_queries), len(queries))


def _say_empty(query_ids: list[str], where: str = "") -> None:
    if query_ids:
        some = ", ".join(query_ids[:10]) + (", ..." if query_ids[10:] else "")
        log.warning("%s%d queries found no document: %s", where, len(query_ids), some)


def search_folder(options) -> None:
    """Re-rank all runs of a folder, each into a file of its name, and score what they share only once.

    Every file is written, and gone on with under --resume, as by a search for that run alone: query by query in a part
    of its own, with the same settings. All get their names when the last query is done.
    """
    from rerank_plugin.corpora import queries as read_queries
    from rerank_plugin.files.run_writer import RunWriter
    from rerank_plugin.files.runs import run_files
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.ranking.bulk import rank_lists, read_runs
    from rerank_plugin.ranking.notes import NotesLog
    from rerank_plugin.retrieval.given_run import RunConfig

    started, output = time.monotonic(), options.output
    if output.exists() and not output.is_dir():
        raise InputError(
            f"--run {options.run} is a folder, but --output {output} is a file: name a folder for its runs"
        )
    if output.resolve() == options.run.resolve():
        raise InputError(
            f"--output {output} is the folder of --run: its runs would be overwritten: name another folder"
        )
    paths = run_files(options.run)
    index = Index(options.index)
    queries = read_queries(options.queries)
    configs = [RunConfig(str(path)) for path in paths]
    reranker = _pipeline(options, configs[0]).scorer(index)
    reading = read_runs(paths, queries, index.forward, options.depth, _judged_rows(options, index.forward))
    # Each gives the candidates of a query once, and then forgets them.
    runs = list(commandline.progress(reading, "reading", "runs", total=len(paths)))
    tag = _tag(options, reranker, configs[0])
    without: list[list[str]] = [[] for _ in paths]
    with ExitStack() as files:
        writers = []
        for path, config in zip(paths, configs):
            settings = _settings(options, config, index)
            writer = RunWriter(output / path.name, tag, settings, options.resume, options.overwrite)
            writers.append(files.enter_context(writer))
        # Killed between two lines, the runs differ in what is finished: each query is ranked for those that lack it.
        places = {
            query: [at for at, one in enumerate(writers) if not one.complete and query.id not in one.finished]
            for query in queries
        }
        open_queries = [query for query in queries if places[query]]
        _say_finished(queries, open_queries)
        NotesLog().log(open_queries, None, reranker)
        tasks = ((query, [runs[at](query) for at in places[query]]) for query in open_queries)
        rankings = zip(open_queries, rank_lists(tasks, reranker, options.queries_at_once))
        for query, of_runs in commandline.progress(rankings, "re-ranking", "queries", total=len(open_queries)):
            for at, ranking in zip(places[query], of_runs):
                writers[at].write_ranked(query.id, ranking.doc_ids, ranking.ranked_scores)
                if not len(ranking.order):
                    without[at].append(query.id)
    for path, missing in zip(paths, without):
        _say_empty(missing, f"{path}: ")
    seconds = time.monotonic() - started
    print(f"{output}: {len(paths):,} runs of {len(queries):,} queries in {seconds:.1f} s")


def _tag(options, reranker, config) -> str:
    name = reranker.name if reranker else "judged-only" if options.run else config.name
    return options.tag or name


def _settings(options, config, index) -> dict:
    """What a resumed run must have in common with its first part: the options, and what the files they name hold."""
    from rerank_plugin.files.fingerprints import fingerprints
    from rerank_plugin.ranking.cascade import Stage

    named = asdict(config) | {name: getattr(options, name) for name in ("queries", "judged_only", "reranker")}
    if options.filter:
        named["filter"] = sorted(options.filter)
    contents = fingerprints(named | {"reranker": [Stage.parse(one).reranker for one in options.reranker]})
    same = {"index": str(options.index), "generation": index.build, "contents": contents}
    return named | same | {name: getattr(options, name) for name in ("depth", "seed", "tag")}


def search_one(options) -> None:
    """Print rank, score, first-stage rank, title, date and journal of the best documents for one query, and
    mark those that are retracted."""
    from rerank_plugin.corpora import Query
    from rerank_plugin.ranking.notes import NotesLog

    query = Query("query", options.query)
    pipeline, candidates = _pipeline(options, _first_stage_config(options)).open_for(query)
    NotesLog().log([query], pipeline.first_stage, pipeline.scorer)
    (ranking,) = pipeline.rank_together([query], [candidates])
    print_ranking(ranking, options.show, pipeline.index)


def print_ranking(ranking, show: int, opened) -> None:
    if not len(ranking.order):
        print("no document matches the query")
        return
    index = ranking.candidates.index
    shown = ranking.order[:show]
    titles = index.titles.take(ranking.candidates.rows[shown])
    published = [""] * len(titles)
    if index.published is not None:
        published = index.published.take(ranking.candidates.rows[shown])
    ids, retracted = ranking.doc_ids[:show], _retracted(opened, ranking.candidates.rows[shown])
    width = max(len("document"), *map(len, ids))
    print(f"{'rank':>4}  {'score':>9}  {'first stage':>11}  {'document':<{width}}  title")
    for place, (at, id, title, when, mark) in enumerate(zip(shown.tolist(), ids, titles, published, retracted), 1):
        date, _, journal = when.partition("\t")
        source = ", ".join(filter(None, (journal, date)))
        said = f"{title or '(no title)'} ({source})" if source else title or "(no title)"
        said = f"{_red('RETRACTED:')} {said}" if mark else said
        print(f"{place:>4}  {ranking.scores[at]:>9.4f}  {at + 1:>11}  {id:<{width}}  {said}")


def _retracted(index, rows) -> list[bool]:
    """Whether each document of the rows is stored as retracted; starts Java only where one may be."""
    having = index.description.get("lucene", {}).get("metadata")  # None of an index that somebody else built
    if having is not None and not having.get("retracted"):
        return [False] * len(rows)
    from contextlib import closing

    from rerank_plugin.ranking.stored_documents import StoredDocuments

    with closing(StoredDocuments(index)) as stored:
        found = [stored.as_indexed(int(row)) for row in rows]
    return [bool(one and one.metadata and one.metadata.get("retracted")) for one in found]


def _red(text: str) -> str:
    """The text, in red on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return f"\033[31m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


if __name__ == "__main__":
    commandline.run(main)
