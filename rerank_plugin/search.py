"""``python -m rerank_plugin.search``: first stage, re-ranking, and a TREC run or a readable list."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.files.errors import InputError

log = logging.getLogger(__name__)

EXAMPLES = """examples:
  python -m rerank_plugin.search --index indexes/sample --queries sample:test --output runs/bm25.run
  python -m rerank_plugin.search --index indexes/sample --query "aspirin" --reranker delta:checkpoints/d
  python -m rerank_plugin.search --index indexes/sample --queries sample:test --run runs/bm25.run \\
      --reranker checkpoints/d --output runs/delta.run
  python -m rerank_plugin.search --index indexes/sample --queries sample:test --first-stage judged:sample:test \\
      --reranker checkpoints/d --output runs/judged.run
  python -m rerank_plugin.search --index indexes/sample --queries sample:test --first-stage bm25+rm3 \\
      --fuse dense:checkpoints/ktrel --fusion linear --fusion-weight 0.3 --output runs/hybrid.run
  python -m rerank_plugin.search --index indexes/web --queries topics.txt --run submitted/ \\
      --judged-only qrels.txt --reranker checkpoints/pacrr --output reranked/"""


def arguments():
    parser = commandline.parser(
        "search",
        "Search an index: the first stage retrieves candidates, a reranker scores them, and the result is a TREC run\n"
        "(--queries and --output), or a readable list for one query (--query).",
        EXAMPLES,
    )
    parser.add_argument("--index", type=Path, help="index folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--queries",
        help="ir-datasets id, BEIR folder[:split], TSV (id<TAB>text), JSONL, TREC topics, or sample[:split]",
    )
    what.add_argument("--query", help="one free-text query; prints a readable list")
    what.add_argument("--list-rerankers", action="store_true", help="print the known rerankers, one a line, and exit")
    parser.add_argument("--output", type=Path, help="TREC run file to write; a folder where --run is one")
    parser.add_argument(
        "--run", type=Path, help="re-rank this TREC run, or all runs of this folder, instead of searching"
    )
    parser.add_argument(
        "--judged-only", metavar="J", help="keep only the candidates with a judgment in J (see evaluate)"
    )
    parser.add_argument("--reranker", help="NAME, NAME:CHECKPOINT, a checkpoint folder, or package.module:Class")
    parser.add_argument(
        "--depth", type=int, default=500, help="candidates a query; judged: is not cut, of all the best are written"
    )
    parser.add_argument("--show", type=int, default=10, help="documents to print for --query")
    parser.add_argument("--tag", help="run tag (default: the reranker's or first stage's name)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with an interrupted run of the same settings; one that is finished stays as it is",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there already")
    parser.add_argument("--device", default="cpu", help="torch device of a neural reranker: cpu, cuda, cuda:1, mps")
    parser.add_argument("--batch-size", type=int, default=1024, help="candidates a neural reranker scores at once")
    parser.add_argument("--threads", type=int, default=2, help="first-stage searches that run ahead of the scoring")
    parser.add_argument("--queries-at-once", type=int, default=8, help="queries that a reranker scores together")
    parser.add_argument(
        "--precision", default="float32", help="of a neural reranker on a GPU: float32, bfloat16 or float16"
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="compile a neural reranker (CUDA graphs on a GPU); takes a minute to start",
    )
    parser.add_argument(
        "--plain", action="store_true", help="score with the plain model instead of the fast path, to compare them"
    )
    commandline.add_first_stage_options(parser, judged=True)
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.list_rerankers:
        from rerank_plugin.rerankers import known_names

        print("\n".join(known_names()))
        return
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
    if options.query is not None and (_is_judged(options) or options.judged_only):
        parser.error("--query has no judgments: give --queries, whose ids are the judged ones")
    if options.run and _is_judged(options):
        parser.error(
            f"--run is a first stage, too: give --judged-only J instead of --first-stage {commandline.JUDGED}J"
        )
    if options.fuse and (options.run or _is_judged(options)):
        parser.error("--fuse is for searches: --run and judged documents are candidates already")
    if options.first_stage == commandline.JUDGED:
        parser.error(f"--first-stage {commandline.JUDGED} needs judgments: {commandline.JUDGED}data/nfcorpus:test")
    for name in ("depth", "show", "batch_size", "threads", "queries_at_once"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.query is not None:
        search_one(options)
    elif options.run and options.run.is_dir():
        search_folder(options)
    else:
        search_batch(options)


def _open_reranker(options, index):
    if not options.reranker:
        return None
    from rerank_plugin import rerankers

    how = rerankers.RerankerOptions(
        options.device,
        options.batch_size,
        fast=not options.plain,
        precision=options.precision,
        compile=options.compile,
    )
    return rerankers.load(options.reranker, index.forward, how)


def _is_judged(options) -> bool:
    return options.first_stage.startswith(commandline.JUDGED)


def _candidate_source(options, index):
    source = _all_candidates(options, index)
    if not options.judged_only:
        return source
    from rerank_plugin.corpora import judgments
    from rerank_plugin.ranking.pipeline import judged_only

    return judged_only(source, judgments(options.judged_only), index.forward, options.judged_only)


def _all_candidates(options, index):
    from rerank_plugin.ranking import pipeline

    if _is_judged(options):
        from rerank_plugin.corpora import judgments

        spec = options.first_stage.removeprefix(commandline.JUDGED)
        return pipeline.from_judgments(judgments(spec), index.forward, spec)
    if options.run:
        from rerank_plugin.files.runs import read_run

        return pipeline.from_run(read_run(options.run), index.forward, options.depth, str(options.run))
    return pipeline.from_first_stage(index.first_stage(commandline.first_stage_config(options)), options.depth)


def search_batch(options) -> None:
    """Write a run; whatever happens, finished queries are kept for --resume."""
    from rerank_plugin.corpora import queries as read_queries
    from rerank_plugin.files.run_writer import RunWriter
    from rerank_plugin.files.runs import strictly_decreasing
    from rerank_plugin.indexes.index_folder import open_whole
    from rerank_plugin.ranking.pipeline import rank_all

    _check_output(options)
    queries = read_queries(options.queries)
    reranker, source = open_whole(lambda: _open(options))
    tag = options.tag or (reranker.name if reranker else _candidate_name(options))
    with RunWriter(options.output, tag, _settings(options, options.run), options.resume, options.overwrite) as writer:
        open_queries = [query for query in queries if not writer.complete and query.id not in writer.finished]
        _say_finished(queries, open_queries)
        started, empty = time.monotonic(), []
        rankings = rank_all(open_queries, source, reranker, options.threads, options.queries_at_once)
        for ranking in commandline.progress(rankings, "searching", "queries", total=len(open_queries)):
            ranking = _written(ranking, options)
            writer.write(ranking.query.id, ranking.doc_ids, strictly_decreasing(ranking.ranked_scores))
            if not len(ranking.order):
                empty.append(ranking.query.id)
    _say_empty(empty)
    seconds = time.monotonic() - started
    rate = len(open_queries) / max(seconds, 1e-9)
    _say(options, f"{len(queries):,} queries in {seconds:.1f} s ({rate:,.0f} a second)")


def _open(options):
    """The reranker and the candidates' source, of one generation of the index."""
    from rerank_plugin.indexes.index_folder import Index

    index = Index(options.index)
    return _open_reranker(options, index), _candidate_source(options, index)


