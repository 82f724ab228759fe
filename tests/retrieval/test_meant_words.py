"""Words that no document has, and what they are read as; near words against an edit distance in plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerank_plugin as rp
from rerank_plugin.corpora import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.ranking.notes import notes_of
from rerank_plugin.retrieval.meant_words import MeantWords
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text.near_words import NearWords
from rerank_plugin.text.vocabulary import Vocabulary

TEXTS = ["the asthma of smokers", "asthma and anaemia", "stable angina", "unstable angina", "cardiac output"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    documents = [rp.Document(f"d{number}", text, "") for number, text in enumerate(TEXTS)]
    return rp.build_index(documents, tmp_path_factory.mktemp("meant") / "index")


def one_letter_apart(word, other):
    """Whether inserting, deleting or changing a letter after the first, or exchanging two, makes one of the other."""
    forms = set()
    for at in range(1, len(word) + 1):
        before, after = word[:at], word[at:]
        forms |= {before + letter + after for letter in "ab"} | {before + letter + after[1:] for letter in "ab"}
        forms |= {before + after[1:]} | ({before + after[1] + after[0] + after[2:]} if len(after) > 1 else set())
    return other in forms and other != word and other[0] == word[0]


words = st.text("ab", min_size=5, max_size=8)


@given(st.sets(words), words.filter(lambda word: len(word) > 5))
def test_near_words_are_one_letter_apart(others, word):
    assert sorted(NearWords(others).find(word)) == sorted(one for one in others if one_letter_apart(word, one))


@pytest.mark.parametrize(
    "text, meant",
    [
        ("Assthma, assthma", "asthma, asthma"),
        ("anemia", "anaemia"),  # by rule, though the model knows it
        ("astham", "asthma"),
        ("cardisc", "cardisc"),  # the model knows this one
        ("angin", "angin"),  # too short
        ("stable asthma", "stable asthma"),
        ("", ""),
    ],
)
def test_an_absent_word_is_read_as_a_plain_one(index, text, meant):
    vocabulary = Vocabulary(["asthma", "anemia", "anaemia", "stable", "unstable", "angina", "cardiac", "cardisc"])
    assert MeantWords(index.forward, vocabulary).read(Query("q", text)).text == meant


def test_what_nobody_knows_is_left_out_for_the_encoder_alone(index):
    meant = MeantWords(index.forward, Vocabulary(["asthma", "anemia"]))
    texts = ["Xyzzy: asthma of plugh", "anemia", "stable xyzzys", "xyzzy plugh", ""]
    read = [meant.known(Query("q", text)).text.split() for text in texts]
    assert read == [[":", "asthma", "of"], ["anemia"], ["stable"], ["xyzzy", "plugh"], []]


def test_two_words_that_are_as_common_are_not_plain(tmp_path):
    documents = [rp.Document(f"d{n}", text, "") for n, text in enumerate(["aphasia", "aplasia", "aplasia"])]
    forward = rp.build_index(documents[:2], tmp_path / "two").forward
    vocabulary = Vocabulary(["aphasia", "aplasia"])
    assert MeantWords(forward, vocabulary).of("apaasia") == {}
    assert MeantWords(rp.build_index(documents, tmp_path / "three").forward, vocabulary).of("apaasia") == {
        "apaasia": "aplasia"
    }


def test_the_hybrid_and_its_reranker_read_the_word_and_say_so(index):
    IndexEncoder(index.forward, "ktrel").encode()
    stage, query = configure("hybrid").open(index), Query("q", "assthma")
    assert notes_of(query, stage, None)[-1] == "no document has 'assthma': it is read as 'asthma'"
    found, right = (rp.rank_many(index, {"q": text}, "delta", "hybrid")["q"] for text in ("assthma", "asthma"))
    assert found.doc_ids == right.doc_ids and found.scores.tolist() == right.scores.tolist()
    as_written = configure("hybrid", {"hybrid_as_written": True}).open(index)
    assert as_written.search(query, 5).read_as is None and not as_written.meant_words(query)
