"""DRMM (Guo et al., CIKM 2016, section 3; baseline of [D18] 4.3.4 and [P] 3.1): histograms of similarities.

For each query word the cosines to all document words are counted in ``bins`` bins from -1 to 1, of which the last is
for the word itself. The logarithms of the counts go through feed-forward layers with tanh to one number a query word,
and the score is their sum, weighed by a softmax over the IDF of the query words: the variant LCH x IDF, which was the
best of the paper's and is the one that [D18] and [P] ran. The order of the document's words does not matter. The word
vectors are fixed.

With 30 bins and one hidden layer of 5 there are 30*5 + 5 + 5 + 1 weights and one in the gate: the 162 of [D18] 4.3.4.
KTRel's DRMM has about 450 ([K] 5); ``hidden=(14,)`` has 450.

Where the paper is silent:

* Bins are equally wide, as in the authors' program: a similarity s falls into bin ``floor((s + 1) / 2 * (bins - 1))``,
  and logarithms are ``log10(1 + count)``.
* 'Exact match' is the same word, known to the model or not, and nothing else: two words with one and the same vector
  are in the last bin but one, whatever rounding makes of their cosine.
* An unknown word is similar to any other word with 0, and so is a zero vector, as for the other models here.
* Borders. A cosine that is computed in two ways may fall on both sides of a border, and counts are whole: so cosines
  are computed in double precision (in single precision on devices that know no other) and rounded to a multiple of
  1e-6 before they are compared with borders. Two ways to a cosine differ by some 1e-15 then, and a cosine that is on a
  border by construction, like 0 with 31 bins, is on it for everyone.
* The paper reads whole documents. [D18] found nothing beyond 200 words, and reports DRMM with that: the default.
* The gate's weight starts at 1; an empty document has empty bins, and a query without words the score 0.
* [D18] ran it on Krovetz stems, without stop-words in queries and with vectors of CBOW. None of it is the default, so
  that all models read the same words. Stems are a setting of index and word vectors (``index --stem krovetz``,
  ``embed words --stem krovetz --method cbow``), stop-words one of the model: ``query_stopwords="remove"`` takes
  Lucene's English ones out of a query before it is cut at M. A query that has no other words keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.inputs.interactions import same_words
from rerank_plugin.models.base import ModelConfig
from rerank_plugin.models.interaction import InteractionModel
from rerank_plugin.models.ranking_model import linear_layers, masked_softmax

STEPS = 1_000_000  # of a similarity, from 0 to 1: borders are compared with whole steps


@dataclass(frozen=True)
class DrmmConfig(ModelConfig):
    """Hyper-parameters; the defaults are those of the paper, cut at N as in [D18] 4.3.4.

    Attributes:
        bins: of a histogram, the last one for exact matches.
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


def precise_cosines(vectors: Tensor, inputs: Inputs) -> Tensor:
    """Cosines of all query and document words, float64 [B, M, N]; 0 where either is unknown. Padding means nothing."""
    precision = torch.float32 if vectors.device.type == "mps" else torch.float64
    documents = vectors[inputs.documents].to(precision)  # [B, N, D]
    queries = vectors[inputs.queries].to(precision)  # [B, M, D]
    lengths = queries.norm(dim=2)[:, :, None] * documents.norm(dim=2)[:, None, :]  # [B, M, N]
    products = torch.bmm(queries, documents.transpose(1, 2))  # [B, M, N]
    known = (inputs.queries > 0)[:, :, None] & (inputs.documents > 0)[:, None, :]  # [B, M, N]
    return products / lengths.clamp_min(torch.finfo(precision).tiny) * known


def bins_of(cosines: Tensor, bins: int) -> Tensor:
    """The bins of cosines of different words, int64 from 0 to bins - 2, in the shape of ``cosines``."""
    steps = (cosines * STEPS).round().long().clamp(-STEPS, STEPS)
    places = torch.div((steps + STEPS) * (bins - 1), 2 * STEPS, rounding_mode="floor")  # whole numbers: no rounding
    return places.clamp_max(bins - 2)


class Drmm(InteractionModel[DrmmConfig]):
    """DRMM as a module over word vectors that are not trained."""

    name = "drmm"
    matches_unknown_words = True

    def __init__(self, config: DrmmConfig, vectors: Tensor):
        super().__init__(config, vectors)
        self.layers = linear_layers(config.bins, *config.hidden, 1)
        self.gate = nn.Parameter(torch.ones(1))

    def interaction(self, inputs: Inputs) -> Tensor:
        """The bin of each query and document word, int64 [B, M, N]. Padding is in some bin, too."""
        bins = bins_of(precise_cosines(self.vectors, inputs), self.config.bins)  # [B, M, N]
        return bins.masked_fill(same_words(inputs), self.config.bins - 1)

    def gates(self, inputs: Inputs) -> Tensor:
        """The shares of the query words, float [B, M]: they add up to 1, and padding has none."""
        return masked_softmax(self.gate * inputs.query_idf, inputs.query_mask)

    def score(self, matrix: Tensor, inputs: Inputs) -> Tensor:
        present = inputs.document_mask[:, None, :].to(self.vectors.dtype)  # [B, 1, N]
        return self.weighed(matrix, present, self.gates(inputs))  # [B]

    def weighed(self, bins: Tensor, present: Tensor, gates: Tensor) -> Tensor:
        """Scores [B] from bins int64 [B, M, N], how much each cell counts, float [B, 1 or M, N], and gates [B, M]."""
        counts = present.new_zeros(*bins.shape[:2], self.config.bins)  # [B, M, bins]
        hidden = torch.log10(1 + counts.scatter_add(2, bins, present.expand(bins.shape)))  # [B, M, bins]
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))  # [B, M, width of the layer]
        return (hidden[:, :, 0] * gates).sum(dim=1)  # [B]