def _check_output(options) -> None:
    """Say at once what would be refused in the end."""
    from rerank_plugin.files.outputs import check_free, is_stream
    from rerank_plugin.files.runs import RUN

    if not is_stream(options.output):
        check_free(options.output, RUN, options.overwrite or options.resume)


def _say(options, message: str) -> None:
    """A last line: on stdout, but not among the lines of a run that goes there."""
    from rerank_plugin.files.outputs import is_stream

    print(f"{options.output}: {message}", file=sys.stderr if is_stream(options.output) else sys.stdout)


def _written(ranking, options):
    """What is written of a ranking: where every document was a candidate, the depth cuts the result."""
    whole = options.first_stage == commandline.WHOLE and not options.run
    return ranking.best(options.depth) if whole else ranking


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
    from rerank_plugin.files.runs import run_files, strictly_decreasing
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.ranking.bulk import rank_lists

    started = time.monotonic()
    _check_output_folder(options)
    paths = run_files(options.run)
    index = Index(options.index)
    queries = read_queries(options.queries)
    reranker = _open_reranker(options, index)
    runs = _candidates_of_runs(options, paths, queries, index.forward)
    tag = options.tag or (reranker.name if reranker else _candidate_name(options))
    without: list[list[str]] = [[] for _ in paths]
    with ExitStack() as files:
        writers = [
            files.enter_context(
                RunWriter(
                    options.output / path.name, tag, _settings(options, path), options.resume, options.overwrite
                )
            )
            for path in paths
        ]
        # Killed between two lines, the runs differ in what is finished: each query is ranked for those that lack it.
        places = {
            query: [at for at, one in enumerate(writers) if not one.complete and query.id not in one.finished]
            for query in queries
        }
        open_queries = [query for query in queries if places[query]]
        _say_finished(queries, open_queries)
        tasks = ((query, [runs[at](query) for at in places[query]]) for query in open_queries)
        rankings = zip(open_queries, rank_lists(tasks, reranker, options.queries_at_once))
        for query, of_runs in commandline.progress(rankings, "re-ranking", "queries", total=len(open_queries)):
            for at, ranking in zip(places[query], of_runs):
                writers[at].write(query.id, ranking.doc_ids, strictly_decreasing(ranking.ranked_scores))
                if not len(ranking.order):
                    without[at].append(query.id)
    for path, missing in zip(paths, without):
        _say_empty(missing, f"{path}: ")
    seconds = time.monotonic() - started
    print(f"{options.output}: {len(paths):,} runs of {len(queries):,} queries in {seconds:.1f} s")


