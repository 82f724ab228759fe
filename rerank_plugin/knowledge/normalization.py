"""Words of texts and of a knowledge base's terms, brought to one form, with their places in the text.

The annotator compares forms, never the original text. A form is made by these rules, with examples:

* **Words** are runs of letters and digits; hyphens and other marks only separate them (``beta-catenin``, ``beta
  catenin``). Greek letters are words of their own and spelled out (``TNFα``, ``TNF-alpha``).
* **Letters** are decomposed (Unicode NFKD), lose accents and become lower-case (``Sjögren``, ``ﬁbrosis``).
* A possessive ``'s`` is dropped (``Alzheimer's disease``, ``Alzheimer disease``).
* **British spellings** become American ones (``haemorrhage``, ``tumour``, ``oesophageal``, ``sulphate``,
  ``immunisation``), by rules that are safe because they are applied to terms, too.
* **Plurals** in -s and -ies become singulars where a word has five letters or more, and not in -ss, -us, -is
  (``tumours``, ``biopsies``; ``virus``, ``arthritis`` and ``aids`` stay).

* **Cancer** is neoplasm, as MeSH says where texts say cancer; not every edition lists both (``breast cancer``).

These rules make some terms of different concepts equal (Cyclosporine, Cyclosporines). A form then means only the
concepts with a term written exactly so, if there are any.

MeSH permutes its entry terms (``Infarction, Myocardial``): such a term has its natural order as a second form.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from rerank_plugin.text.tokenizer import PieceMemo

VERSION = 3  # of the rules: forms on disk are made anew when it changes

_GREEK = "\u0370-\u03ff"
_MARKS = "\u0300-\u036f"  # combining
_WORD = re.compile(
    rf"([{_GREEK}]+|[^\W_{_GREEK}]+(?:[{_MARKS}]+[^\W_{_GREEK}]*)*(?:['’]s(?![^\W_]))?)"
)  # one group: split() gives separators and words by turns
_POSSESSIVE = re.compile(r"['’]s$")
_NOT_IN_WORDS = re.compile(r"[\W_]+")
_SPELLED = {"lamda": "lambda"}  # Unicode's own spelling
LONGEST_SYMBOL = 2  # Greek letters in a row; more are a Greek word

_SPELLINGS = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
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
SHORTEST_CHANGED = 5  # letters: shorter words are changed by no rule (toe, doe)
SHORTEST_PLURAL = 5
_KEEPS_S = ("ss", "us", "is")

# Words that neither begin nor end an approximate match, and are no mention by themselves.
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


class Words(NamedTuple):
    """The n words of a text."""

    written: list[str]  # as they are written
    forms: list[str]  # their forms, for comparisons; none is empty
    separators: list[str]  # the n + 1 strings before each word and after the last


def words(text: str) -> Words:
    """The words of a text, or of a term."""
    pieces = _WORD.split(text)
    return Words(pieces[1::2], list(map(FORMS.__getitem__, pieces[1::2])), pieces[::2])


def term_forms(term: str) -> dict[str, bool]:
    """The forms of a term as words joined by spaces: as it is written, and a permuted term in its natural order, too.

    Returns:
        For each form whether the term is written so, ignoring case, accents and punctuation.

    >>> term_forms("Infarctions, Myocardial")
    {'infarction myocardial': False, 'myocardial infarction': False}
    """
    parts = term.split(", ")  # with the space: 2,4-dinitrophenol is not permuted
    forms = {}
    for one in [term] if len(parts) == 1 else [term, " ".join(reversed(parts))]:
        found = words(one)
        if found.forms:
            form = " ".join(found.forms)
            forms[form] = form == " ".join(map(_plain, found.written))
    return forms


def breaks(separator: str) -> bool:
    """Whether no mention can span a separator: a line's end, and marks beside white space (the end of a sentence, a
    comma, a bracket). Hyphens, slashes and commas inside words (``2,4-dinitrophenol``) do not, nor does a plural's
    apostrophe.
    """
    marks = separator.replace("'", "").replace("’", "")
    bare = "".join(marks.split())
    return "\n" in separator or (len(bare) > 0 and bare != marks)


def bounds(word: str) -> bool:
    """Whether a word as written may begin and end an approximate match: it is neither a stop-word nor a number."""
    return word.lower() not in STOP_WORDS and not word.isdigit()


def _plain(word: str) -> str:
    """A word in lower case, without accents and possessive."""
    word = _POSSESSIVE.sub("", word)
    return (word if word.isascii() else _folded(word)).lower()


def _form(word: str) -> str:
    word = _plain(word)
    if len(word) >= SHORTEST_CHANGED:
        for pattern, instead in _SPELLINGS:
            word = pattern.sub(instead, word)
    return _singular(word)


def _folded(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    plain = "".join(one for one in decomposed if not unicodedata.combining(one))
    if len(plain) <= LONGEST_SYMBOL:
        plain = "".join(map(_spelled, plain))
    return _NOT_IN_WORDS.sub("", plain) or word


def _spelled(letter: str) -> str:
    """A Greek letter by its name, any other as it is."""
    name = unicodedata.name(letter, "")
    if not name.startswith("GREEK ") or " LETTER " not in name:
        return letter
    last = name.split()[-1].lower()
    return _SPELLED.get(last, last)


def _singular(word: str) -> str:
    if len(word) < SHORTEST_PLURAL or not word.endswith("s") or word.endswith(_KEEPS_S) or not word.isalpha():
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


FORMS = PieceMemo(_form)  # of every word met before
BREAKS = PieceMemo(breaks, 1 << 16)
BOUNDS = PieceMemo(bounds)
