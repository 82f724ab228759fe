"""Trainings of one model on one collection: what they share is read once, and each runs beside its output.

Candidates, pools of documents and their features are made when they are first needed, and serve every training of a
session: one for each lexical feature that is tried (:mod:`rerank_plugin.training.selection`), or one for each fold
(:mod:`rerank_plugin.training.cross_validation`).
"""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np
import torch

from rerank_plugin.checkpoints import build_config, check_weights, load_checkpoint, model_classes, read_config
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.corpora.records import Judgments, Query
from rerank_plugin.errors import InputError
from rerank_plugin.evaluation.measures import parse
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.candidates import Candidates
from rerank_plugin.retrieval.index_folder import Index
from rerank_plugin.text import embeddings
from rerank_plugin.text.embeddings import WordVectors
from rerank_plugin.training.candidates import CandidateFinder
from rerank_plugin.training.pairs import Pool, make_pools
from rerank_plugin.training.saving import Outcome, Saver, work_folder
from rerank_plugin.training.trainer import Trainer, TrainingConfig
from rerank_plugin.training.validation import Validation

log = logging.getLogger(__name__)

CROSS_VALIDATION_FILE = "cross-validation.json"


@dataclass(frozen=True)
class Task:
    """What is trained on what.

    Attributes:
        model: its name. values: its hyper-parameters, where they are not the paper's.
        index, words: folders of the index and of the word vectors.
        train, validation: queries and judgments, as :func:`rerank_plugin.corpora.queries_and_judgments` takes them;
            without validation, parts of the training queries must be held out (:class:`HeldOut`).
        measures: names of the validation measures; the first decides.
        first_stage: a :class:`~rerank_plugin.retrieval.lucene.FirstStageConfig`; None where runs give all candidates.
        train_run, validation_run: runs with the candidates, instead of the first stage.
        depth: candidates of a query. validation_depth: of a validation query, where that is another number.
        documents: what pairs are drawn from, see :func:`rerank_plugin.training.pairs.make_pools`.
        start_from: checkpoint to fine-tune.
        device: torch's. threads: first-stage searches at once.
        keep_epochs: whether every epoch's checkpoint is kept.
        resume: whether trainings that were interrupted go on.
    """

    model: str
    index: Path
    words: Path
    train: str
    measures: Sequence[str]
    training: TrainingConfig
    values: dict = field(default_factory=dict)
    validation: str | None = None
    first_stage: object | None = None
    train_run: Path | None = None
    validation_run: Path | None = None
    depth: int = 500
    validation_depth: int | None = None
    documents: str = "candidates"
    start_from: Path | None = None
    device: str = "cpu"
    threads: int = 2
    keep_epochs: bool = False
    resume: bool = False


class HeldOut(NamedTuple):
    """Validation queries, their judgments, their candidates by query id, and the top of ERR's scale of grades."""

    queries: Sequence[Query]
    judgments: Judgments
    candidates: dict[str, Candidates]
    highest: float | None = None


