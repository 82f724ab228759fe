"""``rerank-plugin sample``: writes the sample collection, or a larger one of the same kind."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.sample.generator import DOCUMENTS, QUERIES, SEED, generate


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser(
        "sample",
        "Write the synthetic sample collection, or a larger one of the same kind, as a BEIR folder. With --pubmed,\n"
        "write invented citations in the files of PubMed's distribution, with updates.",
        epilog="examples:\n  rerank-plugin sample --output data/large --documents 200000\n"
        "  rerank-plugin sample --pubmed --output data/pubmed --documents 60000 --updates 5",
    )
    parser.set_defaults(seed=SEED)
    parser.add_argument("--output", type=Path, required=True, help="folder to write; must be new or empty")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="number of documents")
    parser.add_argument("--queries", type=int, default=QUERIES, help="number of queries, all splits together")
    group = parser.add_argument_group("PubMed's distribution")
    group.add_argument("--pubmed", action="store_true", help="write citations in the files of PubMed's distribution")
    group.add_argument("--updates", type=int, default=3, help="update files of a year")
    group.add_argument("--per-file", type=int, default=30_000, help="records of a file of the baseline")
    release = "two digits of the year; later ones begin with what the updates since 26 have left"
    group.add_argument("--release", type=int, default=26, help=release)
    options = commandline.parse(parser, argv)
    if options.pubmed:
        from rerank_plugin.sample.pubmed import Distribution, write_distribution

        plan = Distribution(options.documents, options.updates, options.per_file, options.release, seed=options.seed)
        writing = partial(commandline.progress, description="writing", unit="citations")
        files = write_distribution(options.output, plan, writing)
        print(f"{options.output}: {files:,} files of a first baseline of {options.documents:,} citations")
        return
    generate(options.output, options.documents, options.queries, options.seed)
    print(f"{options.output}: {options.documents:,} documents, {options.queries} queries")


if __name__ == "__main__":
    commandline.run(main)
