"""The 18 features of [D18] 4.2.2 against a plain implementation over lists of words, and each once by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.lexical_features import (
    LEX3,
    LEXICAL_NAMES,
    NAMES,
    PAPER_NAMES,
    check_names,
    in_words,
    lexical_features,
)
from rerank_plugin.text.tokenizer import tokenize
from tests import small

# The paper's numbers, by measure: of the text, the title and the abstract.
NUMBERS = {
    "overlap": (1, 9, 14),
    "bigram_overlap": (2, 10, 15),
    "jaccard": (3, 11, 16),
    "idf_overlap": (4, 12, 17),
    "idf_jaccard": (5, 13, 18),
    "bm25": (8, 6, 7),
}


def build(folder, documents):
    """A forward index of (title, abstract) pairs of words."""
    return small.build_index(
        folder / "forward",
        [(f"d{number}", " ".join(title), " ".join(abstract)) for number, (title, abstract) in enumerate(documents)],
    )


def plain(name, query, document, collection):
    """One feature of one document, from the paper's words; texts are lists of words."""
    measure, field = name.rsplit("_", 1)

    def words(of):
        return {"title": of[0], "abstract": of[1], "text": of[0] + of[1]}[field]

    def idf(word, part):
        holding = sum(word in part(each) for each in collection)
        return math.log(1 + (len(collection) - holding + 0.5) / (holding + 0.5))

    def weight(weighted):
        return sum(idf(word, lambda each: each[0] + each[1]) for word in weighted)

    inside, query_words = words(document), set(query)
    common, union = query_words & set(inside), query_words | set(inside)
    if measure == "overlap":
        return len(common) / len(query_words) if query_words else 0
    if measure == "idf_overlap":
        return weight(common) / weight(query_words) if query_words else 0
    if measure == "jaccard":
        return len(common) / len(union) if union else 0
    if measure == "idf_jaccard":
        return weight(common) / weight(union) if union else 0
    if measure == "bigram_overlap":
        pairs = set(zip(query, query[1:]))
        return len(pairs & set(zip(inside, inside[1:]))) / len(pairs) if pairs else 0
    mean = sum(len(words(each)) for each in collection) / len(collection) or 1
    norm = 2.0 * (1 - 0.75 + 0.75 * len(inside) / mean)
    return sum(idf(word, words) * inside.count(word) * 3.0 / (inside.count(word) + norm) for word in query)


def check(index, query, rows, documents):
    features = lexical_features(PAPER_NAMES, index.query(" ".join(query)), small.candidates(index, rows))
    expected = [[plain(name, query, documents[row], documents) for name in PAPER_NAMES] for row in rows]
    assert features.dtype == np.float32 and features.shape == (len(rows), 18)
    np.testing.assert_allclose(features, np.reshape(expected, features.shape), rtol=2e-5, atol=1e-6)


def test_the_names_are_the_paper_s_18_and_the_best_three():
    numbered = {
        number: f"{measure}_{field}"
        for measure, numbers in NUMBERS.items()
        for number, field in zip(numbers, ("text", "title", "abstract"))
    }
    assert sorted(PAPER_NAMES) == sorted(numbered.values()) and sorted(numbered) == list(range(1, 19))
    # "BM25 on the Document Abstract, IDF weighted Jaccard ... Title, and IDF-weighted proportion ... Title"
    assert set(LEX3) == {numbered[7], numbered[13], numbered[12]}


words = st.sampled_from("heart attack risk of aspirin p53 the".split())
fields = st.lists(words, max_size=10)


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=7), st.data())
def test_any_query_over_any_candidates(tmp_path_factory, documents, data):
    """Empty fields, repeated words, words that no document holds, candidates in any order and twice, and bigrams across
    the border of title and abstract, which are in the text alone."""
    index = build(tmp_path_factory.mktemp("plain"), documents)
    for _ in range(3):  # queries one after the other: nothing of one may reach the next
        query = data.draw(st.lists(words | st.sampled_from(["unknown", "unheard"]), max_size=7))
        check(index, query, data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=8)), documents)


