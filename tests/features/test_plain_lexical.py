"""The 18 features of [D18] 4.2.2 against a second, plain implementation, written from the paper's list.

Here each feature is a function of its own, numbered as in the paper, over plain lists of words; the collections hold
what goes wrong: empty fields, words that no document holds, repeated words, candidates in any order and twice.
"""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.features.lexical_features import LEX3, NAMES, PAPER_NAMES, check_names, lexical_features
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex, ForwardIndexWriter
from rerank_plugin.text.tokenizer import tokenize


class Collection:
    """Documents as (title, abstract) lists of words."""

    def __init__(self, documents):
        self.titles = [list(title) for title, _ in documents]
        self.abstracts = [list(abstract) for _, abstract in documents]
        self.texts = [title + abstract for title, abstract in zip(self.titles, self.abstracts)]

    def idf(self, word, field):
        holding = sum(1 for words in field if word in words)
        return math.log(1 + (len(field) - holding + 0.5) / (holding + 0.5))

    def mass(self, words):
        return sum(self.idf(word, self.texts) for word in words)


def ratio(above, below):
    return above / below if below else 0.0


def proportion(query, words):
    return ratio(sum(1 for word in set(query) if word in words), len(set(query)))


def bigrams(words):
    return {(words[place - 1], words[place]) for place in range(1, len(words))}


def bigram_proportion(query, words):
    return ratio(len(bigrams(query) & bigrams(words)), len(bigrams(query)))


def jaccard(query, words):
    return ratio(len(set(query) & set(words)), len(set(query) | set(words)))


def weighted_proportion(query, words, collection):
    return ratio(collection.mass(set(query) & set(words)), collection.mass(set(query)))


def weighted_jaccard(query, words, collection):
    return ratio(collection.mass(set(query) & set(words)), collection.mass(set(query) | set(words)))


def bm25(query, words, field, collection):
    """Okapi BM25 with k1 = 2.0, b = 0.75 ([D18] 4.3.1): a word counts once for each time the query says it."""
    mean = sum(map(len, field)) / len(field)
    score, counts = 0.0, Counter(words)
    for word in query:
        if counts[word]:
            saturation = counts[word] + 2.0 * (1 - 0.75 + 0.75 * len(words) / mean)
            score += collection.idf(word, field) * counts[word] * (2.0 + 1) / saturation
    return score


# The paper's numbers, and what each is called here.
NUMBERED = {
    1: "overlap_text", 2: "bigram_overlap_text", 3: "jaccard_text", 4: "idf_overlap_text", 5: "idf_jaccard_text",
    6: "bm25_title", 7: "bm25_abstract", 8: "bm25_text",
    9: "overlap_title", 10: "bigram_overlap_title", 11: "jaccard_title", 12: "idf_overlap_title",
    13: "idf_jaccard_title",
    14: "overlap_abstract", 15: "bigram_overlap_abstract", 16: "jaccard_abstract", 17: "idf_overlap_abstract",
    18: "idf_jaccard_abstract",
}  # fmt: skip


def the_paper_s_list(query, row, collection):
    """{number: value} for one document."""
    title, abstract, text = collection.titles[row], collection.abstracts[row], collection.texts[row]
    return {
        1: proportion(query, text),
        2: bigram_proportion(query, text),
        3: jaccard(query, text),
        4: weighted_proportion(query, text, collection),
        5: weighted_jaccard(query, text, collection),
        6: bm25(query, title, collection.titles, collection),
        7: bm25(query, abstract, collection.abstracts, collection),
        8: bm25(query, text, collection.texts, collection),
        9: proportion(query, title),
        10: bigram_proportion(query, title),
        11: jaccard(query, title),
        12: weighted_proportion(query, title, collection),
        13: weighted_jaccard(query, title, collection),
        14: proportion(query, abstract),
        15: bigram_proportion(query, abstract),
        16: jaccard(query, abstract),
        17: weighted_proportion(query, abstract, collection),
        18: weighted_jaccard(query, abstract, collection),
    }


def forward_index(folder, documents):
    ids = [str(number) for number in range(len(documents))]
    writer = ForwardIndexWriter(folder)
    writer.extend(ids, *([" ".join(words) for words in column] for column in zip(*documents)), hash_strings(ids))
    writer.close_streams()
    statistics = writer.finish(np.arange(len(ids)))
    return ForwardIndex(folder, {field: numbers.mean_length for field, numbers in statistics.items()})


def candidates(index, rows):
    return Candidates(index, np.array(rows, np.int64), np.zeros(len(rows), np.float32))


