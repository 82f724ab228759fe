"""``python -m rerank_plugin.embed``: ``words``, word vectors for the neural models; ``compact``, in less space; ``extend``,
for all words of an index; ``concepts``, vectors of the concepts of a knowledge base."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, accepted


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
    words.add_argument("--corpus", action="append", help=f"what to train on: {accepted(CORPUS)}; may be repeated")
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
    _add_extend(kinds)
    add_concepts(kinds)
    return parser


def add_concepts(kinds) -> None:
    command = kinds.add_parser(
        "concepts",
        help="concept vectors with TransE, from the relations of a knowledge base",
        description="Train vectors of concepts and relations with TransE on a knowledge base, and measure how well "
        "they\npredict relations that were held out. The vectors that are written did not see those, but with --final.",
        epilog="example:\n  python -m rerank_plugin.embed concepts --knowledge knowledge-bases/sample --dimension 20 "
        "--output embeddings/sample-concepts",
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(command)
    command.add_argument("--knowledge", type=Path, required=True, metavar="KB", help="a compiled knowledge base")
    command.add_argument("--output", type=Path, required=True, help="folder to write")
    command.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")
    command.add_argument("--dimension", type=int, default=200, help="dimension of the vectors")
    command.add_argument("--epochs", type=int, default=40, help="passes over the relations")
    command.add_argument("--margin", type=float, default=3.0, help="by how much a corruption should be farther")
    command.add_argument("--learning-rate", type=float, default=0.04, help="of stochastic gradient descent")
    command.add_argument("--batch-size", type=int, default=4, help="relations to a step")
    command.add_argument("--negatives", type=int, default=5, help="corruptions of each relation in a step")
    command.add_argument("--norm", type=int, choices=(1, 2), default=2, help="distance: L1, or L2 squared")
    command.add_argument(
        "--relation-length", type=float, default=1.0, help="longest vector of a relation; 0: any, as in the paper"
    )
    switches = (
        ("decay", True, "let the learning rate fall to 0"),
        ("bernoulli", True, "corrupt rather the side that has fewer right answers"),
        ("filtered", False, "draw corruptions that are true anew"),
        ("inverse", False, "learn every relation in the opposite direction, too"),
    )
    for name, default, help in switches:
        command.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=default, help=help)
    command.add_argument(
        "--holdout", type=float, default=0.02, help="share of related pairs that are held out (2,000 at most); 0: none"
    )
    command.add_argument("--final", action="store_true", help="after measuring, train on everything and write that")


def _add_extend(kinds) -> None:
    more = kinds.add_parser(
        "extend",
        help="word vectors with random ones for an index's other words",
        description="Write word vectors anew, with random ones for all words of an index that they lack: rare words, which\n"
        "a model that trains its embeddings (ktrel) can then tell apart.",
        epilog="example:\n  python -m rerank_plugin.embed extend --words embeddings/sample --index indexes/sample "
        "--output embeddings/extended",
        formatter_class=commandline.HelpFormatter,
    )
    commandline.add_common_options(more)
    more.add_argument("--words", type=Path, required=True, help="folder of word vectors")
    more.add_argument("--index", type=Path, required=True, help="index folder, with the same --stem")
    more.add_argument("--output", type=Path, required=True, help="folder to write")
    more.add_argument("--overwrite", action="store_true", help="replace a folder that is there already")


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.kind == "compact":
        if options.most_frequent is not None and options.most_frequent < 1:
            parser.error("--most-frequent must be at least 1")
        compact(options)
        return
    if options.kind == "extend":
        extend(options)
        return
    if options.kind == "concepts":
        check_concepts(parser, options)
        concepts(options)
        return
    if bool(options.corpus) == bool(options.imported):
        parser.error("give either --corpus or --import")
    if min(options.dimension, options.min_count, options.window, options.epochs, options.workers) < 1:
        parser.error("--dimension, --min-count, --window, --epochs and --workers must be at least 1")
    words(options)


def words(options) -> None:
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.text import word_vectors
    from rerank_plugin.text.tokenizer import tokenizer

    check_free(options.output, word_vectors.WORD_VECTORS, options.overwrite)
    used = tokenizer(options.stem)
    started = time.monotonic()
    if options.imported:
        vectors = word_vectors.import_word2vec(options.imported, options.binary, options.seed, used)
        settings = {"imported": str(options.imported)}
    else:
        config = word_vectors.Word2VecConfig(
            options.dimension, options.min_count, options.window, options.epochs, options.workers, options.method
        )
        vectors = word_vectors.train(_texts(options.corpus), config, options.seed, used)
        settings = {**word_vectors.described(config), "corpora": options.corpus, "seed": options.seed}
    word_vectors.save(vectors, options.output, settings, options.overwrite)
    count, dimension = vectors.matrix.shape
    print(f"{options.output}: {count:,} words, {dimension} dimensions in {time.monotonic() - started:.1f} s")


def _settings(folder: Path) -> dict:
    """How the vectors of a folder were made."""
    import json

    from rerank_plugin.text import word_vectors

    settings = json.loads((folder / word_vectors.SETTINGS_FILE).read_text(encoding="utf-8"))
    return {name: value for name, value in settings.items() if name not in ("tokenizer", "words", "dimension")}


def extend(options) -> None:
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.text import word_vectors

    check_free(options.output, word_vectors.WORD_VECTORS, options.overwrite)
    before, index = word_vectors.load(options.words), Index(options.index).forward
    index.check_tokenizer(before.vocabulary.tokenizer, str(options.words))
    vectors = word_vectors.extend(before, index.terms.take(range(index.vocabulary_size)), options.seed)
    extended = {"index": str(options.index), "seed": options.seed}
    word_vectors.save(vectors, options.output, {**_settings(options.words), "extended": extended}, options.overwrite)
    count = len(vectors.vocabulary)
    print(f"{options.output}: {count:,} words, {count - len(before.vocabulary):,} of them with random vectors")


def compact(options) -> None:
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.text import word_vectors

    check_free(options.output, word_vectors.WORD_VECTORS, options.overwrite)
    before = word_vectors.load(options.words)
    vectors = word_vectors.compact(before, options.most_frequent)
    word_vectors.save(vectors, options.output, {**_settings(options.words), "precision": "int8"}, options.overwrite)
    size = sum(path.stat().st_size for path in options.output.iterdir())
    error = abs(vectors.matrix - before.matrix[: len(vectors.matrix)]).max()
    print(f"{options.output}: {len(vectors.vocabulary):,} words, {size / 1e6:.1f} MB, largest change {error:.2g}")


def check_concepts(parser, options) -> None:
    counts = (options.dimension, options.epochs, options.batch_size, options.negatives)
    if min(counts) < 1:
        parser.error("--dimension, --epochs, --batch-size and --negatives must be at least 1")
    if not (options.margin > 0 and options.learning_rate > 0):
        parser.error("--margin and --learning-rate must be above 0")
    if not options.relation_length >= 0:
        parser.error("--relation-length must be at least 0")
    if not 0 <= options.holdout < 1:
        parser.error("--holdout must be at least 0 and below 1")


def concepts(options) -> None:
    from dataclasses import asdict

    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.knowledge import concept_training
    from rerank_plugin.knowledge.concept_vectors import CONCEPT_VECTORS
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase
    from rerank_plugin.knowledge.transe import TransEConfig

    check_free(options.output, CONCEPT_VECTORS, options.overwrite)
    config = TransEConfig(**{name: getattr(options, name) for name in asdict(TransEConfig())})
    knowledge = KnowledgeBase(options.knowledge)
    started = time.monotonic()
    done = concept_training.train_vectors(
        knowledge,
        config,
        options.seed,
        options.holdout,
        options.final,
        lambda epochs: commandline.progress(epochs, "training", "epochs", config.epochs),
    )
    concept_training.save(done, knowledge, options.output, options.overwrite)
    print(f"{options.output}: {len(knowledge):,} concepts, {config.dimension} dimensions", end="")
    print(f" in {time.monotonic() - started:.1f} s")
    for line in concept_training.figures(done):
        print(line)


def _texts(corpora: list[str]):
    """Titles and abstracts of all corpora, each a text of its own."""
    from rerank_plugin.corpora import documents

    for corpus in corpora:
        for document in commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents"):
            yield document.title
            yield document.abstract


if __name__ == "__main__":
    commandline.run(main)
