"""The attribution of the Delta Relevance Classifier's scores: integrated gradients over rows and overlap features."""

from __future__ import annotations

from torch import Tensor

from rerank_plugin.inputs.builder import Inputs
from rerank_plugin.models.attribution import Attribution
from rerank_plugin.models.delta_classifier.model import DeltaClassifier, difference_rows, known_words_first
from rerank_plugin.models.delta_stage import closest_words
from rerank_plugin.models.integrated_gradients import in_double, of_words


def explain(model: DeltaClassifier, inputs: Inputs) -> Attribution:
    """The attribution of one document's score; inputs with B = 1."""
    model, inputs = in_double(model, inputs)
    rows, mask = difference_rows(model.vectors, inputs)  # [1, N, D + 2], [1, N]
    order = known_words_first(inputs)[0][0]  # [N]

    def score(words: Tensor, features: Tensor) -> Tensor:
        """words [S, N], features [S, F]."""
        pooled = model.scan(rows * words[:, order, None], mask)  # [S, K]
        return model.classify(pooled, features)  # [S]

    documents, queries = model.vectors[inputs.documents], model.vectors[inputs.queries]  # [1, N, D], [1, M, D]
    closest = closest_words(documents, queries, inputs.query_mask & (inputs.queries > 0))[0].numpy()  # [N]
    return of_words(model, inputs, score, closest=closest)
