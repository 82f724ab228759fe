"""DRMM (Guo et al., CIKM 2016) as it is served: the same scores as :class:`~rerank_plugin.models.drmm.model.Drmm`.

The bin of a word and a query word is found once for each distinct word of the candidates. A document is then a list of
rows of small whole numbers to be counted; logarithms of counts come from a table, and the feed-forward layers see the
query words of many documents as the rows of one product.

The module finds bins with cosines in double precision. Here vectors of whole numbers of 16 bits come first: half the
memory to read, and products that processors add up exactly, twice as fast as those of single precision. Their cosines
are enough wherever they are farther from the borders than such vectors can be off; the others, one in a hundred, are
done again in double precision. So the counts are the same as the module's, not nearly the same.

In shapes R are rows, one for each candidate and query word.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from llvmlite import ir
from numba import types
from torch import Tensor
from torch.nn import functional

from rerank_plugin.features.inputs import InputBuilder, ModelQuery
from rerank_plugin.features.interactions import CandidateWords, candidate_words
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import IndexQuery
from rerank_plugin.kernels.arithmetic import REASSOCIATE
from rerank_plugin.kernels.compiling import njit
from rerank_plugin.kernels.dense_layers import LINEAR, ROWS, dense, numbers, pack_layer
from rerank_plugin.kernels.intrinsics import AHEAD, LANES, code, halves, loop, prefetch_row
from rerank_plugin.kernels.parallel import split
from rerank_plugin.models.drmm.model import STEPS, Drmm
from rerank_plugin.models.fast_paths import FastPath

SHORT = ir.IntType(16)
LARGEST_NORM = 46000  # of a vector of whole numbers: its square fits into 31 bits
TINY = np.finfo(np.float64).tiny  # only keeps zero vectors from dividing by zero


class FusedDrmm(FastPath):
    """Scores candidates as the module does."""

    def __init__(self, model: Drmm, builder: InputBuilder, threads: int):
        super().__init__(model, builder, threads)
        self.vectors = numbers(model.vectors)  # [V, D]
        self.norms = model.vectors.detach().double().norm(dim=1).numpy()  # float64 [V]
        self.whole_vectors, self.scale, error = _whole_vectors(model.vectors.detach())
        self.doubt = error * (self.config.bins - 1) / 2  # in bins
        self.logarithms = np.log10(1 + np.arange(self.config.document_words + 1)).astype(np.float32)
        self.gate = float(model.gate.detach())
        *hidden, last = model.layers
        self.hidden = [pack_layer(layer) for layer in hidden]
        self.last_weights, self.last_bias = numbers(last.weight)[0], numbers(last.bias)

    def score(self, terms: IndexQuery, query: ModelQuery, candidates: Candidates) -> np.ndarray:
        bins, count = self.config.bins, len(candidates)
        words = candidate_words(self.builder, candidates, self.workspace)
        places = self.bins(query, words)  # [U, m]
        m = places.shape[1]
        gates = self._gates(query.idf[query.mask])  # [m]
        scores = np.empty(count, np.float32)

        def documents(start: int, stop: int) -> None:
            rows = (stop - start) * m  # R
            features = self.workspace.array("features", (rows + ROWS, bins), np.float32)
            counts = self.workspace.zeros("counts", m * bins, np.int32)
            _log_counts(places, words.places[start:stop], words.lengths[start:stop], counts, self.logarithms, features)
            for place, (panels, bias) in enumerate(self.hidden):
                target = self.workspace.array(f"layer {place}", (rows + ROWS, len(bias)), np.float32)
                dense(features, panels, bias, LINEAR, target, rows)
                np.tanh(target[:rows], out=target[:rows])
                features = target
            matches = self.workspace.array("matches", (rows,), np.float32)
            _last_layer(features, self.last_weights, self.last_bias, matches)
            np.tanh(matches, out=matches)
            _weigh(matches, gates, scores[start:stop])

        split(documents, count, self.threads, smallest=16)
        return scores

    def bins(self, query: ModelQuery, words: CandidateWords) -> np.ndarray:
        """The bin of each distinct word and query word, int32 [U, m]."""
        ids, terms = query.ids[query.mask].astype(np.int32), query.terms[query.mask].astype(np.int32)  # [m]
        found = self.workspace.array("bins", (len(words.ids), len(ids)), np.int32)

        tables, border = (self.whole_vectors, self.scale, self.vectors, self.norms), (self.config.bins, self.doubt)
        find = partial(_word_bins, *tables, words.ids, words.terms, ids, terms, *border, found)
        split(find, len(words.ids), self.threads)
        return found

    def _gates(self, idf: np.ndarray) -> np.ndarray:
        """The shares of the query's words, float32 [m]."""
        weights = np.float32(self.gate) * idf
        powers = np.exp(weights - weights.max(initial=-np.inf))
        return (powers / powers.sum()).astype(np.float32)


