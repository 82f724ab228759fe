"""Delta ([D18] 3) on a torch device.

As in :mod:`rerank_plugin.models.delta.fast`, the contributions of words to the first convolution are a table over the
vocabulary. In shapes w is the width of a convolution and K the filters.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.kernels.arithmetic import TINY
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.delta.config import DELTA_FEATURES, DeltaConfig
from rerank_plugin.models.delta.model import Delta
from rerank_plugin.models.delta_stage import steps_of
from rerank_plugin.models.device_path import Batch, DevicePath, DocumentRange, PaddedWords


class ClosestQueryWords(NamedTuple):
    """The Delta stage ([D18] 3.2) of the words of the vocabulary and some queries."""

    words: Tensor  # ids of the closest query words, int64 [V, Q]
    features: Tensor  # cosine, distance and proximity to them, float32 [V, Q, 3]


class DeltaOnDevice(DevicePath[DeltaConfig]):
    """Scores candidates like :class:`~rerank_plugin.models.delta.model.Delta`."""

    model: Delta

    def __init__(self, model: Delta, builder: InputBuilder, options: RerankerOptions):
        weight, config = model.convolutions[0].weight.detach(), model.config  # [K, rows, w]
        by_row = weight.permute(1, 2, 0)  # [rows, w, K]
        dimension = model.vectors.shape[1] if config.differences else 0
        self.taps = (model.vectors[:, :dimension] @ by_row[:dimension].flatten(1)).view(-1, config.filters)  # [V w, K]
        missing = 0 if config.delta_features else DELTA_FEATURES
        self.feature_taps = functional.pad(by_row[dimension:], (0, 0, 0, 0, 0, missing)).flatten(0, 1)  # [3 w, K]
        # In double precision |d|^2 + |q|^2 - 2 d.q is as exact as a sum of squared differences in single precision.
        self.vectors = model.vectors.to(
            torch.float32 if model.vectors.device.type == "mps" else torch.float64
        )  # [V, D]
        self.squares = self.vectors.square().sum(dim=1)  # [V]
        super().__init__(model, builder, options)

    def numbers(self, words: int, query_words: int) -> int:
        return words * max(2 * self.config.width, self.config.filters)

    def read(self, batch: Batch) -> ClosestQueryWords:
        queries = batch.queries.flatten()  # [Q M]
        products = self.vectors @ self.vectors[queries].T  # [V, Q M]
        distances = self.squares[:, None] + self.squares[queries] - 2 * products  # [V, Q M]
        same = torch.arange(len(self.vectors), device=queries.device)[:, None] == queries  # [V, Q M]
        distances = distances.clamp_min(0).masked_fill(same, 0.0).masked_fill(~batch.query_mask.flatten(), torch.inf)
        lengths_of = distances.sqrt().float().view(-1, *batch.queries.shape)  # [V, Q, M]
        places = steps_of(lengths_of).min(dim=2).indices  # [V, Q]; the first of equally close words
        smallest = lengths_of.gather(2, places[..., None])[..., 0]  # [V, Q]
        closest = batch.queries.gather(1, places.T).T  # [V, Q]
        product = products.view(-1, *batch.queries.shape).gather(2, places[..., None])[..., 0]  # [V, Q]
        norms = self.squares.sqrt()  # [V]
        norm, query_norm = norms[:, None], norms[closest]  # [V, 1], [V, Q]
        cosine, lengths = product / (norm * query_norm).clamp_min(TINY), norm + query_norm  # [V, Q]
        proximity = torch.where(lengths > 0, 1 - smallest / lengths.clamp_min(TINY), 0.0)  # [V, Q]
        return ClosestQueryWords(closest, torch.stack([cosine.float(), smallest, proximity.float()], dim=2))

    def score(
        self, batch: Batch, read: ClosestQueryWords, part: DocumentRange, words: PaddedWords, features: Tensor
    ) -> Tensor:
        config, (count, length), mask = self.config, words.ids.shape, words.mask
        query, border, width = batch.query[part.first : part.last, None], config.width // 2, config.width
        measures = read.features[words.ids, query] * mask[..., None]  # [n, N, 3]
        windows = functional.pad(measures, (0, 0, border, border)).unfold(1, width, 1)  # [n, N, 3, w]
        sums = windows.reshape(count * length, -1) @ self.feature_taps + self.model.convolutions[0].bias  # [n N, K]
        if config.differences:
            both = torch.stack([words.ids, read.words[words.ids, query]])  # [2, n, N]
            taps = functional.pad(both, (border, border)).unfold(2, width, 1)  # [2, n, N, w]
            taps = taps * width + torch.arange(width, device=taps.device)
            signs = functional.pad(mask.float(), (border, border)).unfold(1, width, 1)  # [n, N, w]
            signs = torch.cat([signs, -signs], dim=2).flatten(0, 1)  # [n N, 2 w]
            taps = taps.permute(1, 2, 0, 3).reshape(count * length, -1)  # [n N, 2 w]
            sums = sums + functional.embedding_bag(taps, self.taps, mode="sum", per_sample_weights=signs)
        pooled = self.model.pool(sums.view(count, length, -1).transpose(1, 2), mask)  # [n, K]
        return self.model.combine(pooled, features)
