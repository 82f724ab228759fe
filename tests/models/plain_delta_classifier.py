"""The Delta Relevance Classifier written from its paper alone, one number at a time: the twin of the module.

Mohan et al., "Deep Learning for Biomedical Information Retrieval" (BioNLP 2017): algorithm 1 the difference features,
section 4.1 the convolutions in full mode, 4.4 the Delta Scanner, 4.5 the Relevance Classifier. Python floats (float64),
explicit loops, no padding anywhere. A text is the list of its words, each a vector, or None for UNK.

What the paper leaves open: the first of equally close query words is the closest; the cosine with a zero vector is 0;
without a pair of known words there is nothing to scan, and the scanner's output is zeros.
"""

import math


def difference_rows(document, query):
    """Algorithm 1: a row [differences, cosine, distance] for each known word of the document; UNK gives no row."""
    rows = []
    for word in document:
        if word is None:
            continue
        closest, smallest = None, math.inf
        for other in query:
            if other is None:
                continue
            distance = length([a - b for a, b in zip(word, other)])
            if distance < smallest:
                closest, smallest = other, distance
        if closest is None:
            continue
        lengths = length(word) * length(closest)
        cosine = sum(a * b for a, b in zip(word, closest)) / lengths if lengths > 0 else 0.0
        rows.append([a - b for a, b in zip(word, closest)] + [cosine, smallest])
    return rows


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def full_convolution(rows, weight, bias):
    """Section 4.1 with ReLU: the window that ends at t covers rows t - k + 1 to t, for every t from 1 to m + k - 1.

    weight[f][c][j] meets channel c of the window's row j.
    """
    width, features = len(weight[0][0]), []
    for end in range(1, len(rows) + width):
        values = []
        for filter_weight, constant in zip(weight, bias):
            total = constant
            for j in range(1, width + 1):
                place = end - width + j
                if 1 <= place <= len(rows):
                    for channel, number in enumerate(rows[place - 1]):
                        total += filter_weight[channel][j - 1] * number
            values.append(max(0.0, total))
        features.append(values)
    return features


def scan(rows, convolutions):
    """Section 4.4: the largest value of each filter of the last convolution."""
    if not rows:
        return [0.0] * len(convolutions[-1][1])
    for weight, bias in convolutions:
        rows = full_convolution(rows, weight, bias)
    return [max(column) for column in zip(*rows)]


def logit(document, query, convolutions, overlaps, layers):
    """What section 4.5's sigmoid is applied to.

    Args:
        convolutions, layers: (weight, bias) of each, in order; layer weights are [output][input].
        overlaps: the overlap features as they enter the classifier.
    """
    values = scan(difference_rows(document, query), convolutions) + list(overlaps)
    for number, (weight, bias) in enumerate(layers, start=1):
        values = [constant + sum(w * x for w, x in zip(row, values)) for row, constant in zip(weight, bias)]
        if number < len(layers):
            values = [max(0.0, x) for x in values]
    return values[0]
