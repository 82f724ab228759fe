"""SevMos written from the papers alone, one number at a time: the twin that the module is checked against.

Mohan et al., "A Fast Deep Learning Model for Textual Relevance in Biomedical Information Retrieval" (WWW 2018), section
4.3.3, and "Deep Learning for Biomedical Information Retrieval" (BioNLP 2017), sections 4.1 (convolutions in full mode),
4.5 (the classifier) and 5.1.1. Python floats (float64), explicit loops, no padding anywhere: a text is the list of its
words' vectors, and what lies beyond it is zero.
"""


def activation(value, slope):
    return value if value > 0 else slope * value


def convolution(rows, weight, bias, slope):
    """Full mode: one window for every place that covers a row. weight[f][c][t] meets channel c of its row t."""
    width = len(weight[0][0])
    output = []
    for first in range(-(width - 1), len(rows)):
        features = []
        for filter_weight, filter_bias in zip(weight, bias):
            total = float(filter_bias)
            for tap in range(width):
                if 0 <= first + tap < len(rows):
                    total += sum(float(channel[tap]) * x for channel, x in zip(filter_weight, rows[first + tap]))
            features.append(activation(total, slope))
        output.append(features)
    return output


def encode(words, convolutions, slope):
    """The maximum over all windows of the last convolution; zeros for a text without words."""
    if len(words) == 0:
        return [0.0] * len(convolutions[-1][1])
    rows = [[float(x) for x in word] for word in words]
    for weight, bias in convolutions:
        rows = convolution(rows, weight, bias, slope)
    return [max(column) for column in zip(*rows)]


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
    values += [(float(x) - float(m)) / float(d) for x, m, d in zip(features, mean, deviation)]
    for place, (weight, bias) in enumerate(layers):
        sums = [float(b) + sum(float(w) * value for w, value in zip(row, values)) for row, b in zip(weight, bias)]
        values = sums if place + 1 == len(layers) else [activation(value, slope) for value in sums]
    return values[0]
