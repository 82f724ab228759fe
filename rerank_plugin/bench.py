"""``rerank-plugin bench``: measures latency, throughput and memory of rerankers, fast paths against PyTorch."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.corpora import CORPUS, accepted
from rerank_plugin.models.base import RerankerOptions

EXAMPLES = """examples:
  # smoke test: seconds instead of minutes
  rerank-plugin bench --quick
  # your own model on your own index and queries
  rerank-plugin bench --reranker delta:checkpoints/d --index indexes/mine --queries mine.tsv --whole

  # all models at their papers' sizes, with random weights, scoring 500 candidates from 10,000 generated documents
  rerank-plugin bench --json bench.json --markdown bench.md --plot bench.png
  # the whole query through Lucene, on 200,000 documents, kept for the next run
  rerank-plugin bench --reranker delta --whole --documents 200000 --work-folder /var/tmp/bench
  # latency by depth, and by collection size
  rerank-plugin bench --reranker delta --depth 500 100 200 1000 2000 --batch 1 --work-folder /var/tmp/bench
  rerank-plugin bench --reranker delta --documents 10000 100000 1000000 --batch 1 --work-folder /var/tmp/bench
  # retrieval from KTRel's stored encodings, without a first stage
  rerank-plugin bench --reranker ktrel-w --dense --documents 10000 100000 --batch 1
  # 500 abstracts without an index
  rerank-plugin bench --reranker delta:checkpoints/d --texts data/nfcorpus --batch 1
  # the service over HTTP: its overhead over the library, and its latency by request rate and with many clients
  rerank-plugin bench --service --reranker delta --documents 200000 --rate 10 50 --clients 200 --seconds 60
  # on a GPU
  rerank-plugin bench --device cuda --precision float16 --batch 1 8 64 256

