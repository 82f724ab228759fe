"""Trainings of one model on one collection, which share the data that they read.

Candidates, pools of documents and their features are computed when they are first needed, once for all trainings of a
session: one for each lexical feature that is tried (:mod:`rerank_plugin.training.selection`), or one for each fold
(:mod:`rerank_plugin.training.cross_validation`).
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.evaluation.measures import parse
from rerank_plugin.features.lexical_features import FIRST_STAGE, FIRST_STAGE_SHARE
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import check_free
from rerank_plugin.files.records import Judgments, Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.models.checkpoints import (
    build_config,
    check_holds,
    check_weights,
    load_checkpoint,
    model_classes,
    read_config,
)
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text import word_vectors
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from rerank_plugin.training.candidate_finder import CandidateFinder
from rerank_plugin.training.pairs import WITHOUT_CANDIDATES, Pool, make_pools
from rerank_plugin.training.saving import TRAINED, Outcome, Saver, work_folder, work_folder_held
from rerank_plugin.training.starting_concepts import check_same_concepts, starting_concepts
from rerank_plugin.training.trainer import Trainer, TrainingConfig
from rerank_plugin.training.validation import Validation

log = logging.getLogger(__name__)

CROSS_VALIDATION_FILE = "cross-validation.json"


@dataclass(frozen=True)
class Task:
    """The model, data and settings of a training.

    Attributes:
        model: its name. values: its hyper-parameters, where they are not the paper's.
        index, words: folders of the index and of the word vectors, None for a model that is built without any.
        train, validation: queries and judgments, as :func:`rerank_plugin.corpora.queries_and_judgments` takes them;
            without validation, parts of the training queries must be held out (:class:`HeldOut`).
        concepts: folder of the concept vectors, for a model that reads concepts.
        more_train: further training queries and judgments, whose ids may be those of others: other texts of them.
        queries_at_most: how many of all training queries are kept, the same first ones of a random order.
        measures: names of the validation measures; the first decides.
        first_stage: a :class:`~rerank_plugin.retrieval.register.FirstStageConfig`; None where runs give all candidates.
        train_run, validation_run: runs with the candidates, instead of the first stage.
        depth: candidates of a query. validation_depth: of a validation query, where that is another number.
        documents: what pairs are drawn from, see :func:`rerank_plugin.training.pairs.make_pools`.
        start_from: checkpoint to fine-tune.
        device: torch's. threads: first-stage searches at once.
        keep_epochs: whether every epoch's checkpoint is kept.
        resume: whether trainings that were interrupted go on.
        overwrite: whether a checkpoint that is there already is replaced, and an interrupted training.
    """

    model: str
    index: Path
    words: Path | None
    train: str
    measures: Sequence[str]
    training: TrainingConfig
    values: dict = field(default_factory=dict)
    validation: str | None = None
    more_train: tuple[str, ...] = ()
    queries_at_most: int | None = None
    first_stage: object | None = None
    train_run: Path | None = None
    validation_run: Path | None = None
    depth: int = 500
    validation_depth: int | None = None
    documents: str = "candidates"
    concepts: Path | None = None
    start_from: Path | None = None
    device: str = "cpu"
    threads: int = 2
    keep_epochs: bool = False
    resume: bool = False
    overwrite: bool = False


class HeldOut(NamedTuple):
    """Validation queries, their judgments, their candidates by query id, and the maximum grade of ERR."""

    queries: Sequence[Query]
    judgments: Judgments
    candidates: dict[str, Candidates]
    highest: float | None = None


class Fresh(NamedTuple):
    """A model before its training, and the reranker that validates it."""

    model: RankingModel
    reranker: NeuralReranker


class TrainingSet(NamedTuple):
    """Queries to train on, and their judgments."""

    queries: Sequence[Query]
    judgments: Judgments


def some_queries(sets: Sequence[TrainingSet], at_most: int | None, seed: int) -> list[TrainingSet]:
    """A random sample of ``at_most`` queries of all sets, all for None; larger samples contain smaller ones."""
    if at_most is None:
        return list(sets)
    places = [(number, place) for number, one in enumerate(sets) for place in range(len(one.queries))]
    chosen = {places[at] for at in np.random.default_rng(seed).permutation(len(places))[:at_most].tolist()}
    kept = [
        TrainingSet([query for place, query in enumerate(one.queries) if (number, place) in chosen], one.judgments)
        for number, one in enumerate(sets)
    ]
    return [one for one in kept if one.queries]


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
        self.index = Index(task.index)
        self.concepts = starting_concepts(task.concepts, task.model, self.config_class, task.values, self.index.forward)
        self.values = {**task.values, **self.concepts.values}
        self.model_config = build_config(self.config_class, self.values, "command line")
        self.vectors = self._read_words()
        sets = [TrainingSet(*queries_and_judgments(spec)) for spec in (task.train, *task.more_train)]
        self.training_sets = some_queries(sets, task.queries_at_most, task.training.seed)
        self.queries, self.judgments = self.training_sets[0]
        if task.validation is not None:
            self.validation_queries, self.validation_judgments = queries_and_judgments(task.validation)
            trained = {query.id for one in self.training_sets for query in one.queries}
            shared = trained & {query.id for query in self.validation_queries}
            if shared:
                raise InputError(
                    f"{len(shared)} queries are both for training and for validation, e.g. '{min(shared)}'"
                )
        self._made = self._make(self.model_config), torch.get_rng_state()
        self.builder = self._made[0].reranker.builder
        self.find_candidates = CandidateFinder(self.index, task.first_stage, task.threads)
        self.data = json.loads(json.dumps(self._describe()))

    @cached_property
    def candidates(self) -> dict[str, Candidates]:
        """Of the training queries, by id."""
        return self._find_candidates(self.queries, self.task.train_run)

    def _find_candidates(self, queries: Sequence[Query], run: Path | None) -> dict[str, Candidates]:
        log.info("candidates for %d training queries", len(queries))
        return self.find_candidates(queries, run, self.task.depth)

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools of the training queries that give examples, in the order of the queries."""
        pools = []
        for number, (queries, judged) in enumerate(self.training_sets):
            found = {}
            if self.task.documents not in WITHOUT_CANDIDATES or self.reads_first_stage:
                found = self.candidates if number == 0 else self._find_candidates(queries, None)
            pools += make_pools(queries, judged, found, self.builder, self.task.documents)
        return pools

    @property
    def reads_first_stage(self) -> bool:
        """Whether the model reads the first stage's scores."""
        return not {FIRST_STAGE, FIRST_STAGE_SHARE}.isdisjoint(self.model_config.lexical_features)

    @cached_property
    def held_out(self) -> HeldOut:
        """The validation queries of the task."""
        task = self.task
        log.info("candidates for %d validation queries", len(self.validation_queries))
        depth = task.validation_depth or task.depth
        found = self.find_candidates(self.validation_queries, task.validation_run, depth)
        return HeldOut(self.validation_queries, self.validation_judgments, found)

    def fresh_model(self, config) -> Fresh:
        """A model with weights from the seed or from ``start_from``, and the reranker that validates it.

        The first call with the session's configuration returns its own model and restores its random state.
        """
        if self._made is not None and config == self.model_config:
            (made, state), self._made = self._made, None
            torch.manual_seed(self.task.training.seed)  # of devices, too
            torch.set_rng_state(state)
            return made
        return self._make(config)

    def _make(self, config) -> Fresh:
        torch.manual_seed(self.task.training.seed)
        if self.vectors is None:
            model = self.model_class(config)
        else:
            model = self.model_class(config, torch.from_numpy(self.vectors.matrix), **self.concepts.arguments)
        if self.task.start_from:
            start_from(model, self.task.start_from, self.vectors)
        try:
            options = RerankerOptions(self.task.device)
            vocabulary = Vocabulary([]) if self.vectors is None else self.vectors.vocabulary
            return Fresh(model, NeuralReranker(model, vocabulary, self.index.forward, options))
        except ValueError as error:
            raise InputError(str(error)) from None

    def config_with(self, features: Sequence[str]):
        """The model's configuration and the pools, restricted to the given lexical features."""
        columns = [self.model_config.lexical_features.index(name) for name in features]
        values = {**self.values, "lexical_features": tuple(features)}
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
        overwrite: bool | None = None,
    ) -> Outcome:
        """Train a model and write the checkpoint of its best epoch to ``output``.

        Args:
            pools, held_out, config, data: by default the session's.
            overwrite: by default the task's.
            words: folder of the word vectors that the checkpoints of several trainings share.

        Raises:
            InputError: nothing can be learned, or what is to be resumed is of another training.
        """
        task, folder = self.task, work_folder(output)
        if (folder / CROSS_VALIDATION_FILE).exists():
            raise InputError(f"{folder} holds a cross-validation: resume it with its folds, or delete it")
        pools, held_out = self.pools if pools is None else pools, held_out or self.held_out
        overwrite = task.overwrite if overwrite is None else overwrite
        check_free(output, TRAINED, overwrite)
        with work_folder_held(folder, task.resume, overwrite):
            saver = self._train(folder, pools, held_out, config or self.model_config, data or self.data, words)
            return saver.finish(task.measures[0], output, overwrite)

    def _train(self, folder: Path, pools, held_out, config, data: dict, words: Path | None) -> Saver:
        task = self.task
        model, reranker = self.fresh_model(config)
        if pools and config.lexical_features:
            values = np.concatenate([pool.features for pool in pools]).astype(np.float64)
            model.set_feature_statistics(torch.from_numpy(values.mean(axis=0)), torch.from_numpy(values.std(axis=0)))
        validation = Validation(
            held_out.queries, held_out.judgments, held_out.candidates, reranker, task.measures, held_out.highest
        )
        described = {**data, **asdict(task.training)}
        saver = Saver(folder, model, self.vectors, described, task.keep_epochs, words)
        kind = Trainer
        if task.training.of_batches:
            from rerank_plugin.training.contrastive import ContrastiveTrainer as kind
        trainer = kind(
            model, reranker.builder, pools, task.training, validation, saver.save, folder, task.device, data, saver.keep
        )
        if task.resume and trainer.resume():
            log.info("going on after epoch %d", len(trainer.history))
            saver.go_on(len(trainer.history))
        log.info("training on %d queries", len(pools))
        trainer.train()
        return saver

    def _read_words(self) -> WordVectors | None:
        """The word vectors; None for a model that is built without any."""
        words = self.task.words
        if self.model_class.has_word_vectors:
            if words is None:
                raise InputError(f"the model '{self.task.model}' needs word vectors: give their folder")
            return word_vectors.load(words)
        if words is not None:
            log.warning("the model '%s' needs no word vectors: %s is not read", self.task.model, words)
        return None

    def _describe_words(self) -> dict:
        if self.vectors is None:
            return {}
        return {"words": str(self.task.words), "words_checksum": zlib.crc32(self.vectors.matrix.tobytes())}

    def _describe(self) -> dict:
        """The training data as JSON values, for the checkpoint and for the check when a training is resumed."""
        task = self.task
        files = self.index.description["files"]
        forward = {name: file for name, file in files.items() if name.startswith("forward/")}
        runs = {"train": task.train_run, "validation": task.validation_run}
        return {
            "train": [task.train, *task.more_train] if task.more_train else task.train,
            **({"queries_at_most": task.queries_at_most} if task.queries_at_most else {}),
            **({"validation": task.validation} if task.validation is not None else {}),
            "index": str(task.index),
            "index_checksum": zlib.crc32(json.dumps(forward, sort_keys=True).encode()),
            **self._describe_words(),
            **self.concepts.described,
            "runs": {name: str(path) for name, path in runs.items() if path},
            "first_stage": asdict(task.first_stage) if task.first_stage else None,
            "depth": task.depth,
            "documents": task.documents,
            **({"start_from": str(task.start_from)} if task.start_from else {}),
            **({"validation_depth": task.validation_depth} if task.validation_depth else {}),
        }


def start_from(model: RankingModel, folder: Path, vectors: WordVectors | None) -> None:
    """Give a model the weights of a checkpoint.

    Raises:
        InputError: it is of another model, other hyper-parameters, or other word vectors.
    """
    described = read_config(folder)
    check_holds(model.name, folder, described)
    before, _ = load_checkpoint(folder, described)
    if before.config.lexical_features != model.config.lexical_features:
        raise InputError(f"{folder} has other lexical features: {' '.join(before.config.lexical_features) or 'none'}")
    if vectors is not None:
        _check_same_words(folder, vectors)
    weights = before.state_dict()
    if model.starts_from_words and model.config.concepts and not before.config.concepts:
        weights = {**model.state_dict(), **weights}  # the concepts start as they would without
    else:
        check_same_concepts(before, model, str(folder))
    check_weights(weights, model.state_dict(), str(folder))
    model.load_state_dict(weights)


def _check_same_words(folder: Path, vectors: WordVectors) -> None:
    found = word_vectors.load(folder)
    if found.vocabulary.words != vectors.vocabulary.words or not np.array_equal(found.matrix, vectors.matrix):
        raise InputError(
            f"{folder} was trained on other word vectors than those given: give it as the word vectors, too"
        )