def _check_output_folder(options) -> None:
    output = options.output
    if output.exists() and not output.is_dir():
        raise InputError(
            f"--run {options.run} is a folder, but --output {output} is a file: name a folder for its runs"
        )
    if output.resolve() == options.run.resolve():
        raise InputError(
            f"--output {output} is the folder of --run: its runs would be overwritten: name another folder"
        )


def _candidates_of_runs(options, paths, queries, index) -> list:
    """A source of candidates for each run; each gives those of a query once, and then forgets them."""
    from rerank_plugin.corpora import judgments
    from rerank_plugin.ranking.bulk import read_runs
    from rerank_plugin.ranking.pipeline import judged_rows

    judged = judged_rows(judgments(options.judged_only), index, options.judged_only) if options.judged_only else None
    reading = read_runs(paths, queries, index, options.depth, judged)
    return list(commandline.progress(reading, "reading", "runs", total=len(paths)))


def _candidate_name(options) -> str:
    if options.run:
        return "judged-only"
    return "judged" if _is_judged(options) else commandline.first_stage_config(options).name


def _settings(options, run: Path | None) -> dict:
    """What a resumed run must have in common with its first part."""
    settings = {
        "index": str(options.index),
        "queries": options.queries,
        "run": str(run) if run else None,
        "judged_only": options.judged_only,
        "reranker": options.reranker,
        "depth": options.depth,
        "seed": options.seed,
        "tag": options.tag,
    }
    if _is_judged(options):
        return settings | {"name": options.first_stage}
    return settings if options.run else settings | asdict(commandline.first_stage_config(options))


def search_one(options) -> None:
    """Print rank, score, first-stage rank and title of the best documents for one query."""
    from rerank_plugin.corpora import Query
    from rerank_plugin.indexes.index_folder import open_whole
    from rerank_plugin.ranking.pipeline import rank

    reranker, source = open_whole(lambda: _open(options))
    query = Query("query", options.query)
    ranking = rank(query, source(query), reranker)
    print_ranking(ranking, options.show)


def print_ranking(ranking, show: int) -> None:
    if not len(ranking.order):
        print("no document matches the query")
        return
    index = ranking.candidates.index
    shown = ranking.order[:show]
    titles = index.titles.take(ranking.candidates.rows[shown])
    ids = ranking.doc_ids[:show]
    width = max(len("document"), *map(len, ids))
    print(f"{'rank':>4}  {'score':>9}  {'first stage':>11}  {'document':<{width}}  title")
    for place, (at, id, title) in enumerate(zip(shown.tolist(), ids, titles), 1):
        print(f"{place:>4}  {ranking.scores[at]:>9.4f}  {at + 1:>11}  {id:<{width}}  {title or '(no title)'}")


if __name__ == "__main__":
    commandline.run(main)
