"""The models that the conformance tests run over: every registered one, in a few small configurations.

A model without a row in ``TABLE`` is tested with its own defaults and the sizes of ``SMALL``.
"""

from __future__ import annotations

import tempfile
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.records import Document, Query
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.inputs.concept_reader import ConceptVocabulary
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.document_encoder import encode_index
from rerank_plugin.models.encoded_path import EncodedDocuments, weights_checksum
from rerank_plugin.models.ranking_model import EncodingModel
from rerank_plugin.models.register import entry_of, names
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
from tests.devices import DEVICE
from tests.models import tiny_encoders

QUERY = Query("q1", "aspirin heart attack risk xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [
    QUERY,
    Query("q2", "cancer"),
    Query("q3", "Women who smoke, risk of stroke"),
    Query("q4", "migraine zyzzyva nowhere migraine"),
    Query("q5", "a second diet and cancer red meat raises colon in women"),  # longer than the models read
    Query("q6", "quokka xylitol heart"),
]
# As real Lucene gets them, which takes no document without a character.
STORED = [Document(id, title, abstract if title or abstract else "—") for id, title, abstract in small.DOCUMENTS]
ROWS = {id: row for row, (id, _, _) in enumerate(small.DOCUMENTS)}
EMPTY, ONE_WORD, UNKNOWN_WORDS = ROWS["é"], ROWS["a7"], ROWS["2"]
# In another order than the knowledge base's; it lacks H04 and H11, and the knowledge base lacks X1.
CONCEPT_IDS = ["H09", "X1", "H02", "H01", "H10", "H08", "H07", "H03", "H06", "H05"]

DUET = {"filters": 5, "hidden": (7, 4), "pool_width": 4, "pool_stride": 2}
KTREL = {"heads": 2, "feed_forward": 7, "document_concepts": 12, "query_concepts": 6}
TABLE = {
    "bert": [{"trainable_layers": None}, {"trainable_layers": None, "encoder": "head"}],
    "biobert": [{"trainable_layers": None, "encoder": "roberta"}],
    "conv-knrm": [{"filters": 9}, {"filters": 17, "longest_ngram": 4, "trained_words": True}],
    "delta": [{"filters": 5}, {"filters": 6, "width": 5, "lexical_features": LEX3}],
    "delta-classifier": [{"filters": 5}, {"filters": 4, "width": 2, "lexical_features": ()}],
    "drmm": [{"bins": 11, "hidden": (4, 3)}],
    "duet": [DUET, {**DUET, "parts": "local"}, {**DUET, "parts": "distributed", "width": 5}],
    "knrm": [{}, {"trained_words": True}],
    "ktrel": [KTREL],
    "ktrel-c": [{**KTREL, "heads": 1}],
    "ktrel-w": [KTREL],
    "matchpyramid": [
        {"kernel_columns": 7, "hidden": ()},
        {"filters": (5, 18), "pool_rows": 2, "pool_columns": 4},
        {"similarity": "indicator", "filters": (3,)},
    ],
    "pacrr": [
        {"filters": 5},
        {"filters": 5, "distillation": "kwindow", "distilled_words": 11, "longest_ngram": 5, "signals": 3},
    ],
    "sevmos": [{"filters": 5, "lexical_features": LEX3}, {"filters": 6, "convolutions": 3, "lexical_features": ()}],
}
WORD_VECTORS = ("embeddings", "vectors")  # ends of the names of weights that are vectors of words or concepts
SMALL = {"filters": 4, "heads": 2, "feed_forward": 5}


class Case(NamedTuple):
    """A registered model and hyper-parameters."""

    model: str
    sizes: dict

    def __str__(self):
        sizes = "-".join(str(value) for name, value in self.sizes.items() if name not in ("lexical_features", "hidden"))
        return f"{self.model}-{sizes}".replace(" ", "")


def small_sizes(name):
    """The sizes of ``SMALL`` that a configuration has as whole numbers."""
    return {
        one.name: SMALL[one.name]
        for one in fields(entry_of(name).load("config"))
        if one.name in SMALL and one.type in ("int", int)
    }


