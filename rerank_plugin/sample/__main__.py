"""``rerank-plugin sample``: writes the sample collection, or a larger one of the same kind."""

from __future__ import annotations

from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.sample.generator import DOCUMENTS, QUERIES, SEED, generate


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser(
        "sample",
        "Write the synthetic sample collection, or a larger one of the same kind, as a BEIR folder.",
        epilog="example:\n  rerank-plugin sample --output data/large --documents 200000",
    )
    parser.set_defaults(seed=SEED)
    parser.add_argument("--output", type=Path, required=True, help="folder to write; must be new or empty")
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="number of documents")
    parser.add_argument("--queries", type=int, default=QUERIES, help="number of queries, all splits together")
    options = commandline.parse(parser, argv)
    generate(options.output, options.documents, options.queries, options.seed)
    print(f"{options.output}: {options.documents:,} documents, {options.queries} queries")


if __name__ == "__main__":
    commandline.run(main)
