"""The plain twins of the models (``tests/models/plain_*.py``) as functions of texts, one signature for all."""

from __future__ import annotations

import math
from typing import NamedTuple

from tests import small
from tests.models import (
    plain_conv_knrm,
    plain_delta,
    plain_delta_classifier,
    plain_drmm,
    plain_duet,
    plain_knrm,
    plain_ktrel,
    plain_layers,
    plain_matchpyramid,
    plain_pacrr,
    plain_sevmos,
)  # fmt: skip


class Text(NamedTuple):
    """A text as twins read it, cut to what the model reads.

    Attributes:
        words: its words. ids: of the model, 0 for UNK. vectors: of all words, as lists, UNK's for an unknown one.
        idf: of the words. raw: the whole text.
    """

    words: list
    ids: list
    vectors: list
    idf: list
    raw: str

    @property
    def pairs(self):
        """(word, vector or None if it is unknown)."""
        return [(word, vector if id else None) for word, id, vector in zip(self.words, self.ids, self.vectors)]


def text_of(index, vectors, raw, longest, texts):
    words = index.query(raw).terms[:longest]
    ids = vectors.vocabulary.lookup(words)
    df = [sum(word in text for text in texts) for word in words]
    idf = [math.log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for count in df]
    return Text(words, ids, vectors.matrix[ids].tolist(), idf, raw)


def scores(model, index, vectors, query, documents, rows=None):
    """The twin's scores of some documents (id, title, abstract) of an index, from their texts."""
    texts = [set(index.query(f"{title} {abstract}").terms) for _, title, abstract in documents]
    if model.config.trained_words:
        vectors = vectors._replace(numbers=model.vectors.detach().numpy())
    query_text = text_of(index, vectors, query.text, model.config.query_words, texts)
    rows = range(len(documents)) if rows is None else rows
    features = model.input_builder(index, vectors.vocabulary).features(
        index.query(query.text), small.candidates(index, rows)
    )
    all_scores = []
    for row, of_row in zip(rows, features.tolist()):
        raw = "\n".join(documents[row][1:])
        text = text_of(index, vectors, raw, model.config.document_words, texts)
        all_scores.append(TWINS[model.name](model, query_text, text, of_row, index))
    return all_scores


def numbers(layers):
    """(weight, bias) of each layer as nested lists."""
    return [(layer.weight.tolist(), layer.bias.tolist()) for layer in layers]


def statistics(model):
    return model.feature_mean.tolist(), (1 / model.feature_scale).tolist()


def conv_knrm(model, query, document, features, index):
    words, query_ngram_words = (
        [(*pair, id > 0) for *pair, id in zip(text.words, text.vectors, text.ids)] for text in (document, query)
    )
    weights, bias = numbers([model.layer])[0]
    return plain_conv_knrm.score(words, query_ngram_words, numbers(model.convolutions), weights[0], bias[0])


def delta(model, query, document, features, index):
    config = model.config
    return plain_delta.score(
        document.vectors, query.vectors, numbers(model.convolutions), numbers(model.layers), features,
        *statistics(model), config.slope, config.differences, config.delta_features,
    )  # fmt: skip


def delta_classifier(model, query, document, features, index):
    texts = [[vector for _, vector in text.pairs] for text in (document, query)]
    overlaps = plain_layers.standardize(features, *statistics(model))
    return plain_delta_classifier.logit(*texts, numbers(model.convolutions), overlaps, numbers(model.layers))


def drmm(model, query, document, features, index):
    gate = model.gate.item()
    return plain_drmm.score(document.pairs, query.pairs, query.idf, model.config.bins, numbers(model.layers), gate)


def duet(model, query, document, features, index):
    config, total = model.config, 0.0
    if config.parts != "distributed":
        part = model.local
        layers = numbers([*part.output.layers, part.output.last])
        total += plain_duet.local(document.words, query.words, *numbers([part.row]), layers)
    if config.parts != "local":
        part = model.distributed
        first = [part.query_convolution, part.query_layer, part.document_convolution, part.window_layer]
        layers, pooling = numbers([*part.output.layers, part.output.last]), (config.pool_width, config.pool_stride)
        total += plain_duet.distributed(document.vectors, query.vectors, *numbers(first), pooling, layers)
    return total


def knrm(model, query, document, features, index):
    weights, bias = numbers([model.layer])[0]
    return plain_knrm.score(document.pairs, query.pairs, weights[0], bias[0])


def ktrel(model, query, document, features, index):
    """Texts are annotated anew: concepts come as ids of the knowledge base."""
    ids, read = {"words": [text.ids for text in (query, document)]}, []
    if model.concepts is not None:
        base, annotate = index.knowledge.base, index.knowledge.annotator.annotate
        named = [
            [base.ids[row] for mention in annotate(text.raw) for row in mention.concepts] for text in (query, document)
        ]
        known = model.concept_vocabulary.ids
        ids["concepts"] = [[known.index(id) for id in text if id in known] for text in named]
    for part, factor in (("words", "a"), ("concepts", "b")):
        if (encoder := getattr(model, part)) is not None:
            rows = [encoder.embeddings.detach().numpy()[sequence] for sequence in ids[part]]
            layer = plain_ktrel.layer_of(encoder.layer)
            read.append((getattr(model, factor).item(), *rows, layer, model.config.heads))
    return plain_ktrel.score(read)


def matchpyramid(model, query, document, features, index):
    config = model.config
    return plain_matchpyramid.score(
        document.pairs, query.pairs, config.similarity, numbers(model.convolutions), config.pool_rows,
        config.pool_columns, numbers(model.layers),
    )  # fmt: skip


def pacrr(model, query, document, features, index):
    config, lstm = model.config, model.lstm
    matrix = [
        [plain_layers.similarity(query_word, document_word) for document_word in document.pairs]
        for query_word in query.pairs
    ]
    convolutions = [list(zip(layer.weight[:, 0].tolist(), layer.bias.tolist())) for layer in model.convolutions]
    gates = (lstm.weight_ih_l0, lstm.weight_hh_l0[:, 0], lstm.bias_ih_l0 + lstm.bias_hh_l0)
    distilled = config.distilled_words if config.distillation == "kwindow" else None
    lists = [gate.tolist() for gate in gates]
    return plain_pacrr.score(matrix, query.idf, convolutions, config.signals, lists, distilled)


def sevmos(model, query, document, features, index):
    return plain_sevmos.score(
        query.vectors, document.vectors, numbers(model.query_convolutions), numbers(model.document_convolutions),
        model.similarity.tolist(), numbers(model.layers), features, *statistics(model), model.config.slope,
    )  # fmt: skip


TWINS = {
    "conv-knrm": conv_knrm, "delta": delta, "delta-classifier": delta_classifier, "drmm": drmm, "duet": duet,
    "knrm": knrm, "ktrel": ktrel, "matchpyramid": matchpyramid, "pacrr": pacrr, "sevmos": sevmos,
}  # fmt: skip
