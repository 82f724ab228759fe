"""The untrained baselines ([D18] 4.3.1), by hand and against plain twins. Tests of all: ``tests/conformance``."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.forward import FIELDS
from rerank_plugin.rerankers import UNTRAINED
from rerank_plugin.rerankers.untrained import DIRICHLET_MU, FieldBM25, TitleLikelihood, title_frequency
from tests import small

# Eight words of titles; heart and risk twice, attack three times, red once.
THREE = [("1", "heart attack risk", "red wine"), ("2", "attack attack", "heart"), ("3", "heart risk red", "")]


def scores(reranker, index, text, rows=None):
    values = reranker.score(Query("q", text), small.candidates(index, rows))
    assert values.dtype == np.float32
    return values


@pytest.fixture
def three(tmp_path):
    return small.build_index(tmp_path / "three", THREE)


def test_bm25_by_hand(three):
    """'heart' is in two titles of three: ln(1 + 1.5 / 2.5) = ln 1.6; 'attack' too."""
    norm = {length: 2 * (0.25 + 0.75 * length / (8 / 3)) for length in (2, 3)}  # k1 (1 - b + b length / mean)
    weight = math.log(1.6)
    expected = [2 * weight * 3 / (1 + norm[3]), weight * 2 * 3 / (2 + norm[2]), weight * 3 / (1 + norm[3])]
    actual = scores(rerankers.load("bm25-title", three), three, "Heart attack?")
    assert actual == pytest.approx(expected, rel=1e-6)
    # One abstract of three has two words, one has one, and their mean is 1.
    actual = scores(rerankers.load("bm25-abstract", three), three, "wine")
    assert actual == pytest.approx([math.log(1 + 2.5 / 1.5) * 3 / (1 + 2 * (0.25 + 0.75 * 2)), 0, 0], rel=1e-6)
    # 'heart' is in all three texts, of 5, 3 and 3 words.
    actual = scores(rerankers.load("bm25-text", three), three, "heart")
    norms = [2 * (0.25 + 0.75 * length / (11 / 3)) for length in (5, 3, 3)]
    assert actual == pytest.approx([math.log(1 + 0.5 / 3.5) * 3 / (1 + norm) for norm in norms], rel=1e-6)


def test_query_likelihood_by_hand(three):
    """mu = 4: of the titles' 8 words a quarter is heart, three eighths attack: they add 1 and 1.5 to each title."""
    actual = scores(TitleLikelihood(three, mu=4), three, "heart attack attack")
    expected = [
        math.log((1 + 1) / 7) + 2 * math.log((1 + 1.5) / 7),
        math.log((0 + 1) / 6) + 2 * math.log((2 + 1.5) / 6),
        math.log((1 + 1) / 7) + 2 * math.log((0 + 1.5) / 7),
    ]
    assert actual == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("mu", [0, -1, math.inf, math.nan])
def test_mu_is_positive(three, mu):
    with pytest.raises(InputError, match="positive"):
        TitleLikelihood(three, mu)


def test_title_frequency(three, index):
    def frequencies(corpus):
        return dict(zip(corpus.terms.take(np.arange(corpus.vocabulary_size)), title_frequency(corpus).tolist()))

    assert frequencies(three) == {"heart": 2, "attack": 3, "risk": 2, "red": 1, "wine": 0}
    assert frequencies(index)["cancer"] == 4 and frequencies(index)["quokka"] == 1 and frequencies(index)["old"] == 0
    for chunk in (1, 3, 10, 11):
        np.testing.assert_array_equal(title_frequency(index, chunk), title_frequency(index))


@pytest.mark.parametrize(
    "name, text", [*((name, "tablets unheard") for name in UNTRAINED if "wmd" not in name), ("docid", "heart")]
)
def test_what_matches_nothing_ranks_by_decreasing_document_id(index, name, text):
    actual = scores(rerankers.load(name, index), index, text)
    ids = [small.DOCUMENTS[row][0] for row in small.candidates(index).order(actual)]
    assert not actual.any() and ids == sorted(ids, key=str.encode, reverse=True)


WORDS = "heart attack risk red wine".split()
texts = st.lists(st.sampled_from(WORDS), max_size=7)


def plain_bm25(query, documents, place):
    mean = sum(map(len, documents)) / len(documents) or 1
    total = 0.0
    for word in query:
        holding = sum(word in document for document in documents)
        count = documents[place].count(word)
        norm = 2.0 * (1 - 0.75 + 0.75 * len(documents[place]) / mean)
        total += math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5)) * count * 3.0 / (count + norm)
    return total


def plain_likelihood(query, documents, place, mu):
    frequency = Counter(word for document in documents for word in document)
    total = 0.0
    for word in query:
        if frequency[word]:
            share = frequency[word] / sum(frequency.values())
            total += math.log(documents[place].count(word) + mu * share) - math.log(len(documents[place]) + mu)
    return total


@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=6),
    st.lists(st.sampled_from(WORDS + ["unheard"]), max_size=6),
    st.sampled_from([0.5, 13.0, DIRICHLET_MU]),
)
def test_the_plain_twins_agree(tmp_path_factory, documents, query, mu):
    rows = [(str(row), " ".join(title), " ".join(abstract)) for row, (title, abstract) in enumerate(documents)]
    index = small.build_index(tmp_path_factory.mktemp("lexical") / "forward", rows)
    fields = {
        "title": [title for title, _ in documents],
        "abstract": [abstract for _, abstract in documents],
        "text": [title + abstract for title, abstract in documents],
    }
    places = range(len(documents))
    for field in FIELDS:
        expected = [plain_bm25(query, fields[field], place) for place in places]
        actual = scores(FieldBM25(index, field), index, " ".join(query))
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9)
    expected = [plain_likelihood(query, fields["title"], place, mu) for place in places]
    actual = scores(TitleLikelihood(index, mu), index, " ".join(query))
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
