"""The public function that trains a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerank_plugin.base.extras import require
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.files.outputs import check_free
from rerank_plugin.inputs.lexical_features import named_features
from rerank_plugin.models.checkpoint import build_config
from rerank_plugin.models.register import entry_of
from rerank_plugin.retrieval.register import configuration_of
from rerank_plugin.training.config import by_recipe

if TYPE_CHECKING:
    from rerank_plugin.training.saving import Outcome


def train_model(
    model: str,
    index: str | Path,
    train: str,
    validation: str,
    output: str | Path,
    *,
    words: str | Path | None = None,
    concepts: str | Path | None = None,
    start_from: str | Path | None = None,
    hyper_parameters: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    first_stage: str | Any = "bm25",
    depth: int = DEPTH,
    measures: Sequence[str] | None = None,
    device: str = "cpu",
    overwrite: bool = False,
) -> Outcome:
    """Train a model on judged queries and write the checkpoint of its best epoch.

    After each epoch the model re-ranks the candidates of the validation queries; training stops early when the
    first measure no longer improves. Defaults are those of the model's paper.

    Args:
        model: its name, such as ``delta``.
        index: the folder of an index.
        train: queries and judgments: ``sample:train``, a BEIR folder with its split, an ir-datasets id, or
            ``QUERIES,QRELS``.
        validation: queries and judgments that choose the epoch.
        output: the checkpoint folder to write.
        words: folder of word vectors, or the name of a bundled model; by default those of ``start_from``.
        concepts: folder of concept vectors, for a model that reads concepts.
        start_from: checkpoint to fine-tune, or the name of a bundled model (``delta``); gives hyper-parameters, too.
        hyper_parameters: of the model, by their names in a checkpoint's ``config.json``.
        training: fields of the training, such as ``epochs``, ``batch_size``, ``learning_rate`` and ``seed``.
        first_stage: first stage of the candidates, as for `Searcher`.
        depth: candidates of each query.
        measures: validation measures, of which the first decides.
        device: torch device.
        overwrite: replace an existing checkpoint.

    Returns:
        The number of the best epoch (``epoch``), its ``measures`` by name, and the number of ``epochs`` trained.

    Raises:
        InputError: an input cannot be read, a name is unknown, settings do not fit together, or ``output`` exists.
    """
    require("torch", "training")
    from rerank_plugin.training.saving import TRAINED
    from rerank_plugin.training.session import Session, TrainingTask

    check_free(Path(output), TRAINED, overwrite)
    values = dict(hyper_parameters or {})
    if "lexical_features" in values:
        values["lexical_features"] = named_features(values["lexical_features"])
    task = TrainingTask(
        model=model,
        index=Path(index),
        words=words,
        train=train,
        validation=validation,
        measures=measures or (),
        training=by_recipe(model, training or {}),
        values=values,
        first_stage=configuration_of(first_stage),
        depth=depth,
        concepts=None if concepts is None else Path(concepts),
        start_from=start_from,
        device=device,
        overwrite=overwrite,
    )
    build_config(entry_of(model).load("config"), task.values, "hyper_parameters")
    return Session(task).train(Path(output))
