"""Word vectors: training with gensim itself, import of gensim's own files, and the folder that holds them."""

import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from gensim.models import KeyedVectors
from safetensors.numpy import load_file, save_file

from rerank_plugin.base.errors import InputError
from rerank_plugin.text import word_vectors
from rerank_plugin.text.tokenizer import SETTINGS
from rerank_plugin.text.vocabulary import HASHED, UNKNOWN, Vocabulary
from rerank_plugin.text.word_vectors import Word2VecConfig, WordVectors, compact, extend, load, save, train
from tests.sealing import unsealed

TEXTS = [
    "Aspirin lowers the risk of stroke. Aspirin 81 mg was given to 40% of the women.",
    "The risk of stroke rises with age. TNF-α and IL-2 rise, too.",
    "Warfarin lowers the risk of stroke. Bleeding is the risk of warfarin.",
] * 5
SMALL = Word2VecConfig(dimension=12, minimum_count=5, window=3, epochs=2, workers=1)


def test_the_defaults_are_the_paper_s():
    """[D18] 3.1: 300 dimensions, words rarer than 101 occurrences become UNK, a window of 5."""
    assert Word2VecConfig() == Word2VecConfig(dimension=300, minimum_count=101, window=5)


def test_training_gives_a_vector_for_each_frequent_word_and_unk_first():
    vectors = train(TEXTS, SMALL, seed=1)
    words = vectors.vocabulary.words
    assert words[0] == UNKNOWN
    assert set(words[1:3]) == {"the", "of"} and words[3] == "risk"  # 25 times each and 20 times: by frequency
    assert {"tnfalpha", "il2", "<integer>", "<percentage>", "aspirin", "women"} <= set(words)  # five times or more
    assert vectors.matrix.shape == (len(words), 12) and vectors.matrix.dtype == np.float32
    assert np.isfinite(vectors.matrix).all()
    assert len(np.unique(vectors.matrix, axis=0)) == len(words)
    few = train(TEXTS, replace(SMALL, minimum_count=10), seed=1).vocabulary
    assert "aspirin" in few and "women" not in few  # 10 times and 5 times


@pytest.mark.parametrize("texts, count", [(TEXTS, 1000), (["", "!?"], 1)])
def test_no_word_that_is_frequent_enough(texts, count):
    with pytest.raises(InputError, match=f"no word occurs {count} times; lower the minimum count"):
        train(texts, replace(SMALL, minimum_count=count), seed=1)


def test_words_are_neighbours_within_a_sentence_only():
    """Two texts that differ only in a full stop give different vectors: word2vec reads sentences ([D18] 4.1)."""
    apart, together = (train([text] * 2000, SMALL, seed=1) for text in ("Red meat. Old age.", "Red meat old age."))
    assert set(apart.vocabulary.words) == set(together.vocabulary.words)
    row = apart.vocabulary.ids["meat"]
    assert not np.allclose(apart.matrix[row], together.matrix[together.vocabulary.ids["meat"]])


def test_unk_is_uniform_between_minus_and_plus_a_quarter():
    many = word_vectors.unknown_vector(20_000, seed=3)
    assert many.dtype == np.float32
    assert -0.25 <= many.min() < -0.249 and 0.249 < many.max() <= 0.25
    assert abs(many.mean()) < 0.005  # four standard errors of 0.5 / sqrt(12 * 20000) = 0.001
    np.testing.assert_array_equal(many, word_vectors.unknown_vector(20_000, seed=3))
    assert not np.array_equal(many, word_vectors.unknown_vector(20_000, seed=4))
    np.testing.assert_array_equal(train(TEXTS, SMALL, seed=3).matrix[0], word_vectors.unknown_vector(12, seed=3))


