"""An index of texts in memory: its words, statistics and passages."""

import numpy as np
import pytest

from rerank_plugin.indexes import text_index
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.forward import FIELDS
from rerank_plugin.indexes.text_index import TextIndex
from rerank_plugin.text.tokenizer import tokenize
from tests import small


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("texts") / "forward")


@pytest.fixture
def texts(index):
    return TextIndex(CollectionStatistics.of_index(index))


def words(texts, row):
    """Title and rest of a row."""
    found = texts.terms.take(texts.document_tokens(row).astype(np.int64))
    return found[: texts.title_lengths[row]], found[texts.title_lengths[row] :]


def test_texts_have_the_words_and_numbers_of_the_same_documents(index, texts):
    """Held in another order, after others."""
    texts.hold(["Xylitol"], ["Nowhere else."])
    order = [3, 8, 0, 4, 2, 9, 1, 6, 5, 7]
    texts.hold(*([small.DOCUMENTS[row][field] for row in order] for field in (1, 2)))
    for position, row in enumerate(order):
        title, abstract = (tokenize(small.DOCUMENTS[row][field]) for field in (1, 2))
        assert words(texts, position) == (title, abstract)
        for field in FIELDS:
            assert texts.unique_terms[field][position] == index.unique_terms[field][row]
    stored = index.terms.find(texts.terms.strings)
    for field in FIELDS:
        known = np.where(stored >= 0, index.document_frequency[field][stored], 0)
        np.testing.assert_array_equal(texts.document_frequency[field], known)
    assert (texts.documents, texts.mean_lengths) == (len(index), index.mean_lengths) and len(texts) == 10


def test_a_query_word_counts_where_the_collection_or_a_text_has_it(texts):
    texts.hold(["", ""], ["A sirolimus stent.", "Stent."])
    query = texts.query("Sirolimus aspirin nowhere stent")
    assert query.terms == ["sirolimus", "aspirin", "nowhere", "stent"]
    assert (query.ids >= 0).tolist() == [True, True, False, True]
    texts.hold([""], ["Nowhere."])  # what other texts had is forgotten
    assert (texts.query("Sirolimus aspirin nowhere stent").ids >= 0).tolist() == [False, True, True, False]


def test_passages_begin_with_the_title(texts):
    texts.hold(
        ["one two", "", "one two three four five", "short", ""],
        ["a b c d e f g h", "a b c d e f g h", "a b c", "a b", ""],
        passage_words=5,
    )
    found = {text: [words(texts, row) for row in np.flatnonzero(texts.texts == text)] for text in range(5)}
    head = ["one", "two"]
    assert found[0] == [(head, ["a", "b", "c"]), (head, ["d", "e", "f"]), (head, ["g", "h"])]
    assert found[1] == [([], ["a", "b", "c", "d", "e"]), ([], ["f", "g", "h"])]
    assert found[2] == [(head, ["three", "four", "five"]), (head, ["a", "b", "c"])]
    assert found[3] == [(["short"], ["a", "b"])] and found[4] == [([], [])]


def test_too_many_words_are_forgotten(texts, monkeypatch):
    monkeypatch.setattr(text_index, "MOST_PIECES", 3)
    texts.hold([""], ["one two three four"])
    numbered = texts.terms
    texts.hold([""], ["three five"])
    assert texts.terms is not numbered and texts.terms.strings == ["three", "five"]
    assert words(texts, 0) == ([], ["three", "five"])


def test_a_lone_surrogate_is_read_as_in_an_index(texts):
    texts.hold(["a\ud800b"], ["c"])
    assert words(texts, 0) == (["a", "b"], ["c"])
