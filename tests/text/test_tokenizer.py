"""The tokenizer of [D18] 4.1: hard cases, and properties of any text."""

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rerank_plugin.text import tokenizer
from rerank_plugin.text.tokenizer import NUMERIC_CLASSES, PLAIN, PieceCache, tokenize, tokenize_piece

sentences = PLAIN.sentences

EXPECTED = {
    # Integer, Fraction in (0, 1), Real number, 19xx, 20xx, Percentage, dollar amount: [D18] 4.1
    "0 7 0007 1,234,567": "<integer> <integer> <integer> <integer>",
    "0.46 .05 0.999 0.0001": "<fraction> <fraction> <fraction> <fraction>",
    "1.5 12,345.6 0.0 1.0": "<real> <real> <real> <real>",
    "1900 1950 1999": "<19xx> <19xx> <19xx>",
    "2000 2003 2099": "<20xx> <20xx> <20xx>",
    "1899 2103 19 20 200 20034 19995": "<integer> <integer> <integer> <integer> <integer> <integer> <integer>",
    "5% 0.5% 12.5% 1,000%": "<percentage> <percentage> <percentage> <percentage>",
    "$5 $0.05 $1,200.50 $2003 US$50": "<dollars> <dollars> <dollars> <dollars> us <dollars>",
    # a year only when it stands alone and is written without a comma or a decimal point
    "1,995 1995.5 1995%": "<integer> <real> <percentage>",
    "1990s 1995a": "1990s 1995a",
    # punctuation around a number is not a part of it
    "(1995) [12], 0.46; 3.5. .05.": "<19xx> <integer> <fraction> <real> <fraction>",
    "1995/2003/2103": "<19xx> <20xx> <integer>",
    "1995-2003 1995–2003": "<19xx> <20xx> <19xx> <20xx>",
    "0.38-0.55 50-60% >50% ~5%": "<fraction> <fraction> <integer> <percentage> <percentage> <percentage>",
    "p=.05 p<.05 -0.5 ±3": "p <fraction> p <fraction> <fraction> <integer>",
    # typographic numbers
    "½ ¾ 2½ 1½ 0⁄3": "<fraction> <fraction> <real> <real> <real>",
    "5％ ＄5 ５": "<percentage> <dollars> <integer>",
    "0·46 3∙5": "<fraction> <real>",
    "10⁻⁶ 10(-6) 10^-6": "<fraction> <fraction> <fraction>",
    "10⁶ 10(6) 10^6 10^+6 10⁺⁶": "<integer> <integer> <integer> <integer> <integer>",
    "10⁻⁶/l 10(-6)/l 10^-6/l": "<fraction> l <fraction> l <fraction> l",
    # a number in a word stays in it
    "p53 P53 vitamin-B12 10mg 99mTc H1N1 CD4+": "p53 p53 vitamin b12 10mg 99mtc h1n1 cd4",
    "PM2.5 pm2.5": "pm25 pm25",
    "H₂O CO₂ Ca²⁺ 25(OH)D": "h2o co2 ca2 <integer> oh d",
    # spellings of one thing become one token
    "IL-2 IL‐2 IL‑2 IL–2 IL2 COVID-19": "il2 il2 il2 il2 il2 covid19",
    "type-2 type 2 day-7": "type <integer> type <integer> day <integer>",
    "x-ray T-cell anti-inflammatory": "x ray t cell anti inflammatory",
    "TNF-α TNFα TNF-alpha TNF-Alpha": "tnfalpha tnfalpha tnfalpha tnfalpha",
    "anti-TNF-α TNF-α-induced": "anti tnfalpha tnfalpha induced",
    "TGF-β1 TGFβ1 TGF-beta1": "tgfbeta1 tgfbeta1 tgfbeta1",
    "NF-κB PPARγ interferon-γ ω-3 omega-3": "nfkappab ppargamma interferon gamma omega3 omega3",
    "β-catenin beta-catenin ß-catenin": "beta catenin beta catenin ß catenin",
    "17β-estradiol Δ9-THC α-1": "17beta estradiol delta9 thc alpha1",
    "µg µg/ml μM µ µ-opioid μ-opioid": "ug ug ml um mu mu opioid mu opioid",  # U+00B5 or U+03BC
    "µm μm": "um um",
    # numbers that are glued to something; 10(12) is what the rules get wrong
    "disease.2 disease.2,3": "disease <integer> disease <integer> <integer>",
    "p<.05 (.5) =.5": "p <fraction> <fraction> <fraction>",
    "67(12) 2011;12(3)": "<integer> <integer> <20xx> <integer> <integer>",
    "10(6) 2(-3) 10(-6) 10(12)": "<integer> <fraction> <fraction> <integer>",
    # Greek words are words, one or two Greek letters are symbols
    "λόγος και αβ": "λογος και alphabeta",
    # abbreviations
    "U.S.A. U.S. u.s.a": "usa us usa",
    "e.g. i.e., (e.g.)": "eg ie eg",
    "i.v. a.m.": "iv am",
    "etc. al. Dr.": "etc al dr",
    # apostrophes
    "Parkinson's Parkinson’s Parkinsonʼs parkinsons": "parkinson parkinson parkinson parkinsons",
    "patients' O'Neill d’Alembert don't 5'-AMP": "patients oneill dalembert dont <integer> amp",
    "IL-2's TNF-α's type-2's IL-2sa": "il2 tnfalpha type <integer> il2sa",
    "\u0149": "n",  # LATIN SMALL LETTER N PRECEDED BY APOSTROPHE
    # letters
    "Ångström naïve Réunion Čapek": "angstrom naive reunion capek",
    "ﬁbrosis ﬂuid oﬃce oﬀ Œdème": "fibrosis fluid office off œdeme",
    "ＡＢＣ Ⅳ ℃": "abc iv c",
    "YUTIQ™ (Opdualag™), Brand℠s": "yutiq opdualag brand s",
    "糖尿病。肝炎": "糖尿病 肝炎",
    "🙂 cell🙂line": "cell line",
    # what is neither letter nor digit separates
    "a\x00b\x07c\x7fd": "a b c d",
    "one\ttwo\nthree\u00a0four\u2003five": "one two three four five",
    "snake_case C++ and/or <integer> <unk>": "snake case c and or integer unk",
    "!?… — ()": "",
    "   ": "",
}