# Encoders of texts have no module that scores, and are not trained: they take part where a reranker alone is tested.
ENCODERS = [(Case("encoder", {"folder": kind}), "fast") for kind in ("one", "pair")]
NAMES = [name for name in names() if name != "encoder"]
CASES = [Case(name, sizes) for name in NAMES for sizes in TABLE.get(name) or [small_sizes(name)]]


def paths_of(name):
    """How a model can be scored: by the module, and by a fast path on the CPU or on a device."""
    entry = entry_of(name)
    fast = entry.load("fast", of_module=True) is not None or entry.encoder is not None
    return ["module", *["fast"] * fast, *["device"] * (entry.load("device", of_module=True) is not None)]


def each_path(pairs):
    """Decorator: a test for each of these cases and paths."""
    return pytest.mark.parametrize(("case", "path"), pairs, ids=[f"{case}-{path}" for case, path in pairs])


EVERY = [(case, path) for case in CASES for path in paths_of(case.model)]
every_case, every_path = pytest.mark.parametrize("case", CASES, ids=str), each_path(EVERY)


def has_word_vectors(name):
    return entry_of(name).load("module").has_word_vectors


@cache
def _folder():
    return tempfile.TemporaryDirectory()


@cache
def encoder_folder(kind):
    """A tiny encoder for cross-encoders: a BERT, or with a head of its own a BERT ("head") or a RoBERTa ("roberta")."""
    texts = [f"{title} {abstract}".lower().replace(".", "") for _, title, abstract in small.DOCUMENTS]
    folder = Path(_folder().name) / f"encoder-{kind}"
    if kind == "roberta":
        return tiny_encoders.roberta(folder, texts)
    return tiny_encoders.bert(folder, " ".join(texts).split(), head=kind == "head")


def text_encoder(kind, index):
    """A reranker by a tiny encoder of texts, or by a pair, over an index of ``STORED``, which it encodes."""
    texts = [f"{one.title} {one.abstract}" for one in STORED]
    folder = Path(_folder().name) / kind
    for seed, part in enumerate(["query", "article"] if kind == "pair" else [""]):
        tiny_encoders.bert(folder / part, " ".join(texts).lower().split(), seed=seed)
    IndexEncoder(index.forward, folder).encode(batch_size=3)
    return rerankers.load(f"encoder:{folder}", index.forward)


def configured(case, **more):
    """The configuration of a case; ``more`` overrides its sizes."""
    config_class = entry_of(case.model).load("config")
    values = {"document_words": 30, "query_words": 7, **case.sizes, **more}
    if not has_word_vectors(case.model):
        values["encoder"] = str(encoder_folder(values.get("encoder", "")))
    if config_class.reads_concepts(values):
        values |= {"concepts": len(CONCEPT_IDS), "concept_dimension": 4}
    return config_class(**values)


def new(case, vectors, seed=1, **more):
    """A model as its constructor makes it, with neutral feature statistics."""
    torch.default_generator.manual_seed(seed)
    config, model_class = configured(case, **more), entry_of(case.model).load("module")
    if not model_class.has_word_vectors:
        return model_class(config).eval()
    concepts = {"concept_vocabulary": ConceptVocabulary(CONCEPT_IDS)} if config.concepts else {}
    return model_class(config, torch.from_numpy(vectors.matrix), **concepts).eval()


def make(case, vectors, seed=1, **more):
    """A model with weights whose scores differ between documents; it scores over decoded vectors if it encodes any."""
    return over_decoded(make_own(case, vectors, seed, **more))


def make_own(case, vectors, seed=1, **more):
    """The same, whose encodings of documents are its own."""
    return scatter(new(case, vectors, seed, **more), seed)


def over_decoded(model):
    """The model, which scores over the vectors that the 8-bit codes of its documents' encodings stand for."""
    if isinstance(model, EncodingModel):
        model.__class__ = type(type(model).__name__, (OverDecoded, type(model)), {})
    return model


