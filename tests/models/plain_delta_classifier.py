"""The Delta Relevance Classifier written from its paper alone, one number at a time: the twin of the module.

Mohan et al., "Deep Learning for Biomedical Information Retrieval" (BioNLP 2017): algorithm 1 the difference features,
section 4.1 the convolutions in full mode, 4.4 the Delta Scanner, 4.5 the Relevance Classifier. Python floats (float64),
explicit loops, no padding anywhere. A text is the list of its words, each a vector, or None for UNK.

What the paper leaves open: the first of equally close query words is the closest; the cosine with a zero vector is 0;
without a pair of known words there is nothing to scan, and the scanner's output is zeros.
"""

import math

from tests.models.plain_layers import feed_forward, full_convolution, length, maxima, relu


def difference_rows(document, query):
    """Algorithm 1: a row [differences, cosine, distance] for each known word of the document; UNK gives no row."""
    rows = []
    for word in document:
        if word is None:
            continue
        closest, smallest = None, math.inf
        for query_word in query:
            if query_word is None:
                continue
            distance = length([a - b for a, b in zip(word, query_word)])
            if distance < smallest:
                closest, smallest = query_word, distance
        if closest is None:
            continue
        lengths = length(word) * length(closest)
        cosine = sum(a * b for a, b in zip(word, closest)) / lengths if lengths > 0 else 0.0
        rows.append([a - b for a, b in zip(word, closest)] + [cosine, smallest])
    return rows


def scan(rows, convolutions):
    """Section 4.4: the largest value of each filter of the last convolution."""
    scanned = rows
    for weight, bias in convolutions if rows else ():
        scanned = full_convolution(scanned, weight, bias, relu)
    return maxima(scanned, len(convolutions[-1][1]))


def logit(document, query, convolutions, overlaps, layers):
    """What section 4.5's sigmoid is applied to.

    Args:
        convolutions, layers: (weight, bias) of each, in order; layer weights are [output][input].
        overlaps: the overlap features as they enter the classifier.
    """
    values = scan(difference_rows(document, query), convolutions) + list(overlaps)
    return feed_forward(values, layers, relu)
