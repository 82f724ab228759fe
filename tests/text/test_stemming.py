"""Krovetz's stemmer in Lucene, the tokenizer that has it, and its saved setting."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.corpora import documents
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.rerankers import load as load_reranker
from rerank_plugin.rerankers.wmd import WordMoversDistance
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.text import stemming, word_vectors
from rerank_plugin.text.stop_words import STOP_WORDS
from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, SETTINGS, Tokenizer, tokenize, tokenizer, tokenizer_with
from rerank_plugin.text.vocabulary import Vocabulary
from rerank_plugin.text.word_vectors import WordVectors
from tests import small
from tests.processes import inside, run
from tests.sealing import unsealed

STEMMED = {**SETTINGS, "stemmer": "krovetz"}
# By Krovetz's own program, in C++.
STEMS = {
    "therapies": "therapy", "diseases": "disease", "studies": "study", "infections": "infection", "treated": "treat",
    "aspirins": "aspirin", "women": "women", "running": "running", "organization": "organization", "aids": "aids",
    "news": "news", "mg": "mg", "a": "a",
}  # fmt: skip


# ----------------------------------------------------------------------------------------------------- the stemmer


def test_stems_are_krovetz_s():
    assert {word: stemming.krovetz(word) for word in STEMS} == STEMS


@pytest.mark.parametrize("word", [*NUMERIC_CLASSES, "il2", "p53", "naïves", "études", "", "ß"])
def test_other_words_than_plain_ones_stay(word):
    assert stemming.krovetz(word) == word


def test_stop_words_are_their_own_stems():
    """So that the list fits an index of stems."""
    assert {stemming.krovetz(word) for word in STOP_WORDS} == STOP_WORDS


def test_threads_get_the_stems_of_their_words():
    titles = (document.title for document in islice(documents("sample"), 200))
    words = sorted({word for title in titles for word in tokenize(title)})
    alone = list(map(stemming.krovetz, words))
    assert sum(stem != word for stem, word in zip(alone, words)) > 20
    with ThreadPoolExecutor(3) as executor:
        assert list(executor.map(stemming.krovetz, words)) == alone


# --------------------------------------------------------------------------------------------------- the tokenizer


def test_a_tokenizer_with_a_stemmer():
    found = tokenizer("krovetz").tokenize("Therapies for 3% of TNF-α studies, 1999; IL-2s and diseases'")
    assert found == "therapy for <percentage> of tnfalpha study <19xx> il2s and disease".split()
    assert tokenizer("krovetz").sentences("Two studies. Diseases, treated.") == [["two", "study"], ["disease", "treat"]]


@given(text=st.text() | st.lists(st.sampled_from(sorted(STEMS)), max_size=6).map(" ".join))
def test_tokens_are_the_stems_of_the_plain_tokens(text):
    assert tokenizer("krovetz").tokenize(text) == [stemming.krovetz(token) for token in tokenize(text)]


def test_a_word_is_stemmed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(stemming, "krovetz", lambda word: calls.append(word) or word[:3])
    stemming_tokenizer = Tokenizer("krovetz")
    for _ in range(3):
        assert stemming_tokenizer.tokenize("Therapies, therapies (therapies) 5 studies") == [
            "the",
            "the",
            "the",
            "<in",
            "stu",
        ]
    assert calls == ["therapies", "<integer>", "studies"]


def test_settings_of_a_tokenizer_without_a_stemmer_are_those_of_all_older_files():
    assert tokenizer(None).settings == {"name": "d18", "version": 2} and tokenizer("krovetz").settings == STEMMED
    assert tokenizer_with(dict(SETTINGS), "x was") is tokenizer(None)
    assert tokenizer_with(STEMMED, "x was") is tokenizer("krovetz")


@pytest.mark.parametrize("unknown", [None, {}, {**SETTINGS, "stemmer": "porter"}, {**STEMMED, "version": 1}, "d18"])
def test_settings_that_no_tokenizer_has(unknown):
    with pytest.raises(InputError, match="x was tokenized with") as raised:
        tokenizer_with(unknown, "x was")
    assert str(unknown) in str(raised.value) and "krovetz" in str(raised.value)


# ------------------------------------------------------------------------- indexes, word vectors, models of one kind


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("stems") / "corpus.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for document in islice(documents("sample"), 60):
            file.write(json.dumps({"_id": document.id, "title": document.title, "text": document.abstract}) + "\n")
    return path


@pytest.fixture(scope="module")
def stemmed(corpus):
    inside(corpus.parent, "index --corpus corpus.jsonl --threads 1 --index stemmed --stem krovetz")
    return Index(corpus.parent / "stemmed")


@pytest.fixture(scope="module")
def plain(corpus):
    inside(corpus.parent, "index --corpus corpus.jsonl --threads 1 --index plain")
    return Index(corpus.parent / "plain")


@pytest.fixture(scope="module")
def words(corpus):
    """A folder of word vectors of stems."""
    sizes = "--dimension 8 --min-count 5 --epochs 1"
    inside(corpus.parent, f"embed words --corpus corpus.jsonl {sizes} --stem krovetz --output words")
    return corpus.parent / "words"


def test_java_starts_with_the_first_word_that_is_stemmed(stemmed):
    code = f"""
