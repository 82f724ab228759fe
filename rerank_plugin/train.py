"""``rerank-plugin train``: trains a neural reranker, or one per fold, and writes the best checkpoint."""

from __future__ import annotations

from pathlib import Path

from rerank_plugin import options as commandline
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.settings import DEPTH, chosen_values
from rerank_plugin.files.outputs import check_free
from rerank_plugin.training.config import COLLECTION, TrainingConfig, by_recipe

MODEL_OPTIONS = "dropout document_words query_words lexical_features"

DESCRIPTION = """\
Train a neural reranker on judged queries; after each epoch it re-ranks the candidates of the validation
queries, and the epoch with the best measure becomes the checkpoint. Candidates come from the first stage,
or from the runs --train-run and --validation-run, which need no Java.

{models}
With --folds, a model per fold is trained on the other folds, less a sample for validation, and ranks the queries
of its fold, which it never saw. OUTPUT is then a folder with fold-NAME (a checkpoint for each fold),
cross-validated.run, cross-validation.md and folds.tsv."""
EXAMPLES = """\
examples:
  rerank-plugin train --model delta --start-from delta --index indexes/sample \\
      --train sample:train --validation sample:dev --output checkpoints/tuned
  rerank-plugin train --model delta --lexical-features lex3 --index indexes/sample --words embeddings/sample \\
      --train sample:train --validation sample:dev --output checkpoints/delta32lex3

  rerank-plugin train --model pacrr --index indexes/sample --words embeddings/sample \\
      --train sample:train --folds 5 --output checkpoints/pacrr-folds"""


def arguments():
    from rerank_plugin.corpora.register import accepted_together

    parser = commandline.parser("train", DESCRIPTION.format(models=_described_models()), EXAMPLES)
    add = parser.add_argument
    add("--model", default="delta", help="model to train")
    add("--index", type=Path, required=True, help="index folder")
    words = "folder of word vectors, or a bundled model's name (default: those of --start-from)"
    add("--words", help=words)
    start = "checkpoint to fine-tune, or a bundled model's name; gives hyper-parameters, too (default: random weights)"
    add("--start-from", metavar="CKPT", help=start)
    judged = f"queries and judgments: {accepted_together()}; may be repeated, with other texts of the same queries, too"
    add("--train", required=True, action="append", metavar="QJ", help=judged)
    validation = parser.add_mutually_exclusive_group(required=True)
    validation.add_argument("--validation", metavar="QJ", help="validation queries and judgments")
    parts = "cross-validation instead: K random parts of the training queries, or those in FILE (query id<TAB>fold)"
    validation.add_argument("--folds", metavar="K|FILE", help=parts)
    features = (
        "features beside the network: names (docs/training.md), 'lex3' for the Delta paper's three, 'all' for its 18, "
        "or 'none' (default: those of --start-from, or none)"
    )
    add("--lexical-features", nargs="+", metavar="NAME", help=features)
    add("--output", type=Path, required=True, help="checkpoint folder to write")
    add("--overwrite", action="store_true", help="replace an existing checkpoint")
    _add_data_options(parser.add_argument_group("data").add_argument)
    _add_output_options(parser.add_argument_group("output and running").add_argument)
    _add_model_options(
        parser.add_argument_group("model (defaults: those of --start-from, or of the paper, here Delta's)").add_argument
    )
    title = "training (defaults: those of the model's paper, or these)"
    commandline.add_settings(parser.add_argument_group(title), TrainingConfig, given_only=True)
    commandline.add_first_stage_options(parser)
    return parser


def _described_models() -> str:
    """The models by recipe, from the register."""
    from textwrap import fill

    from rerank_plugin.models.register import MODELS

    by_recipe: dict[str, list[str]] = {}
    for entry in MODELS.built_in():
        by_recipe.setdefault(entry.recipe.summary, []).append(entry.name)
    lines = [f"{', '.join(names)}: {summary}" for summary, names in by_recipe.items()]
    filled = [fill(line, 110, initial_indent="  ", subsequent_indent="    ") for line in lines]
    return "\n".join(["By default, each model is trained by the recipe of its paper:", *filled, ""])


