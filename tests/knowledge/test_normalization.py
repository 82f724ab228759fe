"""The forms of words and terms, and what no mention spans."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.knowledge.normalization import bounds, breaks, term_forms, words


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
        ("2,4-dinitrophenol", ["2", "4", "dinitrophenol"]),
        ("breast cancers, anticancer", ["breast", "neoplasm", "anticancer"]),
        ("糖尿病", ["糖尿病"]),
        ("... !", []),
    ],
)
def test_forms(text, forms):
    assert words(text).forms == forms


def test_a_permuted_term_has_its_natural_order_too():
    assert term_forms("Infarction, Myocardial") == {"infarction myocardial": True, "myocardial infarction": True}
    assert list(term_forms("Leukemia, Lymphocytic, Acute"))[1] == "acute lymphocytic leukemia"
    assert list(term_forms("2,4-Dinitrophenol")) == ["2 4 dinitrophenol"]
    assert term_forms("!") == {}


def test_a_form_tells_whether_the_term_is_written_so():
    assert term_forms("Sjögren's Syndrome") == {"sjogren syndrome": True}
    assert term_forms("Cyclosporines") == {"cyclosporine": False}
    assert term_forms("Tumour") == {"tumor": False}


def test_british_and_american_terms_are_one_form():
    for british, american in [("Oesophageal Tumours", "Esophageal Tumor"), ("Diarrhoea", "Diarrhea")]:
        assert list(term_forms(british)) == list(term_forms(american))


@pytest.mark.parametrize("separator", [". ", ", ", " (", ") ", "\n", " – ", "- ", "; "])
def test_marks_beside_white_space_break(separator):
    assert breaks(separator)


@pytest.mark.parametrize("separator", [" ", "  ", "-", ",", "/", "", "' ", "(", "’ "])
def test_marks_inside_words_do_not(separator):
    assert not breaks(separator)


def test_stop_words_and_numbers_bound_nothing():
    assert [bounds(word) for word in ("The", "12", "aspirin", "12a")] == [False, False, True, True]


@settings(max_examples=60)
@given(st.text())
def test_words_and_separators_are_the_text_again(text):
    found = words(text)
    pieces = [found.separators[0]]
    for word, separator in zip(found.written, found.separators[1:]):
        pieces += [word, separator]
    assert "".join(pieces) == text
    assert all(form and not any(character.isspace() for character in form) for form in found.forms)
