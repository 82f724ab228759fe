"""All 18 features of [D18] 4.2.2 against a plain implementation, and each once by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.features.lexical_features import NAMES, PAPER_NAMES, check_names, lexical_features
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, ForwardIndexWriter


def build(folder, documents):
    """A forward index of (title, abstract) pairs, without Lucene."""
    writer = ForwardIndexWriter(folder)
    ids = [f"d{number}" for number in range(len(documents))]
    titles, abstracts = (list(part) for part in zip(*documents))
    writer.extend(ids, titles, abstracts, hash_strings(ids))
    writer.close_streams()
    statistics = writer.finish(np.arange(len(ids)))
    return ForwardIndex(folder, {field: numbers.mean_length for field, numbers in statistics.items()})


def plain(name, query, document, collection):
    """One feature of one document, from the paper's words; texts are lists of words."""
    measure, field = name.rsplit("_", 1)

    def words(of):
        return {"title": of[0], "abstract": of[1], "text": of[0] + of[1]}[field]

    def idf(word, part):
        holding = sum(word in part(other) for other in collection)
        return math.log(1 + (len(collection) - holding + 0.5) / (holding + 0.5))

    def weight(some):
        return sum(idf(word, lambda other: other[0] + other[1]) for word in some)

    inside, asked = words(document), set(query)
    common, union = asked & set(inside), asked | set(inside)
    if measure == "overlap":
        return len(common) / len(asked) if asked else 0
    if measure == "idf_overlap":
        return weight(common) / weight(asked) if asked else 0
    if measure == "jaccard":
        return len(common) / len(union) if union else 0
    if measure == "idf_jaccard":
        return weight(common) / weight(union) if union else 0
    if measure == "bigram_overlap":
        pairs = set(zip(query, query[1:]))
        return len(pairs & set(zip(inside, inside[1:]))) / len(pairs) if pairs else 0
    mean = sum(len(words(other)) for other in collection) / len(collection) or 1
    norm = 2.0 * (1 - 0.75 + 0.75 * len(inside) / mean)
    return sum(idf(word, words) * inside.count(word) * 3.0 / (inside.count(word) + norm) for word in query)


texts = st.lists(st.sampled_from("a b c d e f".split()), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=6),
    st.lists(st.sampled_from("a b c d x y".split()), max_size=6),
)
def test_features_agree_with_the_plain_ones(tmp_path_factory, documents, query):
    folder = tmp_path_factory.mktemp("features") / "forward"
    index = build(folder, [(" ".join(title), " ".join(abstract)) for title, abstract in documents])
    candidates = Candidates(index, np.arange(len(documents)), np.zeros(len(documents), np.float32))
    found = lexical_features(PAPER_NAMES, index.query(" ".join(query)), candidates)
    expected = [[plain(name, query, document, documents) for name in PAPER_NAMES] for document in documents]
    assert found.dtype == np.float32 and found.shape == (len(documents), 18)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# Two documents; the query 'heart attack attack' against the first. In the text: df(heart) = 2, df(attack) = 1,
# df(rare) = df(old) = df(pain) = 1; idf(2 of 2) = ln(1.2), idf(1 of 2) = ln 2.
DOCUMENTS = [("heart attack", "attack rare heart attack"), ("old heart", "pain")]
COMMON, RARE = math.log(1.2), math.log(2)
BY_HAND = {
    "overlap_text": 1.0,
    "overlap_title": 1.0,
    "overlap_abstract": 1.0,
    "bigram_overlap_text": 1.0,  # 'heart attack' and 'attack attack' (across the border)
    "bigram_overlap_title": 0.5,
    "bigram_overlap_abstract": 0.5,
    "jaccard_text": 2 / 3,
    "jaccard_title": 1.0,
    "jaccard_abstract": 2 / 3,
    "idf_overlap_text": 1.0,
    "idf_overlap_title": 1.0,
    "idf_overlap_abstract": 1.0,
    "idf_jaccard_text": (COMMON + RARE) / (COMMON + 2 * RARE),
    "idf_jaccard_title": 1.0,
    "idf_jaccard_abstract": (COMMON + RARE) / (COMMON + 2 * RARE),
    # title: length 2 = mean 2, norm 2; tf 1 gives 3 / 3 = 1 for each; df(heart) 2, df(attack) 1; attack counts twice
    "bm25_title": COMMON + 2 * RARE,
    # abstract: length 4, mean 2.5, norm 2 (0.25 + 0.75 * 1.6) = 2.9; df(heart) = df(attack) = 1
    "bm25_abstract": RARE * 3 / 3.9 + 2 * RARE * 6 / 4.9,
    # text: length 6, mean 4.5, norm 2 (0.25 + 1) = 2.5; tf(heart) 2, tf(attack) 3
    "bm25_text": COMMON * 6 / 4.5 + 2 * RARE * 9 / 5.5,
}


@pytest.fixture(scope="module")
def two_documents(tmp_path_factory):
    return build(tmp_path_factory.mktemp("two") / "forward", DOCUMENTS)


@pytest.mark.parametrize("name", PAPER_NAMES)
def test_by_hand(two_documents, name):
    candidates = Candidates(two_documents, np.array([0]), np.zeros(1, np.float32))
    found = lexical_features([name], two_documents.query("heart attack attack"), candidates)
    assert found[0, 0] == pytest.approx(BY_HAND[name], rel=1e-6)


def test_first_stage_is_the_score_that_came_with_the_candidate(two_documents):
    candidates = Candidates(two_documents, np.array([1, 0]), np.array([7.5, 2.5], np.float32))
    assert lexical_features(["first_stage"], two_documents.query("heart"), candidates).tolist() == [[7.5], [2.5]]


@pytest.mark.parametrize(
    ("scores", "shares"), [([8, 2], [1, 0.25]), ([2, -4], [1, -2]), ([-1, -3], [0, 0]), ([0, 0], [0, 0]), ([], [])]
)
def test_first_stage_share_is_of_the_highest_score(two_documents, scores, shares):
    rows = np.arange(len(scores))
    candidates = Candidates(two_documents, rows, np.array(scores, np.float32))
    features = lexical_features(["first_stage_share"], two_documents.query("heart"), candidates)
    assert features.tolist() == [[share] for share in shares]


def test_more_query_words_than_a_byte_counts(tmp_path):
    words = [f"w{number}" for number in range(400)]
    index = build(tmp_path / "forward", [(" ".join(words[:300]), " ".join(words[300:350])), ("w0", "")])
    candidates = Candidates(index, np.arange(2), np.zeros(2, np.float32))
    found = lexical_features(["overlap_title", "overlap_text"], index.query(" ".join(words)), candidates)
    np.testing.assert_allclose(found, [[300 / 400, 350 / 400], [1 / 400, 1 / 400]])


def test_names_are_checked():
    assert check_names(NAMES) == NAMES
    with pytest.raises(InputError, match="'nothing'; known: overlap_title"):
        check_names(["nothing"])
    with pytest.raises(InputError, match="twice"):
        check_names(["bm25_title", "bm25_title"])
