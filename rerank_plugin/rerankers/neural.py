"""The reranker of a neural model: device, batching, truncation, and smaller batches when out of memory."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rerank_plugin.base.devices import usable
from rerank_plugin.base.extras import require
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Query
from rerank_plugin.base.stopping import stop_if_asked
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.inputs.builder import Inputs, ModelQuery
from rerank_plugin.inputs.lexical_features import FIRST_STAGE, LISTWISE
from rerank_plugin.kernels.parallel import available_threads, helper_threads
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.encoded_path import EncodedDocuments, encoding_scorer
from rerank_plugin.models.fast_paths import FastPath, ModulePath, ScoringTask, TextScorer
from rerank_plugin.models.register import entry_of, is_foreign
from rerank_plugin.rerankers.scorer import Scorer, shown
from rerank_plugin.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # a stored model needs no torch
    from torch import Tensor

    from rerank_plugin.models.ranking_model import RankingModel

log = logging.getLogger(__name__)

BATCH_SIZE = 1024  # candidates that a module scores at once


class NeuralReranker(Scorer):
    """A model with the vocabulary it was trained on, over one index.

    If the model knows no word and no concept of a query, the query keeps its first-stage order, with a warning. Queries
    longer than M words are cut; the first one is logged as a warning.

    Training the model refreshes its fast path. After any other change of the weights, call :meth:`refresh`. The module
    of a checkpoint is created only without a fast path, and for explanations.

    A model with first-stage features is ``listwise``.

    :class:`~rerank_plugin.models.ranking_model.RankingModel` describes a model's attributes; its entry in the register
    of models names its fast paths.
    """

    scores_together = True

    def __init__(
        self,
        model: RankingModel | Checkpoint,
        vocabulary: Vocabulary,
        index: ForwardIndex,
        options: RerankerOptions = RerankerOptions(),
    ):
        self.model = model if isinstance(model, Checkpoint) else self._placed(model, options.device)
        self.name, self.entry = model.name, entry_of(model.name)
        self.options = options
        self.on_cpu = options.device == "cpu"
        self.batch_size = options.batch_size or BATCH_SIZE
        if self.on_cpu and model.most_on_cpu is not None:
            self.batch_size = min(self.batch_size, model.most_on_cpu)
        self.builder = model.input_builder(index, vocabulary)
        self.listwise = not LISTWISE.isdisjoint(model.config.lexical_features)
        self.threads = options.threads or available_threads()
        self.passage_words = self.builder.passage_words
        self.fast_class = self._fast_class()
        # Waking a helper thread takes longer than computing inner products.
        parallel = self.fast_class and issubclass(self.fast_class, FastPath) and not self.entry.has_inner_products
        self.helpers = self.threads if parallel else 1
        self.fast: FastPath | ModulePath | None = None
        self.prepared, self.has_cut = False, False
        if self.fast_class is None:
            self.module  # noqa: B018 (made here: without torch, the error belongs to the loading)

    def _placed(self, model: RankingModel, device: str) -> RankingModel:
        """The module on a device, in eval mode; training it refreshes the fast path."""
        model.register_forward_pre_hook(lambda module, _: self.refresh() if module.training else None)
        with usable(device):
            return model.to(device).eval()

    @property
    def feature_seconds(self) -> float:  # type: ignore[override]  # read-only: the builder measures it
        return self.builder.feature_seconds

    def _fast_class(self) -> type[FastPath] | type[ModulePath] | None:
        """The class of the model's fast path for the device; None if there is none or ``options`` exclude it."""
        options, encoder = self.options, self.entry.load("encoder")
        if encoder is not None and issubclass(encoder, TextScorer):
            return EncodedDocuments  # the only path
        if not options.fast:
            return None
        if not self.on_cpu:
            return self.entry.load("device", of_module=True) or (encoder and self._encoded_on_device())
        if options.precision != "float32":
            return None
        fast = self.entry.load("fast", of_module=not isinstance(self.model, Checkpoint))
        stored = None if self.builder.index.in_memory else EncodedDocuments  # texts in memory have no stored encodings
        return fast or (encoder and stored)

    def _encoded_on_device(self) -> type[ModulePath] | None:
        from rerank_plugin.models.device_path import EncodedOnDevice

        return None if self.builder.index.in_memory else EncodedOnDevice

    def refresh(self) -> None:
        """Discard the fast path, so that the next score builds it from the current weights."""
        self.fast, self.prepared = None, False

    def encode_in_memory(self, rows: np.ndarray) -> None:
        """Encode documents in memory and score from these encodings until the weights change.

        This is for many queries over the same documents during training. It has no effect unless the fast path is
        :class:`~rerank_plugin.models.encoded_path.EncodedDocuments`.

        Args:
            rows: rows of all documents to be scored, int64 [n], increasing.
        """
        from rerank_plugin.indexes.vector_store import VectorStore
        from rerank_plugin.models.document_encoder import document_encoder

        self.refresh()
        if self.fast_class is EncodedDocuments:
            vectors = document_encoder(self.module, self.builder)(rows)
            scorer = encoding_scorer(self.model, self.builder, self.threads)
            store = VectorStore.of_vectors(scorer.spaces, vectors, rows, len(self.builder.index))
            self.fast, self.prepared = EncodedDocuments(scorer, store), True

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores of the candidates, float32 [C]. Invalid weights give NaN, which the ranking reports."""
        return self.score_many([query], [candidates])[0]

    def score_many(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
        """Scores of the candidates of several queries, float32 [C] each, equal to those of :meth:`score`.

        The fast path on the CPU splits the queries over the threads; the module scores all documents in joint batches.
        """
        # The helper threads start first, so that they are awake when the fast path needs them.
        with helper_threads(self.helpers):
            tasks = [self._task(query, hits) for query, hits in zip(queries, candidates)]
            open_tasks = [task for task in tasks if task.scores is None]
            fast = self._fast_path() if open_tasks else None
            scores = iter(self._module_scores(open_tasks) if fast is None else fast.score_many(open_tasks))
            return [next(scores) if task.scores is None else task.scores for task in tasks]

    def _task(self, query: Query, candidates: Candidates) -> ScoringTask:
        """The task of a query; ``scores`` is set if there are no candidates or the model cannot read the query."""
        terms = candidates.index.query(query.text)
        words = self.builder.query(terms)
        if words.cut and not self.has_cut:
            self.has_cut = True
            read = self.builder.query_words
            log.warning(
                "query %s has %d words, of which the model reads %d: the rest is cut, here and later",
                shown(query), read + words.cut, read,
            )  # fmt: skip
        task = ScoringTask(query, candidates, terms, words)
        if not len(candidates):
            task.scores = np.zeros(0, np.float32)
        elif not self.can_read(words):
            items = ["words"] * self.builder.reads_words + ["concepts"] * (self.builder.concepts is not None)
            task.scores = self.first_stage_fallback(
                query, candidates, f"the model knows none of its {' and '.join(items)}"
            )
        return task

    def attribute(self, query: Query, candidates: Candidates, place: int) -> Attribution | None:
        """The attribution of the module's score of one candidate; None for a model without an ``explain``.

        For a query that the model cannot read, the only part is the candidate's first-stage score.
        """
        if (explain := self._explain()) is None:
            return None
        terms = candidates.index.query(query.text)
        words, places = self.builder.query(terms), self.builder.places_read(terms)[: self.builder.query_words]
        if not self.can_read(words):
            score = float(candidates.first_stage_scores[place])
            return Attribution(
                0.0, np.zeros(len(places), bool), parts=(ScorePart(FIRST_STAGE, score, score),), exact=True
            )
        inputs = self.builder.build(terms, words, candidates).take([place]).without_common_padding()  # B = 1
        return replace(explain(self._module_on_cpu, inputs), query_places=places)

    def load_attribution(self) -> None:
        if self._explain() is not None:
            self._module_on_cpu  # noqa: B018 (made once)

    def _explain(self) -> Callable[[RankingModel, Inputs], Attribution] | None:
        require("torch", "an explanation")
        explain: Callable[[RankingModel, Inputs], Attribution] | None = self.entry.load("explain", of_module=True)
        return explain

    @cached_property
    def module(self) -> RankingModel:
        """The module, on the device; created here for a checkpoint."""
        return self.model.module() if isinstance(self.model, Checkpoint) else self.model

    @cached_property
    def _module_on_cpu(self) -> RankingModel:
        return self.module if self.on_cpu else copy.deepcopy(self.module).cpu()

    @cached_property
    def forward(self) -> Callable[[Inputs], Tensor]:
        """The module's scores [B], compiled if the options say so."""
        if not self.options.compile:
            return self.module
        import torch

        return torch.compile(self.module, dynamic=True)

    def lacking_words(self, query: Query) -> list[str]:
        index = self.builder.index
        if not self.builder.reads_words:
            return []
        tokens = index.tokenizer.tokenize(query.text)
        in_texts = index.in_memory or bool((index.query(query.text).ids >= 0).any())
        return [self.name] if self.builder.vocabulary.knows_few_words(tokens, in_texts) else []

    def unread_words(self, query: Query) -> list[str]:
        read = self.builder.query_words
        words = len(self.builder.places_read(self.builder.index.query(query.text))) if self.builder.reads_words else 0
        return [f"{self.name} reads the first {read} of the query's {words} words"] if words > read else []

    def can_read(self, words: ModelQuery) -> bool:
        """Whether a query has a word or concept that the model knows, or a word to match by identity."""
        return bool(words.known or (self.model.matches_unknown_words and (words.terms >= 0).any()))

    def _fast_path(self) -> FastPath | ModulePath | None:
        """The model's fast path, built on first use; None if there is none."""
        if self.model.training or self.fast_class is None:
            return None
        if self.fast_class.of_index and self.builder.index.in_memory:
            self.refresh()
        if not self.prepared:
            if issubclass(self.fast_class, ModulePath):
                self.fast = self.fast_class.open(self.module, self.builder, self.options)
            else:
                self.fast = self.fast_class.open(self.model, self.builder, self.threads)
            self.prepared = True
            if not self.on_cpu:
                path = "its module" if self.fast is None else type(self.fast).__name__
                log.info("%s is scored by %s on %s", self.name, path, self.options.device)
        return self.fast

    def _module_scores(self, tasks: Sequence[ScoringTask]) -> list[np.ndarray]:
        """The module's scores of each task, float32 [C], in batches of documents of similar length."""
        if not tasks:
            return []
        module = self.module  # first: its error names the extra to install if torch is missing
        import torch

        batches = [self.builder.build(task.terms, task.words, task.candidates) for task in tasks]
        with torch.inference_mode():
            scores = self._forward(module, batches[0] if len(batches) == 1 else Inputs.joined(batches))
        return np.split(scores, np.cumsum([len(task.candidates) for task in tasks])[:-1])

    def _forward(self, module: RankingModel, inputs: Inputs) -> np.ndarray:
        """Scores of documents, float32 [B], in batches; when memory runs out, the batch size is halved permanently.

        With ``any_width``, documents are sorted by length and each batch is padded to its longest document.
        """
        import torch

        lengths = inputs.document_mask.sum(dim=1)  # [B]
        order = torch.arange(len(lengths))
        if module.any_width:
            order = torch.argsort(lengths, descending=True, stable=True)
        scores, start = torch.empty(len(order)), 0
        while start < len(order):
            stop_if_asked()
            rows = order[start : start + self.batch_size]
            batch = inputs.take(rows)
            if module.any_width:
                batch = batch.narrowed(max(int(lengths[rows[0]]), 1)).without_concept_padding()
            try:
                scores[rows] = self._scores(batch.to(self.options.device)).float().cpu()
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = max(1, self.batch_size // 2)
                torch.cuda.empty_cache()
                log.warning("out of memory on %s: scoring %d at once", self.options.device, self.batch_size)
                continue
            start += self.batch_size
        return scores.numpy()

    def _scores(self, inputs: Inputs) -> Tensor:
        """The module's scores [B], in the precision of the options."""
        from rerank_plugin.models.ranking_model import in_precision

        with in_precision(self.options):
            return self.forward(inputs)


def from_checkpoint(
    index: ForwardIndex, folder: Path, options: RerankerOptions, name: str | None = None
) -> NeuralReranker:
    """The reranker of a trained checkpoint, or of a foreign folder that the model reads.

    Args:
        name: the model that the checkpoint must hold; None for any model.

    Raises:
        InputError: the checkpoint cannot be used, or holds another model.
    """
    if name is not None and is_foreign(entry := entry_of(name), folder):
        foreign = entry.load("module").from_folder(folder)
        return NeuralReranker(foreign, Vocabulary([], index.tokenizer.settings), index, options)
    checkpoint = Checkpoint.open(folder, name)
    model = checkpoint.read() if options.on_fast_path and checkpoint.has_arrays else checkpoint.module()
    index.check_tokenizer(checkpoint.vocabulary.tokenizer, str(folder))
    reranker = NeuralReranker(model, checkpoint.vocabulary, index, options)
    training = checkpoint.description.get("training")
    first_stage = training.get("first_stage") if isinstance(training, dict) else None
    if reranker.listwise and isinstance(first_stage, dict):
        reranker.trained_after = first_stage.get("name")
    return reranker
