"""Conv-KNRM n-gram by n-gram in plain Python, from the paper, for tests."""

from tests.models import plain_knrm
from tests.models.plain_layers import convolution, cosine, relu


def ngrams(words, size, weights, biases):
    """The n-grams of a text as (texts, whether any is known, vector); words are (text, vector, known)."""
    all_ngrams = []
    for start in range(len(words) - size + 1):
        ngram = words[start : start + size]
        texts = [text for text, _, _ in ngram]
        vector = convolution([vector for _, vector, _ in ngram], weights, biases, [0], relu)[0]
        all_ngrams.append((texts, any(known for *_, known in ngram), vector))
    return all_ngrams


def similarity(first, second):
    if first[1] and second[1]:
        return cosine(first[2], second[2])
    return 1.0 if first[0] == second[0] else 0.0


def score(document, query, convolutions, weights, bias):
    """The score of a document; ``convolutions`` are (weights, biases) for n-grams of 1, 2, .. words."""
    features = []
    for query_size, of_query in enumerate(convolutions, 1):
        for document_size, of_document in enumerate(convolutions, 1):
            rows = ngrams(query, query_size, *of_query)
            columns = ngrams(document, document_size, *of_document)
            features += plain_knrm.features([[similarity(row, column) for column in columns] for row in rows])
    return plain_knrm.rank(features, weights, bias)
