"""Spellings of a word: what finds what."""

import pytest

from rerank_plugin.text.spelling import _BRITISH, MOST_FORMS, spellings


@pytest.mark.parametrize(
    "one, other",
    [
        ("anemia", "anaemia"), ("tumour", "tumor"), ("oesophageal", "esophageal"), ("randomised", "randomized"),
        ("haematology", "hematology"), ("diarrhoea", "diarrhea"), ("leukaemia", "leukemia"), ("fibre", "fiber"),
        ("IL-6", "il6"), ("IL6", "il-6"), ("TNFα", "tnf-alpha"), ("TNF-alpha", "tnfalpha"), ("COVID19", "covid-19"),
        ("interleukin 6", "il6"), ("TNFa", "tnf-alpha"), ("TGFb1", "tgf-beta1"),
    ],
)  # fmt: skip
def test_spellings_of_one_word(one, other):
    assert other in spellings(one) and set(spellings(one)) == set(spellings(other))


@pytest.mark.parametrize(
    "name, form", [("IL-17", "interleukin 17"), ("TNFα", "tnfa"), ("IFNg", "interferon gamma"), ("IL-1β", "il1b")]
)
def test_short_forms_and_full_ones(name, form):
    assert form in spellings(name)


def test_the_spellings_of_a_word_are_bounded():
    assert len(spellings("".join(_BRITISH))) <= 2 * MOST_FORMS


@pytest.mark.parametrize("word", ["cats", "size", "wise", "heart", "6", "IL-6-174", "Meniere", "2019", "DNAs", "alpha"])
def test_words_of_one_spelling(word):
    assert spellings(word) == [word.lower()]
