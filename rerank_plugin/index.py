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
    if options.ann and not options.encode:
        parser.error("--ann is for encodings: give it with --encode")
    if options.judged and not options.encode:
        parser.error("--judged is for encodings: give it with --encode")
    if options.stem and not options.corpus:
        parser.error("--stem is for building an index: give it with --corpus")
    if options.knowledge and not options.corpus:
        parser.error("--knowledge is for building an index: give it with --corpus")
    if options.verify:
        from rerank_plugin.indexes.index_folder import Index
        from rerank_plugin.indexes.verification import verify

        print(f"{options.index}: all {verify(Index(options.index))} files match their checksums")
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
    """Encode the documents of an index that is there."""
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.models.checkpoints import load_checkpoint
    from rerank_plugin.rerankers import RerankerOptions
    from rerank_plugin.rerankers.neural import NeuralReranker

    if options.ann:
        ann_config(options)  # what is wrong with it should not wait for all documents to be encoded
    index = Index(options.index).forward
    model, vocabulary = load_checkpoint(options.encode)
    reranker = NeuralReranker(model, vocabulary, index, RerankerOptions(options.device))
    if options.overwrite or find(reranker) is None or not (options.ann or options.judged):
        encode_documents(options, reranker)
    if options.ann:
        build_ann_index(options, reranker)
    if options.judged:
        keep_judged(options, index)


def encode_documents(options, reranker) -> None:
    """Encode all documents; what lay beside older encodings goes with them."""
    from rerank_plugin.models.document_encodings import encode_index

    index, started = reranker.builder.index, time.monotonic()
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
        f"{folder}: {len(index):,} documents, {reranker.model.encoding_size} numbers each, in {seconds:.1f} s "
        f"({len(index) / seconds:,.0f} documents per second)"
    )


def ann_config(options):
    """The :class:`~rerank_plugin.indexes.nearest.AnnConfig` of the command line.

    Raises:
        InputError: it cannot be, or faiss is not installed.
    """
    from rerank_plugin.indexes.nearest import AnnConfig, faiss_module

    faiss_module()
    return AnnConfig(options.ann, options.nlist, options.links, options.ef_construction, options.seed, options.threads)


def find(reranker):
    """The vectors that the reranker's model has made of its index; None where there are none."""
    from rerank_plugin.indexes.stored_encodings import find_encodings
    from rerank_plugin.models.document_encodings import weights_checksum

    model, builder = reranker.model, reranker.builder
    return find_encodings(builder.index, weights_checksum(model, builder.vocabulary), model.encoding_size)


def build_ann_index(options, reranker) -> None:
    """Build an approximate index of the vectors that are there."""
    from rerank_plugin.indexes.nearest import build_ann
    from rerank_plugin.indexes.stored_encodings import encodings_folder
    from rerank_plugin.models.document_encodings import weights_checksum

    key, vectors = weights_checksum(reranker.model, reranker.builder.vocabulary), find(reranker)
    started = time.monotonic()
    folder = build_ann(encodings_folder(reranker.builder.index, key), vectors, ann_config(options), options.overwrite)
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    print(f"{folder}: {len(vectors):,} vectors, {megabytes:,.0f} MB, in {time.monotonic() - started:.1f} s")


def keep_judged(options, index) -> None:
    """Encode judged queries and keep them."""
    from rerank_plugin.corpora import queries_and_judgments
    from rerank_plugin.retrieval.dense import QueryEncoder
    from rerank_plugin.retrieval.neighbours import write_judged

    sets = [(spec, *queries_and_judgments(spec)) for spec in options.judged]
    folder, count = write_judged(index, QueryEncoder(index, options.encode), sets, options.overwrite)
    print(f"{folder}: {count:,} judged queries")


def _peak_memory_mb() -> int:
    """Peak resident memory of this process, Java's heap included, in MB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1 << 20) if sys.platform == "darwin" else peak // 1024


if __name__ == "__main__":
    commandline.run(main)