def _whole_vectors(vectors: Tensor) -> tuple[np.ndarray, float, float]:
    """Unit vectors as whole numbers, int16 [V, D rounded up to LANES].

    Also the factor that makes their inner products cosines, and the largest error of these.
    """
    units = vectors.double()
    units = units / units.norm(dim=1, keepdim=True).clamp_min(TINY)  # [V, D]
    step = max(float(units.abs().max()) / np.iinfo(np.int16).max, 1 / LARGEST_NORM)
    whole = (units / step).round().short()  # each number is off by half a step at most
    error = step * float(units.abs().sum(dim=1).max()) + vectors.shape[1] * step**2 / 4
    whole = functional.pad(whole, (0, -vectors.shape[1] % LANES))
    return whole.numpy(), step**2, error + 1 / STEPS


@code(SHORT, SHORT, types.intp, result=types.int32)
def _whole_product(builder, left, right, length):
    """The inner product of two vectors int16 at these addresses; ``length`` is a multiple of LANES, at least one."""
    size, wholes = length.type, ir.VectorType(ir.IntType(32), LANES)

    def whole_numbers(start, place):
        found = builder.bitcast(builder.gep(start, [place]), ir.VectorType(SHORT, LANES).as_pointer())
        return builder.sext(builder.load(found, align=2), wholes)

    def add(block, sums):
        place = builder.mul(block, size(LANES))
        return [builder.add(sums[0], builder.mul(whole_numbers(left, place), whole_numbers(right, place)))]

    [sums] = loop(builder, builder.udiv(length, size(LANES)), [wholes(None)], add)
    while sums.type.count > 1:
        sums = builder.add(*halves(builder, sums))
    return builder.extract_element(sums, ir.IntType(32)(0))


@njit(nogil=True, inline="always")
def _bin_of(cosine, bins):
    """The bin of a cosine of different words, as the module finds it."""
    steps = min(max(int(np.rint(cosine * STEPS)), -STEPS), STEPS)
    return min((steps + STEPS) * (bins - 1) // (2 * STEPS), bins - 2)


@njit(nogil=True, cache=True, fastmath=REASSOCIATE)
def _precise_cosine(vectors, norms, word, other):
    """The cosine of words ``word`` and ``other`` in double precision."""
    total = 0.0
    for i in range(vectors.shape[1]):
        total += np.float64(vectors[word, i]) * np.float64(vectors[other, i])
    return total / max(norms[word] * norms[other], TINY)


@njit(nogil=True, cache=True)
def _word_bins(
    whole_vectors, scale, vectors, norms, ids, terms, query_ids, query_terms, bins, doubt, found, start, stop
):  # fmt: skip
    """The bins of distinct words start..stop: rows of ``found``, int32 [U, m].

    Inner products of ``whole_vectors`` times ``scale`` are cosines; they are enough where the cosine is farther from a
    border than ``doubt``, in bins.
    """
    width, unrelated = whole_vectors.shape[1], _bin_of(0.0, bins)
    start_of_all, row = whole_vectors.ctypes.data, width * 2
    for word in range(start, stop):
        if word + AHEAD < stop:
            prefetch_row(whole_vectors, ids[word + AHEAD])
        id = ids[word]
        for column in range(len(query_ids)):
            other = query_ids[column]
            if terms[word] == query_terms[column]:
                found[word, column] = bins - 1
            elif id == 0 or other == 0:
                found[word, column] = unrelated
            else:
                total = _whole_product(start_of_all + id * row, start_of_all + other * row, width)
                place = (total * scale + 1.0) * 0.5 * (bins - 1)
                if abs(place - np.rint(place)) > doubt:
                    found[word, column] = int(math.floor(place))
                else:
                    found[word, column] = _bin_of(_precise_cosine(vectors, norms, id, other), bins)


@njit(nogil=True, cache=True)
def _log_counts(bins, places, lengths, counts, logarithms, features):
    """Logarithms of the histograms of documents: a row of ``features`` for each document and query word.

    ``counts`` int32 [m * bins of a histogram] are zeros on entry and on return; ``logarithms`` float32 [N + 1].
    """
    columns, width = bins.shape[1], features.shape[1]
    for candidate in range(len(lengths)):
        for position in range(lengths[candidate]):
            word = places[candidate, position]
            for column in range(columns):
                counts[column * width + bins[word, column]] += 1
        for column in range(columns):
            row = candidate * columns + column
            for i in range(width):
                features[row, i] = logarithms[counts[column * width + i]]
                counts[column * width + i] = 0


@njit(nogil=True, cache=True)
def _last_layer(features, weights, bias, found):
    """What goes into the last tanh, float32 [R], from the first columns of rows of ``features``."""
    for row in range(len(found)):
        total = bias[0]
        for i in range(len(weights)):
            total += features[row, i] * weights[i]
        found[row] = total


@njit(nogil=True, cache=True)
def _weigh(matches, gates, scores):
    """Sums of the query words' numbers, float32 [C * m], weighed by their shares, float32 [m]."""
    columns = len(gates)
    for candidate in range(len(scores)):
        total = np.float32(0.0)
        for column in range(columns):
            total += matches[candidate * columns + column] * gates[column]
        scores[candidate] = total
