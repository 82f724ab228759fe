"""The models of the conformance tests: every registered model, in a few small configurations.

A model without a row in ``TABLE`` is tested with its defaults and the sizes of ``SMALL``.
"""

from __future__ import annotations

import tempfile
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.records import Document, Query
from rerank_plugin.inputs.concept_vocabulary import ConceptVocabulary
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models.checkpoints import model_classes
from rerank_plugin.models.classes import classes_of
from rerank_plugin.models.document_encodings import encode_index
from rerank_plugin.models.encoded_documents import EncodedDocuments
from rerank_plugin.models.register import names
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.retrieval.encoding import IndexEncoder
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
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
# For real Lucene, which rejects empty documents.
STORED = [Document(id, title, abstract if title or abstract else "—") for id, title, abstract in small.DOCUMENTS]
ROWS = {id: row for row, (id, _, _) in enumerate(small.DOCUMENTS)}
EMPTY, ONE_WORD, UNKNOWN_WORDS = ROWS["é"], ROWS["a7"], ROWS["2"]
# Not in the order of the knowledge base; H04 and H11 are missing, and the knowledge base has no X1.
CONCEPT_IDS = ["H09", "X1", "H02", "H01", "H10", "H08", "H07", "H03", "H06", "H05"]

DUET = {"filters": 5, "hidden": (7, 4), "pool_width": 4, "pool_stride": 2}
KTREL = {"heads": 2, "feed_forward": 7, "document_concepts": 12, "query_concepts": 6}
TABLE = {
    "bert": [{"trainable_layers": None}, {"trainable_layers": None, "encoder": "head"}],
    "biobert": [{"trainable_layers": None, "encoder": "roberta"}],
    "conv-knrm": [{"filters": 9}, {"filters": 17, "longest_ngram": 4}],
    "delta": [{"filters": 5}, {"filters": 6, "width": 5, "lexical_features": LEX3}],
    "delta-classifier": [{"filters": 5}, {"filters": 4, "width": 2, "lexical_features": ()}],
    "drmm": [{"bins": 11, "hidden": (4, 3)}],
    "duet": [DUET, {**DUET, "parts": "local"}, {**DUET, "parts": "distributed", "width": 5}],
    "knrm": [{}],
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
SMALL = {"filters": 4, "heads": 2, "feed_forward": 5}


class Case(NamedTuple):
    """A registered model and hyper-parameters."""

    model: str
    sizes: dict

    def __str__(self):
        sizes = "-".join(str(value) for name, value in self.sizes.items() if name not in ("lexical_features", "hidden"))
        return f"{self.model}-{sizes}".replace(" ", "")


def small_sizes(name):
    """The sizes of ``SMALL`` that are integer fields of a configuration."""
    return {
        field.name: SMALL[field.name]
        for field in fields(model_classes(name)[1])
        if field.name in SMALL and field.type in ("int", int)
    }


# Text encoders have no module that scores, and are not trained: only tests of rerankers include them.
ENCODERS = [(Case("encoder", {"folder": kind}), "fast") for kind in ("one", "pair")]
NAMES = [name for name in names() if name != "encoder"]
CASES = [Case(name, sizes) for name in NAMES for sizes in TABLE.get(name) or [small_sizes(name)]]


def paths_of(name):
    """The scoring paths of a model: the module, and fast paths on the CPU or on a device."""
    classes = classes_of(name)
    fast = classes.fast is not None or classes.encoder is not None
    return ["module", *["fast"] * fast, *["device"] * (classes.device is not None)]


def each_path(pairs):
    """A decorator that parametrizes a test with cases and paths."""
    return pytest.mark.parametrize(("case", "path"), pairs, ids=[f"{case}-{path}" for case, path in pairs])


EVERY = [(case, path) for case in CASES for path in paths_of(case.model)]
every_case, every_path = pytest.mark.parametrize("case", CASES, ids=str), each_path(EVERY)


def has_word_vectors(name):
    return model_classes(name)[0].has_word_vectors


@cache
def _folder():
    return tempfile.TemporaryDirectory()


@cache
def encoder_folder(kind):
    """A tiny encoder for cross-encoders: a BERT without a head, or with one a BERT ("head") or RoBERTa ("roberta")."""
    texts = [f"{title} {abstract}".lower().replace(".", "") for _, title, abstract in small.DOCUMENTS]
    folder = Path(_folder().name) / f"encoder-{kind}"
    if kind == "roberta":
        return tiny_encoders.roberta(folder, texts)
    return tiny_encoders.bert(folder, " ".join(texts).split(), head=kind == "head")


def text_encoder(kind, index):
    """The reranker of a tiny text encoder, or of a pair of them, over an index of ``STORED`` with its encodings."""
    texts = [f"{document.title} {document.abstract}" for document in STORED]
    folder = Path(_folder().name) / kind
    for seed, part in enumerate(["query", "article"] if kind == "pair" else [""]):
        tiny_encoders.bert(folder / part, " ".join(texts).lower().split(), seed=seed)
    IndexEncoder(index.forward, folder).encode(batch_size=3)
    return rerankers.load(f"encoder:{folder}", index.forward)


def configured(case, **more):
    """The configuration of a case; ``more`` overrides its sizes."""
    config_class = model_classes(case.model)[1]
    values = {"document_words": 30, "query_words": 7, **case.sizes, **more}
    if not has_word_vectors(case.model):
        values["encoder"] = str(encoder_folder(values.get("encoder", "")))
    if config_class.reads_concepts(values):
        values |= {"concepts": len(CONCEPT_IDS), "concept_dimension": 4}
    return config_class(**values)


def new(case, vectors, seed=1, **more):
    """A newly constructed model, with neutral feature statistics."""
    torch.manual_seed(seed)
    config, model_class = configured(case, **more), model_classes(case.model)[0]
    if not model_class.has_word_vectors:
        return model_class(config).eval()
    concepts = {"concept_vocabulary": ConceptVocabulary(CONCEPT_IDS)} if config.concepts else {}
    return model_class(config, torch.from_numpy(vectors.matrix), **concepts).eval()


def make(case, vectors, seed=1, **more):
    """A model with weights whose scores differ between documents."""
    return scatter(new(case, vectors, seed, **more), seed)


def scatter(model, seed):
    """Set random weights of a scale that preserves signals: no dead ReLUs, no saturated tanh."""
    torch.manual_seed(seed)
    raised = 0.2 if model.name in ("delta-classifier", "sevmos") else 0.0  # keeps half of a small network's ReLUs alive
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embeddings" in name or name.startswith("encoder."):
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
            for layer in model.convolutions:  # of very different norms: the fast path skips the weakest filters
                layer.weight.mul_(torch.exp(torch.empty(len(layer.weight), 1, 1, 1).uniform_(-4, 0)))
        if model.name == "duet" and model.config.parts != "distributed":
            model.local.row.weight.normal_(0, 1)  # nearly all of its inputs are zero
        features = len(model.config.lexical_features)
        model.set_feature_statistics(torch.linspace(0.1, 0.7, features), torch.linspace(0.5, 2.0, features))
    return model.eval()


def grown(model, case, vectors, **more):
    """The same model with room for longer texts: the old weights, and random weights of the new positions."""
    larger = make(case, vectors, seed=77, **more)
    with torch.no_grad():
        for target, source in zip(larger.parameters(), model.parameters()):
            target[tuple(slice(size) for size in source.shape)] = source
    return larger


def opened(model, path, index, vectors, **options):
    """A reranker that scores on one of :func:`paths_of`."""
    vocabulary = vectors.vocabulary if model.has_word_vectors else Vocabulary([])
    device = "cpu:0" if path == "device" else "cpu"  # not "cpu", so the reranker takes the device path
    reranker = NeuralReranker(model, vocabulary, index, RerankerOptions(device, fast=path != "module", **options))
    assert (reranker.fast_class is None) == (path == "module")
    if reranker.fast_class is EncodedDocuments:
        encode_index(model, reranker.builder, batch_size=3, overwrite=True)
    return reranker


def scores_of(reranker, query=QUERY, rows=None):
    scores = reranker.score(query, small.candidates(reranker.builder.index, rows))
    assert scores.dtype == np.float32 and scores.shape == (len(reranker.builder.index) if rows is None else len(rows),)
    return scores


def inputs_of(reranker, query=QUERY, rows=None):
    """The module's inputs for a query and its candidates."""
    index = reranker.builder.index
    terms = index.query(query.text)
    return reranker.builder.build(terms, reranker.builder.query(terms), small.candidates(index, rows))


def in_double(inputs):
    """The same inputs in double precision."""
    return type(inputs)(
        *(tensor.double() if torch.is_tensor(tensor) and tensor.is_floating_point() else tensor for tensor in inputs)
    )


def assert_same(actual, expected, tolerance=5e-6):
    """Check that scores are equal up to ``tolerance`` times the largest expected score, or 1."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max(initial=0)))
