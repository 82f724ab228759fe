"""The forms of words and terms, and what no mention spans."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.concepts.word_forms import bounds, breaks, term_forms, words


@pytest.mark.parametrize(
    "text, forms",
    [
        ("Heart-Attacks", ["heart", "attack"]),
        ("TNFα and TNF-alpha", ["tnf", "alpha", "and", "tnf", "alpha"]),
        ("λ-phage", ["lambda", "phage"]),
        ("Sjögren's ﬁbrosis", ["sjogren", "fibrosis"]),
        ("cafe\u0301s", ["cafe"]),
        ("haemorrhages, tumours, oesophageal oedema", ["hemorrhage", "tumor", "esophageal", "edema"]),
        ("immunisation with aluminium sulphate", ["immunization", "with", "aluminum", "sulfate"]),
        ("biopsies virus arthritis stress aids", ["biopsy", "virus", "arthritis", "stress", "aids"]),
        ("the four hours of our course", ["the", "four", "hour", "of", "our", "course"]),
        ("hyper\u00adtensions\u200b of\ufeff 5 µg", ["hypertension", "of", "5", "ug"]),
        ("2,4-dinitrophenol", ["2", "4", "dinitrophenol"]),
        ("breast cancers, anticancer", ["breast", "neoplasm", "anticancer"]),
        ("糖尿病", ["糖尿病"]),
        ("... !", []),
    ],
)
def test_forms(text, forms):
    assert words(text).forms == forms


@pytest.mark.parametrize(
    "term, forms",
    [
        # each form tells whether the term is written so
        ("Infarction, Myocardial", {"infarction myocardial": True, "myocardial infarction": True}),
        ("Leukemias, Acute", {"leukemia acute": False, "acute leukemia": False}),
        ("Leukemia, Lymphocytic, Acute", {"leukemia lymphocytic acute": True, "acute lymphocytic leukemia": True}),
        ("2,4-Dinitrophenol", {"2 4 dinitrophenol": True}),
        ("!", {}),
        ("Sjögren's Syndrome", {"sjogren syndrome": True}),
        ("Cyclosporines", {"cyclosporine": False}),
        ("Tumour", {"tumor": False}),
        ("Oesophageal Tumours", {"esophageal tumor": False}),
        ("Diarrhoea", {"diarrhea": False}),
    ],
)
def test_forms_of_terms(term, forms):
    assert term_forms(term) == forms


def test_marks_beside_white_space_break_and_those_inside_words_do_not():
    assert all(map(breaks, [". ", ", ", " (", ") ", "\n", " – ", "- ", "; "]))
    assert not any(map(breaks, [" ", "  ", "-", ",", "/", "", "' ", "(", "’ ", "\u200b ", "\ufeff"]))


def test_stop_words_and_numbers_bound_nothing():
    assert [bounds(word) for word in ("The", "12", "aspirin", "12a")] == [False, False, True, True]


@given(st.text())
def test_words_and_separators_are_the_text_again(text):
    text_words = words(text)
    pieces = [text_words.separators[0]]
    for word, separator in zip(text_words.written, text_words.separators[1:]):
        pieces += [word, separator]
    assert "".join(pieces) == text
    assert all(form and not any(character.isspace() for character in form) for form in text_words.forms)
