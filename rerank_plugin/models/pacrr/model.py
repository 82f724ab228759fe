"""PACRR ([P] section 2): n-grams of the query against n-grams of the document, read query term by query term.

The matrix of the cosines of all query and document words is distilled to a fixed number of columns: the first ones
(*firstk*), or for each n the windows of n words that are most similar to the query (*kwindow*). For n = 2 .. l_g,
filters of n x n cells run over it; n = 1 is the matrix itself. For each query term and each n, the n_s largest values
over all filters and columns are kept, and an LSTM with one output reads them term by term, together with the term's IDF
weight, normalized by a softmax. Its last output is the score. The word vectors are fixed.

In shapes W are windows (the columns of a convolution's output) and n the words of an n-gram. The paper's letters: l_q
``query_words``, l_d ``document_words`` (firstk) or ``distilled_words`` (kwindow), n_f ``filters``, n_s ``signals``,
l_g ``longest_ngram``.

Where the paper is silent:

* n_s and l_g were chosen from grids (1 to 4, 2 to 4) on held-out data; the defaults are those of its figure 1. l_d of
  kwindow: from 256 to 768; the default is the smallest, which most abstracts do not fill. l_q: 16.
* Activation and biases of the convolutions: ReLU and one bias per filter, as in the authors' program; n = 1 has
  neither.
* Borders: centred, with one more row or column below and behind if n is even, so that row i stays query term i. kwindow
  has no borders between columns: windows are complete n-grams, and a text of fewer than n words has no window.
* Padding. A padded cell is 0, and filters read it beyond the text; but no value of a padded column is pooled (a
  filter's bias would count as evidence), so scores do not depend on l_d, unless documents are cut. If a text has fewer
  than n_s values, the remaining signals are 0.
* Padded query terms: they select no window of kwindow, their IDF weight is 0, and the LSTM ends at the last query term.
  So scores do not depend on l_q, unless queries are cut.
* kwindow: windows keep the order of their positions, and the first of equal windows are chosen, as in the paper's
  example. Similarities are compared in steps of 1/16384, because rounding would order windows of the same words. Two
  ways to compute a cosine may put it into different steps: so kwindow's cosines are computed in double precision (in
  single precision in training and on devices without double) and rounded to a multiple of 2^-24 before they are put
  into a step.
* LSTM: logistic gates, biases 0, except 1 for the forget gate; the score of an empty query is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.integrated_gradients import in_double, interaction_attribution
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.ranking_model import masked_softmax

DISTILLATIONS = ("firstk", "kwindow")
FEW = 4  # signals that are found one after the other on a GPU
SIMILARITY_STEPS = 16384.0  # a power of two: similarities in whole steps add up without rounding
PARTS = 1024.0  # of a step; a similarity is rounded to a whole number of these first


@dataclass(frozen=True)
class PacrrConfig(ModelConfig):
    """Hyper-parameters; the defaults are PACRR-firstk's ([P] 3.1).

    Attributes:
        distillation: "firstk" or "kwindow".
        distilled_words: number of columns that kwindow keeps of a document's N; not used by firstk.
        filters: number of filters of each n-gram size.
        signals: number of values kept for each query term and n-gram size.
        longest_ngram: the largest n; convolutions are 2 x 2 to n x n, none for n = 1.
    """

    distillation: str = "firstk"
    document_words: int = 768
    query_words: int = 16
    distilled_words: int = 256
    filters: int = 32
    signals: int = 2
    longest_ngram: int = 3
    lexical_features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("distilled_words", "filters", "signals", "longest_ngram")
        self.check("PACRR", *sizes, distillation=DISTILLATIONS)
        if self.distillation == "kwindow" and self.distilled_words < self.longest_ngram:
            raise InputError(
                f"{self.distilled_words} distilled words cannot hold a window of {self.longest_ngram} words: raise "
                "distilled_words or lower longest_ngram"
            )


class Distilled(NamedTuple):
    """A distilled similarity matrix."""

    matrix: Tensor  # float [B, M, l_d], 0 where padded
    windows: Tensor  # bool [B, W], True for windows of the document: of one column for firstk, of n for kwindow
    places: Tensor  # position in the document of each column, int64 [B, l_d]; arbitrary where padded


def closest_steps(similarities: Tensor, query_mask: Tensor) -> Tensor:
    """The similarity of each document word to its closest query term in whole steps, float32 [B, N].

    Args:
        similarities: float [B, M, N]. query_mask: bool [B, M].
    """
    closest = similarities.masked_fill(~query_mask[:, :, None], -1.0).amax(dim=1)  # [B, N]
    parts = (closest * (SIMILARITY_STEPS * PARTS)).round()  # [B, N]
    return (parts / PARTS + 0.5).floor().float()


def kwindow(similarities: Tensor, steps: Tensor, document_mask: Tensor, words: int, columns: int) -> Distilled:
    """The windows of ``words`` words that are most similar to the query, in the document's order ([P] 2.1).

    The similarity of a window is the mean of its words' similarities to their closest query terms. As many windows are
    kept as fit into ``columns``; they may overlap.

    Args:
        similarities: float [B, M, N], 0 where padded. steps: of :func:`closest_steps`. document_mask: bool [B, N].
    """
    padding = (0, max(0, words - similarities.shape[2]))  # makes room for one window
    similarities, steps = functional.pad(similarities, padding), functional.pad(steps, padding)
    document_mask = functional.pad(document_mask, padding)
    complete = document_mask.unfold(1, words, 1).all(dim=2)  # [B, N - n + 1]
    sums = steps.unfold(1, words, 1).sum(dim=2)  # the mean times a constant, [B, N - n + 1]
    order = sums.masked_fill(~complete, -torch.inf).argsort(dim=1, descending=True, stable=True)  # [B, N - n + 1]
    starts = order[:, : columns // words].sort(dim=1).values  # [B, W]
    windows = complete.gather(1, starts)  # [B, W]
    chosen = (starts[:, :, None] + torch.arange(words, device=starts.device)).flatten(1)  # [B, W * n]
    kept = windows.repeat_interleave(words, dim=1)[:, None, :]  # [B, 1, W * n]
    matrix = similarities.gather(2, chosen[:, None, :].expand(-1, similarities.shape[1], -1)) * kept  # [B, M, W * n]
    return Distilled(
        functional.pad(matrix, (0, columns - matrix.shape[2])),
        functional.pad(windows, (0, columns // words - windows.shape[1])),
        functional.pad(chosen, (0, columns - chosen.shape[1])),
    )


def strongest(cells: Tensor, windows: Tensor, count: int) -> Tensor:
    """The ``count`` largest values of each query term, in descending order ([P] 2.2, max pooling): float [B, M, count].

    cells: float [B, M, W]. windows: bool [B, W], False for windows that are not pooled. Missing values are 0.
    """
    padding = (0, max(0, count - cells.shape[2]))
    cells = cells.masked_fill(~windows[:, None, :], -torch.inf)  # [B, M, W]
    cells = functional.pad(cells, padding, value=-torch.inf)  # [B, M, W or count]
    if cells.is_cuda and count <= FEW:  # a selection there takes ten times as long as maxima
        values = []
        for _ in range(count):
            value, place = cells.max(dim=2, keepdim=True)  # [B, M, 1] each
            values.append(value)
            cells = cells.scatter(2, place, -torch.inf)
        largest = torch.cat(values, dim=2)  # [B, M, count]
    else:
        largest = cells.topk(count, dim=2).values  # [B, M, count]
    missing = torch.arange(count, device=cells.device) >= windows.sum(dim=1, keepdim=True)  # [B, count]
    return largest.masked_fill(missing[:, None, :], 0.0)


class Pacrr(InteractionModel[PacrrConfig]):
    """PACRR as a module over fixed word vectors."""

    name = "pacrr"
    matches_unknown_words, by_length = True, True

    def __init__(self, config: PacrrConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.values_of_cell = 2 * config.filters
        self.convolutions = nn.ModuleList(
            nn.Conv2d(1, config.filters, size, stride=(1, size if config.distillation == "kwindow" else 1))
            for size in range(2, config.longest_ngram + 1)
        )
        self.lstm = nn.LSTM(config.longest_ngram * config.signals + 1, 1, batch_first=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in self.convolutions:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.xavier_uniform_(self.lstm.weight_ih_l0)
        nn.init.zeros_(self.lstm.bias_ih_l0)
        nn.init.zeros_(self.lstm.bias_hh_l0)
        with torch.no_grad():
            self.lstm.bias_ih_l0[1] = 1.0  # the order of gates is input, forget, cell, output

    def bordered(self, words: int, matrix: Tensor) -> Tensor:
        """The matrix with the zeros that filters read around it: [B, M, l_d] to [B, 1, M + n - 1, l_d (+ n - 1)]."""
        before, behind = (words - 1) // 2, words // 2
        columns = (before, behind) if self.config.distillation == "firstk" else (0, 0)
        return functional.pad(matrix[:, None], (*columns, before, behind))

    def convolve(self, words: int, matrix: Tensor) -> Tensor:
        """Matches of n-grams of ``words`` words, the maximum over filters: float [B, M, l_d] to float [B, M, W]."""
        if words == 1:
            return matrix
        cells = self.convolutions[words - 2](self.bordered(words, matrix))  # [B, filters, M, W]
        return functional.relu(cells.amax(dim=1))  # [B, M, W]; equals the maximum of ReLUs

    def matches(self, words: int, distilled: Distilled) -> Tensor:
        """The strongest matches of n-grams of ``words`` words of each query term: float [B, M, n_s]."""
        if self.training and words > 1:
            return self.matches_to_train(words, distilled)
        return strongest(self.convolve(words, distilled.matrix), distilled.windows, self.config.signals)

    def matches_to_train(self, words: int, distilled: Distilled) -> Tensor:
        """:meth:`matches` for training, several times as fast: only nonzero gradients are computed.

        Only the n_s kept cells, of one filter each, have a gradient. So the strongest cells are selected without
        gradients, and then computed again with their filters only.
        """
        layer, count = self.convolutions[words - 2], self.config.signals
        bordered = self.bordered(words, distilled.matrix)  # [B, 1, M + n - 1, l_d (+ n - 1)]
        with torch.no_grad():
            cells, filters = layer(bordered).max(dim=1)  # [B, M, W] each
            cells = cells.masked_fill(~distilled.windows[:, None, :], -torch.inf)
            places = cells.topk(min(count, cells.shape[2]), dim=2).indices  # [B, M, n_s]
            filters = filters.gather(2, places)  # [B, M, n_s]
            batch, terms = (torch.arange(size, device=places.device) for size in places.shape[:2])
            within = torch.arange(words, device=places.device)  # [n]
            rows = terms[None, :, None, None, None] + within[:, None]  # [1, M, 1, n, 1]
            columns = places[..., None, None] * layer.stride[1] + within  # [B, M, n_s, 1, n]
            patches = bordered[batch[:, None, None, None, None], 0, rows, columns]  # [B, M, n_s, n, n]
        kept = (patches * layer.weight[filters, 0]).sum(dim=(3, 4)) + layer.bias[filters]  # [B, M, n_s]
        kept = functional.pad(functional.relu(kept), (0, count - kept.shape[2]))  # [B, M, n_s]
        missing = torch.arange(count, device=places.device) >= distilled.windows.sum(dim=1, keepdim=True)  # [B, n_s]
        return kept.masked_fill(missing[:, None, :], 0.0)

    def interaction(self, inputs: Inputs) -> Tensor:
        precise = (
            self.config.distillation == "kwindow" and not self.training
        )  # a training step would take 1.8 times as long
        return cosine_matrix(self.vectors, inputs, precise)  # [B, M, N]

    def distilled(self, similarities: Tensor, inputs: Inputs) -> list[Distilled]:
        """The distilled matrix of each n-gram size, from 1 word on; similarities are float [B, M, N]."""
        mask = inputs.document_mask  # [B, N]
        sizes, columns = range(1, self.config.longest_ngram + 1), self.config.distilled_words
        if self.config.distillation == "kwindow":
            steps = closest_steps(similarities, inputs.query_mask)  # [B, N]
            similarities = similarities.to(self.vectors.dtype)
            return [kwindow(similarities, steps, mask, words, columns) for words in sizes]
        places = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)  # [B, N]; N is cut at l_d
        return [Distilled(similarities, mask, places)] * len(sizes)

    def query_signals(self, distilled: Sequence[Distilled], inputs: Inputs) -> Tensor:
        """The input of the LSTM: float [B, M, l_g * n_s + 1]."""
        signals = [self.matches(words, size) for words, size in enumerate(distilled, 1)]  # [B, M, n_s] each
        shares = masked_softmax(inputs.query_idf, inputs.query_mask)  # [B, M]
        return torch.cat([*signals, shares[:, :, None]], dim=2)

    def forward(self, inputs: Inputs) -> Tensor:
        inputs = inputs.without_common_padding()  # saves time and memory, and does not change scores
        return super().forward(inputs)  # [B]

    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        return self.score_distilled(self.distilled(matrix, inputs), inputs)  # [B]

    def score_distilled(self, distilled: Sequence[Distilled], inputs: Inputs) -> Tensor:
        """Scores [B] from the matrices of all n-gram sizes."""
        outputs, _ = self.lstm(self.query_signals(distilled, inputs))  # [B, M, 1]
        last = (inputs.query_mask.sum(dim=1, keepdim=True) - 1).clamp_min(0)  # [B, 1]
        score = outputs[:, :, 0].gather(1, last)[:, 0]  # [B]
        return score * inputs.query_mask.any(dim=1)


def explain(model: Pacrr, inputs: Inputs) -> Attribution:
    """The attribution of PACRR's scores: integrated gradients over the cells of the similarity matrix.

    The windows of kwindow are those of the full matrix. The contribution of the IDF weights belongs to the base.

    Args:
        inputs: of one document; B is 1.
    """
    model, inputs = in_double(model, inputs)
    cosines = model.interaction(inputs)  # [1, M, N]
    distilled = model.distilled(cosines, inputs)
    last = cosines.shape[2] - 1
    places = [matrix.places[0].clamp_max(last) for matrix in distilled]  # [l_d] each; beyond the text the matrix is 0

    def score(cells: Tensor) -> Tensor:
        """cells [S, M, N]."""
        scaled = [size._replace(matrix=size.matrix * cells[:, :, columns]) for size, columns in zip(distilled, places)]
        return model.score_distilled(scaled, inputs.take(torch.zeros(len(cells), dtype=torch.int64)))  # [S]

    shape = cosines.shape[1:]
    pooled = {cell for words, size in enumerate(distilled, 1) for cell in _pooled_cells(model, words, size, shape)}
    return interaction_attribution(model, inputs, score, cosines, pooled=sorted(pooled))


def _pooled_cells(model: Pacrr, words: int, distilled: Distilled, shape: torch.Size) -> list[tuple[int, int]]:
    """The cells [M, N] that the pooled n-grams of ``words`` words cover."""
    with torch.no_grad():
        matches = model.convolve(words, distilled.matrix).masked_fill(~distilled.windows[:, None, :], -torch.inf)
    pooled = matches[0].topk(min(model.config.signals, matches.shape[2]), dim=1)  # [M, n_s] each
    firstk, before = model.config.distillation == "firstk", (words - 1) // 2
    cells = []
    for term, (values, windows) in enumerate(zip(pooled.values.tolist(), pooled.indices.tolist())):
        for window in (window for value, window in zip(values, windows) if value > -torch.inf):
            first = window - before if firstk else window * words
            columns = range(max(first, 0), min(first + words, distilled.matrix.shape[2]))
            rows = range(max(term - before, 0), min(term - before + words, shape[0]))
            cells += [(row, int(distilled.places[0, column])) for row in rows for column in columns]
    return [cell for cell in cells if cell[1] < shape[1]]
