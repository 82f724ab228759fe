"""What all conformance tests share: an index with concepts, word vectors, and a library of many documents."""

from functools import cache

import numpy as np
import pytest
import torch

from rerank_plugin.base.records import Query
from rerank_plugin.corpora import Problems
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.models.encoded_path import EncodedDocuments
from tests import annotated, small
from tests.conformance.models import QUERY, STORED, in_double, inputs_of, make, opened, text_encoder
from tests.models import encodable
from tests.models.conftest import one_thread, vectors  # noqa: F401


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    """``small``'s documents in an index folder with concepts, for the models that read them."""
    return annotated.build_index(tmp_path_factory.mktemp("conformance") / "index").forward


@pytest.fixture(scope="session")
def text_encoders(tmp_path_factory):
    """Gives rerankers by encoders of texts, over ``STORED`` in real Lucene."""
    folder = tmp_path_factory.mktemp("stored") / "index"
    build_single(iter(STORED), folder, "small", Problems())
    return cache(lambda kind: text_encoder(kind, Index(folder)))


@pytest.fixture
def fresh(case, path, index, vectors, request):  # noqa: F811
    """The reranker of a case, by a path."""
    if case.model == "encoder":
        return request.getfixturevalue("text_encoders")(case.sizes["folder"])
    return opened(make(case, vectors), path, index, vectors, threads=2)


@pytest.fixture(scope="session")
def opened_before():
    return {}


@pytest.fixture
def one(case, path, opened_before, request):
    """The same that other tests score with, too."""
    if (str(case), path) not in opened_before:
        opened_before[str(case), path] = request.getfixturevalue("fresh")
    return opened_before[str(case), path]


@pytest.fixture(scope="session")
def reference(index, vectors, request):  # noqa: F811
    """Gives the module's scores of all documents for QUERY, which differ from one another; in double precision, as two
    paths in single precision may be wrong in opposite directions."""
    known = {}

    def encoded(kind):
        reranker = request.getfixturevalue("text_encoders")(kind)
        model = reranker.model
        alone = np.array([model.encode_texts([document])[0] for document in STORED])
        decoded = EncodedDocuments.open(model, reranker.builder, 1).store.decode(np.arange(len(STORED)))
        np.testing.assert_allclose(decoded, alone, rtol=0, atol=0.51 / 127 * np.abs(alone).max())
        store = EncodedDocuments.open(model, reranker.builder, 1).store
        return decoded.astype(np.float64) @ small.with_16_bits(store.spaces, model.encode_query(QUERY.text))

    def of(case):
        if str(case) not in known:
            if case.model == "encoder":
                scores = encoded(case.sizes["folder"])
            else:
                one = opened(make(case, vectors), "module", index, vectors)
                with torch.inference_mode():
                    scores = one.model.double()(in_double(inputs_of(one))).numpy()
            assert len(np.unique(scores.round(4))) >= 6 and np.ptp(scores) > 0.01
            known[str(case)] = scores
        return known[str(case)]

    return of


class Library:
    """140 documents of up to 130 words out of 500, of which the models know 400."""

    def __init__(self, folder):
        random = np.random.default_rng(8)
        chance = 1 / np.arange(1, 501)
        words = np.array([f"w{number}" for number in range(500)])
        lengths = [0, 1, 2, 3, *random.integers(0, 70, 116), *random.integers(70, 131, 20)]
        texts = [" ".join(random.choice(words, length, p=chance / chance.sum())) for length in lengths]
        documents = [(f"d{n}", text[: len(text) // 6], text[len(text) // 6 :]) for n, text in enumerate(texts)]
        self.index = encodable.build_index(folder, documents)
        self.vectors = small.word_vectors(words[:400].tolist(), dimension=20, seed=4)
        self.queries = [
            Query(f"q{n}", text) for n, text in enumerate(["w0 w7 w450 w7 w31", "w3", "w399 w2 w1 nowhere w11"])
        ]


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return Library(tmp_path_factory.mktemp("library") / "index")