class OverDecoded:
    """Replaces encodings of documents by decoded codes, unless the model is trained or they are no numbers.

    Batches change last bits, and so now and then a code: by the same weights a document is encoded once.
    """

    known: ClassVar[dict] = {}

    def encode_documents(self, ids, mask, *concepts):
        encodings = super().encode_documents(ids, mask, *concepts)
        if torch.is_grad_enabled() or not encodings.isfinite().all():
            return encodings
        weights = weights_checksum(self, Vocabulary([]))
        spaces = entry_of(self.name).load("encoder").open(self, None, 1).spaces
        decoded = spaces.decode(spaces.quantize(encodings.cpu().numpy()))
        sequences = [(ids, mask), concepts] if concepts and concepts[0] is not None else [(ids, mask)]
        for row, vector in enumerate(decoded):
            text = tuple(tuple(words[row][read[row]].tolist()) for words, read in sequences)
            decoded[row] = self.known.setdefault((weights, text), vector)
        return torch.from_numpy(decoded).to(encodings)


def scatter(model, seed):
    """Weights as large as the layers need to keep their signal: no dead ReLU, no tanh at its ends."""
    torch.default_generator.manual_seed(seed)
    raised = 0.2 if model.name in ("delta-classifier", "sevmos") else 0.0  # or ReLU kills half of a small network
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name == "vectors":
                parameter.add_(torch.randn_like(parameter), alpha=0.2)  # trained: no longer the word vectors
            if name.endswith(WORD_VECTORS) or name.startswith("encoder."):
                continue
            if parameter.ndim == 0:
                parameter.normal_(1.5, 0.5)
            elif parameter.ndim == 1:
                parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else raised / 2, 0.3)
            else:
                inward = parameter[0].numel() ** 0.5
                parameter.normal_(raised / inward, 1.5 / inward)
        if model.name in ("knrm", "conv-knrm"):
            model.layer.weight.mul_(2).sub_(model.layer.weight.mean())  # most kernels have no match: must not add up
        if model.name == "pacrr":
            for layer in model.convolutions:  # of very different lengths: some are never worth computing
                layer.weight.mul_(torch.exp(torch.empty(len(layer.weight), 1, 1, 1).uniform_(-4, 0)))
        if model.name == "duet" and model.config.parts != "distributed":
            model.local.row.weight.normal_(0, 1)  # of whose inputs hardly one is not zero
        features = len(model.config.lexical_features)
        model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    return model.eval()


def grown(model, case, vectors, **more):
    """The same model with room for longer texts: old weights as they were, weights of new places any."""
    larger = make(case, vectors, seed=77, **more)
    with torch.no_grad():
        for here, there in zip(larger.parameters(), model.parameters()):
            here[tuple(slice(size) for size in there.shape)] = there
    return larger


def opened(model, path, index, vectors, **options):
    """A reranker that scores by one of :func:`paths_of`."""
    vocabulary = vectors.vocabulary if model.has_word_vectors else Vocabulary([])
    device = DEVICE if path == "device" else "cpu"
    one = NeuralReranker(model, vocabulary, index, RerankerOptions(device, fast=path != "module", **options))
    assert (one.fast_class is None) == (path == "module")
    if one.fast_class is EncodedDocuments:
        encode_index(model, one.builder, batch_size=3, overwrite=True)
    return one


def scores_of(one, query=QUERY, rows=None):
    found = one.score(query, small.candidates(one.builder.index, rows))
    assert found.dtype == np.float32 and found.shape == (len(one.builder.index) if rows is None else len(rows),)
    return found


def inputs_of(one, query=QUERY, rows=None):
    """What the module reads of a query and its candidates."""
    index = one.builder.index
    terms = index.query(query.text)
    return one.builder.build(terms, one.builder.query(terms), small.candidates(index, rows))


def in_double(inputs):
    """The same inputs in double precision."""
    return type(inputs)(*(one.double() if torch.is_tensor(one) and one.is_floating_point() else one for one in inputs))


def rounding(case, path):
    """The tolerance of :func:`assert_same`: 5e-6, or that of products with queries of 16 bits.

    Rounding changes each number by 1 / 65,534 of the query's largest at most, and so the cosine of vectors of up to 12
    numbers by less than 6e-5. The reference of encoders of texts has rounded queries.
    """
    return 6e-5 if path == "fast" and case.model != "encoder" and entry_of(case.model).has_inner_products else 5e-6


def assert_same(found, expected, tolerance=5e-6):
    """Equal but for ``tolerance`` of the largest expected score, or of 1."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max(initial=0)))
