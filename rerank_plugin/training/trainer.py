"""The trainer: epochs of drawn examples, validation, early stopping, and a state to resume from.

After every epoch the whole state (weights, optimizer, history) is written beside the checkpoint. The examples and the
dropout of an epoch depend only on (seed, epoch), so a training that was killed and resumed gives the same weights as an
uninterrupted one.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.artifact import read_object
from rerank_plugin.files.outputs import INNER, replacing, sync, temporary_folder
from rerank_plugin.files.regular_files import regular
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.inputs.builder import InputBuilder, Inputs, concept_tensors
from rerank_plugin.models.checkpoint import check_weights
from rerank_plugin.models.ranking_model import FixedVectorModel, RankingModel, SparseEmbeddings
from rerank_plugin.training.config import OPTIMIZERS, TrainingConfig
from rerank_plugin.training.history_plot import plot_history
from rerank_plugin.training.objectives import OBJECTIVES, Objective
from rerank_plugin.training.pairs import Examples, Pool

log = logging.getLogger(__name__)

AVERAGES = ("average", "ended")  # attributes of a trainer that its state keeps
START_OVER = "delete its folder to start over"  # the end of messages
STATE_FILE, TENSORS_FILE, LOG_FILE, PLOT_FILE = "state.json", "state.safetensors", "log.jsonl", "log.png"
PLOT_SECONDS = 20.0  # between two plots of a running training: one takes as long as a small epoch


class Trainer:
    """Trains one model.

    Args:
        model: the model to train.
        pools: the pools of the training queries.
        validate: called after each epoch with the model in eval mode; returns measures, of which the first decides.
        save: called after each epoch with the measures, and whether the deciding one is the best so far.
        folder: folder of the state and the log during the training.
        data: sources of the pools and word vectors as JSON values; a resumed training must have the same.
    """

    def __init__(
        self,
        model: RankingModel,
        builder: InputBuilder,
        pools: Sequence[Pool],
        config: TrainingConfig,
        validate: Callable[[], dict[str, float]],
        save: Callable[[dict, bool], None],
        folder: Path,
        device: str = "cpu",
        data: dict | None = None,
    ):
        if not pools:
            raise InputError(
                "no training query has two documents of different relevance in the index: nothing to learn"
            )
        self.model, self.builder, self.pools, self.config = model.to(device), builder, pools, config
        self.validate, self.save, self.folder, self.device = validate, save, folder, device
        half = config.precision == "bfloat16"
        self.precision = torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half)
        self.tables = _sparse_tables(self.model)
        self.optimizer = self._new_optimizer()
        self.data = data or {}
        self.history: list[dict] = []
        self.plotted = time.monotonic()
        self.average: dict[str, torch.Tensor] = {}  # moving average of the epochs' parameters
        self.ended: dict[str, torch.Tensor] = {}  # mean of the final averages of the trainings before a restart
        self.start = _copied(self.model) if config.start_share or config.restart else {}

    @cached_property
    def objective(self) -> Objective:
        """The objective of examples that are drawn one by one."""
        return OBJECTIVES[self.config.loss](self.config.weights, self.config.sampling)

    def _new_optimizer(self) -> torch.optim.Optimizer:
        # Over a whole vocabulary, Adam's steps would take about as long as the rest of a batch; fused steps copy no
        # table. Other models keep the usual steps, whose last digits differ.
        fused = {"fused": True} if self.tables and self.config.optimizer == "adam" else {}
        optimizer = getattr(torch.optim, OPTIMIZERS[self.config.optimizer][0])
        return optimizer(self._parameter_groups(), lr=self.config.learning_rate, **fused)

    def _parameter_groups(self) -> list[dict]:
        """Optimizer parameter groups; weight decay adds the gradient of the L2 costs."""
        regularized = self.model.regularized()
        costs = {"convolution": self.config.l2_convolution, "feed_forward": self.config.l2_feed_forward}
        groups = [{"params": parameters, "weight_decay": costs[name]} for name, parameters in regularized.items()]
        grouped = {id(parameter) for parameters in regularized.values() for parameter in parameters}
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        rest = [parameter for parameter in trained if id(parameter) not in grouped]
        return [*groups, {"params": rest, "weight_decay": 0.0}]

    @property
    def best(self) -> float:
        """The best deciding measure so far; never NaN."""
        return max((entry["deciding"] for entry in self.history), default=-math.inf)

    @property
    def epochs_without_gain(self) -> int:
        deciding = [entry["deciding"] for entry in self.history]
        return len(deciding) - 1 - deciding.index(self.best) if deciding else 0

    def train(self) -> None:
        """Run the remaining epochs, and plot all of them."""
        for epoch in range(len(self.history) + 1, self.config.epochs + 1):
            if self.epochs_without_gain >= self.config.patience:
                log.info("no gain for %d epochs: stopping", self.config.patience)
                break
            if self._restarts and (epoch - 1) % self.config.restart == 0:
                self._restart()
            started = time.monotonic()
            loss = self._epoch(epoch)
            trained = time.monotonic()
            self.model.eval()
            trained_weights = self._use_average()
            measures = self.validate()
            deciding = next(iter(measures.values()))
            deciding = deciding if math.isfinite(deciding) else -math.inf
            better = deciding > self.best
            entry = {
                "epoch": epoch,
                "loss": loss,
                **measures,
                "deciding": deciding,
                "training_seconds": round(trained - started, 1),
                "validation_seconds": round(time.monotonic() - trained, 1),
            }
            self.history.append(entry)
            self.save(_finite_or_none({"epoch": epoch, "loss": loss, **measures}), better)
            self.model.load_state_dict(trained_weights, strict=False)
            self._write_state()
            shown = "  ".join(f"{name} {value:.4f}" for name, value in measures.items())
            log.info(
                "epoch %d  loss %.4f  %s%s  (%.0f s)",
                epoch, loss, shown, "  best" if better else "", time.monotonic() - started,
            )  # fmt: skip
        self._plot()

    @property
    def _restarts(self) -> int:
        """Number of trainings that ended before the current or next epoch."""
        return len(self.history) // self.config.restart if self.config.restart else 0

    @torch.no_grad()
    def _restart(self) -> None:
        """Add the average to the mean of the ended trainings, and start again from the initial weights."""
        for name, average in self.average.items():
            self.ended[name] = torch.lerp(self.ended.get(name, average), average, 1 / self._restarts)
        self.average = {}
        self.model.load_state_dict(self.start, strict=False)
        self.optimizer = self._new_optimizer()

    @torch.no_grad()
    def _use_average(self) -> dict[str, torch.Tensor]:
        """Load the averaged parameters for validation; returns the trained ones, or {} without averaging.

        The average is the moving average of the epochs' parameters, which starts with the first epoch's. With restarts,
        it is the mean of the moving averages of all trainings (Wortsman et al., Model soups, ICML 2022). The result is
        interpolated with the initial parameters (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022).
        """
        config = self.config
        if not (config.averaging or config.start_share or config.restart):
            return {}
        weights, mixed = _copied(self.model), {}
        for name, weight in weights.items():
            self.average[name] = torch.lerp(weight, self.average.get(name, weight), config.averaging)
            mean = torch.lerp(self.ended.get(name, self.average[name]), self.average[name], 1 / (self._restarts + 1))
            mixed[name] = torch.lerp(mean, self.start.get(name, mean), config.start_share)
        self.model.load_state_dict(mixed, strict=False)
        return weights

    def _epoch(self, epoch: int) -> float:
        """One pass over freshly drawn examples; returns the mean loss."""
        torch.manual_seed(self.config.seed * 100_003 + epoch)
        generator = np.random.default_rng([self.config.seed, epoch])
        self.model.train()
        total = count = 0
        for loss, examples in self._losses(generator):
            if not torch.isfinite(loss):
                raise InputError(f"the loss is {loss.item()} in epoch {epoch}: lower the learning rate")
            self.optimizer.zero_grad()
            loss.backward()
            for table in self.tables:
                if table.grad is not None and table.grad.is_sparse:
                    table.grad = table.grad.to_dense()  # momentum moves every row
            self.optimizer.step()
            total, count = total + loss.item() * examples, count + examples
        return total / count

    def _losses(self, generator: np.random.Generator) -> Iterator[tuple[torch.Tensor, int]]:
        """The mean loss of each batch of an epoch, and its number of examples."""
        drawn = self.objective.draw(self.pools, self.config.pairs_per_query, generator)
        if not len(drawn.pool):
            raise InputError(
                f"the {len(self.pools)} training queries give no example for the loss {self.config.loss} with the "
                f"sampling {self.config.sampling}: none has documents of two grades that the sampling distinguishes"
            )
        size = self.config.batch_size
        for start in range(0, len(drawn.pool), size):
            batch = Examples(drawn.pool[start : start + size], drawn.places[:, start : start + size])
            inputs, relevance = self._inputs(batch)
            with self.precision:
                scores = scored(self.model, inputs).float().view(relevance.shape)  # [k, n]
            yield self.objective.loss(scores, relevance), len(batch.pool)

    def _inputs(self, batch: Examples) -> tuple[Inputs, torch.Tensor]:
        """Inputs of the first documents of all examples, then of the second ones, and their relevance [k, n]."""
        pools = [self.pools[number] for number in np.tile(batch.pool, len(batch.places)).tolist()]
        places = batch.places.ravel().tolist()
        rows = np.array([pool.rows[place] for pool, place in zip(pools, places)])
        relevance = np.array([pool.relevance[place] for pool, place in zip(pools, places)], np.float32)
        features = np.stack([pool.features[place] for pool, place in zip(pools, places)])
        documents = self.builder.documents(self.candidates(rows))
        queries = [pool.words for pool in pools]
        arrays = (
            documents.ids,
            documents.mask,
            np.stack([query.ids for query in queries]),
            np.stack([query.mask for query in queries]),
            features,
            documents.terms,
            np.stack([query.terms for query in queries]),
            np.stack([query.idf for query in queries]),
        )
        inputs = Inputs(*map(torch.from_numpy, arrays), *concept_tensors(documents, queries))
        return inputs.to(self.device), torch.from_numpy(relevance.reshape(batch.places.shape)).to(self.device)

    def candidates(self, rows: np.ndarray) -> Candidates:
        """Documents of the index, int64 [n], without first-stage scores."""
        return Candidates(self.builder.index, rows, np.zeros(len(rows), np.float32))

    def settings(self) -> dict:
        """The settings that a resumed training must share; ``epochs`` and ``patience`` may change."""
        training = {name: value for name, value in asdict(self.config).items() if name not in ("epochs", "patience")}
        settings = {
            "training": training,
            "model": asdict(self.model.config),
            "queries": [pool.query_id for pool in self.pools],
            "data": self.data,
        }
        return json.loads(json.dumps(settings))

    def _write_state(self) -> None:
        """Write log and state: first the tensors, then, by rename, the description that names their file.

        The plot is written now and then.
        """
        write(self.folder / LOG_FILE, "".join(json.dumps(_finite_or_none(entry)) + "\n" for entry in self.history))
        if time.monotonic() - self.plotted >= PLOT_SECONDS:
            self._plot()
        tensors = {f"model.{name}": tensor.contiguous() for name, tensor in self.model.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": tensor.contiguous() for name, tensor in state.items()}
        for part in AVERAGES:
            tensors |= {f"{part}.{name}": tensor for name, tensor in getattr(self, part).items()}
        name = f"{len(self.history)}.{TENSORS_FILE}"  # a new file, which the state names only once it is complete
        with temporary_folder(self.folder / name) as writing:  # safetensors leaves a file of its own when it is killed
            save_file(tensors, writing / name)
            sync([writing / name])
            os.replace(writing / name, self.folder / name)
        state = {"settings": self.settings(), "tensors": name, "history": self.history}
        write(self.folder / STATE_FILE, json.dumps(state))
        for path in self.folder.glob(f"*.{TENSORS_FILE}"):
            if path.name != name:
                path.unlink()

    def _plot(self) -> None:
        plot_history(self.history, self.folder / PLOT_FILE)
        self.plotted = time.monotonic()

    def resume(self) -> bool:
        """Continue from the state in the folder; False if there is none.

        Raises:
            InputError: the state is damaged, or of a training with other settings.
        """
        path = self.folder / STATE_FILE
        if not path.exists():
            return False
        state = read_object(
            path, START_OVER, {"settings": dict[str, Any], "tensors": str, "history": list[dict[str, Any]]}
        )
        settings, history = state["settings"], state["history"]
        try:
            tensors = load_file(regular(self.folder / state["tensors"]))
            weights, optimizer = self._restored(tensors)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise InputError(f"{self.folder} cannot be read ({damage(error)}); {START_OVER}") from None
        if settings != self.settings():
            raise InputError(f"{self.folder} holds a training with other settings; delete it, or start afresh")
        self.model.load_state_dict(weights, strict=True)
        self.optimizer.load_state_dict(optimizer)
        for part in AVERAGES:
            setattr(self, part, _part(tensors, part))
        self.history = history
        return True

    def _restored(self, tensors: dict) -> tuple[dict, dict]:
        """The model's and the optimizer's state; KeyError or InputError if a tensor is missing or does not fit."""
        weights = _part(tensors, "model")
        check_weights(weights, self.model.state_dict(), str(self.folder))
        optimizer = self.optimizer.state_dict()
        states: dict[int, dict] = {}
        for name, tensor in _part(tensors, "optimizer").items():
            number, part = name.split(".")
            states.setdefault(int(number), {})[part] = tensor
        parts = {part for state in states.values() for part in state}
        # Some optimizers make their state at the first step, so the expected parts are those of the other parameters.
        for number in {*states, *optimizer["state"]}:
            for part in parts:
                states[number][part]
        return weights, {**optimizer, "state": states}


def _part(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    """The tensors of one part of the state, by their names in it."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _copied(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's parameters, copied."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _sparse_tables(model: RankingModel) -> list[nn.Parameter]:
    """Turn on sparse gradients of the embeddings, since a batch has few words of the vocabulary; returns the tables."""
    modules = [module for module in model.modules() if isinstance(module, SparseEmbeddings)]
    for module in modules:
        module.sparse_gradients = True
    own = isinstance(model, FixedVectorModel) and model.config.trained_words  # in `scored`
    return [*(module.embeddings for module in modules), *([model.get_parameter("vectors")] if own else [])]


