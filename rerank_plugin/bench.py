"""``python -m rerank_plugin.bench``: latency, throughput and memory of rerankers, fast paths against plain ones."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rerank_plugin import options as commandline

EXAMPLES = """examples:
  # all models at their papers' sizes, with random weights, scoring 500 candidates from 10,000 generated documents
  python -m rerank_plugin.bench --json bench.json --markdown bench.md --plot bench.png
  # does it run at all: seconds instead of minutes
  python -m rerank_plugin.bench --quick
  # the whole query through Lucene, on 200,000 documents that are kept for the next time
  python -m rerank_plugin.bench --reranker delta --whole --documents 200000 --work-folder /var/tmp/bench
  # how latency grows with depth and with collection size
  python -m rerank_plugin.bench --reranker delta --depth 500 100 200 1000 2000 --batch 1 --work-folder /var/tmp/bench
  python -m rerank_plugin.bench --reranker delta --documents 10000 100000 1000000 --batch 1 --work-folder /var/tmp/bench
  # your own model on your own index and queries
  python -m rerank_plugin.bench --reranker delta:checkpoints/d --index indexes/mine --queries mine.tsv --whole
  # retrieval from KTRel's stored encodings, without a first stage
  python -m rerank_plugin.bench --reranker ktrel-w --dense --documents 10000 100000 --batch 1
  # what else you could run: MiniLM- and TinyBERT-shaped cross-encoders, in float32 and int8
  python -m rerank_plugin.bench --reranker delta --cross-encoders
  # on a GPU
  python -m rerank_plugin.bench --device cuda --precision float16 --batch 1 8 64 256

