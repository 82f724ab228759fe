"""Delta against scores computed by hand and a plain implementation, and special cases of its fast path."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.inputs.lexical_features import NAMES
from rerank_plugin.models.delta.model import Delta, DeltaConfig
from rerank_plugin.models.delta_stage import delta_stage
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.conformance import twins
from tests.conformance.models import Case, assert_same, make, opened, paths_of, scores_of
from tests.models import golden, plain_delta

THIRD = 1 / 3


def stage(documents, document_mask, queries, query_mask):
    documents, queries = (torch.tensor(vectors, dtype=torch.float32) for vectors in (documents, queries))
    return delta_stage(documents, torch.tensor(document_mask), queries, torch.tensor(query_mask)).numpy()


def test_golden_delta_stage():
    """Query words (3,4) and (-3,4), both of length 5; the third is padding and would be closest to (0,0) and (0,4)."""
    queries = [[[3, 4], [-3, 4], [0, 2]]]
    documents = [[[0, 0], [6, 8], [-3, 4], [0, 4], [-6, 0], [3, 4]]]
    expected = [
        # difference, cosine, distance, proximity
        [-3, -4, 0.0, 5, 0],  # a tie of 5 and 5: the first word; a zero vector: cosine 0, 1 - 5/(0+5)
        [3, 4, 1.0, 5, 1 - THIRD],  # 5 against sqrt(97); same direction; 1 - 5/(10+5)
        [0, 0, 1.0, 0, 1],  # the second query word itself
        [-3, 0, 0.8, 3, 1 - THIRD],  # a tie of 3 and 3: the first word; 16/(4*5); 1 - 3/(4+5)
        [-3, -4, 0.6, 5, 6 / 11],  # sqrt(97) against 5: the second word; 18/(6*5); 1 - 5/(6+5)
        [0, 0, 0, 0, 0],  # padding, although its vector is the first query word's
    ]
    actual = stage(documents, [[True] * 5 + [False]], queries, [[True, True, False]])
    np.testing.assert_allclose(actual[0], expected, atol=1e-6)
    assert not stage(documents, [[True] * 6], queries, [[False] * 3]).any()  # a query without words


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1e3])
def test_cosine_and_proximity_do_not_depend_on_the_scale_of_the_vectors(scale):
    """(6,8) and (-6,0) against (3,4): cosines 1 and -18/30, proximities 1 - 5/15 and 1 - sqrt(97)/11."""
    documents, queries = np.array([[[6, 8], [-6, 0]]]) * scale, np.array([[[3, 4]]]) * scale
    actual = stage(documents.tolist(), [[True, True]], queries.tolist(), [[True]])
    np.testing.assert_allclose(actual[0, :, 2], [1, -0.6], atol=1e-5)
    np.testing.assert_allclose(actual[0, :, 4], [1 - THIRD, 1 - 97**0.5 / 11], atol=1e-5)


small_vectors = st.lists(st.integers(-3, 3), min_size=2, max_size=2)


@given(
    words=st.lists(small_vectors, min_size=1, max_size=6),
    query=st.lists(small_vectors, min_size=1, max_size=4),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    filler=small_vectors,
)
def test_stage_agrees_with_the_plain_one_on_grids(words, query, padding, filler):
    """Whole coordinates: many ties, repeated words and zero vectors, and distances that are exact in float32."""
    (documents, mask), (queries, query_mask) = (
        (text + [filler] * more, [True] * len(text) + [False] * more) for text, more in zip((words, query), padding)
    )
    actual = stage([documents], [mask], [queries], [query_mask])[0]
    np.testing.assert_allclose(actual[: len(words)], plain_delta.delta_stage(words, query), rtol=1e-5, atol=1e-5)
    assert not actual[len(words) :].any()


def test_golden_network():
    """One filter that reads distances, one hidden unit, one lexical feature; every step fits on a line.

    Query (3,4); document (3,4) (6,8) and a pad: distances 0, 5. The filter weighs the word before by 1, the word itself
    by 10, the word after by 100, bias -600: -600 + 100*5 = -100 and -600 + 10*5 + 0 = -550, leaky -30 and -165, so the
    maximum is -30 (0, or the pad's -180, would be a leak or a loss of the mask). Feature (7 - 4) / 2 = 1.5.
    Hidden: -1 * -30 + 2 * 1.5 = 33. Output: -1 * 33 + 3 = -30, leaky -9.
    """
    config = DeltaConfig(filters=1, convolutions=1, hidden=(1,), differences=False, lexical_features=("bm25_title",))
    model = golden.set_weights(
        Delta(config, torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])),
        convolutions__0__weight=[0, 0, 0, 1, 10, 100, 0, 0, 0], convolutions__0__bias=-600, layers__0__weight=[-1, 2],
        layers__1__weight=-1, layers__1__bias=3,
    )  # fmt: skip
    model.set_feature_statistics(torch.tensor([4.0]), torch.tensor([2.0]))
    inputs = golden.inputs(["ab"], "a", 3, 2, features=[[7]], padding="b")
    assert model(inputs).tolist() == pytest.approx([-9.0])


def test_a_feature_that_never_varies_is_only_centred():
    model = Delta(DeltaConfig(lexical_features=NAMES[:2]), torch.zeros(2, 2))
    model.set_feature_statistics(torch.tensor([3.0, 1.0]), torch.tensor([0.0, 4.0]))
    assert model.feature_mean.tolist() == [3.0, 1.0]
    assert model.feature_scale.tolist() == [1.0, 0.25]


# ------------------------------------------------------------------------------------------------------ the fast paths


def agreed(folder, vectors, documents, query):
    """Scores of documents, equal on every path and in the twin. Known words are w1, w2, ..; all others are UNK."""
    words = WordVectors(Vocabulary([f"w{n}" for n in range(1, len(vectors))]), np.array(vectors, np.float32))
    texts = [(f"d{n}", text, "") for n, text in enumerate(documents)]
    index = small.build_index(folder / query.replace(" ", ""), texts)
    model = make(Case("delta", {"filters": 3, "document_words": 6, "query_words": 4}), words)
    expected = np.array(twins.scores(model, index, words, Query("q", query), texts))
    for path in paths_of("delta"):
        assert_same(scores_of(opened(model, path, index, words), Query("q", query)), expected, 1e-5)
    return expected


def test_of_equally_close_query_words_the_first_counts(tmp_path):
    """w3 is halfway between w1 and w2: swapping them in the query changes the score of its document."""
    vectors, documents = [[9, 9], [1, 0], [0, 1], [0, 0], [0.5, 0.5]], ["w3", "w4 w3 w4", "w1", "w2"]
    actual, exchanged = (agreed(tmp_path, vectors, documents, query) for query in ("w1 w2", "w2 w1"))
    assert (np.abs(actual - exchanged)[:2] > 1e-3).all() and (actual[2:] == exchanged[2:]).all()


def test_words_are_their_vectors(tmp_path):
    """w1 and w2 have equal vectors; x and y are both UNK, whose vector counts like any other; w3 is zero."""
    vectors = [[2, 1], [1, -2], [1, -2], [0, 0]]
    actual = agreed(tmp_path, vectors, ["w1 x w1", "w2 y w1", "x w2", "w3", "w3 w3 w3", ""], "w3 w2 y")
    assert actual[0] == actual[1] and len(set(actual.tolist())) == 5


def test_a_pointwise_delta_that_pays_no_function_words(index, vectors):
    """The score of a document is the same alone, in any list and after any first stage, and function words change none,
    in no feature, however many there are."""
    values = {"query_stopwords": "function", "lexical_features": ("bm25_share_text", "vector_matches")}
    model = small.delta(vectors, query_words=2, **values)
    reranker = NeuralReranker(model, vectors.vocabulary, index)
    query = Query("q", "what should I do about the risk of stroke")
    candidates = small.candidates(index)
    scores = reranker.score(query, candidates)
    alone = small.candidates(index, candidates.rows[3:4], np.array([-7], np.float32))
    assert not reranker.listwise and reranker.score(query, alone).tolist() == scores[3:4].tolist()
    assert reranker.score(Query("q", "risk stroke"), candidates).tolist() == scores.tolist()
    keeping = NeuralReranker(small.delta(vectors, **{**values, "query_stopwords": "keep"}), vectors.vocabulary, index)
    assert np.abs(keeping.score(query, candidates) - scores).max() > 1e-4
    with pytest.raises(InputError, match="unknown query_stopwords 'all'; known: keep, remove, function"):
        DeltaConfig(query_stopwords="all")
