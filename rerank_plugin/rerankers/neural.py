"""The adapter that makes any neural model a reranker: device, batching, truncation, back-off when memory runs out."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from torch import nn

from rerank_plugin.corpora.records import Query
from rerank_plugin.errors import InputError
from rerank_plugin.parallel import available_threads
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.features.inputs import InputBuilder, Inputs
from rerank_plugin.retrieval.candidates import Candidates
from rerank_plugin.retrieval.forward import ForwardIndex
from rerank_plugin.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

# Model name to 'module:Class' of its fused path on the CPU. The class is called with (model, builder, threads) and has
# ``score(terms, words, candidates)``, float32 [C]: the scores of the module.
FUSED = {
    "conv-knrm": "rerank_plugin.rerankers.conv_knrm_fused:FusedConvKnrm",
    "delta": "rerank_plugin.rerankers.delta_fused:FusedDelta",
    "drmm": "rerank_plugin.rerankers.drmm_fused:FusedDrmm",
    "duet": "rerank_plugin.rerankers.duet_fused:FusedDuet",
    "knrm": "rerank_plugin.rerankers.knrm_fused:FusedKnrm",
    "ktrel": "rerank_plugin.rerankers.encodings:EncodedDocuments",
    "matchpyramid": "rerank_plugin.rerankers.matchpyramid_fused:FusedMatchPyramid",
    "pacrr": "rerank_plugin.rerankers.pacrr_fused:FusedPacrr",
    "sevmos": "rerank_plugin.rerankers.encodings:EncodedDocuments",
}


class NeuralReranker:
    """A model with the vocabulary it was trained on, over one index.

    A query none of whose words the model knows is ranked as the first stage ranked it, with a warning: the model would
    only compare documents with UNK. Queries longer than the model reads are cut, which is said once.
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
        self.builder = InputBuilder(
            index, vocabulary, config.document_words, config.query_words, config.lexical_features
        )
        self.fused, self.fused_weights = None, None
        self.queries_cut = 0
        self.unknown_queries: set[str] = set()

    @torch.inference_mode()
    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores of the candidates, float32 [C].

        Raises:
            InputError: the model gave a score that is not a number.
        """
        terms = candidates.index.query(query.text)
        words = self.builder.query(terms)
        if words.cut:
            self._say_cut(query, words.cut)
        if not words.known:
            if query.id not in self.unknown_queries:
                self.unknown_queries.add(query.id)
                log.warning("query %s: the model knows none of its words; left in first-stage order", query.id)
            return candidates.first_stage_scores.copy()
        if not len(candidates):
            return np.zeros(0, np.float32)
        fused = self._fused()
        if fused is not None:
            scores = fused.score(terms, words, candidates)
        else:
            scores = self._forward(self.builder.build(terms, words, candidates))
        if not np.isfinite(scores).all():
            bad = candidates.index.ids[int(candidates.rows[int(np.flatnonzero(~np.isfinite(scores))[0])])]
            raise InputError(f"the model '{self.name}' scores document {bad} for query {query.id} as NaN or infinite")
        return scores

    def _fused(self):
        """The model's fused path, made again when the weights have changed (in training); None where there is none."""
        if not self.options.fast or self.options.device != "cpu" or self.model.training or self.name not in FUSED:
            return None
        weights = [tensor._version for tensor in (*self.model.parameters(), *self.model.buffers())]
        if self.fused is None or weights != self.fused_weights:
            module, _, name = FUSED[self.name].partition(":")
            threads = self.options.threads or available_threads()
            self.fused = getattr(import_module(module), name)(self.model, self.builder, threads)
            self.fused_weights = weights
        return self.fused

    def _say_cut(self, query: Query, cut: int) -> None:
        self.queries_cut += 1
        if self.queries_cut == 1:
            log.warning(
                "query %s is %d words longer than the %d that the model reads: the rest is cut, here and later",
                query.id, cut, self.builder.query_words,
            )  # fmt: skip

    def _forward(self, inputs: Inputs) -> np.ndarray:
        """Scores of a batch, in pieces that fit into memory: the piece is halved for good when one does not."""
        scores, start = [], 0
        while start < len(inputs.documents):
            piece = inputs.take(slice(start, start + self.batch_size))
            try:
                scores.append(self.model(piece.to(self.options.device)).float().cpu().numpy())
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = max(1, self.batch_size // 2)
                torch.cuda.empty_cache()
                log.warning("out of memory on %s: scoring %d at once", self.options.device, self.batch_size)
                continue
            start += self.batch_size
        return np.concatenate(scores)


def from_checkpoint(index: ForwardIndex, checkpoint: Path | None, options: RerankerOptions) -> NeuralReranker:
    """The factory of all models that are kept as checkpoints.

    Raises:
        InputError: no checkpoint was given, or it cannot be used.
    """
    from rerank_plugin.checkpoints import load_checkpoint

    if checkpoint is None:
        raise InputError("this reranker needs a trained checkpoint: give it as NAME:CHECKPOINT")
    model, vocabulary = load_checkpoint(checkpoint)
    return NeuralReranker(model, vocabulary, index, options)
