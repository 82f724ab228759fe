"""The console script ``rerank-plugin``, and ``python -m rerank_plugin``, with all commands as sub-commands."""

from __future__ import annotations

import sys
import textwrap
from importlib import import_module

from rerank_plugin import __version__
from rerank_plugin import options as commandline

COMMANDS = {  # by name: the module with its ``main``, and a summary
    "bench": ("rerank_plugin.bench", "measure latency, throughput and memory of rerankers, fast paths against PyTorch"),
    "clicks": ("rerank_plugin.clicks.__main__", "make judgments from a click log, or simulate a log"),
    "distill": ("rerank_plugin.distill", "distil small models from a sentence encoder, without judgments"),
    "doctor": ("rerank_plugin.doctor", "show which extras are installed and whether they work"),
    "embed": ("rerank_plugin.embed", "train, import and change word and concept vectors"),
    "evaluate": ("rerank_plugin.evaluate", "evaluate runs and compare them with significance tests"),
    "fuse": ("rerank_plugin.fuse", "fuse runs, and tune their weights on judged queries"),
    "index": ("rerank_plugin.index", "index a corpus or an existing Lucene index, and encode documents"),
    "knowledge": (
        "rerank_plugin.knowledge.__main__",
        "compile a medical vocabulary (MeSH, UMLS), show it, and annotate texts with it",
    ),
    "pubmed": ("rerank_plugin.pubmed.__main__", "mirror PubMed, and keep an index of it current"),
    "sample": ("rerank_plugin.sample.__main__", "write the sample collection, or a larger generated one"),
    "search": ("rerank_plugin.search", "search and re-rank: a TREC run, or a ranked list for one query"),
    "serve": ("rerank_plugin.serve", "serve search and re-ranking over HTTP and MCP, with a page"),
    "train": ("rerank_plugin.train", "train a neural reranker, or one per fold, and write the best checkpoint"),
    "weak": ("rerank_plugin.weak", "make queries and judgments for pre-training from a corpus itself"),
}


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] and argv[0] in COMMANDS:
        import_module(COMMANDS[argv[0]][0]).main(argv[1:])
        return
    width = max(map(len, COMMANDS)) + 4
    rows = [
        textwrap.fill(summary, 110, initial_indent=f"  {name:<{width - 2}}", subsequent_indent=" " * width)
        for name, (_, summary) in COMMANDS.items()
    ]
    parser = commandline.Parser(
        prog=commandline.program_prefix().rstrip(" ."),
        description="Neural re-ranking for Pyserini/Lucene. Each command has its own --help.",
        epilog="\n".join(["commands:", *rows]),
        formatter_class=commandline.HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rerank_plugin {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="command to run")
    if not argv:
        parser.print_help()
        return
    parser.parse_args(argv)


def console() -> None:
    """The entry point of the console script."""
    commandline.run(main)


if __name__ == "__main__":
    console()
