"""``rerank-plugin index``: indexes a corpus, or an existing Lucene index, and encodes documents."""

from __future__ import annotations

import logging
import shlex
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import CORPUS, accepted
from rerank_plugin.encoding.faiss_export import ExportConfig
from rerank_plugin.indexes.vector_store import ENCODER, RECALL_DEPTH
from rerank_plugin.indexes.vector_store_writer import ListsConfig, remove_left_spills

if TYPE_CHECKING:
    from rerank_plugin.corpora import Problems
    from rerank_plugin.encoding.index_encoder import IndexEncoder
    from rerank_plugin.indexes.forward import ForwardIndex

log = logging.getLogger(__name__)
MOST_DELETED = 50_000_000  # ids of a list, which is kept in memory


def arguments() -> commandline.Parser:
    parser = commandline.parser(
        "index",
        "Index a corpus of titles and abstracts: a Lucene index (fields title, abstract, contents, with positions;\n"
        "metadata; the stored documents) and, beside it, the forward index that the rerankers read.\n"
        "Or build the forward index alone, beside an existing Lucene index.",
        "examples:\n  rerank-plugin index --corpus sample --index indexes/sample\n"
        "  rerank-plugin index --encode ktrel --index indexes/sample\n\n"
        "  rerank-plugin index --corpus sample --knowledge kb/sample --index indexes/concepts\n"
        "  rerank-plugin index --lucene indexes/lucene-index-nfcorpus --index indexes/nfcorpus\n"
        "  rerank-plugin index --encode checkpoints/ktrel --index indexes/sample\n"
        "  rerank-plugin index --encode minilm --index indexes/sample\n"
        "  rerank-plugin index --statistics checkpoints/delta --index indexes/sample\n\n"
        "  rerank-plugin index --index indexes/sample --delete retracted.txt --add new.jsonl --merge",
    )
    mode = parser.add_mutually_exclusive_group()
    corpora = f"corpus to index, or several, also as patterns: {accepted(CORPUS)}; - is stdin"
    mode.add_argument("--corpus", nargs="+", action="extend", metavar="C", help=corpora)
    lucene = "existing Anserini or Pyserini index that stores raw or contents; it is searched where it is"
    mode.add_argument("--lucene", type=Path, metavar="FOLDER", help=lucene)
    parser.add_argument("--index", required=True, type=Path, help="index folder")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index, encodings or statistics")
    mode.add_argument("--verify", action="store_true", help="check the files of an index against their checksums")
    encode = (
        "encode the documents of an index, or resume, with: ktrel (bundled), minilm, a checkpoint of sevmos or ktrel, "
        "or the folder of a bi-encoder of sentence-transformers or Hugging Face"
    )
    mode.add_argument("--encode", metavar="CHECKPOINT", help=encode)
    statistics = (
        "write the statistics of an index (document frequencies, mean lengths) into a checkpoint, as training does; "
        "without an index, the library scores texts by them"
    )
    mode.add_argument("--statistics", type=Path, metavar="CHECKPOINT", help=statistics)
    update = parser.add_argument_group("updating an index (in this order; searches of the index go on)").add_argument
    deleted = "delete the documents with the ids in this file, one on each line (- for standard input)"
    update("--delete", metavar="IDS", help=deleted)
    added = "add the documents of corpora, one after the other; they replace documents of the index with the same ids"
    update("--add", nargs="+", default=[], metavar="CORPUS", help=added)
    merged = "remove deleted documents for good, so that the index equals a new one of the documents that are left"
    update("--merge", action="store_true", help=merged)
    kept = "with --add: keep small segments, of which eight are otherwise merged into one (scores do not change)"
    update("--no-merge", action="store_true", help=kept)
    adapted = "with --merge: adapt ktrel to the documents anew, and encode them all by it"
    update("--adapt", action="store_true", help=adapted)
    _add_building_options(parser.add_argument_group("building an index"))
    _add_encoding_options(parser.add_argument_group("encoding"))
    exporting = parser.add_argument_group("exporting")
    exported = (
        "write the document vectors of an encoder (as for --encode) as a Faiss index that Pyserini opens; stored codes "
        "are decoded, otherwise the documents are encoded"
    )
    exporting.add_argument("--export-faiss", metavar="CHECKPOINT", help=exported)
    exporting.add_argument("--output", type=Path, metavar="FOLDER", help="folder of --export-faiss")
    commandline.add_settings(exporting, ExportConfig)
    return parser