import sys
from rerank_plugin.indexes.index_folder import Index
from tests.sealing import unsealed
index = Index({str(stemmed.folder)!r}).forward
assert "jnius" not in sys.modules
print(index.query("Therapies").terms, "jnius" in sys.modules)
"""
    assert run("-c", code) == "['therapy'] True\n"


def test_the_forward_index_holds_stems_and_lucene_is_as_it_was(stemmed, plain):
    assert stemmed.description["tokenizer"] == STEMMED and plain.description["tokenizer"] == SETTINGS
    assert stemmed.description["fields"]["text"]["tokens"] == plain.description["fields"]["text"]["tokens"]
    stems, words = stemmed.forward, plain.forward
    for row in (0, 7, 59):
        of_row = words.terms.take(words.document_tokens(row).tolist())
        found = stems.terms.take(stems.document_tokens(row).tolist())
        assert found == list(map(stemming.krovetz, of_row)) != of_row
    assert stems.titles.take([3]) == words.titles.take([3])  # as written
    query = Query("q", "therapies of diseases in 1999")
    assert stems.query(query.text).terms == "therapy of disease in <19xx>".split()
    assert words.query(query.text).terms == "therapies of diseases in <19xx>".split()
    of_stems, of_words = (index.first_stage(LuceneConfig()).search(query, 50) for index in (stemmed, plain))
    assert of_stems.rows.tolist() == of_words.rows.tolist()
    assert of_stems.first_stage_scores.tolist() == of_words.first_stage_scores.tolist()


def test_word_vectors_of_stems(stemmed, words, tmp_path):
    vectors = word_vectors.load(words)
    assert json.loads((words / "words.json").read_text())["tokenizer"] == vectors.vocabulary.tokenizer == STEMMED
    assert "study" in vectors.vocabulary and "studies" not in vectors.vocabulary
    assert (stemmed.forward.terms.find(vectors.vocabulary.words[1:]) >= 0).all()
    inside(tmp_path, f"embed compact --words {words} --output small")
    assert word_vectors.load(tmp_path / "small").vocabulary.tokenizer == STEMMED


def test_imported_vectors_of_stems(tmp_path):
    (tmp_path / "v.txt").write_text("3 1\nstudies 1\nstudy 2\nIL-2 3\n")
    vectors = word_vectors.import_word2vec(tmp_path / "v.txt", False, 1, tokenizer("krovetz"))
    assert vectors.vocabulary.words[1:] == ["study", "il2"] and vectors.matrix[1:].tolist() == [[1], [3]]
    assert vectors.vocabulary.tokenizer == STEMMED


def checkpoint(folder, settings):
    """A checkpoint over a few words of the tokenizer with these settings, and its vectors."""
    matrix = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    vectors = WordVectors(Vocabulary(["therapy", "disease", "study", "risk"], settings), matrix)
    save_checkpoint(folder, small.delta(vectors, lexical_features=()), vectors, {})
    return vectors


def test_a_checkpoint_keeps_the_setting_and_goes_with_such_an_index_alone(stemmed, plain, tmp_path):
    model, older = tmp_path / "model", tmp_path / "older"
    vectors = checkpoint(model, STEMMED)
    checkpoint(older, SETTINGS)
    assert json.loads((model / "config.json").read_text())["tokenizer"] == STEMMED
    assert Checkpoint.open(model).vocabulary.tokenizer == STEMMED
    reranker, rows = load_reranker(f"delta:{model}", stemmed.forward), small.candidates(stemmed.forward, range(50))
    found, same = (reranker.score(Query("q", text), rows) for text in ("studies", "study"))
    assert found.tolist() == same.tolist() and np.ptp(found) > 0
    with pytest.raises(InputError, match="same stemmer") as raised:
        load_reranker(f"delta:{model}", plain.forward)
    assert str(model) in str(raised.value) and str(plain.folder) in str(raised.value)
    for fails in (
        lambda: load_reranker(f"delta:{older}", stemmed.forward),
        lambda: InputBuilder(plain.forward, vectors.vocabulary, 5, 5, ()),
        lambda: WordMoversDistance(plain.forward, vectors),
    ):
        with pytest.raises(InputError, match="same stemmer"):
            fails()


def test_a_checkpoint_whose_parts_were_tokenized_differently(tmp_path):
    checkpoint(tmp_path / "model", STEMMED)
    config = json.loads((unsealed(tmp_path / "model") / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "tokenizer": SETTINGS}))
    with pytest.raises(InputError, match="files of different checkpoints"):
        Checkpoint.open(tmp_path / "model").module()


def test_word_mover_s_distance_reads_stems(stemmed, words):
    reranker = WordMoversDistance(stemmed.forward, word_vectors.load(words), stop_words=STOP_WORDS)
    rows = small.candidates(stemmed.forward, range(40))
    found, same, other = (reranker.score(Query("q", text), rows) for text in ("the studies", "study", "the risk"))
    assert found.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    "line, message",
    [
        ("index --verify --index x --stem krovetz", "give it with --corpus"),
        ("index --corpus sample --index x --stem porter", "invalid choice: 'porter'"),
        ("embed words --corpus sample --output x --stem porter", "invalid choice: 'porter'"),
        ("embed words --corpus sample --output x --method glove", "invalid choice: 'glove'"),
    ],
)
def test_bad_usage(line, message, refused):
    assert message in refused(line)