class Session:
    """The trainings of a task.

    Raises:
        InputError: something cannot be read, does not exist, or does not fit the rest.

    Attributes:
        queries, judgments: of the training.
        data: what is trained on, as JSON values.
    """

    def __init__(self, task: Task):
        self.task = task
        for measure in task.measures:
            parse(measure)  # a mistyped name is said before anything takes long
        self.model_class, self.config_class = model_classes(task.model)
        self.model_config = build_config(self.config_class, task.values, "command line")
        self.index = Index(task.index)
        self.vectors = embeddings.load(task.words)
        self.queries, self.judgments = queries_and_judgments(task.train)
        if task.validation is not None:
            self.validation_queries, self.validation_judgments = queries_and_judgments(task.validation)
            shared = {query.id for query in self.queries} & {query.id for query in self.validation_queries}
            if shared:
                raise InputError(f"{len(shared)} queries are in both --train and --validation, e.g. '{min(shared)}'")
        _, reranker = self.fresh_model(self.model_config)
        self.builder = reranker.builder
        self.find_candidates = CandidateFinder(self.index, task.first_stage, task.threads)
        self.data = json.loads(json.dumps(self._describe()))

    @cached_property
    def candidates(self) -> dict[str, Candidates]:
        """Of the training queries, by id."""
        log.info("candidates for %d training queries", len(self.queries))
        return self.find_candidates(self.queries, self.task.train_run, self.task.depth)

    @cached_property
    def pools(self) -> list[Pool]:
        """The documents of each training query that teaches something, in the order of the queries."""
        return make_pools(self.queries, self.judgments, self.candidates, self.builder, self.task.documents)

    @cached_property
    def held_out(self) -> HeldOut:
        """The validation queries of the task."""
        task = self.task
        log.info("candidates for %d validation queries", len(self.validation_queries))
        depth = task.validation_depth or task.depth
        found = self.find_candidates(self.validation_queries, task.validation_run, depth)
        return HeldOut(self.validation_queries, self.validation_judgments, found)

    def fresh_model(self, config):
        """A model with weights by the seed, or those it starts from, and the reranker that validates it."""
        torch.manual_seed(self.task.training.seed)
        model = self.model_class(config, torch.from_numpy(self.vectors.matrix))
        if self.task.start_from:
            start_from(model, self.task.start_from, self.vectors)
        try:
            options = RerankerOptions(self.task.device)
            return model, NeuralReranker(model, self.vectors.vocabulary, self.index.forward, options)
        except ValueError as error:
            raise InputError(str(error)) from None

    def config_with(self, features: Sequence[str]):
        """The model's configuration with some of its lexical features only, and the pools with theirs."""
        columns = [self.model_config.lexical_features.index(name) for name in features]
        values = {**self.task.values, "lexical_features": tuple(features)}
        pools = [pool._replace(features=np.ascontiguousarray(pool.features[:, columns])) for pool in self.pools]
        return build_config(self.config_class, values, "command line"), pools

    def train(
        self,
        output: Path,
        pools: Sequence[Pool] | None = None,
        held_out: HeldOut | None = None,
        config=None,
        data: dict | None = None,
        words: Path | None = None,
    ) -> Outcome:
        """Train a model and put its best epoch's checkpoint in place.

        Args:
            pools, held_out, config, data: the session's where they are not given.
            words: folder for the word vectors that the checkpoints of several trainings share.

        Raises:
            InputError: nothing can be learned, or what is to be resumed is of another training.
        """
        task, folder = self.task, work_folder(output)
        if (folder / CROSS_VALIDATION_FILE).exists():
            raise InputError(f"{folder} holds a cross-validation: go on with its --folds and --resume, or delete it")
        pools, held_out = self.pools if pools is None else pools, held_out or self.held_out
        config, data = config or self.model_config, data or self.data
        model, reranker = self.fresh_model(config)
        if pools and config.lexical_features:
            values = np.concatenate([pool.features for pool in pools]).astype(np.float64)
            model.set_feature_statistics(torch.from_numpy(values.mean(axis=0)), torch.from_numpy(values.std(axis=0)))
        validation = Validation(
            held_out.queries, held_out.judgments, held_out.candidates, reranker, task.measures, held_out.highest
        )
        described = {**data, **asdict(task.training)}
        saver = Saver(folder, model, self.vectors, described, task.keep_epochs, words)
        trainer = Trainer(
            model, reranker.builder, pools, task.training, validation, saver.save, folder, task.device, data, saver.keep
        )
        if task.resume and trainer.resume():
            log.info("going on after epoch %d", len(trainer.history))
            saver.go_on(len(trainer.history))
        log.info("training on %d queries", len(pools))
        trainer.train()
        return saver.finish(len(trainer.history), task.measures[0], output)

    def _describe(self) -> dict:
        """What is trained on: for the checkpoint, and so that only the same training is resumed."""
        task = self.task
        files = self.index.description["files"]
        forward = {name: file for name, file in files.items() if name.startswith("forward/")}
        runs = {"train": task.train_run, "validation": task.validation_run}
        return {
            "train": task.train,
            **({"validation": task.validation} if task.validation is not None else {}),
            "index": str(task.index),
            "index_checksum": zlib.crc32(json.dumps(forward, sort_keys=True).encode()),
            "words": str(task.words),
            "words_checksum": zlib.crc32(self.vectors.matrix.tobytes()),
            "runs": {name: str(path) for name, path in runs.items() if path},
            "first_stage": asdict(task.first_stage) if task.first_stage else None,
            "depth": task.depth,
            "documents": task.documents,
            **({"start_from": str(task.start_from)} if task.start_from else {}),
            **({"validation_depth": task.validation_depth} if task.validation_depth else {}),
        }


def start_from(model, folder: Path, vectors: WordVectors) -> None:
    """Give a model the weights of a checkpoint.

    Raises:
        InputError: it is of another model, other hyper-parameters, or other word vectors.
    """
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
