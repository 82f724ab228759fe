"""``python -m rerank_plugin.embed words``: word vectors for the neural models; ``embed compact``: in less space."""

from __future__ import annotations

import time
from pathlib import Path

from rerank_plugin import commandline


def arguments():
    parser = commandline.parser("embed", "Train or import the vectors that the neural models start from.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    words = kinds.add_parser(
        "words",
        help="word vectors with word2vec (skip-gram or CBOW, hierarchical softmax)",
        description="Train word vectors with gensim's word2vec (hierarchical softmax), or import them.\n"
        "The defaults are the paper's, for a corpus of millions of abstracts; on a small corpus lower --min-count.",
        epilog="example:\n  python -m rerank_plugin.embed words --corpus sample --min-count 3 --dimension 100 "
        "--output embeddings/sample",
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(words)
    words.add_argument("--corpus", action="append", help="a corpus to train on; may be given several times")
    words.add_argument("--import", dest="imported", type=Path, help="read word2vec vectors instead of training")
    words.add_argument("--binary", action="store_true", help="the imported file is in word2vec's binary format")
    words.add_argument("--output", type=Path, required=True, help="folder to write")
    words.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")
    words.add_argument("--dimension", type=int, default=300, help="dimension of the vectors")
    words.add_argument("--min-count", type=int, default=101, help="rarer words become UNK")
    words.add_argument("--window", type=int, default=5, help="words to either side")
    words.add_argument("--epochs", type=int, default=5, help="passes over the corpus")
    words.add_argument("--method", choices=("skip-gram", "cbow"), default="skip-gram", help="model of word2vec")
    words.add_argument("--stem", choices=("krovetz",), help="vectors of stems, for an index with the same --stem")
    words.add_argument("--workers", type=int, default=1, help="threads; more than one is not reproducible")
    small = kinds.add_parser(
        "compact",
        help="word vectors as 8-bit numbers",
        description="Write word vectors anew as 8-bit numbers: a quarter of the space. Train models on the result, then "
        "they\nread exactly the vectors they were trained on.",
        epilog="example:\n  python -m rerank_plugin.embed compact --words embeddings/sample --output embeddings/small",
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(small)
    small.add_argument("--words", type=Path, required=True, help="folder of word vectors")
    small.add_argument("--most-frequent", type=int, help="keep only so many of the most frequent words")
    small.add_argument("--output", type=Path, required=True, help="folder to write")
    small.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.kind == "compact":
        if options.most_frequent is not None and options.most_frequent < 1:
            parser.error("--most-frequent must be at least 1")
        compact(options)
        return
    if bool(options.corpus) == bool(options.imported):
        parser.error("give either --corpus or --import")
    if min(options.dimension, options.min_count, options.window, options.epochs, options.workers) < 1:
        parser.error("--dimension, --min-count, --window, --epochs and --workers must be at least 1")
    words(options)


def words(options) -> None:
    from rerank_plugin.errors import InputError
    from rerank_plugin.text import embeddings
    from rerank_plugin.text.tokenizer import tokenizer

    if options.output.exists() and not options.overwrite:
        raise InputError(f"{options.output} exists already; choose another --output or give --overwrite")
    used = tokenizer(options.stem)
    started = time.monotonic()
    if options.imported:
        vectors = embeddings.import_word2vec(options.imported, options.binary, options.seed, used)
        settings = {"imported": str(options.imported)}
    else:
        config = embeddings.Word2VecConfig(
            options.dimension, options.min_count, options.window, options.epochs, options.workers, options.method
        )
        vectors = embeddings.train(_texts(options.corpus), config, options.seed, used)
        settings = {**embeddings.described(config), "corpora": options.corpus, "seed": options.seed}
    embeddings.save(vectors, options.output, settings)
    count, dimension = vectors.matrix.shape
    print(f"{options.output}: {count:,} words, {dimension} dimensions in {time.monotonic() - started:.1f} s")


def compact(options) -> None:
    import json

    from rerank_plugin.errors import InputError
    from rerank_plugin.text import embeddings

    if options.output.exists() and not options.overwrite:
        raise InputError(f"{options.output} exists already; choose another --output or give --overwrite")
    before = embeddings.load(options.words)
    settings = json.loads((options.words / embeddings.SETTINGS_FILE).read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings.items() if name not in ("tokenizer", "words", "dimension")}
    vectors = embeddings.compact(before, options.most_frequent)
    embeddings.save(vectors, options.output, {**kept, "precision": "int8"})
    size = sum(path.stat().st_size for path in options.output.iterdir())
    error = abs(vectors.matrix - before.matrix[: len(vectors.matrix)]).max()
    print(f"{options.output}: {len(vectors.vocabulary):,} words, {size / 1e6:.1f} MB, largest change {error:.2g}")


def _texts(corpora: list[str]):
    """Titles and abstracts of all corpora, each a text of its own."""
    from rerank_plugin.corpora import documents

    for corpus in corpora:
        for document in commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents"):
            yield document.title
            yield document.abstract


if __name__ == "__main__":
    commandline.run(main)
