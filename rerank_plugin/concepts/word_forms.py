"""Normalization of the words of texts and terms to forms, with their places in the text.

The annotator compares forms, never the original text. The rules, with examples:

* **Words** are runs of letters and digits, separated by hyphens and other marks (``beta-catenin``, ``beta catenin``).
  Greek letters are separate words and spelled out (``TNFα``, ``TNF-alpha``).
* **Characters** are those of :mod:`rerank_plugin.text.normalization`, as for the tokenizer and Lucene (``Sjögren``,
  ``ﬁbrosis``, soft hyphens); a format character belongs to the word around it.
* A possessive ``'s`` is dropped (``Alzheimer's disease``, ``Alzheimer disease``).
* **British spellings** become American (``haemorrhage``, ``tumour``, ``oesophageal``, ``sulphate``, ``immunisation``),
  by rules that are safe because they also apply to terms.
* **Plurals** in -s and -ies of words with five letters or more become singulars, except in -ss, -us, -is (``tumours``,
  ``biopsies``; ``virus``, ``arthritis`` and ``aids`` are unchanged).
* **Cancer** becomes neoplasm, MeSH's word; not every edition lists both (``breast cancer``).

The rules make some terms of different concepts equal (Cyclosporine, Cyclosporines). Such a form stands only for the
concepts with a term of exactly this spelling, if there are any.

MeSH permutes its entry terms (``Infarction, Myocardial``): a permuted term has its natural order as a second form.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rerank_plugin.text.normalization import IGNORED, PieceCache, plain, without_format_characters

RULES_VERSION = 4  # version of the rules; stored forms of another version are rebuilt

_GREEK = "\u0370-\u03ff"
_MARKS = f"\u0300-\u036f{IGNORED}"  # combining, and invisible
_WORD = re.compile(
    rf"([{_GREEK}]+(?:[{_MARKS}]+[{_GREEK}]*)*|[^\W_{_GREEK}]+(?:[{_MARKS}]+[^\W_{_GREEK}]*)*(?:['’]s(?![^\W_]))?)"
)  # one group: split() gives separators and words by turns
_POSSESSIVE = re.compile(r"['’]s$")
_NOT_IN_WORDS = re.compile(r"[\W_]+")

_SPELLINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("ae", "e"),
        ("oe", "e"),
        ("(tum|col|behavi|od|hum|lab|fav|vap|rum|harb|neighb)our", r"\1or"),
        ("isation", "ization"),
        ("sulph", "sulf"),
        ("(cent|lit|tit|fib|met|calib|spect)re(s?)$", r"\1er\2"),
        ("aluminium", "aluminum"),
        ("^ageing$", "aging"),
        ("^programmes?$", "program"),
        ("^mould", "mold"),
        ("^cancers?$", "neoplasm"),
    )
)
SHORTEST_CHANGED = 5  # letters; shorter words are unchanged (toe, doe)
SHORTEST_PLURAL = 5
_KEEPS_S = ("ss", "us", "is")

# Words that neither begin nor end an approximate match, and are not mentions by themselves.
STOP_WORDS = frozenset(
    """a about above across after again against all almost alone along also although always am among an and another any
    are around as at away be became because become been before behind being below between both but by came can cannot
    could did do does doing done down due during each either else even ever every few for found from further get give
    given gave had has have having he her here hers herself him himself his how however i if in indeed instead into is
    it its itself just least less made make many may me might more moreover most much must my myself neither never
    nevertheless no none nor not now of off often on once one only onto or other others our ours out over own per
    perhaps rather same see seem seemed seems seen several shall she should show showed shown shows since so some still
    such take taken than that the their theirs them themselves then there therefore these they this those though three
    through throughout thus to together too toward towards two under until up upon us use used using various very via
    was we well were what when where whereas whether which while who whom whose why will with within without would yet
    you your yours""".split()
)


class NormalizedWords(NamedTuple):
    """The n words of a text."""

    written: list[str]  # as written
    forms: list[str]  # normalized, never empty
    separators: list[str]  # the n + 1 strings before each word and after the last


def words(text: str) -> NormalizedWords:
    """The words of a text or a term."""
    pieces = _WORD.split(text)
    return NormalizedWords(pieces[1::2], list(map(FORMS.__getitem__, pieces[1::2])), pieces[::2])


def term_forms(term: str) -> dict[str, bool]:
    """The forms of a term, words joined by spaces: of the term as written and, if permuted, in its natural order.

    Returns:
        Whether each form equals the term except for case, accents and punctuation.

    >>> term_forms("Infarctions, Myocardial")
    {'infarction myocardial': False, 'myocardial infarction': False}
    """
    parts = term.split(", ")  # with the space: 2,4-dinitrophenol is not permuted
    forms = {}
    for variant in [term] if len(parts) == 1 else [term, " ".join(reversed(parts))]:
        variant_words = words(variant)
        if variant_words.forms:
            form = " ".join(variant_words.forms)
            forms[form] = form == " ".join(map(_plain, variant_words.written))
    return forms


def breaks(separator: str) -> bool:
    """Whether mentions end at a separator: the end of a line, or marks beside white space (the end of a sentence, a
    comma, a bracket). Mentions span hyphens, slashes and commas inside words (``2,4-dinitrophenol``) and the apostrophe
    of a plural.
    """
    marks = without_format_characters(separator).replace("'", "").replace("’", "")
    bare = "".join(marks.split())
    return "\n" in separator or (len(bare) > 0 and bare != marks)


def bounds(word: str) -> bool:
    """Whether a word as written may begin and end an approximate match: any word but stop words and numbers."""
    return word.lower() not in STOP_WORDS and not word.isdigit()


def _plain(word: str) -> str:
    """A word in lower case, without accents and possessive."""
    word = _POSSESSIVE.sub("", without_format_characters(word))
    return word.lower() if word.isascii() else _NOT_IN_WORDS.sub("", plain(word)) or word.lower()


def _form(word: str) -> str:
    """The form of a word."""
    word = _plain(word)
    if len(word) >= SHORTEST_CHANGED:
        for pattern, replacement in _SPELLINGS:
            word = pattern.sub(replacement, word)
    return _singular(word)


def _singular(word: str) -> str:
    if len(word) < SHORTEST_PLURAL or not word.endswith("s") or word.endswith(_KEEPS_S) or not word.isalpha():
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


FORMS = PieceCache(_form)  # cached
BREAKS = PieceCache(breaks, 1 << 16)
BOUNDS = PieceCache(bounds)
