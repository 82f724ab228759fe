"""``rerank-plugin weak``: makes queries and judgments for pre-training from a corpus."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.clicks.weak_labels import WEAK_LABELS, WeakLabelsConfig, write
from rerank_plugin.corpora import CORPUS, accepted, documents
from rerank_plugin.files.outputs import check_free

DESCRIPTION = """\
Make a BEIR folder for pre-training from titles and abstracts: each drawn title is a query, its abstract the relevant
document. Index the folder, train on FOLDER:train with validation on FOLDER:dev, and fine-tune on real judgments with
train --start-from. The documents have no titles, since each query would match its own title."""
EXAMPLE = """\
example:
  rerank-plugin weak --corpus sample --queries 200 --held-out 50 --output runs/sample-weak
  rerank-plugin index --corpus runs/sample-weak --index indexes/sample-weak
  rerank-plugin train --index indexes/sample-weak --words embeddings/sample \\
      --train runs/sample-weak:train --validation runs/sample-weak:dev --output checkpoints/sample-weak"""


def arguments() -> commandline.Parser:
    parser = commandline.parser("weak", DESCRIPTION, EXAMPLE)
    parser.add_argument(
        "--corpus",
        nargs="+",
        action="extend",
        metavar="C",
        required=True,
        help=f"corpus: {accepted(CORPUS)}; also several",
    )
    commandline.add_settings(parser, WeakLabelsConfig)
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing folder")
    return parser


def main(argv: list[str] | None = None) -> None:
    options = commandline.parse(arguments(), argv)
    check_free(options.output, WEAK_LABELS, options.overwrite)
    config = commandline.configured(WeakLabelsConfig, options)
    streams = (
        commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents")
        for corpus in options.corpus
    )
    count = write(chain.from_iterable(streams), options.output, config, options.seed, options.overwrite)
    print(
        f"{options.output}: {count:,} documents, {config.queries - config.held_out:,} queries for training and "
        f"{config.held_out:,} for validation"
    )


if __name__ == "__main__":
    commandline.run(main)
