"""DRMM (Guo et al., CIKM 2016, section 3; baseline of [D18] 4.3.4 and [P] 3.1): histograms of similarities.

For each query word the cosines to all document words are counted in ``bins`` bins from -1 to 1; the last bin is for the
word itself. Feed-forward layers with tanh turn the logarithms of the counts into one number per query word, and the
score is their sum, weighted by a softmax over the IDF of the query words: the variant LCH x IDF, the paper's best and
the one in [D18] and [P]. The order of the document's words does not matter. The word vectors are fixed.

With 30 bins and one hidden layer of 5 there are 30*5 + 5 + 5 + 1 weights and one in the gate: the 162 of [D18] 4.3.4.
KTRel's DRMM has about 450 ([K] 5); ``hidden=(14,)`` has 450.

Where the paper is silent:

* Bins are equally wide, as in the authors' program: a similarity s falls into bin ``floor((s + 1) / 2 * (bins - 1))``,
  and logarithms are ``log10(1 + count)``.
* Only the same word, known to the model or not, is an 'exact match': two words with equal vectors are in the last bin
  but one, whatever the rounding of their cosine.
* The similarity of an unknown word to any other word is 0, and so is that of a zero vector, as in the other models.
* Borders. Two ways to compute a cosine may put it on different sides of a border, which changes a count: so cosines are
  computed in double precision (in single precision on devices without double) and rounded to a multiple of 1e-6 before
  they are compared with borders. Two ways then differ by some 1e-15 before rounding, and a cosine that is on a border
  by construction, like 0 with 31 bins, is always on the border.
* The paper reads whole documents. [D18] found no gain beyond 200 words, and reports DRMM with 200: the default.
* The gate's weight starts at 1; an empty document has empty bins, and the score of a query without words is 0.
* [D18] ran DRMM on Krovetz stems, without stop-words in queries and with vectors of CBOW. None of it is the default, so
  that all models read the same words. Stems are a setting of index and word vectors (``index --stem krovetz``,
  ``embed words --stem krovetz --method cbow``), stop-words one of the model: ``query_stopwords="remove"`` removes
  Lucene's English stop-words from a query before it is cut to M words. A query of stop-words only keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import cosine_matrix, precise_cosines, same_words
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.integrated_gradients import in_double, interaction_attribution
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.ranking_model import linear_layers, masked_softmax

STEPS = 1_000_000  # of a similarity from 0 to 1; whole steps are compared with borders


@dataclass(frozen=True)
class DrmmConfig(ModelConfig):
    """Hyper-parameters; the defaults are those of the paper, cut at N as in [D18] 4.3.4.

    Attributes:
        bins: number of bins of a histogram, with the last one for exact matches.
        hidden: widths of the feed-forward layers before the last.
        query_stopwords: ``keep``, or ``remove`` as in [D18] 4.3.4.
    """

    bins: int = 30
    hidden: tuple[int, ...] = (5,)
    document_words: int = 200
    query_words: int = 16
    lexical_features: tuple[str, ...] = ()
    query_stopwords: str = "keep"

    def __post_init__(self) -> None:
        self.check("DRMM", "hidden", query_stopwords=("keep", "remove"))
        if self.bins < 2:
            raise InputError(f"{self.bins} bins: DRMM needs at least 2, one of them for exact matches")


def bins_of(cosines: Tensor, bins: int) -> Tensor:
    """The bins of cosines of different words, int64 from 0 to bins - 2, in the shape of ``cosines``."""
    steps = (cosines * STEPS).round().long().clamp(-STEPS, STEPS)
    places = torch.div((steps + STEPS) * (bins - 1), 2 * STEPS, rounding_mode="floor")  # whole numbers: no rounding
    return places.clamp_max(bins - 2)


class Drmm(InteractionModel[DrmmConfig]):
    """DRMM as a module over fixed word vectors."""

    name = "drmm"
    matches_unknown_words = True

    def __init__(self, config: DrmmConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.layers = linear_layers(config.bins, *config.hidden, 1)
        self.gate = nn.Parameter(torch.ones(1))

    def interaction(self, inputs: Inputs) -> Tensor:
        """The bin of each query and document word, int64 [B, M, N]. Bins at padding are arbitrary."""
        bins = bins_of(precise_cosines(self.vectors, inputs), self.config.bins)  # [B, M, N]
        return bins.masked_fill(same_words(inputs), self.config.bins - 1)

    def gates(self, inputs: Inputs) -> Tensor:
        """The weights of the query words, float [B, M]: they add up to 1, and are 0 at padding."""
        return masked_softmax(self.gate * inputs.query_idf, inputs.query_mask)

    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        present = inputs.document_mask[:, None, :].to(self.vectors.dtype)  # [B, 1, N]
        return self.score_bins(matrix, present, self.gates(inputs))  # [B]

    def score_bins(self, bins: Tensor, weights: Tensor, gates: Tensor) -> Tensor:
        """Scores [B] from bins int64 [B, M, N], the counts of cells, float [B, 1 or M, N], and gates float [B, M]."""
        counts = weights.new_zeros(*bins.shape[:2], self.config.bins)  # [B, M, bins]
        hidden = torch.log10(1 + counts.scatter_add(2, bins, weights.expand(bins.shape)))  # [B, M, bins]
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))  # [B, M, width of the layer]
        return (hidden[:, :, 0] * gates).sum(dim=1)  # [B]


def explain(model: Drmm, inputs: Inputs) -> Attribution:
    """The attribution of DRMM's scores: integrated gradients over the count of each word in the histograms.

    Args:
        inputs: of one document; B is 1.
    """
    bins, gates = model.interaction(inputs), model.gates(inputs).double()  # [1, M, N], [1, M]
    model, inputs = in_double(model, inputs)
    mask = inputs.document_mask[:, None, :]  # [1, 1, N]

    def score(cells: Tensor) -> Tensor:
        return model.score_bins(bins.expand(cells.shape), cells * mask, gates)  # [S]

    return interaction_attribution(model, inputs, score, cosine_matrix(model.vectors, inputs))