def check(index, query, rows, collection):
    names = [NUMBERED[number] for number in range(1, 19)]
    found = lexical_features(names, index.query(" ".join(query)), candidates(index, rows))
    expected = [list(the_paper_s_list(query, row, collection).values()) for row in rows]
    assert found.shape == (len(rows), 18) and found.dtype == np.float32
    np.testing.assert_allclose(found, np.array(expected).reshape(len(rows), 18), rtol=2e-5, atol=1e-6)


def test_the_names_are_the_paper_s_18_and_the_best_three():
    assert sorted(PAPER_NAMES) == sorted(NUMBERED.values()) and len(PAPER_NAMES) == 18
    # "BM25 on the Document Abstract, IDF weighted Jaccard ... Title, and IDF-weighted proportion ... Title"
    assert set(LEX3) == {NUMBERED[7], NUMBERED[13], NUMBERED[12]}


words = st.sampled_from("heart attack risk of aspirin p53 the".split())
fields = st.lists(words, max_size=10)


@settings(max_examples=80)
@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=7), st.data())
def test_any_query_over_any_candidates(tmp_path_factory, documents, data):
    index = forward_index(tmp_path_factory.mktemp("plain") / "forward", documents)
    collection = Collection(documents)
    for _ in range(3):  # queries one after the other: nothing of one may reach the next
        query = data.draw(st.lists(words | st.sampled_from(["unknown", "unheard"]), max_size=7))
        rows = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=8))
        check(index, query, rows, collection)


def test_the_shared_documents(index, documents):
    """Real tokens: numeric classes, Greek letters, empty fields. A query and a document are tokenized alike."""
    collection = Collection([(tokenize(document.title), tokenize(document.abstract)) for document in documents])
    for text in (
        "TNF-α blockade in Crohn's disease, 1999",
        "aspirin aspirin risk of stroke 5%",
        "β-catenin",
        "word that nobody wrote: xylitol",
        "糖尿病 2003 0.5",
        "",
    ):
        query = tokenize(text)
        found = lexical_features(
            [NUMBERED[n] for n in range(1, 19)], index.forward.query(text), candidates(index.forward, range(40))
        )
        expected = [list(the_paper_s_list(query, row, collection).values()) for row in range(40)]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


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
    return forward_index(tmp_path_factory.mktemp("hand") / "forward", HAND)


@pytest.mark.parametrize("name, first, third", BY_HAND)
def test_by_hand(by_hand, name, first, third):
    found = lexical_features([name], by_hand.query("red meat tofu red"), candidates(by_hand, [0, 2]))
    assert found[:, 0].tolist() == pytest.approx([first, third], abs=2e-6)


def test_the_plain_implementation_agrees_with_the_hand(by_hand):
    numbers = {name: number for number, name in NUMBERED.items()}
    for name, first, third in BY_HAND:
        for row, value in ((0, first), (2, third)):
            found = the_paper_s_list("red meat tofu red".split(), row, Collection(HAND))[numbers[name]]
            assert found == pytest.approx(value, abs=2e-6)


def test_a_column_is_the_same_in_whatever_company(by_hand):
    query, some = by_hand.query("red wine cancer"), candidates(by_hand, [3, 0, 2, 1])
    all_of_them = lexical_features(PAPER_NAMES, query, some)
    for place, name in enumerate(PAPER_NAMES):
        np.testing.assert_array_equal(lexical_features([name], query, some)[:, 0], all_of_them[:, place])
    shuffled = lexical_features(PAPER_NAMES[::-1], query, some)
    np.testing.assert_array_equal(shuffled, all_of_them[:, ::-1])


def test_no_features_and_no_candidates(by_hand):
    query = by_hand.query("red")
    assert lexical_features([], query, candidates(by_hand, [0, 1])).shape == (2, 0)
    assert lexical_features(NAMES, query, candidates(by_hand, [])).shape == (0, len(NAMES))


@pytest.mark.parametrize("distinct", [254, 255, 256, 257, 600])
def test_as_many_query_words_as_a_byte_counts_and_more(tmp_path, distinct):
    """A query may be a pasted abstract: more distinct words than a mark of one byte can number."""
    words = [f"word{number}x" for number in range(distinct)]
    documents = [(words[: distinct // 2], words[distinct // 3 :]), ([], words[::-1]), (["other"], [words[-1]])]
    index = forward_index(tmp_path / "forward", documents)
    check(index, [*words, "unknown", words[-1], words[0]], [0, 1, 2], Collection(documents))


def test_names_are_checked():
    with pytest.raises(InputError, match="nonsense") as raised:
        check_names(["bm25_title", "nonsense"])
    assert all(name in str(raised.value) for name in PAPER_NAMES)  # the known names are listed
    with pytest.raises(InputError, match="bm25_title.*twice|twice.*bm25_title"):
        check_names(["bm25_title", "jaccard_text", "bm25_title"])
    assert check_names(PAPER_NAMES) == PAPER_NAMES
