"""Attributions of every model: their parts add up to the module's score."""

import numpy as np
import pytest

from rerank_plugin.models.classes import classes_of
from tests import small
from tests.conformance.models import CASES, EMPTY, QUERIES, QUERY, make, opened, paths_of, scores_of

EXACT = {"ktrel", "ktrel-w", "ktrel-c", "knrm", "conv-knrm"}
ROWS = [0, 3, 4, 6, 8]  # some documents, the empty one and one of unknown words among them
EXPLAINED = [case for case in CASES if classes_of(case.model).explain is not None]
every_case = pytest.mark.parametrize("case", EXPLAINED, ids=str)


def attributions(reranker, query, rows=None):
    candidates = small.candidates(reranker.builder.index, rows)
    return [reranker.attribute(query, candidates, place) for place in range(len(candidates))]


@every_case
def test_the_parts_add_up_to_the_score(case, index, vectors):
    """Up to rounding if the attribution is exact, otherwise within 1% of the contributions of document and features."""
    reranker, largest = opened(make(case, vectors), "module", index, vectors), 0.0
    for query in [QUERIES[0], QUERIES[3], QUERIES[5]]:
        for score, attribution in zip(scores_of(reranker, query, ROWS), attributions(reranker, query, ROWS)):
            allowed = 1e-5 if attribution.exact else 1e-5 + 0.01 * abs(score - attribution.base)
            assert abs(score - attribution.total) <= allowed
            assert attribution.exact == (case.model in EXACT) or "first_stage" in [
                part.name for part in attribution.parts
            ]
            if attribution.query_words is not None and not attribution.parts:
                assert attribution.query_words.sum() == pytest.approx(attribution.words.sum(), abs=1e-6)
            largest = max(largest, abs(score - attribution.base))
    assert largest > 0.01


@every_case
def test_shapes_and_places(case, index, vectors):
    """One number per word that the model reads, without removed query words, and similarities of all pairs."""
    reranker = opened(make(case, vectors, document_words=8, query_words=3), "module", index, vectors)
    lengths = np.minimum(small.candidates(index).lengths, 8)
    for length, attribution in zip(lengths, attributions(reranker, QUERY)):
        words, count = max(int(length), 1), len(attribution.query_places)
        assert attribution.words.shape == (words,) and attribution.known.shape == (count,) == (3,)
        assert attribution.matrix is None or attribution.matrix.shape == (count, words)
        assert attribution.closest is None or attribution.closest.shape == (words,)
        assert attribution.details == [] or len(attribution.details) == words
        assert all(0 <= term < count and 0 <= word < words for term, word in attribution.pooled)
        assert len(attribution.parts) == len(reranker.builder.feature_names) or reranker.builder.concepts is not None


@every_case
def test_a_document_without_words_has_none_that_add(case, index, vectors):
    (attribution,) = attributions(opened(make(case, vectors), "module", index, vectors), QUERY, [EMPTY])
    np.testing.assert_array_equal(attribution.words, 0)


@pytest.mark.parametrize("case", [case for case in EXPLAINED if "fast" in paths_of(case.model)], ids=str)
def test_the_fast_path_and_other_candidates_change_nothing(case, index, vectors):
    model = make(case, vectors)
    module, fast = (opened(model, path, index, vectors) for path in ("module", "fast"))
    (alone,) = attributions(module, QUERY, [8])
    listwise = small.candidates(index)
    beside = fast.attribute(QUERY, listwise, 8)
    np.testing.assert_array_equal(beside.words, alone.words)
    assert beside.parts == alone.parts and beside.base == alone.base


@pytest.mark.parametrize("case", [case for case in CASES if case not in EXPLAINED], ids=str)
def test_others_do_not_tell(case, index, vectors):
    reranker = opened(make(case, vectors), "module", index, vectors)
    assert reranker.attribute(QUERY, small.candidates(index), 0) is None