A measurement is warmed up first, garbage collection rests, every repetition has another query with other candidates,
and the paths take turns, so that whatever else the machine does hits both. p99 of few repetitions is their maximum:
give more --seconds where it matters, and nothing else to do to the machine."""

DEPTH, BATCHES, DOCUMENTS, SECONDS, REPETITIONS = 500, (1, 8, 64), 10_000, 5.0, 500
QUICK_DEPTH, QUICK_BATCHES, QUICK_DOCUMENTS, QUICK_SECONDS, QUICK_REPETITIONS = 50, (1, 8), 1_000, 0.1, 3


def arguments():
    parser = commandline.parser(
        "bench",
        "Measure rerankers: median, p95 and p99 latency, queries per second, peak memory, and how many times faster\n"
        "the fast path is than the plain model, in one process. Scoring needs no Java; the whole query (--whole)\n"
        "does. A table goes to stdout, progress to stderr.",
        EXAMPLES,
    )
    parser.add_argument(
        "--reranker", "--rerankers", nargs="+", metavar="R",
        help="a known name (random weights), NAME:CHECKPOINT, a checkpoint folder, or package.module:Class "
        "(default: all known models)",
    )  # fmt: skip
    parser.add_argument(
        "--depth", type=int, nargs="+", metavar="N",
        help=f"candidates a query (default: {DEPTH}; {QUICK_DEPTH} with --quick)",
    )  # fmt: skip
    parser.add_argument(
        "--batch", type=int, nargs="+", metavar="N",
        help="queries scored together; those but 1 at the first depth only (default: 1 8 64; 1 8 with --quick)",
    )  # fmt: skip
    parser.add_argument("--whole", action="store_true", help="measure the whole query, too (needs Java)")
    parser.add_argument(
        "--dense", action="store_true", help="measure dense search over all documents, too, of models that can (ktrel)"
    )
    parser.add_argument("--cross-encoders", action="store_true", help="measure cross-encoders, too (extra 'bench')")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repetitions: figures mean little")
    _add_collection_options(parser)
    _add_running_options(parser)
    _add_output_options(parser)
    commandline.add_first_stage_options(parser)
    return parser


def _add_collection_options(parser) -> None:
    group = parser.add_argument_group("collection")
    group.add_argument(
        "--documents", type=int, nargs="+", metavar="N",
        help=f"sizes of generated collections (default: {DOCUMENTS}; {QUICK_DOCUMENTS} with --quick)",
    )  # fmt: skip
    group.add_argument("--work-folder", type=Path, help="keep generated collections here (default: a temporary folder)")
    group.add_argument("--index", type=Path, help="measure on this index instead")
    group.add_argument("--queries", help="queries of --index: what the search command takes")
    group.add_argument(
        "--run",
        type=Path,
        help="a TREC run with the candidates of --queries (default: first stage with --whole, or a scan)",
    )


def _add_running_options(parser) -> None:
    group = parser.add_argument_group("running")
    group.add_argument("--device", default="cpu", help="torch device: cpu, cuda, cuda:1, mps")
    group.add_argument("--threads", type=int, help="of both paths (default: OMP_NUM_THREADS, or the processors)")
    group.add_argument("--batch-size", type=int, default=1024, help="candidates that a model scores at once")
    group.add_argument("--precision", default="float32", help="of the fast path on a GPU: float32, bfloat16 or float16")
    group.add_argument("--compile", action="store_true", help="compile the fast path (CUDA graphs on a GPU)")
    group.add_argument(
        "--seconds", type=float, metavar="S",
        help=f"for each path of a row, roughly (default: {SECONDS:g}; {QUICK_SECONDS:g} with --quick)",
    )  # fmt: skip
    group.add_argument(
        "--repetitions", type=int, metavar="N",
        help=f"of each path of a row, at most; 5 of them in any case (default: {REPETITIONS}; {QUICK_REPETITIONS} with "
        "--quick)",
    )  # fmt: skip


def _add_output_options(parser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", type=Path, metavar="FILE", help="write the rows as a JSON list")
    group.add_argument("--markdown", type=Path, metavar="FILE", help="write the table that goes to stdout")
    group.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the latencies")
    group.add_argument("--overwrite", action="store_true", help="replace such files where they are there already")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    _check(parser, options)
    from rerank_plugin.benchmark.rows import ROWS, TABLE, markdown, write_json
    from rerank_plugin.benchmark.suite import measure
    from rerank_plugin.files.outputs import PICTURE, check_free, is_stream, replacing

    for path, kind in ((options.json, ROWS), (options.markdown, TABLE), (options.plot, PICTURE)):
        if path and not is_stream(path):  # what cannot be written should not wait for hours of measuring
            check_free(path, kind, options.overwrite)

    rows = list(measure(_suite(options)))
    if options.json:
        write_json(rows, options.json, options.overwrite)
    said = markdown(rows, shlex.join(["python", "-m", "rerank_plugin.bench", *(argv or sys.argv[1:])]))
    if options.markdown:
        with replacing(options.markdown, TABLE, options.overwrite) as file:
            file.write(said.encode())
    if options.plot:
        from rerank_plugin.benchmark.latency_plot import plot

        plot(rows, options.plot, options.overwrite)
    print(said, end="")


def _check(parser, options) -> None:
    if (options.index is None) != (options.queries is None):
        parser.error("--index and --queries belong together")
    if options.run and options.index is None:
        parser.error("--run needs --index and --queries")
    if options.index and (options.documents or options.work_folder):
        parser.error("--index is measured as it is: it takes neither --documents nor --work-folder")
    for name in ("depth", "batch", "documents"):
        if min(getattr(options, name) or [1]) < 1:
            parser.error(f"--{name} must be at least 1")
    for name in ("threads", "batch_size", "repetitions", "seconds"):
        if (value := getattr(options, name)) is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} must be more than 0")


def _suite(options):
    from rerank_plugin.benchmark.suite import Suite
    from rerank_plugin.kernels.parallel import available_threads
    from rerank_plugin.rerankers import RerankerOptions

    quick = options.quick
    threads = options.threads or available_threads()
    running = dict(precision=options.precision, compile=options.compile)
    return Suite(
        specs=options.reranker or [],
        depths=options.depth or [QUICK_DEPTH if quick else DEPTH],
        batches=options.batch or (QUICK_BATCHES if quick else BATCHES),
        documents=options.documents or [QUICK_DOCUMENTS if quick else DOCUMENTS],
        index=options.index,
        queries=options.queries,
        run=options.run,
        first_stage=commandline.first_stage_config(options) if options.whole else None,
        cross_encoders=options.cross_encoders,
        dense=(options.dense_device or options.device) if options.dense else None,
        work_folder=options.work_folder,
        options=RerankerOptions(options.device, options.batch_size, threads=threads, **running),
        seconds=options.seconds or (QUICK_SECONDS if quick else SECONDS),
        repetitions=options.repetitions or (QUICK_REPETITIONS if quick else REPETITIONS),
        seed=options.seed,
    )


if __name__ == "__main__":
    commandline.run(main)
