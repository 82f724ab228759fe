"""``rerank-plugin knowledge``: compiles a medical vocabulary (MeSH, UMLS), shows it, and annotates texts with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from rerank_plugin import options as commandline

log = logging.getLogger(__name__)

WHY = {"concepts": "of other semantic types", "relations": "of a concept to itself, or to one that is not there"}
SHOWN = 10  # neighbours of a relation that are named
BATCH = 2000  # texts that are timed at once


def arguments():
    parser = commandline.parser("knowledge", "Compile a medical vocabulary, and look into it.")
    kinds = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable, help: str, description: str, *examples: str):
        """A sub-command; those of a compiled knowledge base have the option that names it."""
        shown = "".join(f"\n  rerank-plugin knowledge {name} {example}" for example in examples)
        added = parser.subcommand(kinds, name, help, description, f"example{'s' * (len(examples) > 1)}:{shown}")
        added.set_defaults(run=run)
        if run is not compile_source:
            added.add_argument("--knowledge", type=Path, required=True, metavar="KB", help="compiled knowledge base")
        return added

    compiling = command(
        "compile",
        compile_source,
        "compile MeSH, UMLS or the bundled vocabulary",
        "Read a vocabulary and write it as a folder that opens at once.\n"
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
        help="semantic types of the concepts to keep, joined by commas or one a line in a file: in MeSH the letters of "
        "trees (C,D), in UMLS types (T047), their names or groups (DISO); 'all' for every concept (default: all, of "
        "UMLS its medical types)",
    )
    compiling.add_argument("--language", default="ENG", help="language of the names to read from UMLS")
    compiling.add_argument("--edition", help="edition of the vocabulary (default: from the path)")
    compiling.add_argument("--overwrite", action="store_true", help="replace an existing folder")

    showing = command(
        "show",
        show,
        "show concepts by name or id",
        "Show the concepts that have a name or an id, with their other names and relations; without one, what\n"
        "the knowledge base holds.",
        '--knowledge knowledge-bases/sample "heart attack"',
    )
    showing.add_argument("name", nargs="*", help="names or ids")

    annotating = command(
        "annotate",
        annotate,
        "mark the concepts in a text",
        "Mark the concepts of a knowledge base in a text: what is equal or similar to one of their names,\n"
        "with the candidates of each mention, best first. With --corpus, mark a whole corpus and tell the speed.",
        '--knowledge knowledge-bases/mesh --text "statins after a heart attack"',
    )
    what = annotating.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="text to mark")
    what.add_argument("--corpus", metavar="C", help="corpus to mark; prints the speed only")
    annotating.add_argument("--threshold", type=float, default=0.8, help="smallest similarity (QuickUMLS: 0.7)")
    annotating.add_argument("--exact", action="store_true", help="find equal names only")

    add_annotator_options(annotating)
    return parser


def add_annotator_options(to) -> None:
    add = to.add_argument
    add("--candidates", type=int, default=8, help="largest number of concepts of a mention")
    add("--window", type=int, default=5, help="largest number of words of an approximate match")
    chosen = "score or length by which overlapping mentions are chosen"
    add("--overlap", choices=("score", "length"), default="score", help=chosen)
    add("--threads", type=int, help="threads (default: one per core)")


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    options.run(options)


def compile_source(options) -> None:
    from rerank_plugin.knowledge import sources
    from rerank_plugin.knowledge.compiling import compile_knowledge
    from rerank_plugin.knowledge.semantic_types import selected

    started = time.monotonic()
    source = sources.open_source(options.source, options.language)
    done = compile_knowledge(
        source,
        options.output,
        options.source,
        sources.edition_of(options.source) if options.edition is None else options.edition,
        selected(options.types, source),
        options.overwrite,
        lambda records, unit: commandline.progress(records, f"reading {options.source}", unit),
    )
    for what, why in WHY.items():
        if done[f"{what}_left_out"]:
            log.info("left out %s %s (%s)", f"{done[f'{what}_left_out']:,}", what, why)
    print(
        f"{options.output}: {done['concepts']:,} concepts, {done['terms']:,} names, {done['relations']:,} relations "
        f"({', '.join(done['relation_names']) or 'none'}) in {time.monotonic() - started:.1f} s"
    )


def show(options) -> None:
    from rerank_plugin.base.errors import InputError
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    if not options.name:
        _show_summary(knowledge)
    for name in options.name:
        rows = [row for row in knowledge.ids.find([name]).tolist() if row >= 0] or knowledge.named(name)
        if not rows:
            raise InputError(f"{options.knowledge}: no concept has the name or id {name!r}")
        for row in rows:
            _show_concept(knowledge, row)


def _show_summary(knowledge) -> None:
    described, relations = knowledge.description, knowledge.relations.tolist()
    edition = f", edition {described['edition']}" if described.get("edition") else ""
    print(f"{described.get('format')}: {described.get('source')}{edition}")
    print(f"{len(knowledge):,} concepts, {len(knowledge.terms):,} names")
    for number, name in enumerate(knowledge.relation_names):
        print(f"{relations.count(number):,} {name}")
    print(f"checksum {knowledge.checksum}")


def _show_concept(knowledge, row: int) -> None:
    """A concept's id and name, types, other names, and its relations in both directions."""
    name, *synonyms = knowledge.terms_of(row)
    types = ", ".join(knowledge.semantic_types(row))
    print(f"{knowledge.ids[row]}  {name}" + (f"  [{types}]" if types else ""))
    if synonyms:
        print(f"  names: {'; '.join(synonyms)}")
    for mine, others, arrow in ((knowledge.heads, knowledge.tails, "->"), (knowledge.tails, knowledge.heads, "<-")):
        of_concept = mine == row
        for number in sorted(set(knowledge.relations[of_concept].tolist())):
            rows = others[of_concept & (knowledge.relations == number)]
            named = "; ".join(knowledge.names.take(rows[:SHOWN]))
            more = f"; and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
            print(f"  {arrow} {knowledge.relation_names[number]}: {named}{more}")