def _add_data_options(add) -> None:
    add("--train-run", type=Path, help="TREC run with the candidates of the training queries (default: search)")
    add("--validation-run", type=Path, help="TREC run with the candidates of the validation queries (default: search)")
    add("--depth", type=int, default=DEPTH, help="candidates of each query, in training and validation")
    add("--validation-depth", type=int, help="candidates of each validation query (default: --depth)")
    add("--train-queries", type=int, metavar="N", help="size of a random sample of the queries (default: all)")
    documents = (
        "documents to draw pairs from: the first stage's candidates, the judged documents, both (all), or the whole "
        "collection; unjudged documents are non-relevant (default: candidates; ktrel with --sampling balanced "
        "collection)"
    )
    add("--training-documents", choices=("candidates", "judged", "all", "collection"), help=documents)
    held_out = (
        "queries to hold out of each fold's training queries for validation: number or share (default: 0.2, the PACRR "
        "paper's 50 of 250)"
    )
    add("--fold-validation", type=_count_or_share, metavar="N", help=held_out)
    measures = (
        "validation measures, or accuracy, of a classifier; the first decides (default: nDCG@20 AP; PACRR's recipe "
        "ERR@20 nDCG@20, ktrel AP nDCG@10)"
    )
    add("--measures", nargs="+", help=measures)
    add("--concepts", type=Path, help="folder of concept vectors (rerank-plugin embed concepts), for ktrel and ktrel-c")


def _add_output_options(add) -> None:
    add("--resume", action="store_true", help="resume an interrupted training")
    epochs = "keep the checkpoint of every epoch as OUTPUT/epochs/NN (the word vectors are stored once)"
    add("--keep-epochs", action="store_true", help=epochs)
    add("--device", default="cpu", help="torch device")
    add("--threads", type=int, default=2, help="concurrent first-stage searches")


def _add_model_options(add) -> None:
    add("--dropout", type=float, help="dropout before the max-pooling (default: 0.2)")
    add("--document-words", type=int, help="words of a document that the model reads (default: 50)")
    add("--query-words", type=int, help="words of a query that the model reads (default: 7)")
    by_name = "any hyper-parameter, by its name in config.json (filters=16, convolutions=1); may be repeated"
    add("--set", action="extend", nargs="+", default=[], metavar="NAME=VALUE", help=by_name)
    select = (
        "number of lexical features to select greedily by the first validation measure, from --lexical-features or all "
        "18, with one training for each candidate (default: no selection)"
    )
    add("--select-lexical-features", type=int, metavar="K", help=select)


def _count_or_share(text: str) -> float:
    """Parse a whole number of at least 1, or a number between 0 and 1."""
    number = float(text) if "." in text else int(text)
    if not (0 < number < 1 if "." in text else number >= 1):
        raise ValueError(text)
    return number


def main(argv: list[str] | None = None) -> None:
    parser = arguments()
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "depth", "threads", "validation_depth", "train_queries")
    if options.train_run is not None and len(options.train) > 1:
        parser.error("--train-run has the candidates of one --train: give only one, or leave out --train-run")
    if options.folds is None and options.fold_validation is not None:
        parser.error("--fold-validation needs --folds")
    if options.folds is not None:
        if len(options.train) > 1 or options.train_queries is not None:
            parser.error("--folds takes all queries of one --train: give only one, without --train-queries")
        if options.validation_run is not None:
            parser.error(
                "--folds validates on training queries: give their candidates with --train-run, not --validation-run"
            )
        if options.select_lexical_features is not None:
            parser.error("--select-lexical-features needs --validation instead of --folds")
    train(options)


