"""Highlights: golden values, and the same matches as by comparing every word of a text."""

import pytest
from gensim.parsing.porter import PorterStemmer
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.service.highlighting import WORD, _stems, matches, phrases, query_stems

WORDS = (
    "statins Statin l'aspirin 'aspirin' naïve naive ﬁbrosis fibrosis β-catenin 糖尿病 1995 31,236 TNF-α _x_ the"
).split()


def marked(query, text):
    return [text[start:end] for start, end, _ in matches(query_stems(query), text)]


@pytest.mark.parametrize(
    "query, text, expected",
    [
        ("statin", "Statins, a statin; stat", ["Statins", "statin"]),
        ("therapies", "Therapy and THERAPEUTIC", ["Therapy"]),
        ("the of and", "the of and", []),
        ("naive fibrosis", "Naïve ﬁbrosis", ["Naïve", "ﬁbrosis"]),
        ("beta", "β-blockers 🙂 beta", ["β", "beta"]),
        ("hypertension sjogren", "Hyper\u00adtension in Sjo\u0308gren", ["Hyper\u00adtension", "Sjo\u0308gren"]),
        ("in 1995", "1995 and 1996: 1995.", ["1995", "1995"]),
        ("aspirin", "l'aspirin 'aspirin' (aspirin)", ["aspirin", "aspirin"]),
        ("an* ang* Os*", "Angina, osteoma; ANG a os boss", ["Angina", "osteoma", "ANG", "os"]),
        ("", "anything", []),
    ],
)
def test_golden_matches(query, text, expected):
    assert marked(query, text) == expected


@given(
    st.lists(st.sampled_from(WORDS)), st.lists(st.sampled_from([*WORDS, "\n", "_", "’", "-", "Diabetes"])), st.text()
)
def test_every_matching_word_is_found(query, words, other):
    stems = query_stems(" ".join(query))
    for text in (" ".join(words), "".join(words), other):
        plain = [word.span() for word in WORD.finditer(text) if not stems.isdisjoint(_stems()[word.group()])]
        assert [(start, end) for start, end, _ in matches(stems, text)] == plain


def test_stems_are_porter_stems():
    stem = PorterStemmer().stem
    assert query_stems("Therapies for the relational databases") == {
        stem("therapies"),
        stem("relational"),
        stem("databases"),
    }


def test_consecutive_matches_are_one_phrase():
    text = "Heart attack, aspirin; a heart of aspirin"
    spans = [(text[start:end], count) for start, end, count in phrases(query_stems("aspirin heart attack"), text)]
    assert spans == [
        ("Heart attack, aspirin", 3),
        ("heart", 1),
        ("aspirin", 1),
    ]
