"""``rerank-plugin embed``: trains, imports and converts vectors of words and of concepts."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin import options as commandline
from rerank_plugin.corpora import CORPUS, accepted

if TYPE_CHECKING:
    from rerank_plugin.text.word_vectors import WordVectors

KINDS = {  # the help, the description and an example of each
    "words": (
        "word vectors with word2vec (skip-gram or CBOW, hierarchical softmax)",
        "Train word vectors with gensim's word2vec (hierarchical softmax), or import them.\n"
        "The defaults are the paper's, for a corpus of millions of abstracts; for a small corpus lower --min-count.",
        "words --corpus sample --min-count 3 --dimension 100 --output embeddings/sample",
    ),
    "compact": (
        "word vectors as 8-bit numbers",
        "Convert word vectors to 8-bit numbers, a quarter of the size. Train models on the result, so that they read\n"
        "exactly the vectors that they were trained on.",
        "compact --words embeddings/sample --output embeddings/small",
    ),
    "extend": (
        "word vectors with random vectors for the other words of an index",
        "Add random vectors for all words of an index that have no vector: rare words, which a model that trains its\n"
        "embeddings (ktrel) can then distinguish.",
        "extend --words embeddings/sample --index indexes/sample --output embeddings/extended",
    ),
    "contexts": (
        "an encoder adapted to an index by second vectors of the words, from the documents that contain them",
        "Adapt a KTRel of words to the documents of an index, without judgments: each word gets a second vector, from\n"
        "the documents that contain it. The encoder must sum its vectors unchanged (train --set layers=0).",
        "contexts --checkpoint checkpoints/judged --index indexes/sample --output checkpoints/judged-adapted",
    ),
    "concepts": (
        "concept vectors with TransE, from the relations of a knowledge base",
        "Train vectors of concepts and relations with TransE on a knowledge base, and measure how well they predict\n"
        "held-out relations. The written vectors are not trained on these, except with --final.",
        "concepts --knowledge knowledge-bases/sample --dimension 20 --output embeddings/sample-concepts",
    ),
}


def arguments() -> commandline.Parser:
    from rerank_plugin.knowledge.transe import TransEConfig
    from rerank_plugin.text.word_vectors import Word2VecConfig

    parser = commandline.parser("embed", "Train or import the vectors that the neural models start from.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    parsers = {}
    for name, (help, description, example) in KINDS.items():
        example = f"example:\n  rerank-plugin embed {example}"
        subparser = parsers[name] = parser.subcommand(kinds, name, help, description, example)
        if name in ("compact", "extend"):
            subparser.add_argument("--words", required=True, help="folder of word vectors, or a bundled model's name")
        subparser.add_argument("--output", type=Path, required=True, help="folder to write")
        subparser.add_argument("--overwrite", action="store_true", help="replace an existing folder")

    add = parsers["words"].add_argument
    add(
        "--corpus",
        nargs="+",
        action="extend",
        metavar="C",
        help=f"corpus to train on: {accepted(CORPUS)}; also several",
    )
    add("--import", dest="imported", type=Path, help="word2vec or GloVe file to import instead of training")
    group = parsers["words"].add_argument_group("words and training")
    group.add_argument("--binary", action="store_true", help="read the imported file in word2vec's binary format")
    stem = "stemmer of the words, for an index with the same --stem (default: none)"
    group.add_argument("--stem", choices=("krovetz",), help=stem)
    commandline.add_settings(group, Word2VecConfig)
    parsers["compact"].add_argument(
        "--most-frequent", type=int, help="number of the most frequent words to keep (default: all)"
    )
    index = "index folder, with the same --stem"
    parsers["extend"].add_argument("--index", type=Path, required=True, help=index)
    add = parsers["contexts"].add_argument
    add("--checkpoint", required=True, help="checkpoint of the encoder, or a bundled model's name: ktrel")
    add("--index", type=Path, required=True, help="index folder with the documents")
    add("--weight", type=float, default=0.2, help="weight of the cosine of the second vectors, relative to the first")
    add = parsers["concepts"].add_argument
    add("--knowledge", type=Path, required=True, metavar="KB", help="compiled knowledge base")
    group = parsers["concepts"].add_argument_group("training")
    commandline.add_settings(group, TransEConfig)
    holdout = "share of related pairs to hold out (at most 2,000); 0 for none"
    group.add_argument("--holdout", type=float, default=0.02, help=holdout)
    group.add_argument("--final", action="store_true", help="write vectors trained on all relations, after measuring")
    return parser


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    kinds = {"words": words, "compact": compact, "extend": extend, "contexts": contexts, "concepts": concepts}
    kinds[options.kind](parser, options)


def words(parser: commandline.Parser, options: Namespace) -> None:
    if bool(options.corpus) == bool(options.imported):
        parser.error("give either --corpus or --import")
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.text import word_vectors
    from rerank_plugin.text.tokenizer import tokenizer

    check_free(options.output, word_vectors.WORD_VECTORS, options.overwrite)
    word_tokenizer = tokenizer(options.stem)
    started = time.monotonic()
    if options.imported:
        vectors = word_vectors.import_word2vec(options.imported, options.binary, options.seed, word_tokenizer)
        settings = {"imported": str(options.imported)}
    else:
        config = commandline.configured(word_vectors.Word2VecConfig, options)
        vectors = word_vectors.train(_texts(options.corpus), config, options.seed, word_tokenizer)
        settings = {**word_vectors.training_settings(config), "corpora": options.corpus, "seed": options.seed}
    word_vectors.save(vectors, options.output, settings, options.overwrite)
    count, dimension = vectors.matrix.shape
    print(f"{options.output}: {count:,} words, {dimension} dimensions in {time.monotonic() - started:.1f} s")


def compact(parser: commandline.Parser, options: Namespace) -> None:
    parser.check_counts(options, "most_frequent")
    from rerank_plugin.text import word_vectors

    original = _read(options)
    vectors = word_vectors.compact(original, options.most_frequent)
    _write(options, vectors, {"precision": "int8"})
    size = sum(path.stat().st_size for path in options.output.iterdir())
    error = abs(vectors.matrix - original.matrix[: len(vectors.matrix)]).max()
    print(f"{options.output}: {len(vectors.vocabulary):,} words, {size / 1e6:.1f} MB, largest change {error:.2g}")


def extend(parser: commandline.Parser, options: Namespace) -> None:
    import numpy as np

    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.text import word_vectors

    original, index = _read(options), Index(options.index).forward
    index.check_tokenizer(original.vocabulary.tokenizer, str(options.words))
    vectors = word_vectors.extend(original, index.terms.take(np.arange(index.vocabulary_size)), options.seed)
    _write(options, vectors, {"extended": {"index": str(options.index), "seed": options.seed}})
    count = len(vectors.vocabulary)
    print(f"{options.output}: {count:,} words, {count - len(original.vocabulary):,} of them with random vectors")


def contexts(parser: commandline.Parser, options: Namespace) -> None:
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.models.checkpoint import CHECKPOINT
    from rerank_plugin.models.ktrel.adaptation import adapt
    from rerank_plugin.models.register import checkpoint_folder

    check_free(options.output, CHECKPOINT, options.overwrite)
    started, encoder = time.monotonic(), checkpoint_folder(options.checkpoint)

    def progress(batches: Iterable[int]) -> Iterable[int]:
        return commandline.progress(batches, "adapting", "batches")

    adapt(Index(options.index).forward, encoder, options.output, options.seed, options.weight, progress)
    print(f"{options.output}: adapted in {time.monotonic() - started:.1f} s")


def _read(options: Namespace) -> WordVectors:
    """The word vectors to convert, if the output may be written."""
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.models.register import checkpoint_folder
    from rerank_plugin.text import word_vectors

    check_free(options.output, word_vectors.WORD_VECTORS, options.overwrite)
    options.words = word_vectors.vectors_folder(checkpoint_folder(options.words))
    return word_vectors.load(options.words)


def _write(options: Namespace, vectors: WordVectors, changes: dict[str, Any]) -> None:
    """Write converted word vectors, with the original settings and the changes."""
    from rerank_plugin.text import word_vectors

    settings = word_vectors.WORD_VECTORS.read(options.words)
    kept = {name: value for name, value in settings.items() if name not in ("tokenizer", "words", "dimension")}
    word_vectors.save(vectors, options.output, {**kept, **changes}, options.overwrite)


def concepts(parser: commandline.Parser, options: Namespace) -> None:
    if not 0 <= options.holdout < 1:
        parser.error("--holdout must be at least 0 and below 1")
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.knowledge import concept_training
    from rerank_plugin.knowledge.concept_vectors import CONCEPT_VECTORS
    from rerank_plugin.knowledge.transe import TransEConfig

    check_free(options.output, CONCEPT_VECTORS, options.overwrite)
    config = commandline.configured(TransEConfig, options)
    knowledge = KnowledgeBase(options.knowledge)
    started = time.monotonic()
    trained = concept_training.train_vectors(
        knowledge,
        config,
        options.seed,
        options.holdout,
        options.final,
        lambda epochs: commandline.progress(epochs, "training", "epochs", config.epochs),
    )
    concept_training.save(trained, knowledge, options.output, options.overwrite)
    print(f"{options.output}: {len(knowledge):,} concepts, {config.dimension} dimensions", end="")
    print(f" in {time.monotonic() - started:.1f} s", *concept_training.figures(trained), sep="\n")


def _texts(corpora: list[str]) -> Iterator[str]:
    """The titles and abstracts of all corpora, as separate texts."""
    from rerank_plugin.corpora import documents

    for corpus in corpora:
        for document in commandline.progress(documents(corpus, ids_required=False), f"reading {corpus}", "documents"):
            yield document.title
            yield document.abstract


if __name__ == "__main__":
    commandline.run(main)
