"""SevMos written from the papers alone, one number at a time: the twin that the module is checked against.

Mohan et al., "A Fast Deep Learning Model for Textual Relevance in Biomedical Information Retrieval" (WWW 2018), section
4.3.3, and "Deep Learning for Biomedical Information Retrieval" (BioNLP 2017), sections 4.1 (convolutions in full mode),
4.5 (the classifier) and 5.1.1. Python floats (float64), explicit loops, no padding anywhere: a text is the list of its
words' vectors, and what lies beyond it is zero.
"""

from tests.models.plain_layers import feed_forward, full_convolution, maxima, relu, standardize


def encode(words, convolutions, slope):
    """The maximum over all windows of the last convolution; zeros for a text without words."""
    rows = words
    for weight, bias in convolutions if words else ():
        rows = full_convolution(rows, weight, bias, lambda value: relu(value, slope))
    return maxima(rows, len(convolutions[-1][1]))


def similarity(query, matrix, document):
    """x_q^T M x_d."""
    return sum(q * float(m) * d for q, row in zip(query, matrix) for m, d in zip(row, document))


def score(
    query_words, document_words, query_convolutions, document_convolutions, matrix, layers, features, mean, deviation,
    slope,
):  # fmt: skip
    """The classifier's output before its sigmoid."""
    query = encode(query_words, query_convolutions, slope)
    document = encode(document_words, document_convolutions, slope)
    values = [*query, similarity(query, matrix, document), *document]
    values += standardize(features, mean, deviation)
    return feed_forward(values, layers, lambda value: relu(value, slope))
