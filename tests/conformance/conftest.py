"""What all conformance tests share: an index with concepts, word vectors, and a library of many documents."""

import numpy as np
import pytest

from rerank_plugin.files.records import Query
from tests import annotated, small
from tests.conformance.models import make, opened, scores_of
from tests.models import encodable
from tests.models.conftest import one_thread, vectors  # noqa: F401


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    """``small``'s documents in an index folder with concepts, for the models that read them."""
    return annotated.build_index(tmp_path_factory.mktemp("conformance") / "index").forward


@pytest.fixture(scope="session")
def reference(index, vectors):  # noqa: F811
    """Gives the module's scores of all documents for QUERY, which differ from one another."""
    known = {}

    def of(case):
        if str(case) not in known:
            scores = scores_of(opened(make(case, vectors), "module", index, vectors))
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
