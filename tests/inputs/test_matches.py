"""The compiled pass over the candidates' words: against counting by hand, in threads, and in any company."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.inputs.lexical_features import LEXICAL_NAMES, PAPER_NAMES, lexical_features
from rerank_plugin.kernels import word_loops
from tests import small
from tests.processes import run


def candidates(index, rows):
    return small.candidates(index, rows, np.linspace(9, 1, len(rows), dtype=np.float32))


def counted(title, abstract, ids, bigrams):
    """Occurrences [2, m] and distinct bigrams in title, abstract and text [3] of one document, by plain counting."""
    pairs = [set(zip(words, words[1:])) for words in (title, abstract, title + abstract)]
    query_bigrams = {(ids[a], ids[b]) for a, b in bigrams}
    counts = [[Counter(field)[id] if id >= 0 else 0 for id in ids] for field in (title, abstract)]
    return counts, [len(query_bigrams & field) for field in pairs]


# Ids far apart, ids in a row, and ids that share the first slot of the smallest table.
def _slot(id):
    table = word_loops.word_table(np.array([id], np.int64))
    return int(np.flatnonzero(table.slots)[0])


COLLIDING = [id for id in range(40_000) if _slot(id) == _slot(7)][:12]
term_ids = st.one_of(st.integers(0, 30), st.sampled_from(COLLIDING), st.integers(0, 2**32 - 1))


@given(st.data())
def test_counts_are_those_of_counting(data):
    assert len(set(COLLIDING)) == 12  # or no second slot would be looked at
    pool = data.draw(st.lists(term_ids, min_size=1, max_size=5, unique=True))
    fields = st.lists(st.sampled_from(pool), max_size=12)
    documents = data.draw(st.lists(st.tuples(fields, fields), max_size=6))
    ids = data.draw(st.lists(st.sampled_from(pool) | term_ids, max_size=8, unique=True))
    ids = ids + [-1] * data.draw(st.integers(0, 2))  # words that no document holds
    places = st.integers(0, max(len(ids) - 1, 0))
    bigrams = sorted(data.draw(st.sets(st.tuples(places, places), max_size=20))) if ids else []

    tokens = np.array([id for title, abstract in documents for id in title + abstract], np.uint32)
    lengths = np.array([len(title) + len(abstract) for title, abstract in documents], np.int64)
    counts = np.zeros((len(documents), 2, len(ids)), np.int32)
    found = np.zeros((len(documents), 3), np.int32)
    word_loops.match_words(
        tokens, np.cumsum(lengths) - lengths, lengths, np.array([len(title) for title, _ in documents], np.int64),
        word_loops.word_table(np.array(ids, np.int64)), np.array(bigrams, np.int64).reshape(-1, 2), counts, found,
    )  # fmt: skip
    for row, (title, abstract) in enumerate(documents):
        expected_counts, expected_found = counted(title, abstract, ids, bigrams)
        assert counts[row].tolist() == expected_counts
        assert found[row].tolist() == expected_found


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Enough words that two threads are in the kernels at the same time."""
    generator = np.random.default_rng(4)
    words = np.array([f"word{number}x" for number in range(300)])
    drawn = generator.integers(0, 300, (400, 208))
    documents = [(str(number), " ".join(words[row[:8]]), " ".join(words[row[8:]])) for number, row in enumerate(drawn)]
    return small.build_index(tmp_path_factory.mktemp("large") / "forward", documents)


def queries(index, count):
    generator = np.random.default_rng(8)
    return [
        index.query(" ".join(f"word{number}x" for number in generator.integers(0, 310, generator.integers(1, 40))))
        for _ in range(count)
    ]


def test_threads_compute_features_at_once(large):
    large_queries, rows = queries(large, 40), np.arange(len(large))
    expected = [lexical_features(LEXICAL_NAMES, query, candidates(large, rows)) for query in large_queries]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            features = pool.map(
                lambda query: lexical_features(LEXICAL_NAMES, query, candidates(large, rows)), large_queries
            )
            for matrix, expected_matrix in zip(features, expected):
                np.testing.assert_array_equal(matrix, expected_matrix)


def test_a_candidate_has_the_same_features_in_any_company(large):
    """To the last bit, also for queries of many words, whose sums numpy would order by the number of candidates."""
    for query in queries(large, 12):
        together = lexical_features(PAPER_NAMES, query, candidates(large, range(50)))
        assert len(np.unique(together, axis=0)) > 10
        alone = [lexical_features(PAPER_NAMES, query, candidates(large, [row]))[0] for row in range(50)]
        np.testing.assert_array_equal(alone, together)
        places = [7, 3, 3, 49, 0]
        np.testing.assert_array_equal(lexical_features(PAPER_NAMES, query, candidates(large, places)), together[places])


@pytest.mark.parametrize("text", ["", "  ... ", "heart", "heart attack heart"])
def test_nothing_matches_nothing(large, tmp_path, text):
    """An index without documents, empty documents, and a query without words."""
    none = small.build_index(tmp_path / "none", [])
    assert lexical_features(LEXICAL_NAMES, none.query(text), candidates(none, [])).shape == (0, len(LEXICAL_NAMES))
    empty = small.build_index(tmp_path / "forward", [("1", "", ""), ("2", "", "")])
    for index in (empty, large):
        features = lexical_features(LEXICAL_NAMES, index.query(text), candidates(index, [1, 0]))
        assert features[:, -2].tolist() == [9, 1] and not features[:, :-2].any()


def test_naming_features_loads_no_compiler():
    script = "import sys, rerank_plugin.inputs.lexical_features; print(sorted({'numba', 'torch'} & set(sys.modules)))"
    assert run("-c", script) == "[]\n"
