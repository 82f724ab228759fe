"""The Delta model written from the paper alone, one number at a time: the twin that the fast model is checked against.

Mohan et al., "A Fast Deep Learning Model for Textual Relevance in Biomedical Information Retrieval" (WWW 2018):
section 3.2 the Delta stage, section 3.3 the network, section 4.2 the activation. Python floats (float64), explicit
loops, no padding anywhere: a document is the list of its words' vectors, and what lies beyond it is zero.

What the paper leaves open: the first of equally close query words is the closest; the cosine with a zero vector is 0;
the proximity of two zero vectors is 0, as the package documents it (1 would be as good); an empty document pools to
zeros; without query words there is no closest word and every delta is zero.
"""

from tests.models.plain_layers import convolution, cosine, feed_forward, length, maxima, relu, standardize


def delta_stage(document, query):
    """One row [V differences, cosine, distance, proximity] for each word vector of the document (section 3.2)."""
    rows = []
    for word in document:
        if len(query) == 0:
            rows.append([0.0] * (len(word) + 3))
            continue
        differences = [[a - b for a, b in zip(word, query_word)] for query_word in query]
        distances = [length(difference) for difference in differences]
        best = distances.index(min(distances))
        lengths = length(word) + length(query[best])
        proximity = 1.0 - distances[best] / lengths if lengths > 0 else 0.0
        rows.append(differences[best] + [cosine(word, query[best]), distances[best], proximity])
    return rows


def score(document, query, convolutions, layers, features, mean, scale, slope, differences=True, delta_features=True):
    """The relevance score (section 3.3). convolutions and layers are lists of (weight, bias), in order."""

    def leak(value):
        return relu(value, slope)

    rows = delta_stage(document, query)
    rows = [row[:-3] * differences + row[-3:] * delta_features for row in rows]  # an ablation takes columns away
    for weight, bias in convolutions:  # border mode 'same'
        before = len(weight[0][0]) // 2
        rows = convolution(rows, weight, bias, range(-before, len(rows) - before), leak)
    values = maxima(rows, len(convolutions[-1][1])) + standardize(features, mean, scale)
    return feed_forward(values, layers, leak, leak)
