"""``python -m rerank_plugin.index``: builds the Lucene index and the forward index of a corpus, and encodes them."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, accepted

log = logging.getLogger(__name__)


def arguments():
    parser = commandline.parser(
        "index",
        "Index a corpus of titles and abstracts: a Lucene index (fields title, abstract, contents, with positions and\n"
        "document vectors) and, beside it, the forward index that the rerankers read.",
        "examples:\n  python -m rerank_plugin.index --corpus sample --index indexes/sample\n"
        "  python -m rerank_plugin.index --corpus sample --knowledge kb/sample --index indexes/concepts\n"
        "  python -m rerank_plugin.index --encode checkpoints/ktrel --index indexes/sample",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--corpus", help=accepted(CORPUS))
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
    parser.add_argument(
        "--knowledge",
        type=Path,
        metavar="KB",
        help="annotate the documents with the concepts of this compiled knowledge base (rerank_plugin.knowledge "
        "compile): what KTRel reads beside words",
    )
    parser.add_argument("--threads", type=int, help="Lucene indexing threads (default: one per processor)")
    encoding = parser.add_argument_group("encoding")
    encoding.add_argument("--device", default="cpu", help="torch device of the model: cpu, cuda, cuda:1, mps")
    encoding.add_argument("--batch-size", type=int, help="documents encoded at once (default: 16 on a CPU, else 512)")
    encoding.add_argument("--half", action="store_true", help="keep vectors in half precision, in half the space")
    encoding.add_argument(
        "--judged",
        action="append",
        default=[],
        metavar="QJ",
        help="keep these judged queries, encoded, too: what search --first-stage neighbours:CHECKPOINT ranks by (queries "
        "and judgments, as train takes them; may be repeated)",
    )
    ann = parser.add_argument_group("approximate search of encodings (search --first-stage dense:CHECKPOINT)")
    ann.add_argument(
        "--ann",
        choices=("ivf", "hnsw"),
        help="build this index of the vectors, too, or only it where the vectors are there already",
    )
    ann.add_argument("--nlist", type=int, help="groups of ivf (default: 4 times the root of the number of documents)")
    ann.add_argument("--links", type=int, default=32, help="M of hnsw: neighbours of a vector")
    ann.add_argument("--ef-construction", type=int, default=80, help="vectors hnsw keeps in view while it is built")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    _check(parser, options)
    if options.verify:
        verify(options)
    elif options.encode:
        encode(options)
    else:
        build(options)


def _check(parser, options) -> None:
    """Refuse options that need or exclude one another."""
    if options.ann and not options.encode:
        parser.error("--ann is for encodings: give it with --encode")
    if options.judged and not options.encode:
        parser.error("--judged is for encodings: give it with --encode")
    if options.stem and not options.corpus:
        parser.error("--stem is for building an index: give it with --corpus")
    if options.knowledge and not options.corpus:
        parser.error("--knowledge is for building an index: give it with --corpus")
    if options.encode and options.batch_size is not None and options.batch_size < 1:
        parser.error("--batch-size must be at least 1")
    if not (options.corpus or options.verify or options.encode):
        parser.error("--corpus is required")
    if options.corpus and options.threads is not None and options.threads < 1:
        parser.error("--threads must be at least 1")


def verify(options) -> None:
    """Compare the files of an index with their checksums."""
    from rerank_plugin.indexes import verification
    from rerank_plugin.indexes.index_folder import Index

    print(f"{options.index}: all {verification.verify(Index(options.index))} files match their checksums")


def build(options) -> None:
    """Build an index of a corpus."""
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.indexes.building import build_index
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
        annotator=_annotator(options.knowledge, options.threads),
    )
    seconds = time.monotonic() - started
    for line in problems.summary(kept=False):
        log.warning("left out: %s", line)
    for line in problems.summary(kept=True):
        log.warning("kept, but without a part of its text: %s", line)
    concepts = "" if report.concepts is None else f"{report.concepts:,} concepts, "
    print(
        f"{options.index}: {report.documents:,} documents, {report.tokens:,} tokens, {concepts}{report.terms:,} terms "
        f"in {seconds:.1f} s ({report.documents / seconds:,.0f} documents per second, "
        f"peak memory {_peak_memory_mb():,} MB)"
    )


def _annotator(knowledge: Path | None, threads: int | None):
    """The annotator of a compiled knowledge base; None where none is named."""
    if knowledge is None:
        return None
    from rerank_plugin.knowledge.annotation import Annotator
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

    return Annotator(KnowledgeBase(knowledge), threads=threads)


def encode(options) -> None:
    """Encode the documents of an index that is there, and make what is asked for beside the encodings.

    Encodings that are there already stay where only something beside them is asked for.
    """
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.retrieval.encoding import IndexEncoder

    ann = _ann_config(options)  # what is wrong with it should not wait for all documents to be encoded
    encoder = IndexEncoder(Index(options.index).forward, options.encode, options.device)
    beside = ann is not None or bool(options.judged)
    if options.overwrite or not beside or encoder.vectors() is None:
        _encode_documents(options, encoder)
    if ann is not None:
        _build_ann(options, encoder, ann)
    if options.judged:
        folder, count = encoder.keep_judged(options.judged, options.overwrite)
        print(f"{folder}: {count:,} judged queries")


def _ann_config(options):
    """The :class:`~rerank_plugin.indexes.nearest.AnnConfig` of the command line; None where none is asked for.

    Raises:
        InputError: it cannot be, or faiss is not installed.
    """
    if not options.ann:
        return None
    from rerank_plugin.indexes.nearest import AnnConfig, faiss_module

    faiss_module()
    return AnnConfig(options.ann, options.nlist, options.links, options.ef_construction, options.seed, options.threads)


def _encode_documents(options, encoder) -> None:
    documents, started = len(encoder.index), time.monotonic()
    folder = encoder.encode(
        options.batch_size,
        "float16" if options.half else "float32",
        options.overwrite,
        lambda rows: commandline.progress(rows, "encoding", "documents", total=documents),
    )
    seconds = time.monotonic() - started
    print(
        f"{folder}: {documents:,} documents, {encoder.size} numbers each, in {seconds:.1f} s "
        f"({documents / seconds:,.0f} documents per second)"
    )


def _build_ann(options, encoder, config) -> None:
    started = time.monotonic()
    folder = encoder.build_ann(config, options.overwrite)
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    documents, seconds = len(encoder.index), time.monotonic() - started
    print(f"{folder}: {documents:,} vectors, {megabytes:,.0f} MB, in {seconds:.1f} s")


def _peak_memory_mb() -> int:
    """Peak resident memory of this process, Java's heap included, in MB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1 << 20) if sys.platform == "darwin" else peak // 1024


if __name__ == "__main__":
    commandline.run(main)
