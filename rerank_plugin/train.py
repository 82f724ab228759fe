"""``python -m rerank_plugin.train``: trains a neural reranker, or one for each fold, and writes the best checkpoint."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.files.errors import InputError

log = logging.getLogger(__name__)

MODEL_OPTIONS = (
    "filters", "width", "convolutions", "hidden", "dropout", "document_words", "query_words", "lexical_features",
)  # fmt: skip
TRAINING_OPTIONS = (
    "epochs", "patience", "batch_size", "learning_rate", "l2_convolution", "l2_feed_forward", "pairs_per_query", "seed",
    "loss", "weights", "sampling", "optimizer", "temperature", "queries_per_document",
)  # fmt: skip

DESCRIPTION = """\
Train a neural reranker on judged queries; after each epoch it re-ranks the candidates of the validation
queries, and the epoch with the best measure becomes the checkpoint. Candidates come from the first stage,
or from runs given with --train-run and --validation-run (then no Java is needed).

{models}
With --folds there are no validation queries of their own: each fold of the training queries is ranked by a model
that never saw it, trained on the other folds but for a sample that validates. OUTPUT is then a folder with
fold-NAME (a checkpoint for each fold), cross-validated.run, cross-validation.md and folds.tsv."""
EXAMPLES = """\
examples:
  python -m rerank_plugin.train --model delta --lexical-features lex3 --index indexes/sample \\
      --words embeddings/sample --train sample:train --validation sample:dev --output checkpoints/delta32lex3
  python -m rerank_plugin.train --model pacrr --index indexes/sample --words embeddings/sample \\
      --train sample:train --folds 5 --output checkpoints/pacrr-folds"""


def arguments():
    from rerank_plugin.corpora.register import accepted_together

    parser = commandline.parser("train", DESCRIPTION.format(models=_described_models()), EXAMPLES)
    parser.add_argument("--model", default="delta", help="model to train; those of other packages can be, too")
    parser.add_argument("--index", type=Path, required=True, help="index folder")
    parser.add_argument(
        "--train",
        required=True,
        action="append",
        metavar="QJ",
        help=f"queries and judgments: {accepted_together()}; may be repeated, with other texts of the same queries, too",
    )
    parser.add_argument("--train-queries", type=int, metavar="N", help="train on so many of the queries, by chance")
    validation = parser.add_mutually_exclusive_group(required=True)
    validation.add_argument("--validation", metavar="QJ", help="the same for validation")
    validation.add_argument(
        "--folds",
        metavar="K|FILE",
        help="cross-validate: K parts of the training queries by chance, or those of FILE (query id<TAB>fold name)",
    )
    parser.add_argument(
        "--fold-validation",
        type=_count_or_share,
        metavar="N",
        help="queries held out for validation beside each fold: their number, or their share of those that are not in "
        "the fold (0.2: the PACRR paper's 50 of 250)",
    )
    parser.add_argument(
        "--words", type=Path, help="word vectors, written by rerank_plugin.embed words; bert and biobert need none"
    )
    parser.add_argument(
        "--concepts", type=Path, help="concept vectors, written by rerank_plugin.embed concepts: for ktrel and ktrel-c"
    )
    parser.add_argument("--start-from", type=Path, metavar="CKPT", help="fine-tune this checkpoint of the same model")
    parser.add_argument("--output", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a checkpoint that is there already")
    parser.add_argument(
        "--keep-epochs",
        action="store_true",
        help="keep every epoch's model, too, as the checkpoint OUTPUT/epochs/NN (their word vectors take space once)",
    )
    parser.add_argument("--resume", action="store_true", help="go on with a training that was interrupted")
    parser.add_argument("--train-run", type=Path, help="TREC run with the training queries' candidates")
    parser.add_argument("--validation-run", type=Path, help="TREC run with the validation queries' candidates")
    parser.add_argument("--depth", type=int, default=500, help="candidates a query, in training and validation")
    parser.add_argument(
        "--validation-depth", type=int, help="candidates of a validation query, where --depth would take too long"
    )
    parser.add_argument(
        "--measures",
        nargs="+",
        help="validation measures; the first decides (nDCG@20 AP; of models by PACRR's recipe ERR@20 nDCG@20, of ktrel "
        "AP nDCG@10)",
    )
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--threads", type=int, default=2, help="first-stage searches at once")
    _add_model_options(parser)
    _add_training_options(parser)
    commandline.add_first_stage_options(parser)
    return parser


def _described_models() -> str:
    """The models by how each is trained, from the register."""
    from textwrap import fill

    from rerank_plugin.models.register import MODELS

    by_recipe: dict[str, list[str]] = {}
    for entry in MODELS.ours():
        by_recipe.setdefault(entry.recipe.summary, []).append(entry.name)
    lines = [f"{', '.join(of_recipe)}: {summary}" for summary, of_recipe in by_recipe.items()]
    said = [fill(line, 110, initial_indent="  ", subsequent_indent="    ") for line in lines]
    return "\n".join(["Each model is trained as its paper says where nothing else is given:", *said, ""])


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
    training.add_argument("--epochs", type=int, help="epochs at most (30; delta-classifier 10)")
    training.add_argument(
        "--patience", type=int, help="epochs without a better measure before stopping (5; PACRR's recipe 30)"
    )
    training.add_argument("--batch-size", type=int, help="examples a step (256; PACRR's recipe 32; ktrel 20 documents)")
    training.add_argument(
        "--loss",
        help="hinge (pairs; the default), bce (documents, as a classifier) or softmax (an encoder's, such as ktrel: the "
        "relevant pairs of a batch against all its others)",
    )
    training.add_argument(
        "--weights", help="of examples: sqrt (the default) or none; for bce none (the default), sqrt or log"
    )
    training.add_argument(
        "--sampling",
        help="of pairs: balanced (the default, but of ktrel; as many relevant as other documents of each query), groups "
        "(the PACRR paper's: highly relevant against relevant, relevant against others) or batch (an encoder's: all "
        "pairs among the documents of a batch, each of which is encoded once)",
    )
    training.add_argument("--optimizer", help="adagrad (the default), adadelta, adam or sgd")
    training.add_argument("--temperature", type=float, help="of softmax (0.1)")
    training.add_argument(
        "--queries-per-document", type=int, help="queries of each document in a batch of an encoder (4)"
    )
    training.add_argument("--learning-rate", type=float, help="adagrad 0.01, adadelta 1, adam 0.001, sgd 0.01")
    training.add_argument("--l2-convolution", type=float, help="L2 cost of the convolutions' weights (1e-4)")
    training.add_argument("--l2-feed-forward", type=float, help="L2 cost of the feed-forward weights (1e-4)")
    training.add_argument(
        "--training-documents",
        choices=("candidates", "judged", "all", "collection"),
        help="documents that pairs are drawn from: the first stage's (the default), the judged ones, both, or the whole "
        "collection (the default of ktrel, by --sampling balanced); what is not judged counts as non-relevant",
    )
    training.add_argument(
        "--pairs-per-query", type=int, help="pairs, or documents, drawn from a query in an epoch, at most (50)"
    )


def _count_or_share(text: str) -> float:
    """A whole number from 1 on, or a number between 0 and 1."""
    number = float(text) if "." in text else int(text)
    if not (0 < number < 1 if "." in text else number >= 1):
        raise ValueError(text)
    return number


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = parser.parse_args(argv)
    commandline.set_up_logging(options.verbose)
    for name in ("depth", "threads", "validation_depth", "train_queries"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.train_run is not None and len(options.train) > 1:
        parser.error("--train-run gives the candidates of one --train")
    if options.folds is not None and (len(options.train) > 1 or options.train_queries is not None):
        parser.error("--folds takes all queries of one --train")
    if options.folds is not None and options.validation_run is not None:
        parser.error("--folds validates on training queries, whose candidates --train-run gives: no --validation-run")
    if options.folds is not None and options.select_lexical_features is not None:
        parser.error("--select-lexical-features needs --validation: it does not go with --folds")
    if options.folds is None and options.fold_validation is not None:
        parser.error("--fold-validation is for --folds")
    train(options)


def train(options) -> None:
    """Read everything, train, put the result in place, and print what was reached."""
    from rerank_plugin.files.outputs import check_free
    from rerank_plugin.training.cross_validation import CROSS_VALIDATED
    from rerank_plugin.training.saving import TRAINED
    from rerank_plugin.training.session import Session

    check_free(options.output, TRAINED if options.folds is None else CROSS_VALIDATED, options.overwrite)
    task = _task(options)
    if options.folds is not None:
        print(_cross_validate(options, Session(task)) + f"\n{options.output}")
    elif options.select_lexical_features is not None:
        from rerank_plugin.training.selection import train_selected

        chosen, table = train_selected(Session(task), options.select_lexical_features, options.output)
        print(table + f"\n{options.output}: {' '.join(chosen)}")
    else:
        outcome = Session(task).train(options.output)
        shown = ", ".join(f"{name} {outcome.measures[name]:.4f}" for name in task.measures)
        print(f"{options.output}: best epoch {outcome.epoch} of {outcome.epochs}, validation {shown}")


def _cross_validate(options, session) -> str:
    from rerank_plugin.training.cross_validation import cross_validate
    from rerank_plugin.training.folds import SHARE, make_folds, random_parts, read_parts, warn_of_repeated_texts

    if options.folds.isdecimal():
        parts = random_parts(session.queries, int(options.folds), options.seed)
    else:
        parts = read_parts(Path(options.folds), session.queries)
    warn_of_repeated_texts(parts)
    folds = make_folds(parts, options.fold_validation or SHARE, options.seed)
    return cross_validate(session, folds, options.output)


def _task(options):
    """The :class:`~rerank_plugin.training.session.Task` of the command line."""
    from rerank_plugin.training import recipes
    from rerank_plugin.training.session import Task

    values = _model_values(options)
    if options.select_lexical_features is not None and not values.get("lexical_features"):
        from rerank_plugin.features.lexical_features import PAPER_NAMES

        values["lexical_features"] = list(PAPER_NAMES)
    only_runs = options.train_run and (options.validation_run or options.folds is not None)
    training = training_config(options)
    documents = options.training_documents or recipes.documents(options.model)
    return Task(
        model=options.model,
        index=options.index,
        words=options.words,
        train=options.train[0],
        more_train=tuple(options.train[1:]),
        queries_at_most=options.train_queries,
        measures=options.measures or list(recipes.measures(options.model)),
        training=training,
        values=values,
        validation=options.validation,
        first_stage=None if only_runs else commandline.first_stage_config(options),
        train_run=options.train_run,
        validation_run=options.validation_run,
        depth=options.depth,
        validation_depth=options.validation_depth,
        documents="relevant" if training.of_batches else documents,
        concepts=options.concepts,
        start_from=options.start_from,
        device=options.device,
        threads=options.threads,
        keep_epochs=options.keep_epochs,
        resume=options.resume,
        overwrite=options.overwrite,
    )


def training_config(options):
    """The :class:`~rerank_plugin.training.trainer.TrainingConfig` of the command line and the model's recipe.

    Raises:
        InputError: an option is unknown, or would have no effect beside the others.
    """
    from rerank_plugin.training import recipes

    given = {name: getattr(options, name) for name in TRAINING_OPTIONS if getattr(options, name) is not None}
    config = recipes.training_config(options.model, given)
    by_batch = config.of_batches
    idle = ["pairs_per_query", "training_documents"] if by_batch else ["queries_per_document"]
    idle += ["weights", "sampling"] if config.loss == "softmax" else ["temperature"]
    if useless := [name for name in idle if getattr(options, name) is not None]:
        needed = {"temperature": "--loss softmax", "queries_per_document": "--loss softmax or --sampling batch"}
        how = f"it is for {needed[useless[0]]}" if useless[0] in needed else f"batches of {by_batch} are of documents"
        raise InputError(f"--{useless[0].replace('_', '-')} does nothing here ({how}): leave it out")
    return config


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
    if "lexical_features" in values:
        from rerank_plugin.features.lexical_features import named_features

        values["lexical_features"] = named_features(values["lexical_features"])
    return values


if __name__ == "__main__":
    commandline.run(main)
