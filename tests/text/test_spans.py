"""Offsets of tokens in a text: the tokenizer's tokens, in order, at the characters that they were made from."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerank_plugin.text.spans import spans
from rerank_plugin.text.tokenizer import PLAIN, tokenize, tokenizer

PIECES = (
    "TNF-α (IL-2), type-2 β-catenin ﬁbrosis Sjögren's 10⁻⁵ µg/m³ ½ U.S.A. disease.2 10(-6) 31,236 p<0.001; 1995–2003 "
    "糖尿病 İstanbul diabetes’s naïve 67(12) 🙂"
)
WRITTEN = st.lists(st.sampled_from(PIECES.split())).map(" ".join)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Statins,  and (aspirin).", ["Statins", "and", "aspirin"]),
        ("TNF-α in 31,236 women", ["TNF-α", "in", "31,236", "women"]),
        ("type-2 β-catenin", ["type", "2", "β", "catenin"]),
        ("Crohn's ﬁbrosis, 10⁻⁵ or ½", ["Crohn's", "ﬁbrosis", "10⁻⁵", "or", "½"]),
        ("1995–2003 (60.2%; p<0.001)", ["1995", "2003", "60.2%", "p", "0.001"]),
        ("🙂 one\u2003two", ["one", "two"]),
        ("(Hyper\u00adtension) \ufeffYutiq™", ["Hyper\u00adtension", "Yutiq"]),
        ("", []),
    ],
)
def test_characters_of_the_spans(text, expected):
    assert [text[span.start : span.end] for span in spans(PLAIN, text)] == expected


@given(WRITTEN | st.text(max_size=30))
@example("A\x1fB\x85C")  # white space of Python's
def test_spans_are_the_tokens_in_order(text):
    found = spans(PLAIN, text)
    assert [span.token for span in found] == tokenize(text)
    assert all(0 <= span.start < span.end <= len(text) for span in found)
    assert all(first.start <= second.start and first.end <= second.end for first, second in zip(found, found[1:]))


@given(WRITTEN)
def test_words_do_not_overlap(text):
    found = spans(PLAIN, text)
    assert all(first.end <= second.start for first, second in zip(found, found[1:]))


def test_stems_stand_where_their_words_do():
    found = spans(tokenizer("krovetz"), "Patients (treated)")
    assert [(span.start, span.end) for span in found] == [(0, 8), (10, 17)]
    assert [span.token for span in found] == tokenizer("krovetz").tokenize("Patients (treated)")
