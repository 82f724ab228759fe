"""The features of word vectors against their definition, word by word in double precision, and once by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.models.baselines.knrm import KnrmConfig
from tests import small

NAMES = ("vector_matches", "overlap_text", "vector_cosine")  # in this order, with another one between
KNOWN = "heart attack risk aspirin the".split()


def unit(vector):
    length = np.linalg.norm(vector)
    return vector / length if length else vector


def plain(query, document, vectors):
    """vector_cosine and vector_matches of lists of words."""
    vector = dict(zip(vectors.vocabulary.words[1:], vectors.matrix[1:].astype(np.float64)))
    zero = np.zeros(vectors.matrix.shape[1])
    document = document[:200]
    sums = [unit(sum((vector.get(word, zero) for word in text), zero)) for text in (query, document)]
    total = weight = 0.0
    for word in query:
        own = vector.get(word, zero)
        cosines = [1.0 if other == word else unit(own) @ unit(vector.get(other, zero)) for other in document]
        total += own @ own * max(cosines, default=0.0)
        weight += own @ own
    return sums[0] @ sums[1], total / weight if weight else 0.0


def found(folder, vectors, query, documents, query_words=20):
    """The features of NAMES of texts, given as lists of words, float32 [C, 3]."""
    index = small.build_index(folder, [(f"d{row}", "", " ".join(words)) for row, words in enumerate(documents)])
    builder = small.delta(vectors, lexical_features=NAMES, query_words=query_words).input_builder(
        index, vectors.vocabulary
    )
    return builder.features(index.query(" ".join(query)), small.candidates(index))


words = st.sampled_from([*KNOWN, "migraine", "wine"])


@settings(max_examples=40)
@given(st.lists(st.lists(words, max_size=8), min_size=1, max_size=6), st.lists(words, max_size=6))
def test_any_texts(tmp_path_factory, documents, query):
    vectors = small.word_vectors(KNOWN, 6, seed=3)
    features = found(tmp_path_factory.mktemp("any") / "forward", vectors, query, documents)
    expected = [plain(query, document, vectors) for document in documents]
    np.testing.assert_allclose(features[:, [2, 0]], expected, atol=2e-6)
    overlap = [len(set(query) & set(text)) / max(len(set(query)), 1) for text in documents]
    np.testing.assert_allclose(features[:, 1], overlap, atol=1e-6)


def test_only_the_first_200_words_of_a_document_count(tmp_path):
    vectors = small.word_vectors(KNOWN, 6, seed=3)
    long = ["risk"] * 199 + ["attack", "aspirin"]
    features = found(tmp_path / "forward", vectors, ["aspirin"], [long])
    np.testing.assert_allclose(features[0, [2, 0]], plain(["aspirin"], long, vectors), atol=2e-6)
    assert features[0, 0] < 0.999  # the 201st word is the query's


def test_what_is_kept_of_one_query_serves_the_next(tmp_path):
    """Lengths of documents are kept by row: other candidates, in another order and twice, find their own."""
    vectors = small.word_vectors(KNOWN, 6, seed=3)
    index = small.build_index(tmp_path / "forward")
    model = small.delta(vectors, lexical_features=NAMES, query_words=20)
    builder, query = model.input_builder(index, vectors.vocabulary), index.query("risk of heart attack")
    for rows in ([3, 1], [1, 4, 0, 3, 1], range(len(index))):
        others = small.candidates(index, rows)
        fresh = model.input_builder(index, vectors.vocabulary).features(query, others)
        np.testing.assert_array_equal(builder.features(query, others), fresh)


def test_by_hand(tmp_path):
    """heart (3, 4), attack (0, 2), risk (1, 0); the query 'heart attack', the document 'risk attack'."""
    vectors = small.word_vectors(["heart", "attack", "risk"], 2, seed=1)
    vectors.matrix[1:] = [[3, 4], [0, 2], [1, 0]]
    features = found(tmp_path / "forward", vectors, ["heart", "attack"], [["risk", "attack"]])
    # (3, 6).(1, 2) / (sqrt 45 sqrt 5) = 15 / 15; heart: best of 0.6 (risk) and 0.8 (attack), weight 25; attack: 1, 4
    np.testing.assert_allclose(features[0], [(25 * 0.8 + 4) / 29, 0.5, 1.0], atol=1e-6)


def test_a_model_without_features_of_vectors_refuses_them():
    with pytest.raises(InputError, match="takes no lexical features"):
        KnrmConfig(lexical_features=("vector_cosine",))
