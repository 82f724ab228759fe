"""``python -m rerank_plugin.train``: trains a neural reranker and writes the best checkpoint."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from rerank_plugin import commandline
from rerank_plugin.errors import InputError

log = logging.getLogger(__name__)

MODEL_OPTIONS = (
    "filters", "width", "convolutions", "hidden", "dropout", "document_words", "query_words", "lexical_features",
)  # fmt: skip
TRAINING_OPTIONS = (
    "epochs", "patience", "batch_size", "learning_rate", "l2_convolution", "l2_feed_forward", "pairs_per_query", "seed",
)  # fmt: skip


def arguments():
    parser = commandline.parser(
        "train",
        "Train a neural reranker on judged queries; after each epoch it re-ranks the candidates of the validation\n"
        "queries, and the epoch with the best measure becomes the checkpoint. Candidates come from the first stage,\n"
        "or from runs given with --train-run and --validation-run (then no Java is needed).",
        "example:\n  python -m rerank_plugin.train --model delta --lexical-features lex3 --index indexes/sample \\\n"
        "      --words embeddings/sample --train sample:train --validation sample:dev --output checkpoints/delta32lex3",
    )
    parser.add_argument("--model", default="delta", help="model to train")
    parser.add_argument("--index", type=Path, required=True, help="index folder")
    parser.add_argument(
        "--train",
        required=True,
        metavar="QJ",
        help="queries and judgments: BEIR folder:split, ir-datasets id, sample:train, or QUERIES,QRELS",
    )
    parser.add_argument("--validation", required=True, metavar="QJ", help="the same for validation")
    parser.add_argument("--words", type=Path, required=True, help="word vectors, written by rerank_plugin.embed words")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint that is there already")
    parser.add_argument("--resume", action="store_true", help="go on with a training that was interrupted")
    parser.add_argument("--train-run", type=Path, help="TREC run with the training queries' candidates")
    parser.add_argument("--validation-run", type=Path, help="TREC run with the validation queries' candidates")
    parser.add_argument("--depth", type=int, default=500, help="candidates a query, in training and validation")
    parser.add_argument(
        "--measures", nargs="+", default=["nDCG@20", "AP"], help="validation measures; the first decides"
    )
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--threads", type=int, default=2, help="first-stage searches at once")
    _add_model_options(parser)
    _add_training_options(parser)
    commandline.add_first_stage_options(parser)
    return parser


def _add_model_options(parser) -> None:
    model = parser.add_argument_group("model (what is not given keeps the paper's value)")
    model.add_argument("--filters", type=int, help="filters of each convolution (32)")
    model.add_argument("--width", type=int, help="width of the convolutions (3)")
    model.add_argument("--convolutions", type=int, help="convolution layers (3)")
    model.add_argument("--hidden", type=int, nargs="+", help="widths of the feed-forward layers before the last")
    model.add_argument("--dropout", type=float, help="before the max-pooling (0.2)")
    model.add_argument("--document-words", type=int, help="words of a document that are read (50)")
    model.add_argument("--query-words", type=int, help="words of a query that are read (7)")
    model.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="any hyper-parameter by its name in config.json"
    )
    model.add_argument("--lexical-features", nargs="+", help="names, 'lex3' for the paper's three, 'none' (default)")


def _add_training_options(parser) -> None:
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, default=30, help="epochs at most")
    training.add_argument("--patience", type=int, default=5, help="epochs without a better measure before stopping")
    training.add_argument("--batch-size", type=int, default=256, help="pairs a step")
    training.add_argument("--learning-rate", type=float, default=0.01, help="of Adagrad")
    training.add_argument("--l2-convolution", type=float, default=1e-4, help="L2 cost of the convolutions' weights")
    training.add_argument("--l2-feed-forward", type=float, default=1e-4, help="L2 cost of the feed-forward weights")
    training.add_argument(
        "--training-documents",
        default="candidates",
        choices=("candidates", "judged", "all"),
        help="documents that pairs are drawn from; unjudged candidates count as non-relevant",
    )
    training.add_argument(
        "--pairs-per-query", type=int, default=50, help="pairs drawn from a query in an epoch, at most"
    )


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.depth < 1 or options.threads < 1:
        parser.error("--depth and --threads must be at least 1")
    train(options)


def _model_values(options) -> dict:
    """The hyper-parameters given on the command line.

    Raises:
        InputError: one is given twice, or a --set is not NAME=VALUE.
    """
    values = {name: getattr(options, name) for name in MODEL_OPTIONS if getattr(options, name) is not None}
    for one in options.set:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise InputError(f"--set {one}: expected NAME=VALUE")
        if name in values:
            raise InputError(f"--set {one}: {name} is given twice")
        try:
            values[name] = json.loads(text)
        except ValueError:  # a word need not be quoted
            values[name] = text
    names = values.get("lexical_features")
    if names == ["lex3"]:
        from rerank_plugin.features.lexical import LEX3

        values["lexical_features"] = list(LEX3)
    elif names == ["none"]:
        values["lexical_features"] = []
    return values


def train(options) -> None:
    """Read everything, train, and put the best checkpoint in place."""
    import numpy as np
    import torch

    from rerank_plugin.checkpoints import build_config, model_classes
    from rerank_plugin.corpora import queries_and_judgments
    from rerank_plugin.rerankers import RerankerOptions
    from rerank_plugin.rerankers.neural import NeuralReranker
    from rerank_plugin.retrieval.index_folder import Index
    from rerank_plugin.text import embeddings
    from rerank_plugin.training.pairs import make_pools
    from rerank_plugin.training.trainer import Trainer, TrainingConfig
    from rerank_plugin.training.validation import Validation

    if options.output.exists() and not options.overwrite:
        raise InputError(f"{options.output} exists already; choose another --output or give --overwrite")
    model_class, config_class = model_classes(options.model)
    config = build_config(config_class, _model_values(options), "command line")
    training = TrainingConfig(**{name: getattr(options, name) for name in TRAINING_OPTIONS})
    index = Index(options.index)
    vectors = embeddings.load(options.words)
    train_queries, train_judgments = queries_and_judgments(options.train)
    held_out, held_out_judgments = queries_and_judgments(options.validation)
    shared = {query.id for query in train_queries} & {query.id for query in held_out}
    if shared:
        raise InputError(f"{len(shared)} queries are in both --train and --validation, e.g. '{min(shared)}'")

    torch.manual_seed(options.seed)
    model = model_class(config, torch.from_numpy(vectors.matrix))
    try:
        reranker = NeuralReranker(model, vectors.vocabulary, index.forward, RerankerOptions(options.device))
    except ValueError as error:
        raise InputError(str(error)) from None
    candidates = CandidateFinder(options, index)
    log.info("candidates for %d training and %d validation queries", len(train_queries), len(held_out))
    pools = make_pools(
        train_queries,
        train_judgments,
        candidates(train_queries, options.train_run),
        reranker.builder,
        options.training_documents,
    )
    if pools and config.lexical_features:
        features = np.concatenate([pool.features for pool in pools])
        model.set_feature_statistics(torch.from_numpy(features.mean(axis=0)), torch.from_numpy(features.std(axis=0)))
    validation = Validation(
        held_out, held_out_judgments, candidates(held_out, options.validation_run), reranker, options.measures
    )
    folder = options.output.with_name(options.output.name + ".training")
    data = _data_description(options, index, vectors)
    save = _saver(options, model, vectors, training, data, folder)
    trainer = Trainer(
        model, reranker.builder, pools, training, validation, save, folder, options.device, json.loads(json.dumps(data))
    )
    if options.resume and trainer.resume():
        log.info("going on after epoch %d", len(trainer.history))
    log.info("training on %d queries", len(pools))
    trainer.train()
    _finish(options, folder, trainer)


class CandidateFinder:
    """Candidates of queries by id: from a run where one is given, else from the first stage."""

    def __init__(self, options, index):
        self.options, self.index, self.first_stage = options, index, None

    def __call__(self, queries, run_path: Path | None) -> dict:
        from concurrent.futures import ThreadPoolExecutor

        from rerank_plugin.retrieval import pipeline

        options = self.options
        if run_path:
            from rerank_plugin.runs import read_run

            source = pipeline.from_run(read_run(run_path), self.index.forward, options.depth, str(run_path))
        else:
            if self.first_stage is None:
                self.first_stage = self.index.first_stage(commandline.first_stage_config(options))
            source = pipeline.from_first_stage(self.first_stage, options.depth)
        with ThreadPoolExecutor(options.threads) as executor:
            found = executor.map(source, queries)
            return {query.id: one for query, one in zip(queries, commandline.progress(found, "candidates", "queries"))}


def _data_description(options, index, vectors) -> dict:
    """What a training is made from: for the checkpoint, and so that only the same training is resumed."""
    import zlib
    from dataclasses import asdict

    forward = {name: file for name, file in index.description["files"].items() if name.startswith("forward/")}
    runs = {"train": options.train_run, "validation": options.validation_run}
    return {
        "train": options.train,
        "validation": options.validation,
        "index": str(options.index),
        "index_checksum": zlib.crc32(json.dumps(forward, sort_keys=True).encode()),
        "words": str(options.words),
        "words_checksum": zlib.crc32(vectors.matrix.tobytes()),
        "runs": {name: str(path) for name, path in runs.items() if path},
        "first_stage": None if all(runs.values()) else asdict(commandline.first_stage_config(options)),
        "depth": options.depth,
        "documents": options.training_documents,
    }


def _saver(options, model, vectors, training, data: dict, folder: Path):
    """Writes the checkpoint of the best epoch so far into the training folder."""
    from dataclasses import asdict

    from rerank_plugin.checkpoints import save_checkpoint

    def save(measures: dict) -> None:
        description = {
            "training": {**data, **asdict(training)},
            "measures": measures,
            "seed": options.seed,
        }
        save_checkpoint(folder / "best", model, vectors, description)

    return save


def _finish(options, folder: Path, trainer) -> None:
    """Put the best checkpoint, its log and its picture in place, and remove the training state."""
    import shutil

    from rerank_plugin.training.trainer import LOG_FILE, PLOT_FILE

    best = max(trainer.history, key=lambda entry: entry["deciding"])
    if not (folder / "best").exists():
        raise InputError(f"no epoch gave a finite {options.measures[0]}: nothing to keep; see {folder / LOG_FILE}")
    for name in (LOG_FILE, PLOT_FILE):
        shutil.copyfile(folder / name, folder / "best" / name)
    if options.output.exists():
        shutil.rmtree(options.output)
    (folder / "best").rename(options.output)
    shutil.rmtree(folder)
    shown = ", ".join(f"{name} {best[name]:.4f}" for name in options.measures)
    print(f"{options.output}: best epoch {best['epoch']} of {len(trainer.history)}, validation {shown}")


if __name__ == "__main__":
    commandline.run(main)
