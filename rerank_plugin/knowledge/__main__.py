"""``rerank-plugin knowledge``: compiles and shows a medical vocabulary (MeSH, UMLS), and annotates texts."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rerank_plugin import options as commandline

if TYPE_CHECKING:
    from rerank_plugin.concepts.annotation import Annotator
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase

log = logging.getLogger(__name__)

REASONS = {"concepts": "of other semantic types", "relations": "of a concept to itself or to a missing concept"}
SHOWN = 10  # neighbours to show for each relation
BATCH = 2000  # texts to time at once


def arguments() -> commandline.Parser:
    parser = commandline.parser("knowledge", "Compile a medical vocabulary, show it, and annotate texts with it.")
    kinds = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], None], help: str, description: str, *examples: str
    ) -> commandline.Parser:
        """Add a sub-command; all but compile have the option --knowledge."""
        lines = "".join(f"\n  rerank-plugin knowledge {name} {example}" for example in examples)
        subparser = parser.subcommand(kinds, name, help, description, f"example{'s' * (len(examples) > 1)}:{lines}")
        subparser.set_defaults(run=run)
        if run is not compile_source:
            subparser.add_argument(
                "--knowledge", type=Path, required=True, metavar="KB", help="compiled knowledge base"
            )
        return subparser

    compiling = command(
        "compile",
        compile_source,
        "compile MeSH, UMLS or the bundled vocabulary",
        "Compile a vocabulary to a folder that opens instantly.\n"
        "The source is MeSH (desc2024.xml, d2024.bin, also .gz, or a folder with descriptors.tsv and parents.tsv),\n"
        "a UMLS folder with MRCONSO.RRF, MRSTY.RRF and MRREL.RRF, also .gz, or sample, the bundled vocabulary.",
        "--source sample --output knowledge-bases/sample",
        "--source desc2024.xml --output knowledge-bases/mesh",
        "--source 2024AA/META --types DISO,CHEM,T168 --output knowledge-bases/umls",
    )
    compiling.add_argument("--source", required=True, metavar="S", help="vocabulary to read (see above)")
    compiling.add_argument("--output", type=Path, required=True, help="folder to write")
    compiling.add_argument(
        "--types",
        help="semantic types of the concepts to keep, joined by commas or one a line in a file: letters of MeSH trees "
        "(C,D), UMLS types (T047), their names or groups (DISO); 'all' for every concept (default: all, of UMLS its "
        "medical types)",
    )
    compiling.add_argument("--language", default="ENG", help="language of the names to read from UMLS")
    compiling.add_argument("--edition", help="edition of the vocabulary (default: from the path)")
    compiling.add_argument("--overwrite", action="store_true", help="replace an existing folder")

    showing = command(
        "show",
        show,
        "show concepts by name or id",
        "Show the concepts with a name or an id, their other names and relations; without a name, a summary of the\n"
        "knowledge base.",
        '--knowledge knowledge-bases/sample "heart attack"',
    )
    showing.add_argument("name", nargs="*", help="names or ids")

    annotating = command(
        "annotate",
        annotate,
        "mark the concepts in a text",
        "Mark the concepts of a knowledge base in a text, by equal or similar names; print the candidates of each\n"
        "mention, best first. With --corpus, mark a corpus and print the speed.",
        '--knowledge knowledge-bases/mesh --text "statins after a heart attack"',
    )
    source = annotating.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="text to mark")
    source.add_argument("--corpus", metavar="C", help="corpus to mark; prints the speed only")
    annotating.add_argument("--threshold", type=float, default=0.8, help="smallest similarity (QuickUMLS: 0.7)")
    annotating.add_argument("--exact", action="store_true", help="find equal names only")

    add_annotator_options(annotating)
    return parser


def add_annotator_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--candidates", type=int, default=8, help="largest number of concepts of a mention")
    add("--window", type=int, default=5, help="largest number of words of an approximate match")
    overlap = "preference among overlapping mentions: similarity score, or length"
    add("--overlap", choices=("score", "length"), default="score", help=overlap)
    add("--threads", type=int, help="threads (default: one per core)")


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    options.run(options)


def compile_source(options: argparse.Namespace) -> None:
    from rerank_plugin.knowledge import sources
    from rerank_plugin.knowledge.compiling import compile_knowledge
    from rerank_plugin.knowledge.semantic_types import selected_types

    started = time.monotonic()
    source = sources.open_source(options.source, options.language)
    description = compile_knowledge(
        source,
        options.output,
        options.source,
        sources.edition_of(options.source) if options.edition is None else options.edition,
        selected_types(options.types, source),
        options.overwrite,
        lambda records, unit: commandline.progress(records, f"reading {options.source}", unit),
    )
    for entries, reason in REASONS.items():
        if left_out := description[f"{entries}_left_out"]:
            log.info("left out %s %s (%s)", f"{left_out:,}", entries, reason)
    concepts, terms, relations = (description[entries] for entries in ("concepts", "terms", "relations"))
    print(
        f"{options.output}: {concepts:,} concepts, {terms:,} names, {relations:,} relations "
        f"({', '.join(description['relation_names']) or 'none'}) in {time.monotonic() - started:.1f} s"
    )


def show(options: argparse.Namespace) -> None:
    from rerank_plugin.base.errors import InputError
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    if not options.name:
        _show_summary(knowledge)
    for name in options.name:
        rows = [row for row in knowledge.ids.find([name]).tolist() if row >= 0] or knowledge.rows_of_name(name)
        if not rows:
            raise InputError(f"{options.knowledge}: no concept has the name or id {name!r}")
        for row in rows:
            _show_concept(knowledge, row)


def _show_summary(knowledge: KnowledgeBase) -> None:
    description, relations = knowledge.description, knowledge.relations.tolist()
    edition = f", edition {description['edition']}" if description.get("edition") else ""
    print(f"{description.get('format')}: {description.get('source')}{edition}")
    print(f"{len(knowledge):,} concepts, {len(knowledge.terms):,} names")
    for number, name in enumerate(knowledge.relation_names):
        print(f"{relations.count(number):,} {name}")
    print(f"checksum {knowledge.checksum}")


def _show_concept(knowledge: KnowledgeBase, row: int) -> None:
    """Print a concept's id, name, types and other names, and its relations in both directions."""
    name, *synonyms = knowledge.terms_of(row)
    types = ", ".join(knowledge.semantic_types(row))
    print(f"{knowledge.ids[row]}  {name}" + (f"  [{types}]" if types else ""))
    if synonyms:
        print(f"  names: {'; '.join(synonyms)}")
    heads, tails = knowledge.heads, knowledge.tails
    for concepts, neighbours, arrow in ((heads, tails, "->"), (tails, heads, "<-")):
        of_concept = concepts == row
        for number in sorted(set(knowledge.relations[of_concept].tolist())):
            rows = neighbours[of_concept & (knowledge.relations == number)]
            names = "; ".join(knowledge.names.take(rows[:SHOWN]))
            more = f"; and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
            print(f"  {arrow} {knowledge.relation_names[number]}: {names}{more}")