def _add_building_options(group: Any) -> None:
    add = group.add_argument
    strict = "stop at the first duplicate id, empty document or unreadable record"
    add("--strict", action="store_true", help=strict)
    shards = "divide the index into N shards, each built by a process of its own; scores and order stay the same"
    add("--shards", type=int, metavar="N", help=shards)
    vectors = "store term vectors, which Pyserini's own RM3 and Rocchio read; bm25+rm3 of search needs none"
    add("--term-vectors", action="store_true", help=vectors)
    stem = "stemmer of the forward index; Lucene's fields are not changed (default: none)"
    add("--stem", choices=("krovetz",), help=stem)
    knowledge = (
        "annotate the documents with this compiled knowledge base (rerank-plugin knowledge compile); KTRel reads the "
        "concepts besides words"
    )
    add("--knowledge", type=Path, metavar="KB", help=knowledge)
    field = "key of the stored JSON object, or stored field, of {} in --lucene (default: the usual ones)"
    add("--title-field", metavar="NAME", help=field.format("titles"))
    add("--text-field", metavar="NAME", help=field.format("abstracts or texts"))
    analyzer = "analyzer of --lucene: English with the stemmer porter, krovetz or none, or whitespace (default: porter)"
    add("--analyzer", choices=("porter", "krovetz", "none", "whitespace"), help=analyzer)
    add("--language", metavar="CODE", help="language of the analyzer of --lucene, as zh or de (default: en)")
    add("--threads", type=int, help="threads of annotation and encoding (default: one per core)")
    work = "Ray cluster that builds --shards or encodes, with the index on a folder that its machines share"
    commandline.add_places(group, work, with_settings=False)


def _add_encoding_options(group: Any) -> None:
    add = group.add_argument
    add("--device", default="cpu", help="torch device of the model: cpu, cuda, cuda:1, mps")
    add("--batch-size", type=int, help="documents encoded at once (default: 16 on a CPU, else 512)")
    adapted = (
        "do not adapt ktrel to the collection, which needs no judgments (words get second vectors, of the documents "
        "that contain them) and improves search --first-stage hybrid"
    )
    add("--no-adapt", action="store_true", help=adapted)
    judged = (
        "also encode judged queries, for search --first-stage neighbours:CHECKPOINT (queries and judgments, as for "
        "train); may be repeated"
    )
    add("--judged", action="append", default=[], metavar="QJ", help=judged)
    commandline.add_settings(group, ListsConfig)


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    if options.judged and not options.encode:
        parser.error("--judged is for encodings: give it with --encode")
    if options.no_adapt and options.encode != ENCODER:
        parser.error(f"--no-adapt is for the bundled encoder: give it with --encode {ENCODER}")
    updates = options.delete or options.add or options.merge
    if options.no_merge and not options.add:
        parser.error("--no-merge is for adding documents: give it with --add")
    if options.adapt and not options.merge:
        parser.error("--adapt adapts an encoder anew when an index is merged: give it with --merge")
    if bool(options.export_faiss) != bool(options.output):
        parser.error("--export-faiss writes a folder: give both --export-faiss ENCODER and --output FOLDER")
    others = options.corpus or options.lucene or options.verify or options.encode or options.statistics
    if options.export_faiss and (updates or others):
        parser.error("--export-faiss reads an index: give it alone")
    if updates and others:
        parser.error("--add, --delete and --merge update an index: give them alone")
    for name in ("stem", "knowledge"):
        if getattr(options, name) and not (options.corpus or options.lucene):
            parser.error(f"--{name} is for building an index: give it with --corpus or --lucene")
    for name in ("shards", "term_vectors"):
        if getattr(options, name) and not options.corpus:
            parser.error(f"{commandline.flag(name)} is for building an index of a corpus: give it with --corpus")
    if options.shards and options.knowledge:
        parser.error("--shards divides indexes without concepts: leave out --knowledge")
    if options.cluster and not (options.shards or options.encode):
        parser.error("--cluster divides the building of shards, or encoding: give it with --shards or --encode")
    if options.cluster and options.encode and options.device != "cpu":
        parser.error("--cluster encodes on CPUs: leave out --device")
    for name in ("title_field", "text_field", "analyzer", "language"):
        if getattr(options, name) and not options.lucene:
            parser.error(f"{commandline.flag(name)} is for an existing Lucene index: give it with --lucene")
    if options.analyzer and options.language not in (None, "en"):
        parser.error("--analyzer is for English: give either --analyzer or --language")
    parser.check_counts(options, "batch_size", "threads", "shards")
    if options.verify:
        verify(options)
    elif updates:
        update(options)
    elif options.encode:
        encode(options)
    elif options.export_faiss:
        export(options)
    elif options.statistics:
        write_statistics(options)
    elif options.corpus or options.lucene:
        build(options)
    else:
        parser.error("--corpus, --lucene, --add, --delete or --merge is required")


