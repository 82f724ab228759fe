"""Candidates against plain lists: padding, the flat words, and the order with its tie rule."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerank_plugin.indexes.candidates import Candidates
from tests import small


def candidates(index, rows):
    return Candidates(index, np.array(rows, np.int64), np.zeros(len(rows), np.float32))


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    documents = [("9", "a b", "c"), ("10", "", ""), ("é", "", "d"), ("b", "a a a a a", ""), ("B", "!", "…")]
    return small.build_index(tmp_path_factory.mktemp("words") / "forward", documents)


def test_attributes(words):
    found = Candidates(words, [3, 0, 1, 2], [4.0, 3.0, 2.0, 1.0])
    assert len(found) == 4
    assert found.ids == ["b", "9", "10", "é"]
    assert found.lengths.tolist() == [5, 3, 0, 1]
    assert found.title_lengths.tolist() == [5, 2, 0, 0]
    assert found.starts.tolist() == [4, 0, 3, 3]
    assert found.rows.dtype == np.int64 and found.first_stage_scores.dtype == np.float32


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(1, 9))
@example([], 3)
@example([1, 4], 3)
@example([4, 0, 3, 1, 2, 0], 2)
def test_their_words_padded_to_any_width_and_flat(words, rows, width):
    a, b, c, d = words.terms.find(["a", "b", "c", "d"]).tolist()
    texts = [[[a, b, c], [], [d], [a] * 5, []][row] for row in rows]
    found = candidates(words, rows)
    ids, mask = found.padded_tokens(width)
    assert ids.dtype == np.uint32 and mask.dtype == bool and ids.shape == mask.shape == (len(rows), width)
    for text, padded, row_mask in zip(texts, ids.tolist(), mask.tolist()):
        kept = text[:width]
        assert padded == kept + [0] * (width - len(kept))
        assert row_mask == [True] * len(kept) + [False] * (width - len(kept))
    flat = found.flat_tokens
    expected = [(id, place, at) for place, text in enumerate(texts) for at, id in enumerate(text)]
    assert list(zip(flat.ids.tolist(), flat.candidate.tolist(), flat.position.tolist())) == expected
    assert len(flat.ids) == len(flat.candidate) == len(flat.position) == len(expected)


def test_a_collection_without_a_word(tmp_path):
    index = small.build_index(tmp_path / "forward", [("1", "!", "?"), ("2", "", "")])
    ids, mask = candidates(index, [1, 0]).padded_tokens(2)
    assert ids.tolist() == [[0, 0], [0, 0]] and not mask.any()
    assert index.vocabulary_size == 0 and index.query("a").ids.tolist() == [-1]
    assert index.mean_lengths == {"title": 0, "abstract": 0, "text": 0}


def test_rows_and_scores_must_be_as_many(words):
    with pytest.raises(ValueError, match="2 rows but 1"):
        Candidates(words, np.array([0, 1]), np.zeros(1))


IDS = ["1", "10", "100", "2", "20", "9", "a", "B", "b", "é", "z", "aa", "𝐀", "ab", "MED-1", "MED-10"]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("many") / "forward", [(id, "x", "") for id in IDS])


scores = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, -1.0, 2.5, 1e-40, np.inf, -np.inf]) | st.floats(
    allow_nan=False, width=32
)


@given(st.data())
def test_order_is_by_float32_score_then_decreasing_id(many, data):
    rows = data.draw(st.lists(st.integers(0, len(IDS) - 1), unique=True))
    given_scores = data.draw(st.lists(scores, min_size=len(rows), max_size=len(rows)))
    rounded = np.array(given_scores).astype(np.float32)
    # Python's sort keeps equal ones in their order, so: first by id descending, then by score descending.
    expected = sorted(range(len(rows)), key=lambda at: IDS[rows[at]].encode(), reverse=True)
    expected = sorted(expected, key=lambda at: -rounded[at])
    found = Candidates(many, rows, given_scores)
    assert found.order(np.array(given_scores)).tolist() == expected
    for depth in (None, 0, 3):
        best = found.best(depth)
        assert best.rows.tolist() == [rows[at] for at in expected][:depth]
        np.testing.assert_array_equal(best.first_stage_scores, rounded[expected[:depth]])
