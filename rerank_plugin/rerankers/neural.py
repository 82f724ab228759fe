"""The adapter that makes any neural model a reranker: device, batching, truncation, back-off when memory runs out."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rerank_plugin.features.concept_reader import ConceptReader
from rerank_plugin.features.inputs import InputBuilder, Inputs, ModelQuery
from rerank_plugin.features.lexical_features import FIRST_STAGE, FIRST_STAGE_SHARE
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, IndexQuery
from rerank_plugin.kernels.parallel import available_threads, crew, split
from rerank_plugin.models.document_encodings import SCORERS, EncodedForNow
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

# Model name to 'module:Class' of its fused path on the CPU. The class is called with (model, builder, threads) and has
# ``score(terms, words, candidates)``, float32 [C]: the scores of the module. One that needs more than the model has
# ``open`` with the same arguments, which gives None where that is missing.
FUSED = {
    "conv-knrm": "rerank_plugin.models.conv_knrm.fused:FusedConvKnrm",
    "delta": "rerank_plugin.models.delta.fused:FusedDelta",
    "delta-classifier": "rerank_plugin.models.delta_classifier.fused:FusedDeltaClassifier",
    "drmm": "rerank_plugin.models.drmm.fused:FusedDrmm",
    "duet": "rerank_plugin.models.duet.fused:FusedDuet",
    "knrm": "rerank_plugin.models.knrm.fused:FusedKnrm",
    "ktrel": "rerank_plugin.models.document_encodings:EncodedDocuments",
    "matchpyramid": "rerank_plugin.models.matchpyramid.fused:FusedMatchPyramid",
    "pacrr": "rerank_plugin.models.pacrr.fused:FusedPacrr",
    "sevmos": "rerank_plugin.models.document_encodings:EncodedDocuments",
}

# The same on another device. The class is called with (model, builder, options) and has ``score_many(tasks)``.
ON_DEVICE = {"delta": "rerank_plugin.models.delta.device:DeltaOnDevice"}


@dataclass
class Task:
    """One query with its candidates, as the model reads it; ``scores`` float32 [C] once they are known."""

    query: Query
    candidates: Candidates
    terms: IndexQuery
    words: ModelQuery
    scores: np.ndarray | None = None


class NeuralReranker:
    """A model with the vocabulary it was trained on, over one index.

    A query none of whose words, and concepts, the model knows is ranked as the first stage ranked it, with a warning:
    the model would only compare documents with UNK. Queries longer than the model reads are cut, which is said once.

    A model that is trained is noticed; whoever changes its weights otherwise after the first score calls :meth:`refresh`.

    A model's configuration may have ``query_stopwords``, which leaves stop-words out of queries where it is ``remove``.

    A model that reads concepts has ``concept_vocabulary``, and ``document_concepts`` and ``query_concepts`` in its
    configuration; one that reads no words says so with ``reads_words``.

    A model that reads something else than words has ``input_builder``, which is called with the index and gives what
    :class:`InputBuilder` does. ``most_on_cpu`` is how many documents it takes at once there.

    A model with features of the first stage is ``listwise``: see :class:`~rerank_plugin.rerankers.Reranker`.

    A model may declare ``any_width`` (its scores do not depend on how far documents are padded, and it takes any width)
    and ``matches_unknown_words`` (it sees that two words are the same even where it knows neither). ``by_length`` is for
    training: see :func:`~rerank_plugin.training.trainer.scored`.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        index: ForwardIndex,
        options: RerankerOptions = RerankerOptions(),
    ):
        config = model.config
        try:
            self.model = model.to(options.device).eval()
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"cannot use the device '{options.device}': {str(error).splitlines()[0]}") from None
        self.name = model.name
        self.options = options
        self.batch_size = options.batch_size
        if options.device == "cpu":
            self.batch_size = min(self.batch_size, getattr(model, "most_on_cpu", self.batch_size))
        left_out = STOP_WORDS if getattr(config, "query_stopwords", "keep") == "remove" else frozenset()
        if hasattr(model, "input_builder"):
            self.builder = model.input_builder(index)
        else:
            self.builder = InputBuilder(
                index, vocabulary, config.document_words, config.query_words, config.lexical_features, left_out,
                _concept_reader(model, index), getattr(model, "reads_words", True),
            )  # fmt: skip
        self.forward = torch.compile(self.model, dynamic=True) if options.compile else self.model
        self.listwise = not {FIRST_STAGE, FIRST_STAGE_SHARE}.isdisjoint(config.lexical_features)
        self.any_width = getattr(model, "any_width", False)
        self.matches_unknown_words = getattr(model, "matches_unknown_words", False)
        self.threads = options.threads or available_threads()
        self.fast, self.prepared = None, False
        model.register_forward_pre_hook(lambda module, _: self.refresh() if module.training else None)
        self.queries_cut = 0
        self.unknown_queries: set[str] = set()

    def refresh(self) -> None:
        """Tell that the model's weights have changed: the tables of its fast path are made again.

        Called for every batch in training mode; weights that are written otherwise need telling.
        """
        self.fast, self.prepared = None, False

    def encode_for_now(self, rows: np.ndarray) -> None:
        """Let a model that encodes documents score some of them from encodings that are made here, until it changes.

        For many queries over the same documents, while a model is trained. Nothing happens for other models, and where
        a device's module is fast enough.

        Args:
            rows: of all documents that are scored from here on, int64 [n], increasing.
        """
        self.refresh()
        if self.name in SCORERS and self.options.device == "cpu" and self.options.fast:
            self.fast, self.prepared = EncodedForNow(self.model, self.builder, self.threads, rows), True

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores of the candidates, float32 [C].

        Raises:
            InputError: the model gave a score that is not a number.
        """
        return self.score_many([query], [candidates])[0]

    @torch.inference_mode()
    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores of the candidates of several queries, float32 [C] each: the same as one query at a time gives.

        The fused path gives every thread whole queries; a module scores the documents of all queries in common batches.

        Raises:
            InputError: the model gave a score that is not a number.
        """
        fast_on_cpu = self.options.fast and self.options.device == "cpu" and self.name in FUSED
        with crew(self.threads if fast_on_cpu else 1):  # called first, so that the helpers are awake when needed
            return self._score_many(queries, candidates)

    def _score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        tasks = [self._task(query, found) for query, found in zip(queries, candidates)]
        open_tasks = [task for task in tasks if task.scores is None]
        fast = self._fast_path() if open_tasks else None
        if fast is None:
            self._score_with_module(open_tasks)
        elif hasattr(fast, "score_many"):
            for task, scores in zip(open_tasks, fast.score_many(open_tasks)):
                task.scores = scores
        else:
            self._score_fused(fast, open_tasks)
        for task in open_tasks:
            self._check(task)
        return [task.scores for task in tasks]

    def _task(self, query: Query, candidates: Candidates) -> Task:
        """What there is to do for a query; the scores are there already where the model has nothing to say."""
        terms = candidates.index.query(query.text)
        words = self.builder.query(terms)
        if words.cut:
            self._say_cut(query, words.cut)
        task = Task(query, candidates, terms, words)
        if not len(candidates):
            task.scores = np.zeros(0, np.float32)
        elif not self.can_read(words):
            if query.id not in self.unknown_queries:
                self.unknown_queries.add(query.id)
                log.warning(
                    "query %s: the model knows none of its %s; left in first-stage order", query.id, self._items()
                )
            task.scores = candidates.first_stage_scores.copy()
        return task

    def can_read(self, words: ModelQuery) -> bool:
        """Whether a query has a word that the model knows, or one that it can match without knowing it."""
        return bool(words.known or (self.matches_unknown_words and (words.terms >= 0).any()))

    def _items(self) -> str:
        """What the model reads, for messages."""
        reads_words, concepts = getattr(self.builder, "reads_words", True), getattr(self.builder, "concepts", None)
        return " and ".join(["words"] * reads_words + ["concepts"] * (concepts is not None))

    def _check(self, task: Task) -> None:
        if not np.isfinite(task.scores).all():
            row = int(task.candidates.rows[int(np.flatnonzero(~np.isfinite(task.scores))[0])])
            raise InputError(
                f"the model '{self.name}' scores document {task.candidates.index.ids[row]} for query {task.query.id} "
                "as NaN or infinite"
            )

    def _fast_path(self):
        """The model's fast path on the device, made of the weights when it is first needed, or None."""
        options, on_cpu = self.options, self.options.device == "cpu"
        known = FUSED if on_cpu else ON_DEVICE
        if self.model.training or not options.fast or self.name not in known:
            return None
        if on_cpu and options.precision != "float32":
            return None
        if not self.prepared:
            module, _, name = known[self.name].partition(":")
            how = self.threads if on_cpu else options
            fast = getattr(import_module(module), name)
            self.fast = getattr(fast, "open", fast)(self.model, self.builder, how)
            self.prepared = True
        return self.fast

    def _score_fused(self, fused, tasks: Sequence[Task]) -> None:
        """Score on the CPU: the documents of one query are split over the threads, of several the queries."""

        def score_part(start: int, stop: int) -> None:
            for task in tasks[start:stop]:
                task.scores = fused.score(task.terms, task.words, task.candidates)

        if len(tasks) == 1:
            score_part(0, 1)
        else:
            split(score_part, len(tasks), fused.threads, smallest=1)

    def _say_cut(self, query: Query, cut: int) -> None:
        self.queries_cut += 1
        if self.queries_cut == 1:
            log.warning(
                "query %s is %d words longer than the %d that the model reads: the rest is cut, here and later",
                query.id, cut, self.builder.query_words,
            )  # fmt: skip

    def _score_with_module(self, tasks: Sequence[Task]) -> None:
        """Score with the module, in batches of documents of similar length."""
        if not tasks:
            return
        built = [self.builder.build(task.terms, task.words, task.candidates) for task in tasks]
        inputs = built[0] if len(built) == 1 else Inputs.joined(built)
        scores = self._forward(inputs)
        for task, part in zip(tasks, np.split(scores, np.cumsum([len(task.candidates) for task in tasks])[:-1])):
            task.scores = part

    def _forward(self, inputs: Inputs) -> np.ndarray:
        """Scores of any number of documents, in pieces that fit into memory: a piece that does not is halved for good.

        Where the model does not mind, documents are sorted by length and a piece is as wide as its longest document.
        """
        lengths = inputs.document_mask.sum(dim=1)  # [B]
        order = torch.arange(len(lengths))
        if self.any_width:
            order = torch.argsort(lengths, descending=True, stable=True)
        scores, start = torch.empty(len(order)), 0
        while start < len(order):
            rows = order[start : start + self.batch_size]
            piece = inputs.take(rows)
            if self.any_width:
                piece = piece.narrowed(max(int(lengths[rows[0]]), 1)).without_concept_padding()
            try:
                scores[rows] = self._module(piece.to(self.options.device)).float().cpu()
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = max(1, self.batch_size // 2)
                torch.cuda.empty_cache()
                log.warning("out of memory on %s: scoring %d at once", self.options.device, self.batch_size)
                continue
            start += self.batch_size
        return scores.numpy()

    def _module(self, inputs: Inputs) -> Tensor:
        """The module's scores [B], in the precision that was asked for."""
        if self.options.precision == "float32":
            return self.forward(inputs)
        with torch.autocast(torch.device(self.options.device).type, getattr(torch, self.options.precision)):
            return self.forward(inputs)


def _concept_reader(model: nn.Module, index: ForwardIndex) -> ConceptReader | None:
    """Of a model that has a vocabulary of concepts.

    Raises:
        InputError: the index holds none, or none that the model knows.
    """
    if not getattr(model.config, "concepts", 0):
        return None
    vocabulary = model.concept_vocabulary
    if vocabulary is None:
        raise ValueError(f"the model '{model.name}' reads concepts, but not which: give it a concept_vocabulary")
    return ConceptReader(index, vocabulary, model.config.document_concepts, model.config.query_concepts)


def from_checkpoint(index: ForwardIndex, checkpoint: Path | None, options: RerankerOptions) -> NeuralReranker:
    """The factory of all models that are kept as checkpoints.

    Raises:
        InputError: no checkpoint was given, or it cannot be used.
    """
    from rerank_plugin.models.checkpoints import load_checkpoint

    if checkpoint is None:
        raise InputError("this reranker needs a trained checkpoint: give it as NAME:CHECKPOINT")
    model, vocabulary = load_checkpoint(checkpoint)
    index.check_tokenizer(vocabulary.tokenizer, str(checkpoint))
    return NeuralReranker(model, vocabulary, index, options)
