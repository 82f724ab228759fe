"""Delta ([D18] 3) on an accelerator: many queries at once, from tables that stay on the device.

The thought is that of :mod:`rerank_plugin.models.delta.fast`: what a word adds to the first convolution is a table
over the vocabulary. Here the device holds that table and the first N words of every document of the index, so a query
sends row numbers, its own words and its lexical features, and gets scores back. The closest query word is looked for
once a word of the *vocabulary*: on a device that is one matrix product, and cheaper than finding the distinct words.

All of it is plain torch, and runs on a CPU as well; the tests compare it with the module there.

In shapes Q are queries and R the documents of the index.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

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

CANDIDATES_STEP = 128  # candidates are padded to a multiple of it, so that few shapes are compiled
PADDING = -1


class DeltaTables(nn.Module):
    """Delta with its first convolution as a table over the vocabulary; the other layers are the model's own.

    Args:
        model: in eval mode, on the device.
    """

    def __init__(self, model: Delta):
        super().__init__()
        self.model, self.config = model, model.config
        weight = model.convolutions[0].weight.detach()  # [K, rows, width]
        by_row = weight.permute(1, 2, 0).flatten(1)  # [rows, width * K]
        dimension = model.vectors.shape[1] if self.config.differences else 0
        missing = 0 if self.config.delta_features else DELTA_FEATURES
        self.register_buffer("taps", model.vectors[:, :dimension] @ by_row[:dimension])  # [V, width * K]
        self.register_buffer("feature_taps", functional.pad(by_row[dimension:], (0, 0, 0, missing)))  # [3, width * K]
        # In double precision |d|^2 + |q|^2 - 2 d.q is as good as a sum of squared differences in single precision.
        self.register_buffer("vectors", model.vectors.double())  # [V, D]
        self.register_buffer("squares", self.vectors.square().sum(dim=1))  # [V]

    def compare(self, queries: Tensor, query_mask: Tensor) -> tuple[Tensor, Tensor]:
        """The Delta stage over the vocabulary ([D18] 3.2), of queries int64 [Q, M] and their mask.

        Returns the place of the closest query word, int64 [Q, V], and cosine, distance and proximity to it, float32
        [Q, V, 3].
        """
        products = torch.einsum("vd,qmd->qvm", self.vectors, self.vectors[queries])  # [Q, V, M]
        other = self.squares[queries]  # [Q, M]
        distances = (self.squares[None, :, None] + other[:, None, :] - 2 * products).clamp_min(0)  # [Q, V, M]
        same = queries[:, None, :] == torch.arange(len(self.vectors), device=queries.device)[None, :, None]
        distances = distances.masked_fill(same, 0.0).masked_fill(~query_mask[:, None, :], torch.inf)  # [Q, V, M]
        smallest, closest = distances.min(dim=2)  # [Q, V]
        product = products.gather(2, closest[..., None])[..., 0]  # [Q, V]
        norm, query_norm = self.squares.sqrt()[None, :], other.sqrt().gather(1, closest)  # [1, V], [Q, V]
        distance, lengths = smallest.sqrt(), norm + query_norm  # [Q, V]
        cosine = product / (norm * query_norm).clamp_min(TINY)  # [Q, V]
        proximity = torch.where(lengths > 0, 1 - distance / lengths.clamp_min(TINY), 0.0)  # [Q, V]
        return closest, torch.stack([cosine, distance, proximity], dim=2).float()

    def forward(self, queries: Tensor, query_mask: Tensor, documents: Tensor, features: Tensor) -> Tensor:
        """Scores, float [Q, C].

        Args:
            queries: int64 [Q, M]. query_mask: bool [Q, M]; every query has a word.
            documents: int64 [Q, C, N], PADDING where there is no word.
            features: lexical features, float32 [Q, C, F].
        """
        count, depth, words = documents.shape
        mask = (documents != PADDING).view(count * depth, words)  # [B, N], B = Q C
        ids = documents.clamp_min(0)  # [Q, C, N]
        closest, numbers = self.compare(queries, query_mask)  # [Q, V], [Q, V, 3]
        query = torch.arange(count, device=ids.device)[:, None, None]
        nearest = queries[query, closest[query, ids]]  # [Q, C, N], ids of the closest query words
        rows = self.taps[ids] - self.taps[nearest] + numbers[query, ids] @ self.feature_taps  # [Q, C, N, width * K]
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
        model: in eval mode, on ``options.device``.
        builder: the input builder of the candidates' index.
        options: ``batch_size`` bounds queries times candidates; it is halved for good when memory runs out.
    """

    def __init__(self, model: Delta, builder: InputBuilder, options: RerankerOptions):
        self.builder, self.options, self.device = builder, options, torch.device(options.device)
        self.batch_size = options.batch_size
        self.tables = DeltaTables(model).eval()
        # CUDA graphs: one launch a query instead of some forty.
        mode = "reduce-overhead" if self.device.type == "cuda" else "default"
        self.forward = torch.compile(self.tables, mode=mode) if options.compile else self.tables
        self.documents = self._documents()

    def _documents(self) -> Tensor:
        """The first N words of every document as the model's ids, int32 [R, N] on the device."""
        builder, rows = self.builder, len(self.builder.index)
        documents = torch.full((rows, builder.document_words), PADDING, dtype=torch.int32, device=self.device)
        for start in range(0, rows, 1 << 16):
            some = np.arange(start, min(start + (1 << 16), rows))
            words = builder.documents(Candidates(builder.index, some, np.zeros(len(some), np.float32)))
            ids = np.where(words.mask, words.ids, PADDING).astype(np.int32)
            documents[start : start + len(some)] = torch.from_numpy(ids).to(self.device)
        return documents

    @torch.inference_mode()
    def score_many(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        features: list = [None] * len(tasks)

        def compute_features(start: int, stop: int) -> None:
            for place in range(start, stop):
                features[place] = self.builder.features(tasks[place].terms, tasks[place].candidates)

        split(compute_features, len(tasks), self.options.threads or available_threads(), smallest=1)
        scores = [np.zeros(len(task.candidates), np.float32) for task in tasks]
        todo = deque((place, 0, len(task.candidates)) for place, task in enumerate(tasks))
        while todo:
            place, start, stop = todo[0]
            if stop - start > self.batch_size:
                todo[0] = (place, start, start + self.batch_size)
                todo.insert(1, (place, start + self.batch_size, stop))
                continue
            pieces = self._that_fit(todo)
            try:
                found = self._score([(tasks[at], features[at], slice(*bounds)) for at, *bounds in pieces])
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size //= 2
                torch.cuda.empty_cache()
                log.warning("out of memory on %s: scoring %d candidates at once", self.device, self.batch_size)
                continue
            for at, start, stop in pieces:
                todo.popleft()
                scores[at][start:stop] = next(found)[: stop - start]
        return scores

    def _that_fit(self, todo: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """The first pieces that, padded to the longest of them, are no more than a batch."""
        depth, count = 0, 0
        for _, start, stop in todo:
            depth = max(depth, stop - start)
            if count and depth * (count + 1) > self.batch_size:
                break
            count += 1
        return list(islice(todo, count))

    def _score(self, pieces: list[tuple]) -> Iterator[np.ndarray]:
        """Scores of pieces of queries, float32 [longest piece] each, from (task, features [C, F], slice of C)."""
        depth = max(part.stop - part.start for _, _, part in pieces)
        if self.options.compile:
            depth = -(-depth // CANDIDATES_STEP) * CANDIDATES_STEP
        rows = np.full((len(pieces), depth), PADDING)
        lexical = np.zeros((len(pieces), depth, len(self.builder.feature_names)), np.float32)
        for at, (task, features, part) in enumerate(pieces):
            rows[at, : part.stop - part.start] = task.candidates.rows[part]
            lexical[at, : part.stop - part.start] = features[part]
        rows = torch.from_numpy(rows).to(self.device)  # [Q, C]
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
