"""What SevMos's score of a document is made of: integrated gradients over its word vectors and lexical features.

The model compares no pairs of words: the cosines are there to be read, and the query belongs to the base.
"""

from __future__ import annotations

from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.integrated_gradients import in_double, of_words
from rerank_plugin.models.sevmos.model import SevMos


def explain(model: SevMos, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    documents, query = model.vectors[inputs.documents], model.encode_queries(inputs.queries, inputs.query_mask)

    def score(words: Tensor, features: Tensor) -> Tensor:
        """words [S, N], features [S, F]."""
        encoded = model.convolve(model.document_convolutions, documents * words[:, :, None], inputs.document_mask)
        return model.score_encodings(query.expand(len(words), -1), encoded, features)  # [S]

    return of_words(model, inputs, score)
