"""Texts in memory have the scores of the same documents of an index, by every model on every path."""

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.models.register import entry_of
from rerank_plugin.rerankers import UNTRAINED, RerankerOptions
from rerank_plugin.text import word_vectors
from tests import small
from tests.conformance.models import (
    CASES,
    QUERIES,
    QUERY,
    assert_same,
    make,
    opened,
    paths_of,
    rounding,
    scores_of,
)  # fmt: skip

TITLES, ABSTRACTS = zip(*((title, abstract) for _, title, abstract in small.DOCUMENTS))
WORDS = [case for case in CASES if not entry_of(case.model).load("config").reads_concepts(case.sizes)]
EVERY = [(case, path) for case in WORDS for path in paths_of(case.model) if path != "module"] + [
    (case, "module") for case in CASES if paths_of(case.model) == ["module"]
]


@pytest.fixture
def texts(index):
    """An index of texts under the statistics of the index, which has held others before."""
    made = TextIndex(CollectionStatistics.of_index(index), threads=2)
    made.hold(["Stroke and xylitol"] * 2, ["Gallium nitrate; women.", ""])
    return made


@pytest.mark.parametrize(("case", "path"), EVERY, ids=[f"{case}-{path}" for case, path in EVERY])
def test_models(case, path, index, vectors, texts):
    model, fast = make(case, vectors), path
    stored = opened(model, path, index, vectors)
    if stored.fast_class is not None and not stored.fast_class.gathers_words and path == "fast":
        path = "module"  # it scores from encodings that an index stores, which texts have not
    one = opened(model, path, texts, vectors)
    one.score(QUERY, small.candidates(texts))  # so that a path is open that was made for other texts
    texts.hold(TITLES, ABSTRACTS)
    for query in QUERIES[::3]:
        if stored.can_read(stored.builder.query(index.query(query.text))):
            assert_same(scores_of(one, query), scores_of(stored, query), max(1e-5, rounding(case, fast)))


@pytest.mark.parametrize("name", sorted(UNTRAINED))
def test_untrained_rerankers(name, index, vectors, texts, tmp_path):
    word_vectors.save(vectors, tmp_path / "words", {})
    spec = f"{name}:{tmp_path / 'words'}" if UNTRAINED[name].reads_vectors else name
    stored, one = (rerankers.load(spec, each, RerankerOptions(threads=2)) for each in (index, texts))
    texts.hold(TITLES, ABSTRACTS)
    for query in QUERIES:
        expected = stored.score(query, small.candidates(index))
        np.testing.assert_allclose(one.score(query, small.candidates(texts)), expected, rtol=1e-6)
