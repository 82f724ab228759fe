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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.progress import progress
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.corpora import queries, queries_and_judgments
from rerank_plugin.evaluation.measures import parse
from rerank_plugin.files.outputs import check_free
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.inputs.lexical_features import LISTWISE
from rerank_plugin.models.checkpoints import build_config, model_classes
from rerank_plugin.models.register import entry_of
from rerank_plugin.ranking.pipeline import from_first_stage
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.given_run import RunConfig
from rerank_plugin.text import word_vectors
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from rerank_plugin.training.config import TrainingConfig
from rerank_plugin.training.pairs import WITHOUT_CANDIDATES, Pool, make_pools
from rerank_plugin.training.saving import TRAINED, Outcome, Saver, held, work_folder
from rerank_plugin.training.starting_point import start_from, starting_concepts, starting_folder, starting_values
from rerank_plugin.training.teacher_grades import TeacherGrades
from rerank_plugin.training.trainer import Trainer
from rerank_plugin.training.validation import HeldOut, Validation

log = logging.getLogger(__name__)

CROSS_VALIDATION_FILE = "cross-validation.json"


@dataclass(frozen=True)
class Task:
    """The model, data and settings of a training; measures and documents that are not given are the model's recipe's.

    Queries and judgments are given as :func:`rerank_plugin.corpora.queries_and_judgments` takes them. Without any for
    validation, parts of the training queries must be held out (:class:`HeldOut`). Words and the checkpoint to start
    from may be given as the name of a bundled model; the checkpoint gives the hyper-parameters and words that are not
    given.
    """

    model: str
    index: Path
    words: str | Path | None  # folder of the word vectors; None for a model that is built without any
    train: str
    training: TrainingConfig
    measures: Sequence[str] | None = None  # of the validation; the first decides
    values: dict = field(default_factory=dict)  # hyper-parameters, where they are not the paper's
    validation: str | None = None
    more_train: tuple[str, ...] = ()  # their ids may be those of other training queries: other texts of them
    queries_at_most: int | None = None  # of all training queries, the same first ones of a random order
    first_stage: object | None = None  # a FirstStageConfig; None where runs give all candidates
    train_run: Path | None = None  # candidates instead of those of the first stage
    validation_run: Path | None = None
    depth: int = 500  # candidates of a query
    validation_depth: int | None = None  # where it is another number for a validation query
    documents: str | None = None  # what pairs are drawn from, see rerank_plugin.training.pairs.make_pools
    concepts: Path | None = None  # folder of the concept vectors, for a model that reads concepts
    start_from: str | Path | None = None  # checkpoint to fine-tune
    device: str = "cpu"
    grades: TeacherGrades | None = None  # of the training queries' candidates, in place of judgments
    threads: int = 2  # first-stage searches at once
    keep_epochs: bool = False  # whether every epoch's checkpoint is kept
    resume: bool = False
    overwrite: bool = False  # whether a checkpoint that is there, or an interrupted training, is replaced

    def __post_init__(self) -> None:
        recipe = entry_of(self.model).recipe
        documents = "relevant" if self.training.of_batches else self.documents or recipe.documents
        words, before, values = starting_folder(self.words), starting_folder(self.start_from), self.values
        if before is not None:
            values = starting_values(self.model, before, values, self.concepts is not None)
            if words is None and model_classes(self.model)[0].has_word_vectors:
                words = before
        measures = list(self.measures or recipe.measures)
        settled = dict(words=words, start_from=before, values=values, measures=measures, documents=documents)
        for name, value in settled.items():
            object.__setattr__(self, name, value)


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
        specs = (task.train, *task.more_train)
        if task.grades is None:
            sets = [TrainingSet(*queries_and_judgments(spec)) for spec in specs]
        else:
            sets = [TrainingSet(queries(spec), {}) for spec in specs]
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
        self._made: NeuralReranker | None = self._make(self.model_config)
        self.builder = self._made.builder
        self.data = json.loads(json.dumps(self._describe()))

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

    def _describe(self) -> dict:
        """The training data as JSON values, for the checkpoint and for the check when a training is resumed."""
        task = self.task
        files = self.index.description["files"]
        parts = ("forward/", "segments/", "vocabulary/")
        forward = {name: file for name, file in files.items() if name.startswith(parts)}
        runs = {"train": task.train_run, "validation": task.validation_run}
        words, before = self.vectors, task.start_from
        described = {
            "train": [task.train, *task.more_train] if task.more_train else task.train,
            "queries_at_most": task.queries_at_most,
            "validation": task.validation,
            "index": str(task.index),
            "index_checksum": zlib.crc32(json.dumps(forward, sort_keys=True).encode()),
            "words": None if words is None else str(task.words),
            "words_checksum": None if words is None else zlib.crc32(words.matrix.tobytes()),
            **self.concepts.described,
            "runs": {name: str(path) for name, path in runs.items() if path},
            "first_stage": asdict(task.first_stage) if task.first_stage else None,
            "depth": task.depth,
            "documents": task.documents,
            "start_from": None if before is None else str(before),
            "validation_depth": task.validation_depth,
            **(task.grades.described if task.grades else {}),
        }
        return {name: value for name, value in described.items() if value is not None or name == "first_stage"}

    @cached_property
    def first_stage(self):
        """The first stage, opened when it is first needed, so that runs need no Java."""
        return self.index.first_stage(self.task.first_stage)

    def find_candidates(
        self, queries: Sequence[Query], run: Path | None, depth: int, purpose: str = "training"
    ) -> dict[str, Candidates]:
        """Candidates by query id, from a run if one is given, otherwise from the first stage."""
        log.info("candidates for %d %s queries", len(queries), purpose)
        first_stage = self.index.first_stage(RunConfig(str(run))) if run else self.first_stage
        with ThreadPoolExecutor(self.task.threads) as executor:
            found = executor.map(from_first_stage(first_stage, depth), queries)
            return {query.id: one for query, one in zip(queries, progress(found, "candidates", "queries"))}

    @cached_property
    def candidates(self) -> dict[str, Candidates]:
        """Of the training queries, by id."""
        return self.find_candidates(self.queries, self.task.train_run, self.task.depth)

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools of the training queries that give examples, in the order of the queries."""
        task, pools = self.task, []
        reads_first_stage = not LISTWISE.isdisjoint(self.model_config.lexical_features)
        for number, (asked, judged) in enumerate(self.training_sets):
            found = {}
            if task.documents not in WITHOUT_CANDIDATES or reads_first_stage:
                found = self.candidates if number == 0 else self.find_candidates(asked, None, task.depth)
            if task.grades is not None:
                judged = task.grades(self.index.forward, asked, found)
            pools += make_pools(asked, judged, found, self.builder, task.documents)
        return pools

    @cached_property
    def held_out(self) -> HeldOut:
        """The validation queries of the task."""
        task, depth = self.task, self.task.validation_depth or self.task.depth
        found = self.find_candidates(self.validation_queries, task.validation_run, depth, "validation")
        return HeldOut(self.validation_queries, self.validation_judgments, found)

    def _make(self, config) -> NeuralReranker:
        """The reranker of a model with weights from the seed or from ``start_from``."""
        torch.manual_seed(self.task.training.seed)
        if self.vectors is None:
            model = self.model_class(config)
        else:
            model = self.model_class(config, torch.from_numpy(self.vectors.matrix), **self.concepts.arguments)
        if self.task.start_from:
            start_from(model, self.task.start_from, self.vectors)
        vocabulary = Vocabulary([]) if self.vectors is None else self.vectors.vocabulary
        try:
            return NeuralReranker(model, vocabulary, self.index.forward, RerankerOptions(self.task.device))
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
        with held(folder, task.resume, overwrite):
            saver = self._train(folder, pools, held_out, config or self.model_config, data or self.data, words)
            return saver.finish(task.measures[0], output, overwrite)

    def _train(self, folder: Path, pools, held_out: HeldOut, config, data: dict, words: Path | None) -> Saver:
        task = self.task
        reranker, self._made = self._made, None  # the first was made to see that all fits together
        if reranker is None or config != self.model_config:
            reranker = self._make(config)
        model = reranker.model
        if pools and config.lexical_features:
            values = np.concatenate([pool.features for pool in pools]).astype(np.float64)
            model.set_feature_statistics(torch.from_numpy(values.mean(axis=0)), torch.from_numpy(values.std(axis=0)))
        validation = Validation(held_out, reranker, task.measures)
        described = {**data, **asdict(task.training)}
        saver = Saver(folder, model, self.vectors, validation, described, task.keep_epochs, self.index.forward, words)
        kind = Trainer
        if task.training.of_batches:
            from rerank_plugin.training.contrastive import ContrastiveTrainer as kind
        trainer = kind(model, reranker.builder, pools, task.training, validation, saver.save, folder, task.device, data)
        if task.resume and trainer.resume():
            log.info("going on after epoch %d", len(trainer.history))
            saver.go_on(len(trainer.history))
        log.info("training on %d queries", len(pools))
        trainer.train()
        return saver
