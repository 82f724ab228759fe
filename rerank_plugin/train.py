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
    "loss", "weights", "sampling", "optimizer",
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
    parser.add_argument("--start-from", type=Path, metavar="CKPT", help="fine-tune this checkpoint of the same model")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint that is there already")
    parser.add_argument("--resume", action="store_true", help="go on with a training that was interrupted")
    parser.add_argument("--train-run", type=Path, help="TREC run with the training queries' candidates")
    parser.add_argument("--validation-run", type=Path, help="TREC run with the validation queries' candidates")
    parser.add_argument("--depth", type=int, default=500, help="candidates a query, in training and validation")
    parser.add_argument(
        "--validation-depth", type=int, help="candidates of a validation query, where --depth would take too long"
    )
    parser.add_argument(
        "--measures", nargs="+", help="validation measures; the first decides (nDCG@20 AP; of PACRR's models ERR@20 nDCG@20)"
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
    model.add_argument(
        "--lexical-features", nargs="+", help="names, 'lex3' for the Delta paper's three, 'all' for its 18, 'none'"
    )
    model.add_argument(
        "--select-lexical-features",
        type=int,
        metavar="K",
        help="choose K features greedily by the first validation measure, with a training for each that is tried; "
        "of those that --lexical-features names, or of all 18",
    )


def _add_training_options(parser) -> None:
    training = parser.add_argument_group(
        "training (in brackets the defaults where the model's paper says nothing else)"
    )
    training.add_argument("--epochs", type=int, help="epochs at most (30)")
    training.add_argument("--patience", type=int, help="epochs without a better measure before stopping (5)")
    training.add_argument("--batch-size", type=int, help="examples a step (256)")
    training.add_argument("--loss", help="hinge (pairs; the default) or bce (documents, as a classifier)")
    training.add_argument("--weights", help="of examples: sqrt (the default) or none; for bce log, too")
    training.add_argument(
        "--sampling",
        help="of pairs: balanced (the default; as many relevant as other documents of each query) or groups "
        "(the PACRR paper's: highly relevant against relevant, relevant against others)",
    )
    training.add_argument("--optimizer", help="adagrad (the default), adadelta, adam or sgd")
    training.add_argument("--learning-rate", type=float, help="adagrad 0.01, adadelta 1, adam 0.001, sgd 0.01")
    training.add_argument("--l2-convolution", type=float, help="L2 cost of the convolutions' weights (1e-4)")
    training.add_argument("--l2-feed-forward", type=float, help="L2 cost of the feed-forward weights (1e-4)")
    training.add_argument(
        "--training-documents",
        default="candidates",
        choices=("candidates", "judged", "all"),
        help="documents that pairs are drawn from; unjudged candidates count as non-relevant",
    )
    training.add_argument(
        "--pairs-per-query", type=int, help="pairs, or documents, drawn from a query in an epoch, at most (50)"
    )


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    if options.measures is None:
        from rerank_plugin.training.recipes import measures

        options.measures = list(measures(options.model))
    if min(options.depth, options.threads, options.validation_depth or 1) < 1:
        parser.error("--depth, --validation-depth and --threads must be at least 1")
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
    elif names == ["all"]:
        from rerank_plugin.features.lexical import PAPER_NAMES

        values["lexical_features"] = list(PAPER_NAMES)
    elif names == ["none"]:
        values["lexical_features"] = []
    return values


def train(options) -> None:
    """Read everything, train, and put the best checkpoint in place."""
    if options.output.exists() and not options.overwrite:
        raise InputError(f"{options.output} exists already; choose another --output or give --overwrite")
    values = _model_values(options)
    if options.select_lexical_features is None:
        _finish(options, Training(options, values).run(options.output), options.output)
    else:
        select_features(options, values)


def select_features(options, values: dict) -> None:
    """Train a model for every feature that is tried; the last chosen one's becomes the checkpoint."""
    import shutil
    from dataclasses import asdict

    from rerank_plugin.features.lexical import PAPER_NAMES
    from rerank_plugin.training.selection import as_markdown, select

    names = values.pop("lexical_features", None) or list(PAPER_NAMES)
    training = Training(options, {**values, "lexical_features": names})
    folder = options.output.with_name(options.output.name + ".selection")
    if folder.exists() and not options.resume:
        raise InputError(f"{folder} holds a selection that was interrupted: go on with --resume, or delete it")

    def measure(features: tuple[str, ...]) -> float:
        place = folder / "+".join(features)
        trainer = training.run(place, features)
        if len(features) == options.select_lexical_features:
            _finish(options, trainer, place)
        else:
            _remove(place)
        return trainer.best

    settings = {"data": training.data, "training": asdict(training.config), "model": values}
    path = select(names, options.select_lexical_features, measure, folder, settings)
    chosen = (*path[-1].kept, path[-1].chosen)
    table = as_markdown(path, options.measures[0])
    (folder / "+".join(chosen) / "selection.md").write_text(table, encoding="utf-8")
    _put_in_place(folder / "+".join(chosen), options.output)
    shutil.rmtree(folder)
    print(table + f"\n{options.output}: {' '.join(chosen)}")


class Training:
    """What trainings of one model on one collection share: candidates, pools and validation.

    Attributes:
        config: the :class:`TrainingConfig`. data: what it is trained on, as JSON values.
    """

    def __init__(self, options, values: dict):
        from rerank_plugin.checkpoints import build_config, model_classes
        from rerank_plugin.corpora import queries_and_judgments
        from rerank_plugin.retrieval.index_folder import Index
        from rerank_plugin.text import embeddings
        from rerank_plugin.training.pairs import make_pools

        self.options, self.values = options, values
        self.model_class, self.config_class = model_classes(options.model)
        self.model_config = build_config(self.config_class, values, "command line")
        self.config = training_config(options)
        self.index = Index(options.index)
        self.vectors = embeddings.load(options.words)
        train_queries, train_judgments = queries_and_judgments(options.train)
        self.held_out, self.held_out_judgments = queries_and_judgments(options.validation)
        shared = {query.id for query in train_queries} & {query.id for query in self.held_out}
        if shared:
            raise InputError(f"{len(shared)} queries are in both --train and --validation, e.g. '{min(shared)}'")
        _, reranker = self.fresh_model(self.model_config)
        candidates = CandidateFinder(options, self.index)
        log.info("candidates for %d training and %d validation queries", len(train_queries), len(self.held_out))
        self.pools = make_pools(
            train_queries,
            train_judgments,
            candidates(train_queries, options.train_run),
            reranker.builder,
            options.training_documents,
        )
        depth = options.validation_depth or options.depth
        self.held_out_candidates = candidates(self.held_out, options.validation_run, depth)
        self.data = _data_description(options, self.index, self.vectors)

    def fresh_model(self, config):
        """A model with weights by the seed, or those it starts from, and the reranker that validates it."""
        import torch

        from rerank_plugin.rerankers import RerankerOptions
        from rerank_plugin.rerankers.neural import NeuralReranker

        torch.manual_seed(self.options.seed)
        model = self.model_class(config, torch.from_numpy(self.vectors.matrix))
        if self.options.start_from:
            start_from(model, self.options.start_from, self.vectors)
        try:
            options = RerankerOptions(self.options.device)
            return model, NeuralReranker(model, self.vectors.vocabulary, self.index.forward, options)
        except ValueError as error:
            raise InputError(str(error)) from None

    def run(self, output: Path, features: tuple[str, ...] | None = None):
        """Train beside ``output``, with some of the lexical features or all; gives the trainer when it is done."""
        import numpy as np
        import torch

        from rerank_plugin.checkpoints import build_config
        from rerank_plugin.training.trainer import Trainer
        from rerank_plugin.training.validation import Validation

        config, pools = self.model_config, self.pools
        if features is not None:
            columns = [config.lexical_features.index(name) for name in features]
            config = build_config(self.config_class, {**self.values, "lexical_features": features}, "command line")
            pools = [pool._replace(features=np.ascontiguousarray(pool.features[:, columns])) for pool in pools]
        model, reranker = self.fresh_model(config)
        if pools and config.lexical_features:
            values = np.concatenate([pool.features for pool in pools]).astype(np.float64)
            model.set_feature_statistics(torch.from_numpy(values.mean(axis=0)), torch.from_numpy(values.std(axis=0)))
        options = self.options
        validation = Validation(
            self.held_out, self.held_out_judgments, self.held_out_candidates, reranker, options.measures
        )
        folder = output.with_name(output.name + ".training")
        save = _saver(options, model, self.vectors, self.config, self.data, folder)
        data = json.loads(json.dumps(self.data))
        trainer = Trainer(model, reranker.builder, pools, self.config, validation, save, folder, options.device, data)
        if options.resume and trainer.resume():
            log.info("going on after epoch %d", len(trainer.history))
        log.info("training on %d queries", len(pools))
        trainer.train()
        return trainer


def training_config(options):
    """How to train: what the command line says, then the model's paper, then Delta's."""
    from rerank_plugin.training.recipes import RECIPES
    from rerank_plugin.training.trainer import TrainingConfig

    given = {name: getattr(options, name) for name in TRAINING_OPTIONS if getattr(options, name) is not None}
    recipe = RECIPES.get(options.model, {})
    if given.get("loss", "hinge") != recipe.get("loss", "hinge"):  # they belong to another loss
        recipe = {name: value for name, value in recipe.items() if name not in ("weights", "sampling")}
    if given.get("loss") == "bce":
        recipe = {"weights": "none", **recipe}
    return TrainingConfig(**{**recipe, **given})


def start_from(model, folder: Path, vectors) -> None:
    """Give a model the weights of a checkpoint.

    Raises:
        InputError: it is of another model, other hyper-parameters, or other word vectors.
    """
    import numpy as np

    from rerank_plugin.checkpoints import check_weights, load_checkpoint, read_config
    from rerank_plugin.text import embeddings

    if read_config(folder)["model"] != model.name:
        raise InputError(f"{folder} holds the model '{read_config(folder)['model']}', not '{model.name}'")
    before, _ = load_checkpoint(folder)
    if before.config.lexical_features != model.config.lexical_features:
        raise InputError(f"{folder} has other lexical features: {' '.join(before.config.lexical_features) or 'none'}")
    found = embeddings.load(folder)
    if found.vocabulary.words != vectors.vocabulary.words or not np.array_equal(found.matrix, vectors.matrix):
        raise InputError(f"{folder} was trained on other word vectors than --words: give it as --words, too")
    check_weights(before.state_dict(), model.state_dict(), str(folder))
    model.load_state_dict(before.state_dict())


class CandidateFinder:
    """Candidates of queries by id: from a run where one is given, else from the first stage."""

    def __init__(self, options, index):
        self.options, self.index, self.first_stage = options, index, None

    def __call__(self, queries, run_path: Path | None, depth: int | None = None) -> dict:
        from concurrent.futures import ThreadPoolExecutor

        from rerank_plugin.retrieval import pipeline

        options = self.options
        depth = depth or options.depth
        if run_path:
            from rerank_plugin.runs import read_run

            source = pipeline.from_run(read_run(run_path), self.index.forward, depth, str(run_path))
        else:
            if self.first_stage is None:
                self.first_stage = self.index.first_stage(commandline.first_stage_config(options))
            source = pipeline.from_first_stage(self.first_stage, depth)
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
        **({"start_from": str(options.start_from)} if options.start_from else {}),
        **({"validation_depth": options.validation_depth} if options.validation_depth else {}),
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


def _finish(options, trainer, output: Path) -> None:
    """Put the best checkpoint, its log and its picture in place, and remove the training state."""
    import shutil

    from rerank_plugin.training.trainer import LOG_FILE, PLOT_FILE

    folder = trainer.folder
    best = max(trainer.history, key=lambda entry: entry["deciding"])
    if not (folder / "best").exists():
        raise InputError(f"no epoch gave a finite {options.measures[0]}: nothing to keep; see {folder / LOG_FILE}")
    for name in (LOG_FILE, PLOT_FILE):
        shutil.copyfile(folder / name, folder / "best" / name)
    _put_in_place(folder / "best", output)
    _remove(output)
    shown = ", ".join(f"{name} {best[name]:.4f}" for name in options.measures)
    print(f"{output}: best epoch {best['epoch']} of {len(trainer.history)}, validation {shown}")


def _put_in_place(made: Path, output: Path) -> None:
    import shutil

    if output.exists():
        shutil.rmtree(output)
    made.rename(output)


def _remove(output: Path) -> None:
    """Remove the training state beside a checkpoint."""
    import shutil

    shutil.rmtree(output.with_name(output.name + ".training"), ignore_errors=True)


if __name__ == "__main__":
    commandline.run(main)