def scored(model: RankingModel, inputs: Inputs) -> torch.Tensor:
    """Scores of a batch, float [B].

    With ``by_length`` the batch is split by length, because the model's cost grows with the padding of both texts.
    Scores and gradients do not depend on the split. Trained word vectors have a sparse gradient.
    """
    if isinstance(model, FixedVectorModel) and model.config.trained_words:
        return _scored_by_few_words(model, inputs)
    return _scored_in_parts(model, model.by_length, inputs)


def _scored_by_few_words(model: FixedVectorModel, inputs: Inputs) -> torch.Tensor:
    """Scores, float [B], by a table of the batch's words: each part's gradient is as large as the table it reads."""
    texts = inputs.documents.flatten(), inputs.queries.flatten()
    ids, places = torch.unique(torch.cat([texts[0].new_zeros(1), *texts]), return_inverse=True)  # id 0 stays 0
    documents, queries = places[1:].split([len(text) for text in texts])
    table = functional.embedding(ids, model.get_parameter("vectors"), sparse=True)  # [U, D]
    inputs = inputs._replace(documents=documents.view_as(inputs.documents), queries=queries.view_as(inputs.queries))
    return _scored_in_parts(lambda part: functional_call(model, {"vectors": table}, (part,)), model.by_length, inputs)


def _scored_in_parts(model: Callable[[Inputs], torch.Tensor], by_length: bool, inputs: Inputs) -> torch.Tensor:
    """Scores, float [B], of a batch that is split by length, or as it is."""
    if not by_length:
        return model(inputs)
    lengths = (inputs.query_mask.sum(dim=1), inputs.document_mask.sum(dim=1))
    order = torch.argsort(lengths[0] * (lengths[1].max() + 1) + lengths[1], stable=True)  # [B]
    parts = order.split(max(len(order) // 8, 16))
    scores = torch.cat([model(inputs.take(part).without_common_padding()) for part in parts])
    return scores[torch.argsort(order)]


def _finite_or_none(entry: dict) -> dict:
    """NaN and infinity, which JSON lacks, become None."""
    return {name: value if math.isfinite(value) else None for name, value in entry.items()}


def write(path: Path, text: str) -> None:
    """Write or replace a file of a work folder atomically."""
    with replacing(path, INNER, overwrite=True) as file:
        file.write(text.encode())