def verify(options: Namespace) -> None:
    """Compare the files of an index with their checksums."""
    from rerank_plugin.encoding.index_encoder import IndexEncoder
    from rerank_plugin.indexes import verification
    from rerank_plugin.indexes.collection_statistics import CollectionStatistics
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.indexes.layout import ADAPTED, derived_folder

    index = Index(options.index)
    files, adapted = verification.verify(index), derived_folder(index, ADAPTED)
    if adapted.is_dir():
        cure = f"make it again with: rerank-plugin index --encode {ENCODER} --index {options.index}"
        try:
            store = IndexEncoder(index.forward, adapted).store()
            CollectionStatistics.load(adapted)
        except InputError as error:
            raise InputError(f"{adapted} is damaged ({str(error).partition(';')[0]}): {cure}") from None
        if store is None:
            raise InputError(f"{adapted} is damaged, or lacks its encodings: {cure}")
    print(f"{options.index}: all {files} files match their checksums")


def build(options: Namespace) -> None:
    """Build an index of a corpus, or a forward index beside a Lucene index."""
    from rerank_plugin.base.memory import PeakMemory
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.indexes.building import build_beside, build_single
    from rerank_plugin.indexes.shard_building import build_shards
    from rerank_plugin.text.tokenizer import tokenizer

    annotator = None
    if options.knowledge:
        from rerank_plugin.concepts.annotation import Annotator
        from rerank_plugin.concepts.knowledge_base import KnowledgeBase

        annotator = Annotator(KnowledgeBase(options.knowledge), threads=options.threads)
    problems = Problems(strict=options.strict)
    started = time.monotonic()

    def progress(items: Iterable[Any], total: int | None = None) -> Iterator[Any]:
        return commandline.progress(items, "indexing", "documents", total=total)

    shared: dict[str, Any] = {
        "overwrite": options.overwrite,
        "tokenizer": tokenizer(options.stem),
        "progress": progress,
    }
    if options.lucene:
        fields = options.title_field, options.text_field
        analyzer = options.analyzer or (None if options.language == "en" else options.language)
        report = build_beside(options.lucene, options.index, *fields, analyzer=analyzer, annotator=annotator, **shared)
    else:
        corpus = documents(options.corpus, problems)
        source = shlex.join(options.corpus) if len(options.corpus) > 1 else options.corpus[0]
        shared["term_vectors"] = options.term_vectors
        if options.shards:
            location = commandline.location_of(options)
            shared["location"] = None if location is None else location.with_own_heap()
            report = build_shards(corpus, options.index, source, problems, options.shards, **shared)
        else:
            report = build_single(corpus, options.index, source, problems, annotator=annotator, **shared)
    seconds = time.monotonic() - started
    _log(problems)
    concepts = "" if report.concepts is None else f"{report.concepts:,} concepts, "
    print(
        f"{options.index}: {report.documents:,} documents, {report.tokens:,} tokens, {concepts}{report.terms:,} terms "
        f"in {seconds:.1f} s ({report.documents / seconds:,.0f} documents per second, "
        f"peak memory {PeakMemory().read():,.0f} MB)"
    )


def _log(problems: Problems) -> None:
    for line in problems.summary(kept=False):
        log.warning("left out: %s", line)
    for line in problems.summary(kept=True):
        log.warning("kept, but without a part: %s", line)


def update(options: Namespace) -> None:
    """Delete documents from an index, add documents, and merge; prints a line for each."""
    from rerank_plugin.corpora import Problems, documents
    from rerank_plugin.encoding.updates import add_documents, merge_index
    from rerank_plugin.files.text_files import lines
    from rerank_plugin.indexes import updating

    def report(done: str, number: int) -> None:
        print(f"{options.index}: {done} in {time.monotonic() - started:.1f} s; {number:,} documents")

    encoding: dict[str, Any] = {"device": options.device, "batch_size": options.batch_size}

    for spec in options.add:
        documents(spec)  # an unknown corpus is an error before anything is deleted
    started = time.monotonic()
    if options.delete:
        path = Path("/dev/stdin" if options.delete == "-" else options.delete)
        places = dict[str, str]()
        for number, text in lines(path):
            places.setdefault(text.strip(), f"{path}:{number}")
            if len(places) > MOST_DELETED:
                raise InputError(f"{path}: has more than {MOST_DELETED:,} ids: delete them by several commands")
        deleted = updating.delete(options.index, [*places], [*places.values()])
        report(f"{deleted.deleted:,} documents deleted", deleted.documents)
    for spec in options.add:
        started, problems = time.monotonic(), Problems(strict=options.strict)
        indexing = partial(commandline.progress, description="adding", unit="documents")
        corpus = documents(spec, problems)
        added = add_documents(
            options.index,
            corpus,
            spec,
            problems,
            options.threads,
            indexing,
            merge_small=not options.no_merge,
            **encoding,
        )
        _log(problems)
        replaced = added.deleted - len(added.withdrawn)
        done = [f"{added.added:,} documents of {spec} added, {replaced:,} of them for older ones", *added.notes()]
        report(", ".join(done), added.documents)
    if options.merge:
        started = time.monotonic()
        merging = partial(commandline.progress, description="merging", unit="batches")
        shared = {"threads": options.threads, "seed": options.seed, "encoding": _encoding_bars, **encoding}
        merged = merge_index(options.index, options.adapt, merging, **shared)
        report("merged, and the encoder adapted anew" if options.adapt else "merged", merged.documents)