def annotator_of(options: argparse.Namespace, knowledge: KnowledgeBase, threshold: float | None) -> Annotator:
    """The annotator for a command's options; None for the threshold finds equal names only."""
    from rerank_plugin.concepts.annotation import Annotator, AnnotatorConfig

    config = AnnotatorConfig(
        candidates=options.candidates,
        threshold=1.0 if threshold is None else threshold,
        window=options.window,
        approximate=threshold is not None,
        overlap=options.overlap,
    )
    return Annotator(knowledge, config, options.threads)


def annotate(options: argparse.Namespace) -> None:
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    started = time.monotonic()
    annotator = annotator_of(options, knowledge, None if options.exact else options.threshold)
    if options.corpus:
        seconds = time.monotonic() - started
        print(f"{options.knowledge}: {len(knowledge):,} concepts, annotator ready in {seconds:.2f} s")
        _measure(options.corpus, annotator)
    else:
        _show(options.text, annotator)


def _show(text: str, annotator: Annotator) -> None:
    from rerank_plugin.files.tables import aligned

    knowledge = annotator.knowledge
    table = [("text", "place", "similarity", "concept", "name")]
    for mention in annotator.annotate(text):
        place = (" ".join(text[mention.start : mention.end].split()), f"{mention.start}-{mention.end}")
        for row, similarity in zip(mention.concepts, mention.similarities):
            table.append((*place, f"{similarity:.2f}", knowledge.ids[row], knowledge.names[row]))
            place = ("", "")
    print(aligned(table, texts=len(table[0])) if len(table) > 1 else "no concept found\n", end="")


def _measure(corpus: str, annotator: Annotator) -> None:
    """Annotate a corpus in batches, and print the speed without the reading of documents."""
    from rerank_plugin.corpora import documents

    source = commandline.progress(documents(corpus, ids_required=False), f"annotating {corpus}", "documents")
    texts = (f"{document.title}\n{document.abstract}" for document in source)
    annotator.concepts(["a warm-up text, for compiling"])
    speeds, count, words, concepts, wall_time, cpu_time = [], 0, 0, 0, 0.0, 0.0
    while batch := list(islice(texts, BATCH)):
        started, cpu_started = time.perf_counter(), time.process_time()
        concepts += sum(map(len, annotator.concepts(batch)))
        seconds = time.perf_counter() - started
        cpu_time += time.process_time() - cpu_started
        wall_time += seconds
        speeds.append(len(batch) / seconds)
        count, words = count + len(batch), words + sum(len(text.split()) for text in batch)
    if not count:
        print(f"{corpus}: no document")
        return
    median, threads = sorted(speeds)[len(speeds) // 2], annotator.threads
    print(
        f"{corpus}: {count:,} documents of {words / count:.0f} words, {concepts / count:.1f} concepts each\n"
        f"{count / wall_time:.0f} documents a second with {threads} threads (median of batches {median:.0f}), "
        f"{count / cpu_time:.0f} a second of CPU time"
    )


if __name__ == "__main__":
    commandline.run(main)