WORDS = ["the", "aspirin", "TNF-α", "Aspirin", "New_York", "naïve"]
MATRIX = np.arange(18, dtype=np.float32).reshape(6, 3) / 8  # exact in text, too


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    "words, kept",
    [
        # 'Aspirin' is 'aspirin' again (the first stands), 'New_York' is two tokens and left out
        (WORDS, {"the": 0, "aspirin": 1, "tnfalpha": 2, "naive": 5}),
        # the original program writes the sentence end </s> as the first word: it is not the vector of 's'
        (["</s>", "aspirin", "s"], {"aspirin": 1, "s": 2}),
        # what gensim was trained on with our tokens, the numeric classes among them, keeps its vectors
        (["<integer>", "aspirin", "integer"], {"<integer>": 0, "aspirin": 1, "integer": 2}),
    ],
)  # fmt: skip
def test_word2vec_files_are_read(tmp_path, words, kept, binary):
    path, made = tmp_path / "vectors", KeyedVectors(vector_size=3)
    made.add_vectors(words, MATRIX[: len(words)])
    made.save_word2vec_format(str(path), binary=binary)
    vectors = word_vectors.import_word2vec(path, binary, seed=5)
    assert vectors.vocabulary.words == [UNKNOWN, *kept]
    np.testing.assert_array_equal(vectors.matrix[1:], MATRIX[list(kept.values())])
    np.testing.assert_array_equal(vectors.matrix[0], word_vectors.unknown_vector(3, seed=5))
    assert vectors.matrix.dtype == np.float32


@pytest.mark.parametrize(
    "text, words",
    [
        ("cat 0.5 1 2\nheart 3 4 5\n", {"cat": 0, "heart": 1}),  # GloVe
        # phrases are several tokens; what looks like a number may be a word; a line may end in a space
        ("new york 1 2 3\n2010 2 3 4 \narea 51 5 6 7\n. . . 1 1 1\np53\t4 5 6\n", {"<20xx>": 1, "p53": 4}),
        (" 1 2 3\nheart 4 5 6\n", {"heart": 1}),  # an empty word
        ("<unk> 1 1 1\n\u00a0 1 2 3\nthe 1 0 0\n", {"the": 2}),
        ("4 3\nnew york 1 2 3\nheart 3 1 2\nattack 5 5 5\n x 1 1 1\n", {"heart": 1, "attack": 2, "x": 3}),  # word2vec
    ],
)
def test_glove_files_and_phrases_are_read(tmp_path, text, words):
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    rows = [line.rstrip().replace("\t", " ").split(" ")[-3:] for line in text.splitlines() if line != "4 3"]
    vectors = word_vectors.import_word2vec(path, False, seed=1)
    assert vectors.vocabulary.words == [UNKNOWN, *words]
    np.testing.assert_array_equal(vectors.matrix[1:], np.array([rows[row] for row in words.values()], np.float32))


@pytest.mark.parametrize(
    "content, binary, message",
    [
        (b"", False, "cannot be read as word2vec text"),
        (b"no header\n", False, "cannot be read as word2vec text"),
        (b"2 3\na 1 2 3\n", False, "cannot be read as word2vec text"),
        (b"1 3\na 1 2\n", False, "cannot be read as word2vec text"),
        (b"1 3\na 1 2 x\n", False, "cannot be read as word2vec text"),
        (b"1 3\na 1 2 3\nb 1 2 3\n", False, "GloVe's: it holds 2 vectors, its header says 1"),
        (b"a 1 2 3\nb 1 2\n", False, "GloVe's: line 2: expected a word and as many numbers as in the other lines"),
        (b"a 1 2 3\nb\n", False, "cannot be read as word2vec text, nor as GloVe's: line 2: expected a word and"),
        (b"a 1 2\nb 1 2\nc 1 2\n", False, "it holds more than 2 vectors"),
        (None, True, r"cannot be read \(No such file"),
        (b"1 3\na " + MATRIX[1].tobytes()[:-7], True, "cannot be read as word2vec binary"),
        (b"2 2\nNew_York 1 2\n!! 1 2\n", False, "holds no word that is one token"),
        (b"2 2\nrest 1 2\naspirin 1 nan\n", False, "not finite"),
    ],
)
def test_an_invalid_word2vec_file_is_refused_by_name(tmp_path, monkeypatch, content, binary, message):
    monkeypatch.setattr(word_vectors, "MOST_IMPORTED", 2)
    path = tmp_path / "vectors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        word_vectors.import_word2vec(path, binary, seed=1)
    assert str(path) in str(raised.value)


