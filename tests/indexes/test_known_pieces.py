"""Compiled look-ups of pieces against the plain tokenizer."""

import sys
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.indexes.known_pieces import CLOSING, OPENING, KnownPieces
from rerank_plugin.text.tokenizer import PLAIN, split_sentences, tokenize

MARKS = (OPENING + CLOSING).decode()
PIECES = st.one_of(
    st.text(),
    st.text("aB3µβé½ \u00a0\u2003-'’.,;:()[]\"%$^⁻²/<>_", max_size=12),
    st.sampled_from(
        ["(10(12)),", "U.S.A.", "TNF-α", '("il-2")', "10^-6.", "$1,200", "1995).", "3.5;", "10(-6)", "[12]"]
    ),
)


def tokens_of(pieces, texts, threads=1):
    """Tokens of each text by the numbers of its pieces."""
    before = len(pieces)
    numbers, counts, new = pieces.read(texts, threads)
    pieces.tokens = getattr(pieces, "tokens", []) + [PLAIN.tokenize_piece(piece) for piece in new]
    assert len(pieces) == before + len(new) == len(pieces.tokens)
    found = iter(numbers.tolist())
    return [list(chain.from_iterable(pieces.tokens[next(found)] for _ in range(count))) for count in counts.tolist()]


@given(st.lists(st.lists(PIECES, max_size=4).map(" ".join), max_size=8))
def test_tokens_are_those_of_the_plain_tokenizer(texts):
    pieces = KnownPieces()
    expected = [tokenize(text.encode(errors="replace").decode()) for text in texts]
    assert tokens_of(pieces, texts) == expected
    assert tokens_of(pieces, texts[::-1], threads=3) == expected[::-1] and not pieces.read(texts, 1)[2]


def test_marks_around_letters_and_digits_change_nothing():
    cores = ["a", "aspirin", "TNFa", "il2", "3p", "10", "1999", "00", "2p53", "10mg"]
    for opening in ("", *OPENING.decode(), "(["):
        for closing in ("", *CLOSING.decode(), "),", ".)", "...", ').";'):
            assert [tokenize(f"{opening}{core}{closing}") for core in cores] == [tokenize(core) for core in cores]


def test_white_space_is_that_of_python():
    spaces = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    others = [*"\u200b\u180e\ufeff\u00a1\u1681\u2010\u2027\u2060\u3001\x00é€"]
    pieces, texts = KnownPieces(), [f"a{space}b{space}" for space in spaces + others]
    counts = pieces.read(texts, 1)[1].tolist()
    assert counts == [len(text.split()) for text in texts] == [2] * len(spaces) + [1] * len(others)


def test_many_pieces():
    """The table grows, and every piece keeps its number."""
    pieces, words = KnownPieces(), [f"w{number}" for number in range(30_000)]
    first = pieces.read([" ".join(words[:10])], 1)[0]
    assert first.tolist() == list(range(10))
    numbers, counts, new = pieces.read([" ".join(words), "", " W7, (w8)"], 2)
    assert numbers.tolist() == [*range(30_000), 7, 8] and counts.tolist() == [30_000, 0, 2] and new == words[10:]


@pytest.mark.parametrize("texts", [[], [""], ["", "  \n"]])
def test_nothing(texts):
    numbers, counts, new = KnownPieces().read(texts, 2)
    assert not len(numbers) and counts.tolist() == [0] * len(texts) and new == []


@pytest.mark.real_data
def test_real_abstracts(real_data):
    from rerank_plugin.corpora import documents

    texts = [text for document in documents(str(real_data / "nfcorpus")) for text in document[1:3]][:2000]
    assert sum(map(len, map(split_sentences, texts))) > 5000
    assert tokens_of(KnownPieces(), texts, threads=2) == [tokenize(text) for text in texts]