Each measurement starts with a warm-up and runs without garbage collection. Every repetition has another query with
other candidates, and the paths take turns, so that other load hits both. p99 of few repetitions is their maximum: for
a reliable p99, give more --seconds on an idle machine."""

BATCHES, DOCUMENTS, SECONDS, REPETITIONS = (1, 8, 64), 10_000, 5.0, 500
QUICK_DEPTH, QUICK_BATCHES, QUICK_DOCUMENTS, QUICK_SECONDS, QUICK_REPETITIONS = 50, (1, 8), 1_000, 0.1, 3


def arguments():
    parser = commandline.parser(
        "bench",
        "Measure rerankers: median, p95 and p99 latency, queries per second, peak memory, and the speed-up of the\n"
        "fast path over the plain module, in one process. Scoring needs no Java; the whole query (--whole) does.\n"
        "A table goes to stdout, progress to stderr.",
        EXAMPLES,
    )
    add = parser.add_argument
    rerankers = (
        "rerankers: known names (random weights), NAME:CHECKPOINT, checkpoint folders, or package.module:Class "
        "(default: all models)"
    )
    add("--reranker", "--rerankers", nargs="+", metavar="R", help=rerankers)
    depth = f"candidates of each query (default: {DEPTH}; {QUICK_DEPTH} with --quick)"
    add("--depth", type=int, nargs="+", metavar="N", help=depth)
    add("--whole", action="store_true", help="measure the whole query, too (needs Java)")
    add("--quick", action="store_true", help="smoke test: small sizes, few repetitions; timings are not meaningful")
    add("--index", type=Path, help="index folder to search (default: generated collections)")
    add("--queries", help="queries of --index, as search takes them")
    add("--json", type=Path, metavar="FILE", help="JSON file to write, with a list of the rows")
    add("--markdown", type=Path, metavar="FILE", help="Markdown file to write, with the printed tables")
    add("--plot", type=Path, metavar="FILE.png", help="PNG file to write, with a plot of the latencies")
    add("--overwrite", action="store_true", help="replace existing files")
    _add_measured(parser.add_argument_group("measurements").add_argument)
    running = parser.add_argument_group("running")
    commandline.add_settings(running, RerankerOptions)
    threads = "threads of both paths (default: OMP_NUM_THREADS, or all cores)"
    running.add_argument("--threads", type=int, help=threads)
    seconds = f"approximate seconds for each path of a row (default: {SECONDS:g}; {QUICK_SECONDS:g} with --quick)"
    running.add_argument("--seconds", type=float, metavar="S", help=seconds)
    quick = f"(default: {REPETITIONS}; {QUICK_REPETITIONS} with --quick)"
    repetitions = f"largest number of repetitions of each path of a row, at least 5 {quick}"
    running.add_argument("--repetitions", type=int, metavar="N", help=repetitions)
    commandline.add_first_stage_options(parser)
    return parser


def _add_measured(add) -> None:
    batch = "queries scored together; more than 1 at the first depth only (default: 1 8 64; 1 8 with --quick)"
    add("--batch", type=int, nargs="+", metavar="N", help=batch)
    documents = f"sizes of generated collections (default: {DOCUMENTS}; {QUICK_DOCUMENTS} with --quick)"
    add("--documents", type=int, nargs="+", metavar="N", help=documents)
    add("--work-folder", type=Path, help="folder that keeps generated collections (default: a temporary folder)")
    run = "TREC run with the candidates of --queries (default: first stage with --whole, or a scan)"
    add("--run", type=Path, help=run)
    dense = "measure dense search over all documents, too, for models that support it (ktrel)"
    add("--dense", action="store_true", help=dense)
    texts = f"measure re-ranking of a corpus without an index, too ({accepted(CORPUS)}; default: sample)"
    add("--texts", nargs="?", const="sample", metavar="CORPUS", help=texts)
    service = "measure the service at URL, or a new service, instead; names without a checkpoint are bundled models"
    add("--service", nargs="?", const="", metavar="URL", help=service)
    add("--rate", type=float, nargs="+", metavar="N", help="requests per second to send to --service")
    add("--clients", type=int, nargs="+", metavar="N", help="concurrent clients of --service")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    _check(parser, options)
    from rerank_plugin.benchmark.rows import ROWS, TABLE, markdown, write_json
    from rerank_plugin.benchmark.suite import measure
    from rerank_plugin.files.outputs import PICTURE, check_free, replacing

    for path, kind in ((options.json, ROWS), (options.markdown, TABLE), (options.plot, PICTURE)):
        if path:  # checked before the slow measurements
            check_free(path, kind, options.overwrite)

    rows = list(_service_rows(options) if options.service is not None else measure(_suite(options)))
    if options.json:
        write_json(rows, options.json, options.overwrite)
    tables = markdown(rows, shlex.join(["rerank-plugin", "bench", *(sys.argv[1:] if argv is None else argv)]))
    if options.markdown:
        with replacing(options.markdown, TABLE, options.overwrite) as file:
            file.write(tables.encode())
    if options.plot:
        from rerank_plugin.benchmark.latency_plot import plot

        plot(rows, options.plot, options.overwrite)
    print(tables, end="")


def _check(parser, options) -> None:
    if (options.index is None) != (options.queries is None):
        parser.error("--index and --queries belong together")
    if options.run and options.index is None:
        parser.error("--run needs --index and --queries")
    if options.index and (options.documents or options.work_folder):
        parser.error("--documents and --work-folder are for generated collections: leave them out with --index")
    if options.service is None and (options.rate or options.clients):
        parser.error("--rate and --clients need --service")
    if options.service is not None and len(options.reranker or []) != 1:
        parser.error("--service needs exactly one --reranker")
    if not all(rate > 0 for rate in options.rate or ()):
        parser.error("--rate must be more than 0")
    parser.check_counts(options, "clients", "depth", "batch", "documents", "threads", "repetitions")
    if options.seconds is not None and not options.seconds > 0:
        parser.error("--seconds must be more than 0")


def _suite(options):
    from rerank_plugin.benchmark.suite import Suite
    from rerank_plugin.kernels.parallel import available_threads

    quick = options.quick
    threads = options.threads or available_threads()
    return Suite(
        specs=options.reranker or [],
        depths=options.depth or [QUICK_DEPTH if quick else DEPTH],
        batches=options.batch or (QUICK_BATCHES if quick else BATCHES),
        documents=options.documents or [QUICK_DOCUMENTS if quick else DOCUMENTS],
        index=options.index,
        queries=options.queries or "",
        run=options.run,
        first_stage=commandline.first_stage_config(options) if options.whole else None,
        dense=options.dense,
        texts=options.texts,
        work_folder=options.work_folder,
        options=commandline.configured(RerankerOptions, options, threads=threads),
        rates=options.rate or [],
        clients=options.clients or [],
        seconds=options.seconds or (QUICK_SECONDS if quick else SECONDS),
        repetitions=options.repetitions or (QUICK_REPETITIONS if quick else REPETITIONS),
        seed=options.seed,
    )


def _service_rows(options):
    """The rows of the service at --service, or of a new service."""
    from rerank_plugin.benchmark.service_load import service_rows
    from rerank_plugin.benchmark.suite import opened_collection, set_up

    suite = _suite(options)
    setup = set_up(suite)
    with opened_collection(suite) as collection:
        with _serving(options.service, str(collection.index.folder), suite.specs[0], suite.depths[0]) as url:
            yield from service_rows(url, suite, collection, setup)


@contextmanager
def _serving(url: str, index: str, reranker: str, depth: int) -> Iterator[str]:
    """The address of a service: ``url``, or that of a new service, which ends with the block."""
    if url:
        yield url
        return
    arguments = ["--index", f"index={index}", "--reranker", reranker, "--depth", f"{depth}", "--port", "0"]
    command = [sys.executable, "-m", "rerank_plugin.serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                raise InputError("the service did not start: see its messages above")
            yield address
        finally:
            process.terminate()


if __name__ == "__main__":
    commandline.run(main)