@pytest.fixture
def saved(tmp_path):
    vectors = WordVectors(Vocabulary(["b", "a", "tnfalpha"]), np.arange(8, dtype=np.float32).reshape(4, 2))
    save(vectors, tmp_path / "deep" / "words", {"seed": 42})
    return vectors, tmp_path / "deep" / "words"


def test_saved_and_loaded_they_are_the_same(saved):
    vectors, folder = saved
    loaded = load(folder)
    assert loaded.vocabulary.words == vectors.vocabulary.words
    np.testing.assert_array_equal(loaded.matrix, vectors.matrix)
    assert loaded.matrix.dtype == np.float32 == load_file(folder / "embeddings.safetensors")["embeddings"].dtype
    assert sorted(path.name for path in folder.iterdir()) == ["embeddings.safetensors", "vocab.txt", "words.json"]
    described = json.loads((folder / "words.json").read_text())
    assert described["tokenizer"] == SETTINGS
    assert (described["words"], described["dimension"], described["seed"]) == (4, 2, 42)
    assert [path.name for path in folder.parent.iterdir()] == ["words"]  # nothing temporary stays


def test_a_save_that_is_interrupted_or_refused_keeps_what_was_there(saved):
    vectors, folder = saved
    with pytest.raises(TypeError):
        save(vectors, folder, {"settings that JSON cannot hold": object()}, overwrite=True)
    with pytest.raises(InputError, match="exists already"):
        save(vectors, folder, {})
    assert load(folder).vocabulary.words == vectors.vocabulary.words
    assert [path.name for path in folder.parent.iterdir()] == ["words"]


def vectors_file(folder, **tensors):
    save_file(tensors, folder / "embeddings.safetensors")


def scaled(folder, scales, matrix=np.ones((4, 2), np.int8)):
    vectors_file(folder, embeddings=matrix, scales=np.array(scales, np.float32))


NAN = np.full((4, 2), np.nan, np.float32)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "vocab.txt").unlink(), "vocab.txt"),
        (lambda folder: (folder / "embeddings.safetensors").unlink(), "embeddings.safetensors"),
        (
            lambda folder: (folder / "words.json").write_text('{"tokenizer": {"name": "x"}, "words": 4}'),
            "tokenized with",
        ),
        (lambda folder: (folder / "vocab.txt").write_text("<unk>\na\n"), "has 2 lines but .* 4 vectors"),
        (lambda folder: vectors_file(folder, embeddings=np.zeros((3, 2), np.float32)), "has 4 lines but .* 3 vectors"),
        (lambda folder: vectors_file(folder, vectors=np.zeros((4, 2), np.float32)), "no matrix named 'embeddings'"),
        (lambda folder: vectors_file(folder, embeddings=np.zeros(4, np.float32)), "no matrix named 'embeddings'"),
        (lambda folder: vectors_file(folder, embeddings=NAN), "not finite"),
        (lambda folder: scaled(folder, [1, 1, 1]), r"scales.*\[3\]"),
        (lambda folder: scaled(folder, [1, 1, 1, np.inf]), "not finite"),
    ],
)
def test_what_does_not_fit_together_is_refused(saved, damage, message):
    _, folder = saved
    damage(unsealed(folder))
    with pytest.raises(InputError, match=message) as raised:
        load(folder)
    assert str(folder) in str(raised.value)


def test_compact_vectors_keep_their_values(tmp_path):
    """8 bits: within half a step of the vector's largest number; once compact, nothing changes any more."""
    random = np.random.default_rng(4)
    matrix = np.vstack([random.normal(size=(5, 8)), np.zeros((1, 8)), np.full((1, 8), 3e-30)]).astype(np.float32)
    vectors = WordVectors(Vocabulary(list("abcdef")), matrix)
    small = compact(vectors)
    steps = np.abs(matrix).max(axis=1, keepdims=True) / 127
    assert (np.abs(small.matrix - matrix) <= steps * 0.5001).all()
    save(small, tmp_path / "small", {})
    loaded = load(tmp_path / "small")
    assert loaded.matrix.tobytes() == small.matrix.tobytes() and loaded.vocabulary.words == small.vocabulary.words
    save(loaded, tmp_path / "again", {})
    files = [(tmp_path / name / "embeddings.safetensors").read_bytes() for name in ("small", "again")]
    assert files[0] == files[1]

    first = compact(vectors, 2)
    assert first.vocabulary.words == ["<unk>", "a", "b"] and (first.matrix == small.matrix[:3]).all()
    assert compact(vectors, 9).matrix.shape == (7, 8)


