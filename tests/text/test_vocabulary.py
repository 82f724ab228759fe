"""The vocabulary: counts, ids, the file, and the errors of invalid files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import InputBuilder
from rerank_plugin.text.vocabulary import HASHED, UNKNOWN, Vocabulary
from tests import small


def test_ids_and_words():
    vocabulary = Vocabulary(["b", "a"])
    assert len(vocabulary) == 3
    assert vocabulary.lookup(["a", "x", "b", "a", UNKNOWN]) == [2, 0, 1, 2, 0]
    assert "a" in vocabulary and "x" not in vocabulary
    assert UNKNOWN not in vocabulary  # it stands for the words that are not there
    assert vocabulary.lookup([]) == []


def test_other_words_have_the_entries_of_their_hashes(tmp_path):
    vocabulary = Vocabulary(["b", "a", *(f"{HASHED}{number}" for number in range(64))])
    assert vocabulary.hashed == 64
    ids = vocabulary.lookup(["a", "quokka", "b", "zyzzyva", "quokka"])
    assert ids[0] == 2 and ids[2] == 1 and ids[1] == ids[4] != ids[3]
    assert all(3 <= id < 67 for id in (ids[1], ids[3]))
    many = vocabulary.lookup([f"word{number}" for number in range(1000)])
    assert len(set(many)) == 64  # they are spread over all entries
    index = small.build_index(tmp_path / "index")
    terms = index.terms.take(range(index.vocabulary_size))
    builder = InputBuilder(index, vocabulary, 10, 10, ())
    assert builder.model_ids.tolist() == vocabulary.lookup(terms)  # documents and queries agree


@pytest.mark.parametrize("words", [["a", "b", "a"], ["a", UNKNOWN]])
def test_no_word_twice(words):
    with pytest.raises(InputError, match="twice") as raised:
        Vocabulary(words)
    assert f"'{words[-1]}'" in str(raised.value)


words = st.lists(st.text(st.characters(categories=["Ll", "Lo", "Nd"]), min_size=1, max_size=5), unique=True)


@given(words)
def test_saved_and_loaded_it_is_the_same(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    saved = Vocabulary(words)
    saved.save(path)
    loaded = Vocabulary.load(path)
    assert loaded.words == saved.words and loaded.ids == saved.ids
    assert path.read_bytes().decode("utf-8").split("\n") == [UNKNOWN, *words, ""]
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert Vocabulary.load(path).words == saved.words  # the last line needs no end


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "{path}:1: a vocabulary starts with '<unk>'"),
        (b"a\nb\n", "{path}:1: a vocabulary starts with '<unk>'"),
        (b"<unk>\na\n\nb\n", "{path}:3: expected one word, found ''"),
        (b"<unk>\na b\n", "{path}:2: expected one word, found 'a b'"),
        ("<unk>\na\na\u2028b\n".encode(), "{path}:3: expected one word"),
        (b"<unk>\na\t7\n", "{path}:2: expected one word"),
        (b"<unk>\na\nb\na\n", "{path}: the vocabulary holds 'a' twice"),
        (b"<unk>\n\xff\n", "cannot read {path}"),
        (None, "cannot read {path}"),
    ],
)
def test_an_invalid_vocabulary_is_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        Vocabulary.load(path)
    assert str(raised.value).startswith(message.format(path=path))
