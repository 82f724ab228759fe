"""``python -m rerank_plugin.index``: builds the Lucene index and the forward index of a corpus."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rerank_plugin import commandline

log = logging.getLogger(__name__)

CORPUS_HELP = (
    "sample (the bundled collection), an ir-datasets id (beir/nfcorpus/test), a BEIR folder (corpus.jsonl[.gz]), "
    "PubMed/MEDLINE XML (a file or folder of *.xml[.gz]), or JSONL (a file or folder)"
)


def arguments():
    parser = commandline.parser(
        "index",
        "Index a corpus of titles and abstracts: a Lucene index (fields title, abstract, contents, with positions and\n"
        "document vectors) and, beside it, the forward index that the rerankers read.",
        "example:\n  python -m rerank_plugin.index --corpus sample --index indexes/sample",
    )
    parser.add_argument("--corpus", help=CORPUS_HELP)
    parser.add_argument("--index", required=True, type=Path, help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an index that is there already")
    parser.add_argument(
        "--strict", action="store_true", help="stop at the first duplicate id, empty document or unreadable record"
    )
    parser.add_argument("--threads", type=int, help="Lucene indexing threads (default: one per processor)")
    parser.add_argument("--verify", action="store_true", help="only check an index's files against their checksums")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.verify:
        from rerank_plugin.retrieval.index_folder import Index

        Index(options.index).verify()
        print(f"{options.index}: all files match their checksums")
        return
    if not options.corpus:
        parser.error("--corpus is required")
    if options.threads is not None and options.threads < 1:
        parser.error("--threads must be at least 1")
    build(options)


def build(options) -> None:
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.retrieval.building import build_index

    problems = Problems(strict=options.strict)
    started = time.monotonic()
    report = build_index(
        documents(options.corpus, problems),
        options.index,
        options.corpus,
        problems,
        overwrite=options.overwrite,
        threads=options.threads,
        progress=lambda items: commandline.progress(items, "indexing", "documents"),
    )
    seconds = time.monotonic() - started
    for line in problems.summary():
        log.warning("left out: %s", line)
    log.debug("peak memory %d MB", _peak_memory_mb())
    print(
        f"{options.index}: {report.documents:,} documents, {report.tokens:,} tokens, {report.terms:,} terms in "
        f"{seconds:.1f} s ({report.documents / seconds:,.0f} documents per second)"
    )


def _peak_memory_mb() -> int:
    """Peak resident memory of this process, Java's heap included, in MB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1 << 20) if sys.platform == "darwin" else peak // 1024


if __name__ == "__main__":
    commandline.run(main)
