"""Every model on every path gives texts in memory the scores of the same documents in an index."""

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.indexes.statistics import CollectionStatistics
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.rerankers import UNTRAINED, RerankerOptions
from rerank_plugin.text import word_vectors
from tests import small
from tests.conformance.models import CASES, QUERIES, QUERY, assert_same, configured, make, opened, paths_of, scores_of

TITLES, ABSTRACTS = zip(*((title, abstract) for _, title, abstract in small.DOCUMENTS))
EVERY = [
    (case, path) for case in CASES if not configured(case).concepts for path in paths_of(case.model) if path != "module"
] + [(case, "module") for case in CASES if paths_of(case.model) == ["module"]]


@pytest.fixture
def texts(index):
    """An in-memory index of texts with the statistics of the index; it held other texts before."""
    text_index = TextIndex(CollectionStatistics.of_index(index), threads=2)
    text_index.hold(["Stroke and xylitol"] * 2, ["Gallium nitrate; women.", ""])
    return text_index


@pytest.mark.parametrize(("case", "path"), EVERY, ids=[f"{case}-{path}" for case, path in EVERY])
def test_models(case, path, index, vectors, texts):
    model = make(case, vectors)
    stored = opened(model, path, index, vectors)
    if stored.fast_class is not None and not stored.fast_class.gathers_words and path == "fast":
        path = "module"  # the fast path scores from stored encodings, and texts in memory have none
    reranker = opened(model, path, texts, vectors)
    reranker.score(QUERY, small.candidates(texts))  # so that a path is open that was made for other texts
    texts.hold(TITLES, ABSTRACTS)
    for query in QUERIES[::3]:
        if stored.can_read(stored.builder.query(index.query(query.text))):
            assert_same(scores_of(reranker, query), scores_of(stored, query), 1e-5)


@pytest.mark.parametrize("name", sorted(UNTRAINED))
def test_untrained_rerankers(name, index, vectors, texts, tmp_path):
    word_vectors.save(vectors, tmp_path / "words", {})
    spec = f"{name}:{tmp_path / 'words'}" if UNTRAINED[name].reads_vectors else name
    stored, in_memory = (rerankers.load(spec, each_index, RerankerOptions(threads=2)) for each_index in (index, texts))
    texts.hold(TITLES, ABSTRACTS)
    for query in QUERIES:
        expected = stored.score(query, small.candidates(index))
        np.testing.assert_allclose(in_memory.score(query, small.candidates(texts)), expected, rtol=1e-6)