def test_the_shared_documents(index, documents):
    """Real tokens: numeric classes, Greek letters, empty fields. A query and a document are tokenized alike."""
    collection = [(tokenize(document.title), tokenize(document.abstract)) for document in documents]
    for text in ("TNF-α blockade in Crohn's disease, 1999", "aspirin aspirin risk of stroke 5%", "糖尿病 2003 0.5", ""):
        features = lexical_features(PAPER_NAMES, index.forward.query(text), small.candidates(index.forward))
        expected = [[plain(name, tokenize(text), each, collection) for name in PAPER_NAMES] for each in collection]
        np.testing.assert_allclose(features, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("distinct", [255, 256, 600])
def test_more_query_words_than_a_byte_counts(tmp_path, distinct):
    """A query may be a pasted abstract: more distinct words than a mark of one byte can number."""
    words = [f"word{number}x" for number in range(distinct)]
    documents = [(words[: distinct // 2], words[distinct // 3 :]), ([], words[::-1]), (["other"], [words[-1]])]
    check(build(tmp_path, documents), [*words, "unknown", words[-1], words[0]], [0, 1, 2], documents)


# Worked by hand. Four documents; text = title, then abstract:
#   0  "red meat"         + "meat and cancer"      text of 5 words, 4 of them distinct
#   1  "cancer"           + ""                     1
#   2  ""                 + "red wine"             2
#   3  "cancer"           + "wine and wine"        4, 3 distinct
# Lengths: titles 2 1 0 1 (mean 1), abstracts 3 0 2 3 (mean 2), texts 5 1 2 4 (mean 3).
# Query: "red meat tofu red": distinct red, meat, tofu; bigrams (red meat), (meat tofu), (tofu red).
# idf(df) of 4 documents = ln(1 + (4.5 - df) / (df + 0.5)):
#   df 0: ln 10 = 2.302585   df 1: ln(10/3) = 1.203973   df 2: ln 2 = 0.693147   df 3: ln(10/7) = 0.356675
# In texts: red 2, meat 1, tofu 0, and 2, cancer 3, wine 2.
HAND = [("red meat".split(), "meat and cancer".split()), (["cancer"], []), ([], ["red", "wine"]),
        (["cancer"], "wine and wine".split())]  # fmt: skip
BY_HAND = [  # name, of document 0, of document 2
    ("overlap_text", 0.666667, 0.333333),  # red, meat of 3; red of 3
    ("bigram_overlap_text", 0.333333, 0.0),  # (red meat) of 3
    ("jaccard_text", 0.4, 0.25),  # {red meat} of {red meat tofu and cancer}; {red} of {red meat tofu wine}
    ("idf_overlap_text", 0.451727, 0.165047),  # (0.693147 + 1.203973) / 4.199705; 0.693147 / 4.199705
    # {red meat tofu and cancer} 4.199705 + 0.693147 + 0.356675 = 5.249527; {red meat tofu wine} 4.892852
    ("idf_jaccard_text", 0.361389, 0.141665),
    # titles: df red 1, meat 1; length 2, mean 1: 2 (0.25 + 0.75 * 2) = 3.5; tf 1: 3 / 4.5; red counts twice
    ("bm25_title", 2.407946, 0.0),  # 3 * 1.203973 * 0.666667
    # abstracts: df red 1, meat 1; document 0: length 3, mean 2: 2 (0.25 + 1.125) = 2.75, 1.203973 * 3 / 3.75
    # document 2: length 2: 2 (0.25 + 0.75) = 2, 2 * 1.203973 * 3 / 3
    ("bm25_abstract", 0.963178, 2.407946),
    # texts: document 0: length 5, mean 3: 2 (0.25 + 1.25) = 3; red 2 * 0.693147 * 3 / 4 = 1.039721,
    # meat (tf 2) 1.203973 * 6 / 5 = 1.444768; document 2: length 2: 2 (0.25 + 0.5) = 1.5, 2 * 0.693147 * 3 / 2.5
    ("bm25_text", 2.484489, 1.663553),
    ("overlap_title", 0.666667, 0.0),
    ("bigram_overlap_title", 0.333333, 0.0),
    ("jaccard_title", 0.666667, 0.0),  # {red meat} of {red meat tofu}
    ("idf_overlap_title", 0.451727, 0.0),
    ("idf_jaccard_title", 0.451727, 0.0),  # the union is the query
    ("overlap_abstract", 0.333333, 0.333333),  # meat of 3; red of 3
    ("bigram_overlap_abstract", 0.0, 0.0),
    ("jaccard_abstract", 0.2, 0.25),  # {meat} of {red meat tofu and cancer}
    ("idf_overlap_abstract", 0.286680, 0.165047),  # 1.203973 / 4.199705
    ("idf_jaccard_abstract", 0.229349, 0.141665),  # 1.203973 / 5.249527
]


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    return build(tmp_path_factory.mktemp("hand"), HAND)


@pytest.mark.parametrize("name, first, third", BY_HAND)
def test_by_hand(by_hand, name, first, third):
    """Both ways to a feature give what was worked out."""
    query = "red meat tofu red"
    features = lexical_features([name], by_hand.query(query), small.candidates(by_hand, [0, 2]))
    assert features[:, 0].tolist() == pytest.approx([first, third], abs=2e-6)
    assert [plain(name, query.split(), HAND[row], HAND) for row in (0, 2)] == pytest.approx([first, third], abs=2e-6)


def test_a_column_is_the_same_in_whatever_company(by_hand):
    query, candidates = by_hand.query("red wine cancer"), small.candidates(by_hand, [3, 0, 2, 1])
    together = lexical_features(PAPER_NAMES, query, candidates)
    for place, name in enumerate(PAPER_NAMES):
        np.testing.assert_array_equal(lexical_features([name], query, candidates)[:, 0], together[:, place])
    np.testing.assert_array_equal(lexical_features(PAPER_NAMES[::-1], query, candidates), together[:, ::-1])


def test_no_features_and_no_candidates(by_hand):
    query = by_hand.query("red")
    assert lexical_features([], query, small.candidates(by_hand, [0, 1])).shape == (2, 0)
    assert lexical_features(LEXICAL_NAMES, query, small.candidates(by_hand, [])).shape == (0, len(LEXICAL_NAMES))


@pytest.mark.parametrize(
    ("scores", "shares"),
    [([7.5, 2.5], [1, 1 / 3]), ([2, -4], [1, -2]), ([-1, -3], [0, 0]), ([0, 0], [0, 0]), ([], [])],
)
def test_the_first_stage_s_score_and_its_share_of_the_highest(by_hand, scores, shares):
    candidates = small.candidates(by_hand, range(len(scores)), np.array(scores, np.float32))
    features = lexical_features(["first_stage", "first_stage_share"], by_hand.query("heart"), candidates)
    np.testing.assert_allclose(features, np.reshape([scores, shares], (2, -1)).T, rtol=1e-6)


def test_the_share_of_the_most_bm25_is_of_the_document_alone(by_hand):
    """By hand, k1 = 0.9, b = 0.4, the query 'red meat tofu red': the most is 1.9 (2 idf red + idf meat + idf tofu).

    Of document 0: norms 0.9 (0.6 + 0.4 * 5 / 3) = 1.14; red 2 * 0.693147 * 1.9 / 2.14, meat 1.203973 * 3.8 / 3.14.
    Of document 2: norms 0.9 (0.6 + 0.4 * 2 / 3) = 0.78; red 2 * 0.693147 * 1.9 / 1.78.
    """
    query, most = by_hand.query("red meat tofu red"), 1.9 * (2 * 0.693147 + 1.203973 + 2.302585)
    expected = [(1.386294 * 1.9 / 2.14 + 1.203973 * 3.8 / 3.14) / most, 1.386294 * 1.9 / 1.78 / most]
    shares = [lexical_features(["bm25_share_text"], query, small.candidates(by_hand, [row]))[0, 0] for row in (0, 2)]
    assert shares == pytest.approx(expected, abs=2e-6)
    candidates = small.candidates(by_hand, [2, 1, 0])
    assert lexical_features(["bm25_share_text"], query, candidates)[::-2, 0].tolist() == shares
    assert not lexical_features(["bm25_share_text"], by_hand.query(""), candidates).any()


def test_names_are_checked():
    with pytest.raises(InputError, match="'nonsense'; known: overlap_title") as raised:
        check_names(["bm25_title", "nonsense"])
    assert all(name in str(raised.value) for name in NAMES)  # the known names are listed
    with pytest.raises(InputError, match="twice"):
        check_names(["bm25_title", "jaccard_text", "bm25_title"])
    assert check_names(list(NAMES)) == NAMES


def test_every_feature_is_told_in_words():
    descriptions = {in_words(name) for name in NAMES}
    assert len(descriptions) == len(NAMES) and descriptions.isdisjoint(NAMES)
    assert "BM25 in the title" in descriptions and in_words("other") == "other"