def train(options) -> None:
    """Train, write the output, and print the measures."""
    from rerank_plugin.training.cross_validation import CROSS_VALIDATED
    from rerank_plugin.training.saving import TRAINED
    from rerank_plugin.training.session import Session

    check_free(options.output, TRAINED if options.folds is None else CROSS_VALIDATED, options.overwrite)
    task = _task(options)
    if options.folds is not None:
        print(_cross_validate(options, Session(task)) + f"\n{options.output}")
    elif options.select_lexical_features is not None:
        from rerank_plugin.training.selection import train_selected

        names, table = train_selected(Session(task), options.select_lexical_features, options.output)
        print(table + f"\n{options.output}: {' '.join(names)}")
    else:
        outcome = Session(task).train(options.output)
        shown = ", ".join(f"{name} {outcome.measures[name]:.4f}" for name in task.measures)
        print(f"{options.output}: best epoch {outcome.epoch} of {outcome.epochs}, validation {shown}")


def _cross_validate(options, session) -> str:
    from rerank_plugin.training.cross_validation import (
        SHARE,
        cross_validate,
        make_folds,
        random_parts,
        read_parts,
        warn_of_repeated_texts,
    )

    if options.folds.isdecimal():
        parts = random_parts(session.queries, int(options.folds), options.seed)
    else:
        parts = read_parts(Path(options.folds), session.queries)
    warn_of_repeated_texts(parts)
    folds = make_folds(parts, options.fold_validation or SHARE, options.seed)
    return cross_validate(session, folds, options.output)


SAME_NAMES = (  # options that have the name of a field of TrainingTask
    "model index words validation train_run validation_run depth validation_depth concepts start_from device "
    "threads keep_epochs resume overwrite"
)


def _task(options):
    """The :class:`~rerank_plugin.training.session.TrainingTask` of the command line."""
    from rerank_plugin.training.session import TrainingTask

    values = _model_values(options)
    if options.select_lexical_features is not None and not values.get("lexical_features"):
        from rerank_plugin.inputs.lexical_features import PAPER_NAMES

        values["lexical_features"] = list(PAPER_NAMES)
    only_runs = options.train_run and (options.validation_run or options.folds is not None)
    return TrainingTask(
        train=options.train[0],
        more_train=tuple(options.train[1:]),
        queries_at_most=options.train_queries,
        training=training_config(options),
        values=values,
        first_stage=None if only_runs else commandline.first_stage_config(options),
        measures=options.measures or (),
        documents=options.training_documents or "",
        **{name: getattr(options, name) for name in SAME_NAMES.split()},
    )


def training_config(options):
    """The :class:`~rerank_plugin.training.config.TrainingConfig` of the command line and the model's recipe.

    Raises:
        InputError: an option would have no effect beside the others.
    """
    config = by_recipe(options.model, {**chosen_values(TrainingConfig, vars(options)), "seed": options.seed})
    by_batch = config.of_batches
    unused = ["pairs_per_query", "training_documents"] if by_batch else ["queries_per_document"]
    if config.negatives == COLLECTION:
        unused.append("queries_per_document")
    unused += ["weights", "sampling"] if config.loss == "softmax" else ["temperature"]
    if ignored := [name for name in unused if getattr(options, name) is not None]:
        option = ignored[0]
        needed = {"temperature": "--loss softmax", "queries_per_document": "--loss softmax or --sampling batch"}
        reason = f"it needs {needed[option]}" if option in needed else f"batches of {by_batch} are of documents"
        if config.negatives == COLLECTION:
            reason = "each query is scored against the whole collection"
        raise InputError(f"{commandline.flag(option)} has no effect here ({reason}): leave it out")
    return config


def _model_values(options) -> dict:
    """The hyper-parameters of the command line.

    Raises:
        InputError: a hyper-parameter is given twice, or a --set is not NAME=VALUE.
    """
    values = {name: getattr(options, name) for name in MODEL_OPTIONS.split() if getattr(options, name) is not None}
    more = commandline.named_values(options.set)
    if twice := values.keys() & more.keys():
        raise InputError(f"--set {min(twice)}=...: {min(twice)} is given twice")
    values |= more
    if "lexical_features" in values:
        from rerank_plugin.inputs.lexical_features import named_features

        values["lexical_features"] = named_features(values["lexical_features"])
    return values


if __name__ == "__main__":
    commandline.run(main)
