import numpy as np
import pytest

from rerank_plugin.base.records import Query
from rerank_plugin.benchmark import best_matches as candidates
from rerank_plugin.benchmark.best_matches import Ranked, best_matches
from rerank_plugin.indexes.forward import idf
from tests import small

QUERIES = [Query("1", "aspirin stroke risk"), Query("2", "cancer cancer"), Query("3", "unheard words"), Query("4", "")]


@pytest.fixture
def index(tmp_path):
    return small.build_index(tmp_path / "forward")


def plain_score(index, query, row):
    """The IDF of the distinct query words that a document holds, one at a time."""
    held = set(index.document_tokens(row).tolist())
    terms = {int(term) for term in index.query(query.text).ids if term >= 0}
    frequency = index.document_frequency["text"]
    return sum(float(idf(frequency[term], len(index))) for term in terms & held)


@pytest.mark.parametrize("chunk, depth", [(3, 4), (1000, 4), (1000, 500)])
def test_the_best_documents_are_those_with_the_largest_sum_of_idf(index, chunk, depth, monkeypatch):
    """All of them where the collection is smaller than the depth."""
    monkeypatch.setattr(candidates, "CHUNK", chunk)
    best, kept = best_matches(index, QUERIES, depth, 0), min(depth, len(index))
    assert best.rows.shape == best.scores.shape == (len(QUERIES), kept)
    for place, query in enumerate(QUERIES):
        expected = sorted((plain_score(index, query, row) for row in range(len(index))), reverse=True)[:kept]
        actual = [plain_score(index, query, row) for row in best.rows[place]]
        assert actual == pytest.approx(expected)
        assert best.scores[place] == pytest.approx(expected, abs=2e-3)
        assert len(set(best.rows[place].tolist())) == kept
        assert (np.diff(best.scores[place]) <= 0).all()


def test_documents_without_a_query_word_are_taken_at_random_but_reproducibly(index):
    first, again, other = (best_matches(index, QUERIES[2:], 5, seed).rows.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_candidates_are_kept(index, tmp_path):
    best = best_matches(index, QUERIES, 4, 0)
    best.save(tmp_path / "kept.npz")
    loaded = Ranked.load(tmp_path / "kept.npz")
    assert (loaded.rows == best.rows).all() and (loaded.scores == best.scores).all()
    assert [path.name for path in tmp_path.glob("*.npz")] == ["kept.npz"]
