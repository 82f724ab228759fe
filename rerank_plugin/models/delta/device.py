"""Delta ([D18] 3) on an accelerator: many queries at once, from tables that stay on the device.

As in :mod:`rerank_plugin.models.delta.fast`, the contributions of words to the first convolution are a table over the
vocabulary. The device holds this table and the first N words of every document of the index; a query sends row numbers,
its words and its lexical features, and receives scores. The closest query word is computed for every word of the
*vocabulary*: on a device this is one matrix product, and cheaper than finding the distinct words.

The code is plain torch and also runs on a CPU, where the tests compare it with the module.

In shapes Q are queries and R the documents of the index.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.kernels.arithmetic import TINY
from rerank_plugin.kernels.parallel import available_threads, split
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.delta.model import DELTA_FEATURES, Delta
from rerank_plugin.models.fast_paths import ModulePath, Task

log = logging.getLogger(__name__)

CANDIDATES_STEP = 128  # candidates are padded to a multiple of this, so that few shapes are compiled
PADDING = -1


class DeltaTables(nn.Module):
    """Delta with its first convolution as a table over the vocabulary; the other layers are the model's own.

    Args:
        model: the module, in eval mode, on the device.
    """

    taps: Tensor
    feature_taps: Tensor
    vectors: Tensor
    squares: Tensor

    def __init__(self, model: Delta):
        super().__init__()
        self.model, self.config = model, model.config
        weight = model.convolutions[0].weight.detach()  # [K, rows, width]
        by_row = weight.permute(1, 2, 0).flatten(1)  # [rows, width * K]
        dimension = model.vectors.shape[1] if self.config.differences else 0
        missing = 0 if self.config.delta_features else DELTA_FEATURES
        self.register_buffer("taps", model.vectors[:, :dimension] @ by_row[:dimension])  # [V, width * K]
        self.register_buffer("feature_taps", functional.pad(by_row[dimension:], (0, 0, 0, missing)))  # [3, width * K]
        # In double precision |d|^2 + |q|^2 - 2 d.q is as exact as a sum of squared differences in single precision.
        self.register_buffer("vectors", model.vectors.double())  # [V, D]
        self.register_buffer("squares", self.vectors.square().sum(dim=1))  # [V]

    def compare(self, queries: Tensor, query_mask: Tensor) -> tuple[Tensor, Tensor]:
        """The Delta stage over the vocabulary ([D18] 3.2), for queries int64 [Q, M] and their mask bool [Q, M].

        Returns the position of the closest query word, int64 [Q, V], and cosine, distance and proximity to it, float32
        [Q, V, 3].
        """
        products = torch.einsum("vd,qmd->qvm", self.vectors, self.vectors[queries])  # [Q, V, M]
        query_squares = self.squares[queries]  # [Q, M]
        distances = (self.squares[None, :, None] + query_squares[:, None, :] - 2 * products).clamp_min(0)  # [Q, V, M]
        same = queries[:, None, :] == torch.arange(len(self.vectors), device=queries.device)[None, :, None]
        distances = distances.masked_fill(same, 0.0).masked_fill(~query_mask[:, None, :], torch.inf)  # [Q, V, M]
        smallest, closest = distances.min(dim=2)  # [Q, V]
        product = products.gather(2, closest[..., None])[..., 0]  # [Q, V]
        norm, query_norm = self.squares.sqrt()[None, :], query_squares.sqrt().gather(1, closest)  # [1, V], [Q, V]
        distance, lengths = smallest.sqrt(), norm + query_norm  # [Q, V]
        cosine = product / (norm * query_norm).clamp_min(TINY)  # [Q, V]
        proximity = torch.where(lengths > 0, 1 - distance / lengths.clamp_min(TINY), 0.0)  # [Q, V]
        return closest, torch.stack([cosine, distance, proximity], dim=2).float()

    def forward(self, queries: Tensor, query_mask: Tensor, documents: Tensor, features: Tensor) -> Tensor:
        """Scores, float [Q, C].

        Args:
            queries: int64 [Q, M]. query_mask: bool [Q, M]; every query has at least one word.
            documents: int64 [Q, C, N], PADDING behind the last word.
            features: lexical features, float32 [Q, C, F].
        """
        count, depth, words = documents.shape
        mask = (documents != PADDING).view(count * depth, words)  # [B, N], B = Q C
        ids = documents.clamp_min(0)  # [Q, C, N]
        closest, delta_features = self.compare(queries, query_mask)  # [Q, V], [Q, V, 3]
        query = torch.arange(count, device=ids.device)[:, None, None]
        nearest = queries[query, closest[query, ids]]  # [Q, C, N], ids of the closest query words
        feature_sums = delta_features[query, ids] @ self.feature_taps  # [Q, C, N, width * K]
        rows = self.taps[ids] - self.taps[nearest] + feature_sums  # [Q, C, N, width * K]
        rows = rows.view(count * depth, words, self.config.width, -1) * mask[:, :, None, None]  # [B, N, width, K]
        border = self.config.width // 2
        rows = functional.pad(rows, (0, 0, 0, 0, border, border))  # [B, N + 2 border, width, K]
        sums = sum(rows[:, tap : tap + words, tap] for tap in range(self.config.width))  # [B, N, K]
        sums = (sums + self.model.convolutions[0].bias).transpose(1, 2)  # [B, K, N]
        pooled = self.model.pool(sums, mask)  # [B, K]
        return self.model.combine(pooled, features.view(count * depth, -1)).view(count, depth)


class DeltaOnDevice(ModulePath):
    """Scores the candidates of many queries at once on one device.

    Args:
        model: the module, in eval mode, on ``options.device``.
        builder: the input builder of the candidates' index.
        options: ``batch_size`` limits queries times candidates; it is halved permanently when memory runs out.
    """

    def __init__(self, model: Delta, builder: InputBuilder, options: RerankerOptions):
        self.builder, self.options, self.device = builder, options, torch.device(options.device)
        self.batch_size = options.batch_size
        self.tables = DeltaTables(model).eval()
        # CUDA graphs: one kernel launch per query instead of some forty.
        mode = "reduce-overhead" if self.device.type == "cuda" else "default"
        self.forward = torch.compile(self.tables, mode=mode) if options.compile else self.tables
        self.documents = self._documents()

    def _documents(self) -> Tensor:
        """The first N words of every document as the model's ids, int32 [R, N] on the device."""
        builder, rows = self.builder, len(self.builder.index)
        documents = torch.full((rows, builder.document_words), PADDING, dtype=torch.int32, device=self.device)
        for start in range(0, rows, 1 << 16):
            chunk = np.arange(start, min(start + (1 << 16), rows))
            words = builder.documents(Candidates(builder.index, chunk, np.zeros(len(chunk), np.float32)))
            ids = np.where(words.mask, words.ids, PADDING).astype(np.int32)
            documents[start : start + len(chunk)] = torch.from_numpy(ids).to(self.device)
        return documents

    @torch.inference_mode()
    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        features: list[Any] = [None] * len(tasks)

        def compute_features(start: int, stop: int) -> None:
            for place in range(start, stop):
                features[place] = self.builder.features(tasks[place].terms, tasks[place].candidates)

        split(compute_features, len(tasks), self.options.threads or available_threads(), smallest=1)
        scores = [np.zeros(len(task.candidates), np.float32) for task in tasks]
        pending = deque((place, 0, len(task.candidates)) for place, task in enumerate(tasks))
        while pending:
            place, start, stop = pending[0]
            if stop - start > self.batch_size:
                pending[0] = (place, start, start + self.batch_size)
                pending.insert(1, (place, start + self.batch_size, stop))
                continue
            pieces = self._next_batch(pending)
            try:
                batch = self._score([(tasks[place], features[place], slice(*bounds)) for place, *bounds in pieces])
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size //= 2
                torch.cuda.empty_cache()
                log.warning("out of memory on %s: scoring %d candidates at once", self.device, self.batch_size)
                continue
            for place, start, stop in pieces:
                pending.popleft()
                scores[place][start:stop] = next(batch)[: stop - start]
        return scores

    def _next_batch(self, pending: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """The first pieces that fit into a batch when padded to the longest of them."""
        depth, count = 0, 0
        for _, start, stop in pending:
            depth = max(depth, stop - start)
            if count and depth * (count + 1) > self.batch_size:
                break
            count += 1
        return list(islice(pending, count))

    def _score(self, pieces: list[tuple[Task, np.ndarray, slice]]) -> Iterator[np.ndarray]:
        """Scores of pieces of queries, float32 [longest piece] each, from (task, features [C, F], slice of C)."""
        depth = max(part.stop - part.start for _, _, part in pieces)
        if self.options.compile:
            depth = -(-depth // CANDIDATES_STEP) * CANDIDATES_STEP
        padded_rows = np.full((len(pieces), depth), PADDING)
        lexical = np.zeros((len(pieces), depth, len(self.builder.feature_names)), np.float32)
        for number, (task, features, part) in enumerate(pieces):
            padded_rows[number, : part.stop - part.start] = task.candidates.rows[part]
            lexical[number, : part.stop - part.start] = features[part]
        rows = torch.from_numpy(padded_rows).to(self.device)  # [Q, C]
        documents = self.documents[rows.clamp_min(0)].long()  # [Q, C, N]
        documents = documents.masked_fill((rows == PADDING)[..., None], PADDING)
        queries = torch.from_numpy(np.stack([task.words.ids for task, _, _ in pieces])).to(self.device)  # [Q, M]
        mask = torch.from_numpy(np.stack([task.words.mask for task, _, _ in pieces])).to(self.device)  # [Q, M]
        arguments = queries, mask, documents, torch.from_numpy(lexical).to(self.device)
        if self.options.precision == "float32":
            scores = self.forward(*arguments)  # [Q, C]
        else:
            with torch.autocast(self.device.type, getattr(torch, self.options.precision)):
                scores = self.forward(*arguments)  # [Q, C]
        return iter(scores.float().cpu().numpy())
