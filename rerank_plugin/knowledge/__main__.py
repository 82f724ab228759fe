"""``python -m rerank_plugin.knowledge``: compiles a medical vocabulary (MeSH, UMLS), and shows what is in it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.knowledge import annotation_commands

log = logging.getLogger(__name__)

THRESHOLDS = (0.6, 0.7, 0.8, 0.9)


def arguments():
    parser = commandline.parser("knowledge", "Compile a medical vocabulary, and look into it.")
    kinds = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_compile, add_show, add_annotate, add_evaluate):
        add(kinds)
    return parser


def add_compile(kinds) -> None:
    command = kinds.add_parser(
        "compile",
        help="compile MeSH, UMLS or the bundled vocabulary",
        description="Read a vocabulary and write it as a folder that opens at once.\n"
        "The source is MeSH (desc2024.xml, d2024.bin, also .gz, or a folder with descriptors.tsv and parents.tsv),\n"
        "a UMLS folder with MRCONSO.RRF, MRSTY.RRF and MRREL.RRF, also .gz, or sample, the bundled vocabulary.",
        epilog="examples:\n"
        "  python -m rerank_plugin.knowledge compile --source sample --output knowledge-bases/sample\n"
        "  python -m rerank_plugin.knowledge compile --source desc2024.xml --output knowledge-bases/mesh\n"
        "  python -m rerank_plugin.knowledge compile --source 2024AA/META --types DISO,CHEM,T168 "
        "--output knowledge-bases/umls",
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(command)
    command.add_argument("--source", required=True, metavar="S", help="what to read")
    command.add_argument("--output", type=Path, required=True, help="folder to write")
    command.add_argument(
        "--types",
        help="keep only concepts of these semantic types, joined by commas or one a line in a file: in MeSH the "
        "letters of trees (C,D), in UMLS types (T047), their names or groups (DISO); 'all' keeps every concept. By "
        "default UMLS keeps its medical types, and the others keep all",
    )
    command.add_argument("--language", default="ENG", help="language of the names that are read from UMLS")
    command.add_argument("--edition", help="edition of the vocabulary; by default what the path tells")
    command.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")
    command.set_defaults(run=compile_source)


def add_show(kinds) -> None:
    command = kinds.add_parser(
        "show",
        help="show concepts by name or id",
        description="Show the concepts that have a name or an id, with their other names and relations; without one, "
        "what\nthe knowledge base holds.",
        epilog='example:\n  python -m rerank_plugin.knowledge show --knowledge knowledge-bases/sample "heart attack"',
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(command)
    command.add_argument("--knowledge", type=Path, required=True, metavar="KB", help="a compiled knowledge base")
    command.add_argument("name", nargs="*", help="names or ids")
    command.set_defaults(run=show)


def add_annotate(kinds) -> None:
    command = kinds.add_parser(
        "annotate",
        help="mark the concepts in a text",
        description="Mark the concepts of a knowledge base in a text: what is equal or similar to one of their names,\n"
        "with the candidates of each mention, best first. With --corpus, mark a whole corpus and tell the speed.",
        epilog="example:\n  python -m rerank_plugin.knowledge annotate --knowledge knowledge-bases/mesh "
        '--text "statins after a heart attack"',
        formatter_class=commandline.HelpFormatter,
    )
    _add_annotator_options(command)
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--text", help="the text")
    what.add_argument("--corpus", metavar="C", help="mark titles and abstracts of a corpus, and print the speed only")
    command.add_argument("--threshold", type=float, default=0.8, help="smallest similarity (QuickUMLS: 0.7)")
    command.add_argument("--exact", action="store_true", help="find equal names only")
    command.set_defaults(run=annotation_commands.annotate)


def add_evaluate(kinds) -> None:
    command = kinds.add_parser(
        "evaluate",
        help="measure the annotator on gold mentions",
        description="Precision, recall and F1 on gold mentions in PubTator format (BC5CDR, NCBI disease),\n"
        "with equal names only and at several thresholds (docs/concept-annotation.md).",
        epilog="example:\n  python -m rerank_plugin.knowledge evaluate --knowledge knowledge-bases/mesh "
        "--gold test.pubtator.gz",
        formatter_class=commandline.HelpFormatter,
    )
    _add_annotator_options(command)
    command.add_argument("--gold", type=Path, nargs="+", required=True, help="files in PubTator format, also .gz")
    command.add_argument("--thresholds", type=float, nargs="+", default=list(THRESHOLDS), help="similarities to try")
    command.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="of what is printed")
    command.set_defaults(run=annotation_commands.evaluate)


def _add_annotator_options(command) -> None:
    commandline.add_common_options(command)
    command.add_argument("--knowledge", type=Path, required=True, metavar="KB", help="a compiled knowledge base")
    command.add_argument("--candidates", type=int, default=8, help="concepts of a mention at most")
    command.add_argument("--window", type=int, default=5, help="words of an approximate match at most")
    command.add_argument(
        "--overlap", choices=("score", "length"), default="score", help="which overlapping mention stays"
    )
    command.add_argument("--threads", type=int, help="threads (default: one per processor)")


def main(argv: list[str] | None = None) -> None:
    options = arguments().parse_args(argv)
    commandline.set_up_logging(options.verbose)
    options.run(options)


def compile_source(options) -> None:
    from rerank_plugin.knowledge import sources
    from rerank_plugin.knowledge.compiling import compile_knowledge
    from rerank_plugin.knowledge.semantic_types import selected

    started = time.monotonic()
    source = sources.open_source(options.source, options.language)
    edition = sources.edition_of(options.source) if options.edition is None else options.edition
    kept = selected(options.types, source)
    done = compile_knowledge(
        source,
        options.output,
        options.source,
        edition,
        kept,
        options.overwrite,
        lambda records, unit: commandline.progress(records, f"reading {options.source}", unit),
    )
    for what in ("concepts", "relations"):
        if done[f"{what}_left_out"]:
            log.info("left out %s %s (%s)", f"{done[f'{what}_left_out']:,}", what, WHY[what])
    print(
        f"{options.output}: {done['concepts']:,} concepts, {done['terms']:,} names, {done['relations']:,} relations "
        f"({', '.join(done['relation_names']) or 'none'}) in {time.monotonic() - started:.1f} s"
    )


WHY = {
    "concepts": "of other semantic types",
    "relations": "of a concept to itself, or to one that is not there",
}


def show(options) -> None:
    from rerank_plugin.files.errors import InputError
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase
    from rerank_plugin.knowledge.showing import concept_lines, summary_lines

    knowledge = KnowledgeBase(options.knowledge)
    if not options.name:
        print("\n".join(summary_lines(knowledge)))
    for name in options.name:
        rows = [row for row in knowledge.ids.find([name]).tolist() if row >= 0] or knowledge.named(name)
        if not rows:
            raise InputError(f"{options.knowledge}: no concept has the name or id {name!r}")
        for row in rows:
            print("\n".join(concept_lines(knowledge, row)))


if __name__ == "__main__":
    commandline.run(main)
