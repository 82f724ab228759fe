"""``python -m rerank_plugin.index``: builds the Lucene index and the forward index of a corpus, and encodes them."""

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
        "examples:\n  python -m rerank_plugin.index --corpus sample --index indexes/sample\n"
        "  python -m rerank_plugin.index --encode checkpoints/ktrel --index indexes/sample",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--corpus", help=CORPUS_HELP)
    mode.add_argument("--verify", action="store_true", help="only check an index's files against their checksums")
    mode.add_argument(
        "--encode", type=Path, metavar="CHECKPOINT", help="encode an index's documents with a model (sevmos, ktrel)"
    )
    parser.add_argument("--index", required=True, type=Path, help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an index, or encodings, there already")
    parser.add_argument(
        "--strict", action="store_true", help="stop at the first duplicate id, empty document or unreadable record"
    )
    parser.add_argument(
        "--stem", choices=("krovetz",), help="stem the words of the forward index; Lucene's fields stay as they are"
    )
    parser.add_argument("--threads", type=int, help="Lucene indexing threads (default: one per processor)")
    encoding = parser.add_argument_group("encoding")
    encoding.add_argument("--device", default="cpu", help="torch device of the model: cpu, cuda, cuda:1, mps")
    encoding.add_argument("--batch-size", type=int, help="documents encoded at once (default: 16 on a CPU, else 512)")
    encoding.add_argument("--half", action="store_true", help="keep vectors in half precision, in half the space")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.stem and not options.corpus:
        parser.error("--stem is for building an index: give it with --corpus")
    if options.verify:
        from rerank_plugin.retrieval.index_folder import Index

        Index(options.index).verify()
        print(f"{options.index}: all files match their checksums")
        return
    if options.encode:
        if options.batch_size is not None and options.batch_size < 1:
            parser.error("--batch-size must be at least 1")
        encode(options)
        return
    if not options.corpus:
        parser.error("--corpus is required")
    if options.threads is not None and options.threads < 1:
        parser.error("--threads must be at least 1")
    build(options)


def build(options) -> None:
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.retrieval.building import build_index
    from rerank_plugin.text.tokenizer import tokenizer

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
        tokenizer=tokenizer(options.stem),
    )
    seconds = time.monotonic() - started
    for line in problems.summary():
        log.warning("left out: %s", line)
    print(
        f"{options.index}: {report.documents:,} documents, {report.tokens:,} tokens, {report.terms:,} terms in "
        f"{seconds:.1f} s ({report.documents / seconds:,.0f} documents per second, peak memory {_peak_memory_mb():,} MB)"
    )


def encode(options) -> None:
    """Encode the documents of an index that is there."""
    from rerank_plugin.checkpoints import load_checkpoint
    from rerank_plugin.rerankers import RerankerOptions
    from rerank_plugin.rerankers.encodings import encode_index
    from rerank_plugin.rerankers.neural import NeuralReranker
    from rerank_plugin.retrieval.index_folder import Index

    index = Index(options.index).forward
    model, vocabulary = load_checkpoint(options.encode)
    reranker = NeuralReranker(model, vocabulary, index, RerankerOptions(options.device))
    started = time.monotonic()
    folder = encode_index(
        reranker.model,
        reranker.builder,
        options.device,
        options.batch_size,
        "float16" if options.half else "float32",
        {"checkpoint": str(options.encode)},
        options.overwrite,
        lambda rows: commandline.progress(rows, "encoding", "documents", total=len(index)),
    )
    seconds = time.monotonic() - started
    print(
        f"{folder}: {len(index):,} documents, {model.encoding_size} numbers each, in {seconds:.1f} s "
        f"({len(index) / seconds:,.0f} documents per second)"
    )


def _peak_memory_mb() -> int:
    """Peak resident memory of this process, Java's heap included, in MB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1 << 20) if sys.platform == "darwin" else peak // 1024


if __name__ == "__main__":
    commandline.run(main)
