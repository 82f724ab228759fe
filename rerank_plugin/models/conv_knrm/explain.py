"""What Conv-KNRM's score of a document is made of: integrated gradients over how much each pair of n-grams counts.

What a pair of n-grams adds is shared equally by the pairs of their words.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from rerank_plugin.features.inputs import Inputs
from rerank_plugin.features.interactions import cosine_matrix
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.conv_knrm.model import ConvKnrm
from rerank_plugin.models.integrated_gradients import in_double, of_interaction


def explain(model: ConvKnrm, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    matches = model.cross_matches(inputs)

    def score(cells: Tensor) -> Tensor:
        """cells [S, M, N]."""
        found = [one._replace(present=one.present * _of_ngrams(cells, one.sizes)) for one in matches]
        return model.score(found)  # [S]

    return of_interaction(model, inputs, score, cosine_matrix(model.vectors, inputs))


def _of_ngrams(cells: Tensor, sizes: tuple[int, int]) -> Tensor:
    """The presence of each pair of n-grams, the mean of its words' [S, M, N]."""
    return functional.avg_pool2d(functional.pad(cells, (0, sizes[1] - 1, 0, sizes[0] - 1)), sizes, stride=1)
