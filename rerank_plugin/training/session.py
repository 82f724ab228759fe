"""Trainings of one model on one collection, which share the data that they read.

Candidates, pools of documents and their features are computed lazily, once for all trainings of a session: one for each
lexical feature that is tried (:mod:`rerank_plugin.training.selection`), or one for each fold
(:mod:`rerank_plugin.training.cross_validation`).
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.base.settings import DEPTH
from rerank_plugin.base.terminal import progress
from rerank_plugin.corpora import queries, queries_and_judgments
from rerank_plugin.evaluation.measures import parse
from rerank_plugin.files.outputs import check_free
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.inputs.lexical_features import LISTWISE
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.checkpoint import build_config
from rerank_plugin.models.ranking_model import RankingModel
from rerank_plugin.models.register import entry_of
from rerank_plugin.ranking.pipeline import OpenPipeline
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.register import FirstStage, FirstStageConfig
from rerank_plugin.retrieval.run_file import RunConfig
from rerank_plugin.text import word_vectors
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from rerank_plugin.training.config import TrainingConfig
from rerank_plugin.training.pairs import WITHOUT_CANDIDATES, Pool, make_pools
from rerank_plugin.training.saving import TRAINED, Outcome, Saver, locked_work_folder, work_folder
from rerank_plugin.training.starting_point import start_from, starting_concepts, starting_folder, starting_values
from rerank_plugin.training.teacher_grades import TeacherGrades
from rerank_plugin.training.trainer import Trainer
from rerank_plugin.training.validation import ACCURACY, HeldOut, Validation

log = logging.getLogger(__name__)

CROSS_VALIDATION_FILE = "cross-validation.json"


@dataclass(frozen=True)
class TrainingTask:
    """The model, data and settings of a training; measures and documents default to those of the model's recipe.

    Queries and judgments are specs of :func:`rerank_plugin.corpora.queries_and_judgments`. Without ``validation``, the
    caller holds out training queries (:class:`HeldOut`). ``words`` and ``start_from`` may be the name of a bundled
    model; hyper-parameters and words default to those of ``start_from``.
    """

    model: str
    index: Path
    words: str | Path | None  # folder of the word vectors; None for a model without any
    train: str
    training: TrainingConfig
    measures: Sequence[str] = ()  # of the validation; the first decides
    values: dict = field(default_factory=dict)  # hyper-parameters that differ from the paper's
    validation: str | None = None
    more_train: tuple[str, ...] = ()  # may repeat the ids of other training queries with other texts
    queries_at_most: int | None = None  # size of a random sample of all training queries
    first_stage: FirstStageConfig | None = None  # None if runs give all candidates
    train_run: Path | None = None  # candidates instead of those of the first stage
    validation_run: Path | None = None
    depth: int = DEPTH  # candidates of a query
    validation_depth: int | None = None  # candidates of a validation query; None for depth
    documents: str = ""  # the documents of a pool, see rerank_plugin.training.pairs.make_pools
    concepts: Path | None = None  # folder of the concept vectors, for a model that reads concepts
    start_from: str | Path | None = None  # checkpoint to fine-tune
    device: str = "cpu"
    grades: TeacherGrades | None = None  # grade the training queries' candidates instead of judgments
    threads: int = 2  # concurrent first-stage searches
    keep_epochs: bool = False  # whether to keep every epoch's checkpoint
    resume: bool = False
    overwrite: bool = False  # whether to replace an existing checkpoint or an interrupted training

    def __post_init__(self) -> None:
        recipe = (entry := entry_of(self.model)).recipe
        documents = "relevant" if self.training.of_batches else self.documents or recipe.documents
        words, start, values = starting_folder(self.words), starting_folder(self.start_from), self.values
        if start is not None:
            values = starting_values(self.model, start, values, self.concepts is not None)
            if words is None and entry.load("module").has_word_vectors:
                words = start
        measures = list(self.measures or recipe.measures)
        resolved = dict(words=words, start_from=start, values=values, measures=measures, documents=documents)
        for name, value in resolved.items():
            object.__setattr__(self, name, value)


class TrainingSet(NamedTuple):
    """Queries to train on, and their judgments."""

    queries: Sequence[Query]
    judgments: Judgments


def sampled_queries(sets: Sequence[TrainingSet], at_most: int | None, seed: int) -> list[TrainingSet]:
    """A random sample of ``at_most`` queries of all sets, all for None; larger samples contain smaller ones."""
    if at_most is None:
        return list(sets)
    positions = [(number, place) for number, training in enumerate(sets) for place in range(len(training.queries))]
    order = np.random.default_rng(seed).permutation(len(positions))[:at_most].tolist()
    sampled = {positions[index] for index in order}
    samples = [
        TrainingSet(
            [query for place, query in enumerate(training.queries) if (number, place) in sampled], training.judgments
        )
        for number, training in enumerate(sets)
    ]
    return [sample for sample in samples if sample.queries]


class Session:
    """The trainings of a task.

    Raises:
        InputError: an input cannot be read or does not fit the others.

    Attributes:
        queries, judgments: of the training.
        data: the training data as JSON values.
    """

    def __init__(self, task: TrainingTask):
        self.task = task
        for measure in task.measures:
            if measure != ACCURACY:
                parse(measure)  # reports a mistyped name before the slow part
        entry = entry_of(task.model)
        self.model_class, self.config_class = entry.load("module"), entry.load("config")
        self.running = RerankerOptions(task.device, precision=task.training.precision)
        if task.training.precision != "float32" and self.model_class.has_word_vectors:
            # Others validate on fast paths, which are of single precision.
            raise InputError(f"precision {task.training.precision} is for cross-encoders (bert), not for {task.model}")
        self.index = Index(task.index)
        self.concepts = starting_concepts(task.concepts, task.model, self.config_class, task.values, self.index.forward)
        self.values = {**task.values, **self.concepts.values}
        self.model_config = build_config(self.config_class, self.values, "command line")
        self.vectors = self._read_words()
        specs = (task.train, *task.more_train)
        if task.grades is None:
            sets = [TrainingSet(*queries_and_judgments(spec)) for spec in specs]
        else:
            sets = [TrainingSet(queries(spec), {}) for spec in specs]
        self.training_sets = sampled_queries(sets, task.queries_at_most, task.training.seed)
        self.queries, self.judgments = self.training_sets[0]
        if task.validation is not None:
            self.validation_queries, self.validation_judgments = queries_and_judgments(task.validation)
            trained = {query.id for training in self.training_sets for query in training.queries}
            shared = trained & {query.id for query in self.validation_queries}
            if shared:
                raise InputError(
                    f"{len(shared)} queries are both for training and for validation, e.g. '{min(shared)}'"
                )
        # Made now to check that all inputs fit together; the first training uses it.
        self._first: tuple[RankingModel, NeuralReranker] | None = self._make(self.model_config)
        self.builder = self._first[1].builder
        self.data = json.loads(json.dumps(self._describe()))

    def _read_words(self) -> WordVectors | None:
        """The word vectors; None for a model without any."""
        words = self.task.words
        if self.model_class.has_word_vectors:
            if words is None:
                raise InputError(f"the model '{self.task.model}' needs word vectors: give their folder")
            return word_vectors.load(Path(words))
        if words is not None:
            log.warning("the model '%s' needs no word vectors: %s is not read", self.task.model, words)
        return None

    def _describe(self) -> dict[str, Any]:
        """The training data as JSON values, for the checkpoint and for the check when a training is resumed."""
        task = self.task
        runs = {"train": task.train_run, "validation": task.validation_run}
        words, start = self.vectors, task.start_from
        description = {
            "train": [task.train, *task.more_train] if task.more_train else task.train,
            "queries_at_most": task.queries_at_most,
            "validation": task.validation,
            "index": str(task.index),
            "index_checksum": zlib.crc32(str(self.index.forward.checksum).encode()),
            "words": None if words is None else str(task.words),
            "words_checksum": None if words is None else zlib.crc32(words.matrix.tobytes()),
            **self.concepts.source,
            "runs": {name: str(path) for name, path in runs.items() if path},
            "first_stage": asdict(task.first_stage) if task.first_stage else None,  # type: ignore[call-overload]
            "depth": task.depth,
            "documents": task.documents,
            "start_from": None if start is None else str(start),
            "validation_depth": task.validation_depth,
            **(task.grades.description if task.grades else {}),
        }
        return {name: value for name, value in description.items() if value is not None or name == "first_stage"}

    @cached_property
    def first_stage(self) -> FirstStage:
        """The first stage, lazily opened, so that runs need no Java."""
        return self.index.first_stage(self.task.first_stage)

    def find_candidates(
        self, queries: Sequence[Query], run: Path | None, depth: int, purpose: str = "training"
    ) -> dict[str, Candidates]:
        """Candidates by query id, from a run if one is given, otherwise from the first stage."""
        log.info("candidates for %d %s queries", len(queries), purpose)
        first_stage = self.index.first_stage(RunConfig(str(run))) if run else self.first_stage
        pipeline = OpenPipeline(self.index, first_stage, depth)
        with ThreadPoolExecutor(self.task.threads) as executor:
            searched = progress(executor.map(pipeline.candidates, queries), "candidates", "queries")
            return {query.id: candidates for query, candidates in zip(queries, searched)}

    @cached_property
    def candidates(self) -> dict[str, Candidates]:
        """The candidates of the first set of training queries, by query id."""
        return self.find_candidates(self.queries, self.task.train_run, self.task.depth)

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools of the training queries that give examples, in the order of the queries."""
        task = self.task
        pools: list[Pool] = []
        reads_first_stage = not LISTWISE.isdisjoint(self.model_config.lexical_features)
        for number, (trained, judgments) in enumerate(self.training_sets):
            candidates = {}
            if task.documents not in WITHOUT_CANDIDATES or reads_first_stage:
                candidates = self.candidates if number == 0 else self.find_candidates(trained, None, task.depth)
            if task.grades is not None:
                judgments = task.grades(self.index.forward, trained, candidates)
            pools += make_pools(trained, judgments, candidates, self.builder, task.documents)
        return pools

    @cached_property
    def held_out(self) -> HeldOut:
        """The validation queries of the task."""
        task, depth = self.task, self.task.validation_depth or self.task.depth
        candidates = self.find_candidates(self.validation_queries, task.validation_run, depth, "validation")
        return HeldOut(self.validation_queries, self.validation_judgments, candidates)

    def _make(self, config: ModelConfig) -> tuple[RankingModel, NeuralReranker]:
        """A model with weights from the seed or from ``start_from``, and its reranker."""
        torch.manual_seed(self.task.training.seed)
        if self.vectors is None:
            model = self.model_class(config)
        else:
            model = self.model_class(config, torch.from_numpy(self.vectors.matrix), **self.concepts.arguments)
        if self.task.start_from:
            start_from(model, Path(self.task.start_from), self.vectors)
        vocabulary = Vocabulary([]) if self.vectors is None else self.vectors.vocabulary
        try:
            return model, NeuralReranker(model, vocabulary, self.index.forward, self.running)
        except ValueError as error:
            raise InputError(str(error)) from None

    def config_with(self, features: Sequence[str]) -> tuple[ModelConfig, list[Pool]]:
        """The model's configuration and the pools, restricted to some lexical features."""
        columns = [self.model_config.lexical_features.index(name) for name in features]
        values = {**self.values, "lexical_features": tuple(features)}
        pools = [pool._replace(features=np.ascontiguousarray(pool.features[:, columns])) for pool in self.pools]
        return build_config(self.config_class, values, "command line"), pools

    def train(
        self,
        output: Path,
        pools: Sequence[Pool] | None = None,
        held_out: HeldOut | None = None,
        config: ModelConfig | None = None,
        data: dict | None = None,
        words: Path | None = None,
        overwrite: bool | None = None,
    ) -> Outcome:
        """Train a model and write the checkpoint of its best epoch to ``output``.

        Args:
            pools, held_out, config, data: by default the session's.
            overwrite: by default the task's.
            words: folder of word vectors that the checkpoints of several trainings share.

        Raises:
            InputError: there are no examples to learn from, or the training to resume has other settings.
        """
        task, folder = self.task, work_folder(output)
        if (folder / CROSS_VALIDATION_FILE).exists():
            raise InputError(f"{folder} holds a cross-validation: resume it with its folds, or delete it")
        pools, held_out = self.pools if pools is None else pools, held_out or self.held_out
        overwrite = task.overwrite if overwrite is None else overwrite
        check_free(output, TRAINED, overwrite)
        with locked_work_folder(folder, task.resume, overwrite):
            saver = self._train(folder, pools, held_out, config or self.model_config, data or self.data, words)
            return saver.finish(task.measures[0], output, overwrite)

    def _train(
        self,
        folder: Path,
        pools: Sequence[Pool],
        held_out: HeldOut,
        config: ModelConfig,
        data: dict,
        words: Path | None,
    ) -> Saver:
        task = self.task
        first, self._first = self._first, None
        model, reranker = first if first is not None and config == self.model_config else self._make(config)
        if pools and config.lexical_features:
            values = np.concatenate([pool.features for pool in pools]).astype(np.float64)
            model.set_feature_statistics(torch.from_numpy(values.mean(axis=0)), torch.from_numpy(values.std(axis=0)))
        validation = Validation(held_out, reranker, task.measures)
        description = {**data, **asdict(task.training)}
        saver = Saver(folder, model, self.vectors, validation, description, task.keep_epochs, self.index.forward, words)
        trainer_class = Trainer
        if task.training.of_batches:
            from rerank_plugin.training.contrastive import ContrastiveTrainer

            trainer_class = ContrastiveTrainer
        trainer = trainer_class(
            model, reranker.builder, pools, task.training, validation, saver.save, folder, task.device, data
        )
        if task.resume and trainer.resume():
            log.info("resuming after epoch %d", len(trainer.history))
            saver.resume(len(trainer.history))
        log.info("training on %d queries", len(pools))
        trainer.train()
        return saver