def test_extended_vectors():
    """What is there stays; new words get directions of their own and the average length, whatever the order."""
    vectors = WordVectors(Vocabulary(["a", "b"]), np.array([[9, 9], [3, 4], [0, 1]], np.float32))
    more = extend(vectors, ["d", "b", "c", "c"], seed=1)
    assert more.vocabulary.words == ["<unk>", "a", "b", "c", "d"]
    assert np.array_equal(more.matrix[:3], vectors.matrix) and more.matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(more.matrix[3:], axis=1), 3, rtol=1e-6)
    assert not np.allclose(more.matrix[3], more.matrix[4])
    assert np.array_equal(more.matrix, extend(vectors, ["c", "d"], seed=1).matrix)
    assert not np.array_equal(more.matrix, extend(vectors, ["c", "d"], seed=2).matrix)
    assert extend(vectors, ["a"], seed=1).matrix.shape == (3, 2)


def test_extended_vectors_keep_the_entries_for_hashes_last():
    """Where a word outside the vocabulary is looked up stays right."""
    entries = [f"{HASHED}{number}" for number in range(3)]
    vectors = WordVectors(Vocabulary(["a", *entries]), np.arange(10, dtype=np.float32).reshape(5, 2))
    more = extend(vectors, ["new"], seed=1)
    assert more.vocabulary.words == ["<unk>", "a", "new", *entries]
    before, after = vectors.vocabulary.lookup(["unseen"]), more.vocabulary.lookup(["unseen"])
    assert np.array_equal(more.matrix[after], vectors.matrix[before]) and after != before


def binary_rows(*words):
    return b"".join(word.encode() + b" " + MATRIX[1].tobytes() for word in words)


@pytest.mark.parametrize(
    ("content", "binary", "message"),
    [
        (
            b"600000000 2\n" + binary_rows("a", "b"),
            True,
            "its header says 600,000,000 words, but it holds 2 of 2 numbers",
        ),
        (
            b"1 600000000\n" + binary_rows("a", "b"),
            True,
            "its header says 1 words, but it holds 0 of 600,000,000 numbers",
        ),
        (b"3 %d\n" + binary_rows("a", "b"), True, "its header says 3 words, but it holds 2"),
        (b"1 %d\n" + binary_rows("a", "b"), True, "its header says 1 words, but it holds 1 of 3 numbers and more"),
        (b"2 %d\n" + b"x" * 20_000, True, "it holds something else after 0"),
        (b"600000000 2\na 1 2\n", False, "600000000"),
        (b"1 2\na 1 2\nb 1 2\n", False, "it holds 2 "),
    ],
)
def test_a_header_that_the_file_does_not_keep_is_refused(tmp_path, content, binary, message):
    path = tmp_path / "vectors"
    path.write_bytes(content.replace(b"%d", str(MATRIX.shape[1]).encode()))
    with pytest.raises(InputError, match=f"vectors cannot be read as word2vec.*{re.escape(message)}"):
        word_vectors.import_word2vec(path, binary, seed=1)


@pytest.mark.parametrize("binary", [True, False])
def test_of_a_repeated_word_the_first_vector_is_kept(tmp_path, binary):
    rows = [("a", MATRIX[1]), ("a", MATRIX[2]), ("b", MATRIX[2])]
    text = "".join(f"{word} {' '.join(map(repr, map(float, row)))}\n" for word, row in rows).encode()
    content = b"".join(word.encode() + b" " + row.tobytes() for word, row in rows) if binary else text
    (tmp_path / "v").write_bytes(f"3 {MATRIX.shape[1]}\n".encode() + content)
    vectors = word_vectors.import_word2vec(tmp_path / "v", binary, seed=1)
    assert list(vectors.vocabulary.words[1:]) == ["a", "b"]
    assert np.array_equal(vectors.matrix[1:], MATRIX[1:3])
