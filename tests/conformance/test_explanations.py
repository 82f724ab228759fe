"""What every model's explanation must be: its parts add up to the module's score, word by word."""

import numpy as np
import pytest

from rerank_plugin.models.register import entry_of
from tests import small
from tests.conformance.models import CASES, EMPTY, QUERIES, QUERY, make, make_own, opened, paths_of, scores_of

EXACT = {"ktrel", "ktrel-w", "ktrel-c", "knrm", "conv-knrm"}
SOME = [0, 3, 4, 6, 8]  # some documents, the empty one and one of unknown words among them
EXPLAINED = [case for case in CASES if entry_of(case.model).load("explain", of_module=True) is not None]
every_case = pytest.mark.parametrize("case", EXPLAINED, ids=str)


def attributions(one, query, rows=None):
    found = small.candidates(one.builder.index, rows)
    return [one.attribute(query, found, place) for place in range(len(found))]


@every_case
def test_the_parts_add_up_to_the_score(case, index, vectors):
    """But for rounding where it is computed exactly, otherwise within 1% of what document and features add."""
    one, added = opened(make_own(case, vectors), "module", index, vectors), 0.0
    for query in [QUERIES[0], QUERIES[3], QUERIES[5]]:
        for score, found in zip(scores_of(one, query, SOME), attributions(one, query, SOME)):
            allowed = 1e-5 if found.exact else 1e-5 + 0.01 * abs(score - found.base)
            assert abs(score - found.total) <= allowed
            assert found.exact == (case.model in EXACT) or "first_stage" in [part.name for part in found.parts]
            if found.query_words is not None and not found.parts:
                assert found.query_words.sum() == pytest.approx(found.words.sum(), abs=1e-6)
            added = max(added, abs(score - found.base))
    assert added > 0.01


@every_case
def test_shapes_and_places(case, index, vectors):
    """One number a word that is read, of the query's words those that are left in, and similarities of all pairs."""
    one = opened(make(case, vectors, document_words=8, query_words=3), "module", index, vectors)
    lengths = np.minimum(small.candidates(index).lengths, 8)
    for length, found in zip(lengths, attributions(one, QUERY)):
        words, count = max(int(length), 1), len(found.query_places)
        assert found.words.shape == (words,) and found.known.shape == (count,) == (3,)
        assert found.matrix is None or found.matrix.shape == (count, words)
        assert found.closest is None or found.closest.shape == (words,)
        assert found.details == [] or len(found.details) == words
        assert all(0 <= term < count and 0 <= word < words for term, word in found.pooled)
        assert len(found.parts) == len(one.builder.feature_names) or one.builder.concepts is not None


@every_case
def test_a_document_without_words_has_none_that_add(case, index, vectors):
    (found,) = attributions(opened(make(case, vectors), "module", index, vectors), QUERY, [EMPTY])
    np.testing.assert_array_equal(found.words, 0)


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
    one = opened(make(case, vectors), "module", index, vectors)
    assert one.attribute(QUERY, small.candidates(index), 0) is None
