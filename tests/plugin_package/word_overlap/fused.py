"""The same scores by numpy, from unit vectors that are made once."""

import numpy as np

from rerank_plugin.models.fast_paths import FastPath


class FastOverlap(FastPath):
    gathers_words = False

    def __init__(self, config, arrays, builder, threads):
        super().__init__(config, arrays, builder, threads)
        vectors = arrays["vectors"].astype(np.float64)
        self.units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        self.weights = arrays["weights"].copy()

    def score(self, terms, query, candidates):
        words = self.builder.documents(candidates)
        cosines = np.einsum("md,cnd->cmn", self.units[query.ids], self.units[words.ids])  # [C, M, N]
        cosines *= (query.ids > 0)[None, :, None] & (words.ids > 0)[:, None, :]
        same = (query.terms[None, :, None] == words.terms[:, None, :]) & (query.terms >= 0)[None, :, None]
        cosines[same] = 1.0
        if not cosines.shape[2]:
            return np.full(len(candidates), -self.weights[query.mask].sum(), np.float32)
        best = np.where(words.mask[:, None, :], cosines, -1.0).max(axis=2)  # [C, M]
        return (np.where(query.mask, best, 0.0) @ self.weights).astype(np.float32)
