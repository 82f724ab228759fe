"""Inputs for scores computed by hand: texts in which every letter is a word."""

import torch

from rerank_plugin.inputs.builder import Inputs

KNOWN = "abcdefgh"  # words 1 to 8 of the model; all other letters are unknown words, each its own term


def inputs(documents, queries, document_words=0, query_words=0, features=None, idf=None, padding="a"):
    """The inputs of pairs of texts; a single query is used for all documents.

    Args:
        document_words, query_words: N and M; at least the length of the longest text is used.
        features: lexical features of each pair. idf: IDF by letter; by default 0.
        padding: the known word at padded positions, which only the masks mark as padding.
    """
    queries = [queries] * len(documents) if isinstance(queries, str) else queries
    (ids, mask, terms), (query_ids, query_mask, query_terms) = (
        padded(texts, width, padding) for texts, width in ((documents, document_words), (queries, query_words))
    )
    weights = [[(idf or {}).get(chr(term), 0.0) if term >= 0 else 0.0 for term in row] for row in query_terms.tolist()]
    features = torch.zeros(len(documents), 0) if features is None else torch.tensor(features, dtype=torch.float32)
    return Inputs(ids, mask, query_ids, query_mask, features, terms, query_terms, torch.tensor(weights))


def padded(texts, width=0, padding="a"):
    """Ids int64 [B, width], mask bool, and terms int64 of texts."""
    width = max(width, 1, *map(len, texts))
    ids = [[KNOWN.find(letter) + 1 for letter in text.ljust(width, padding)] for text in texts]
    mask = [[place < len(text) for place in range(width)] for text in texts]
    terms = [[*map(ord, text), *[-1] * (width - len(text))] for text in texts]
    return torch.tensor(ids), torch.tensor(mask), torch.tensor(terms)


@torch.no_grad()
def set_weights(module, **weights):
    """Set parameters by name, ``__`` for a dot, to one number or one per element. All other parameters become 0."""
    for parameter in module.parameters():
        parameter.zero_()
    for name, value in weights.items():
        parameter, numbers = module.get_parameter(name.replace("__", ".")), torch.tensor(value, dtype=torch.float32)
        parameter.copy_(numbers.reshape(parameter.shape) if numbers.numel() == parameter.numel() else numbers)
    return module.eval()