def annotator_of(options, knowledge, threshold: float | None):
    """The annotator of a command's options; without a threshold it finds equal names only."""
    from rerank_plugin.knowledge.annotation import Annotator, AnnotatorConfig

    config = AnnotatorConfig(
        candidates=options.candidates,
        threshold=1.0 if threshold is None else threshold,
        window=options.window,
        approximate=threshold is not None,
        overlap=options.overlap,
    )
    return Annotator(knowledge, config, options.threads)


def annotate(options) -> None:
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

    knowledge = KnowledgeBase(options.knowledge)
    started = time.monotonic()
    annotator = annotator_of(options, knowledge, None if options.exact else options.threshold)
    if options.corpus:
        opened = time.monotonic() - started
        print(f"{options.knowledge}: {len(knowledge):,} concepts, annotator ready in {opened:.2f} s")
        _measure(options.corpus, annotator)
    else:
        _show(options.text, annotator)


def _show(text: str, annotator) -> None:
    from rerank_plugin.files.tables import aligned

    knowledge = annotator.knowledge
    table = [("text", "place", "similarity", "concept", "name")]
    for mention in annotator.annotate(text):
        what = (" ".join(text[mention.start : mention.end].split()), f"{mention.start}-{mention.end}")
        for row, similarity in zip(mention.concepts, mention.similarities):
            table.append((*what, f"{similarity:.2f}", knowledge.ids[row], knowledge.names[row]))
            what = ("", "")
    print(aligned(table, texts=len(table[0])) if len(table) > 1 else "no concept found\n", end="")


def _measure(corpus: str, annotator) -> None:
    """Annotate a corpus batch by batch; what is read in between is not timed."""
    from rerank_plugin.corpora import documents

    source = commandline.progress(documents(corpus, ids_required=False), f"annotating {corpus}", "documents")
    texts = (f"{document.title}\n{document.abstract}" for document in source)
    annotator.concepts(["compiles what is not compiled yet"])
    speeds, count, words, concepts, wall, processor = [], 0, 0, 0, 0.0, 0.0
    while batch := list(islice(texts, BATCH)):
        started, cpu = time.perf_counter(), time.process_time()
        found = annotator.concepts(batch)
        took = time.perf_counter() - started
        processor += time.process_time() - cpu
        wall += took
        speeds.append(len(batch) / took)
        count, words = count + len(batch), words + sum(len(text.split()) for text in batch)
        concepts += sum(map(len, found))
    if not count:
        print(f"{corpus}: no document")
        return
    middle = sorted(speeds)[len(speeds) // 2]
    print(
        f"{corpus}: {count:,} documents of {words / count:.0f} words, {concepts / count:.1f} concepts each\n"
        f"{count / wall:.0f} documents a second with {annotator.threads} threads (median of batches {middle:.0f}), "
        f"{count / processor:.0f} a second of CPU time"
    )


if __name__ == "__main__":
    commandline.run(main)
