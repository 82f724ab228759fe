"""One form of characters for the tokenizer, the annotator and Lucene."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.concepts.word_forms import words
from rerank_plugin.text.normalization import analyzable, composed, plain
from rerank_plugin.text.tokenizer import tokenize

INVISIBLE = [
    "\u00ad", "\u200b", "\u200c", "\u200d", "\u200e", "\u202a", "\u2060", "\u2066", "\ufeff", "\ufe0f", "\u034f",
    "\U000e0100",
]  # fmt: skip


@pytest.mark.parametrize("mark", INVISIBLE)
def test_format_characters_are_no_part_of_a_word_and_split_none(mark):
    text = f"{mark}hyper{mark}tension and Sjo{mark}\u0308gren {mark} 5{mark}0% β{mark}-catenin {mark}"
    assert tokenize(text) == tokenize("hypertension and Sjögren 50% β-catenin")
    assert analyzable(text).split() == ["hypertension", "and", "sjogren", "50%", "beta-catenin"]
    assert words(text).forms == ["hypertension", "and", "sjogren", "50", "beta", "catenin"]
    assert composed(text).split() == ["hypertension", "and", "Sjögren", "50%", "β-catenin"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Sjögren Sjo\u0308gren Sjogren", "sjogren sjogren Sjogren"),  # ASCII stays: Lucene's analyzers lower-case it
        ("TNF-α TNFα β-catenin NF-κB", "tnf-alpha tnfalpha beta-catenin nf-kappab"),
        ("TNF-𝛼 𝜷-catenin", "tnf-alpha beta-catenin"),
        ("ΤΝΦ λόγος αβγ", "τνφ λογος αβγ"),  # Greek words
        ("10 µg 10 μg/ml µ-opioid", "10 ug 10 ug/ml mu-opioid"),
        ("H₂O ﬁbrosis ＡＢＣ", "h2o fibrosis abc"),
        ("Tromsø Łódź Brøndby Straße Æsop Œdème", "tromso lodz brondby strasse aesop oedeme"),
        # superscripts and fractions are no part of the word before; Yutiq is the word of a trade mark
        ("10⁶ patients² ¹⁸F ⁹⁹ᵐTc ½ 2½ Yutiq™", "10 patients 18f 99mtc 2 yutiq"),
        # other scripts as other programs write them
        ("高血压 고혈압 ガン क्षय Йод", "高血压 고혈압 ガン क्षय Йод"),
        ("\u110b\u1175 カ\u3099ン", "이 ガン"),
        ("plain ASCII's text", "plain ASCII's text"),
    ],
)
def test_texts_for_lucene(text, expected):
    assert analyzable(text).split() == unicodedata.normalize("NFC", expected).split()


@given(st.text())
def test_forms_are_forms_of_themselves(text):
    assert analyzable(analyzable(text)).split() == analyzable(text).split()
    assert composed(composed(text)) == composed(text)


@given(st.text(st.sampled_from("aé ñβΔµ₂ﬁ²™-'\u0301\u00ad")))
def test_composed_and_decomposed_texts_are_the_same(text):
    for form in ("NFC", "NFD"):
        assert plain(unicodedata.normalize(form, text)) == plain(text)
        assert analyzable(unicodedata.normalize(form, text)).split() == analyzable(text).split()