@pytest.mark.parametrize("text", EXPECTED)
def test_expected(text):
    assert tokenize(text) == EXPECTED[text].split()


def test_numbers_of_any_length():
    digits = "1" * (sys.int_info.default_max_str_digits + 1)
    assert tokenize(digits) == ["<integer>"]
    assert tokenize(f"0.{digits} {digits}.5 {digits}%") == ["<fraction>", "<real>", "<percentage>"]
    assert tokenize(f"10^{digits}") == ["<integer>"]
    assert tokenize(f"{digits}½") == ["<real>"]


# Characters that the rules speak of, mixed with any others, so that the rules meet.
TELLING = st.text(st.sampled_from("aAbcgls.'’-–,%$()^+0129 \t\x00/αβγΔμµςé½²⁻⁶·₂ﬁ⁄_<>糖🙂"), max_size=25)
TEXTS = TELLING | st.text(max_size=30)


@given(TEXTS)
@example("\ud800 a\udfff")
def test_tokens_hold_neither_space_nor_punctuation_nor_capitals(text):
    for token in tokenize(text):
        if token not in NUMERIC_CLASSES:
            assert token.isalnum()
            assert token == token.lower()
            assert not any(unicodedata.combining(character) for character in token)


def test_every_character_alone_and_in_a_word():
    """Every 7th of Unicode's characters, all below U+3000: those with forms of their own lie there."""
    places = [*range(0x3000), *range(0x3000, 0x110000, 7)]
    for character in map(chr, places):
        for token in tokenize_piece(character) + tokenize_piece(f"a{character}b"):
            assert token in NUMERIC_CLASSES or (token.isalnum() and token == token.lower()), hex(ord(character))