def _encoding_bars(index: ForwardIndex) -> dict[str, Any]:
    """The progress bars of adapting an encoder to an index, and of encoding its documents."""
    return {
        "adapting": partial(commandline.progress, description="adapting", unit="batches"),
        "encoding": partial(commandline.progress, description="encoding", unit="documents", total=len(index)),
    }


def encode(options: Namespace) -> None:
    """Encode the documents of an index, by the bundled encoder as adapted to them; encode judged queries if requested.

    Existing encodings are kept if only these, or the adapted encoder, are missing or requested.
    """
    from rerank_plugin.encoding.index_encoder import IndexEncoder
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.indexes.layout import ADAPTED, derived_folder

    lists = commandline.configured(ListsConfig, options, seed=options.seed)
    encoder = IndexEncoder(Index(options.index).forward, options.encode, options.device)
    adapts, folder = encoder.adapts and not options.no_adapt, derived_folder(encoder.index, ADAPTED)
    if options.no_adapt and folder.is_dir():
        log.warning("hybrid uses the existing %s; delete that folder to use the bundled encoder", folder)
    complete = not options.overwrite and (encoder.is_adapted() if adapts else encoder.store() is not None)
    if complete:
        remove_left_spills(encoder.index)
    if complete and not options.judged:
        raise InputError(
            f"encodings of {options.index} by {options.encode} exist already; replace them with --overwrite"
        )
    if not complete:
        if adapts:
            adapting = _encoding_bars(encoder.index)["adapting"]
            encoder_of_documents = encoder.adapted(options.seed, options.overwrite, adapting)
        else:
            encoder_of_documents = encoder
        if options.overwrite or encoder_of_documents.store() is None:
            _encode_documents(encoder_of_documents, lists, options)
    if options.judged:
        folder, count = encoder.keep_judged(options.judged, options.overwrite)
        print(f"{folder}: {count:,} judged queries")


def _encode_documents(encoder: IndexEncoder, lists: ListsConfig, options: Namespace) -> None:
    """Encode all documents, and print the time, the rate, the size, and the recall of searches."""
    documents, started = len(encoder.index), time.monotonic()
    encoding = _encoding_bars(encoder.index)["encoding"]
    location = commandline.location_of(options)
    encode_batches = None if location is None else location.with_own_heap().encoding(encoder, options.batch_size)
    folder = encoder.encode(options.batch_size, options.overwrite, encoding, lists, options.threads, encode_batches)
    seconds, store = time.monotonic() - started, encoder.store()
    assert store is not None, "it has just been written"
    rate = f"in {seconds:.1f} s ({documents / seconds:,.0f} documents per second)"
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"{folder}: {documents:,} documents, {store.size} numbers each, {megabytes:,.1f} MB, {rate}")
    number = store.inverted_lists
    searched = "all of them are searched"
    if number > 1:
        searched = f"a search of {store.probes:,} of {number:,} lists finds {store.description['recall']:.1%}"
    print(f"{folder}: recall of the best {RECALL_DEPTH:,} documents: {searched}")


def export(options: Namespace) -> None:
    """Write the document vectors of an encoder as a Faiss index."""
    from rerank_plugin.encoding.faiss_export import export_faiss
    from rerank_plugin.indexes.index_folder import Index

    config = commandline.configured(ExportConfig, options, seed=options.seed)
    exporting = partial(commandline.progress, description="exporting", unit="batches")
    number = export_faiss(
        Index(options.index), options.export_faiss, options.output, config, options.overwrite, options.device, exporting
    )
    print(f"{options.output}: {number:,} documents, {config.factory}")


def write_statistics(options: Namespace) -> None:
    """Write the statistics of an index into a checkpoint."""
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.models import checkpoint
    from rerank_plugin.models.register import checkpoint_folder

    folder = checkpoint_folder(str(options.statistics))
    path = checkpoint.write_statistics(folder, Index(options.index).forward, options.overwrite)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    commandline.run(main)