# An apostrophe inside a word vanishes, and what it kept apart may then read differently: a Greek word of three letters
# and more that ends in a micro sign, before a unit ("αβμ'g"). So words of Latin letters only stand beside apostrophes.
AGAIN = TELLING.filter(lambda text: "'" not in text and "’" not in text) | st.text(
    st.sampled_from("abcgs'’-. 0129é"), max_size=25
)


@given(AGAIN)
@example("TNF-α U.S.A. PM2.5 O'Neill λόγος Sjögren’s")
def test_words_are_tokens_of_themselves(text):
    """So a model's word list, written out and read in again as a text, stays what it was."""
    words = [token for token in tokenize(text) if token not in NUMERIC_CLASSES]
    assert tokenize(" ".join(words)) == words


@given(TELLING)
def test_upper_case_changes_nothing(text):
    """Only where a letter's capital is one letter again, and is that letter's: ß becomes SS, ς becomes Σ."""
    if text.upper().lower() == text.lower() and "µ" not in text:
        assert tokenize(text.upper()) == tokenize(text.lower()) == tokenize(text)


@given(st.lists(TEXTS, max_size=8))
def test_neither_earlier_texts_nor_neighbours_change_the_result(texts):
    for text in texts + texts:
        assert tokenize(text) == [token for piece in text.split() for token in tokenize_piece(piece)]


def test_the_memo_forgets_when_it_is_full_and_gives_the_same(monkeypatch):
    pieces = "il-2 1995 TNF-α il-2 U.S.A. 5% 1995 il-2 $5 x y z".split()
    expected = tokenize(" ".join(pieces))
    calls = []

    def remember(piece):
        calls.append(piece)
        return tokenize_piece(piece)

    memo = PieceCache(remember, limit=3)
    monkeypatch.setattr(tokenizer.PLAIN, "memo", memo)
    assert tokenize(" ".join(pieces)) == expected
    assert len(memo) <= 3
    # il-2, 1995 and TNF-α fill it, il-2 is remembered, U.S.A. empties it, and so on
    assert calls == "il-2 1995 TNF-α U.S.A. 5% 1995 il-2 $5 x y z".split()


PARTS = ["Aspirin helps.", "It was 5%.", "Why (now)?", "No! ", "x. y", "e.g. This", "Dr. A."]


@given(TEXTS | st.lists(st.sampled_from(PARTS)).map(" ".join))
def test_sentences_hold_the_tokens_of_the_text(text):
    assert [token for sentence in sentences(text) for token in sentence] == tokenize(text)
    assert all(sentences(text))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Aspirin helps. It is cheap.", ["aspirin helps", "it is cheap"]),
        ("Does it? Yes! It does.", ["does it", "yes", "it does"]),
        ("It rose by 5%. We stopped.", ["it rose by <percentage>", "we stopped"]),
        ("It fell (a lot). 31 died.", ["it fell a lot", "<integer> died"]),
        ("He said 'no.' Then he left.", ["he said no then he left"]),  # a mark after the stop is not looked behind
        ("It was so [1]. (See below.)", ["it was so <integer>", "see below"]),
        # no sentence ends here
        ("A dose of 3.5 mg, e.g. daily.", ["a dose of <real> mg eg daily"]),
        ("Escherichia coli, i.e. E. coli", ["escherichia coli ie e coli"]),
        ("the gene of D. Melanogaster", ["the gene of d melanogaster"]),
        ("p53. mdm2", ["p53 mdm2"]),  # no capital follows
        ("One.Two", ["one two"]),  # no white space follows
        ("", []),
        ("... ! ?", []),
    ],
)
def test_where_sentences_end(text, expected):
    assert [" ".join(sentence) for sentence in sentences(text)] == expected
