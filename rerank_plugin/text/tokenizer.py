"""The tokenizer of [D18] 4.1, the same for queries and documents.

The paper: split on space and punctuation while preserving abbreviations and numeric forms, lower-case, discard all
punctuation, and collapse numeric forms into 7 classes. Decisions that the paper leaves open:

* **Space comes first.** A text is cut at white space and every piece is tokenized on its own, so the result for a piece
  never depends on its neighbours and is cached: a repeated piece costs one dictionary look-up.
* **Abbreviations** are single letters with full stops (``U.S.A.`` gives ``usa``) and short symbols joined by a hyphen
  to a number or a Greek letter (``IL-2`` gives ``il2``, ``TNF-α`` gives ``tnfalpha``), which then equal the spellings
  without the hyphen. Ordinary short words before a number (``type-2``, ``day-7``) are not abbreviations and are split.
* **Characters** are brought to one form by :mod:`~rerank_plugin.text.normalization`, as for Lucene and the annotator:
  ``β-catenin`` gives ``beta catenin``, ``µg`` gives ``ug``. A possessive ``'s`` is dropped.
* **Numbers inside words** stay (``p53``, ``b12``, ``10mg``); only free-standing numbers are collapsed. Powers of ten,
  also in PubMed's ASCII forms ``10(-6)`` and ``10^-6``, are numbers.
* **Glued numbers.** A reference number after the full stop of a sentence (``disease.2``) is an integer, and so are a
  volume and its issue (``67(12)``): without a sign, a number in parentheses is an exponent only after 10.

Known limit: ``10(12)`` is a power, though it may be a volume with its issue.

An optional stemmer ([D18] 4.3.4, for DRMM) replaces plain words (letters a to z) by their stems.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.text import stemming
from rerank_plugin.text.normalization import GREEK_NAMES, PieceCache, plain, without_format_characters

# Angle brackets are punctuation, so no word of a text can collide with a class.
INTEGER = "<integer>"
FRACTION = "<fraction>"
REAL = "<real>"
YEAR_19XX = "<19xx>"
YEAR_20XX = "<20xx>"
PERCENTAGE = "<percentage>"
DOLLARS = "<dollars>"
NUMERIC_CLASSES = (INTEGER, FRACTION, REAL, YEAR_19XX, YEAR_20XX, PERCENTAGE, DOLLARS)

# Saved with every index, word vectors and checkpoint, which must be tokenized alike. "stemmer" is present only with a
# stemmer.
SETTINGS = {"name": "d18", "version": 2}

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_POWER = re.compile(r"(?<![\w.])(?:\d+(?:([⁺⁻]?[⁰¹²³⁴-⁹]+)|\^([+-]?\d+)|\(([+-]\d{1,2})\))|10\((\d{1,2})\))(?!\w)")
_DECIMAL_DOT = re.compile(r"(?<=\d)[·∙⋅](?=\d)")

# Words of up to 5 letters that form no symbol with a number after them.
_ORDINARY = frozenset(
    "type phase stage grade level class group day days week weeks month year years hour hours age aged step score "
    "dose table part model case cases study top non pre post mid sub anti semi multi inter intra super over under "
    "than about and or to of in at by from with the a an is was are were up down low high first last next only per "
    "one two".split()
)
_GREEK_NAMES = "|".join(sorted(GREEK_NAMES, key=len, reverse=True))
_WHOLE = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
_NUMBER = rf"(?:{_WHOLE})(?:\.\d+)?|\.\d+"
TOKEN = re.compile(
    rf"""
      (?P<dotted>(?<![^\W_])(?:[a-z]\.){{2,}}[a-z]?(?![^\W_]))
    | (?P<dollars>\$(?:{_NUMBER}))
    | (?P<percentage>(?:{_NUMBER})%)
    | (?P<ratio>\d+⁄\d+)
    | (?P<power>\x00[+-]?\d+\x00)
    | (?P<decimal>(?:{_WHOLE})\.\d+|(?<![^\W_])\.\d+)
    | (?P<whole>(?:{_WHOLE})(?![^\W_]))
    | (?P<symbol>(?<![^\W_])[a-z]{{1,5}}-
        (?:\d{{1,3}}[a-z]{{0,2}}|\d{{0,3}}(?:{_GREEK_NAMES})[a-z]?\d{{0,3}})(?:'s)?(?![^\W_]))
    | (?P<word>[^\W_]+(?:'[^\W_]+|(?<=[a-z]\d)\.\d+(?![^\W_]))*)
    """,
    re.VERBOSE,
)


def _mark_power(power: re.Match) -> str:
    exponent = next(filter(None, power.groups())).translate(_SUPERSCRIPTS)
    return f"\x00{exponent}\x00"


def fold(piece: str) -> str:
    """A piece in lower case, without accents, ligatures or typographic marks."""
    piece = without_format_characters(piece)
    return plain(_DECIMAL_DOT.sub(".", _POWER.sub(_mark_power, piece.replace("\x00", " "))))


_YEARS = {"19": YEAR_19XX, "20": YEAR_20XX}
_CLASSES = {"percentage": PERCENTAGE, "dollars": DOLLARS}


def match_tokens(match: re.Match) -> tuple[str, ...]:
    """The tokens of a match of `TOKEN` in a folded piece."""
    kind, form = match.lastgroup, match.group()
    if kind == "word":
        return (form.removesuffix("'s").replace("'", "").replace(".", ""),)
    if kind == "whole":
        return (_YEARS.get(form[:2], INTEGER) if len(form) == 4 and form.isdigit() else INTEGER,)
    if kind == "decimal":
        return (FRACTION if 0.0 < float(form.replace(",", "")) < 1.0 else REAL,)
    if kind in _CLASSES:
        return (_CLASSES[kind],)
    if kind == "power":
        return (FRACTION if form.startswith("\x00-") else INTEGER,)
    if kind == "ratio":
        numerator, denominator = (part.lstrip("0") for part in form.split("⁄"))
        smaller = (len(numerator), numerator) < (len(denominator), denominator)  # as numbers, of any length
        return (FRACTION if numerator and smaller else REAL,)
    if kind == "symbol":
        letters, rest = form.removesuffix("'s").split("-", 1)
        if letters in _ORDINARY:
            return tokenize_piece(letters) + tokenize_piece(rest)
        return (letters + rest,)
    return (form.replace(".", ""),)  # dotted


def tokenize_piece(piece: str) -> tuple[str, ...]:
    """Tokens of one piece of text without white space, unstemmed and not cached."""
    if piece.isascii() and piece.isalpha():
        return (piece.lower(),)
    return tuple(chain.from_iterable(map(match_tokens, TOKEN.finditer(fold(piece)))))


# A full stop ends a sentence only before white space and a capital, digit or opening mark, and not after one letter.
_SENTENCE_END = re.compile(r"(?<=[^\s.][\w)\]%'\"”][.!?])\s+(?=[A-Z0-9(\[\"“])")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, as written."""
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


class Tokenizer:
    """Splits texts into tokens; use :func:`tokenizer` to get one, so that equal tokenizers share one cache.

    Args:
        stemmer: one of ``stemming.STEMMERS``, or None.

    Attributes:
        settings: stored with indexes, word vectors and checkpoints.
        memo: the cached tokens of pieces of text, so that a word is tokenized and stemmed once.
    """

    def __init__(self, stemmer: str | None = None):
        self.settings = SETTINGS if stemmer is None else {**SETTINGS, "stemmer": stemmer}
        self.stems = None if stemmer is None else PieceCache(getattr(stemming, stemmer))
        self.memo = PieceCache(self.tokenize_piece)

    def tokenize_piece(self, piece: str) -> tuple[str, ...]:
        """Tokens of one piece of text without white space."""
        tokens = tokenize_piece(piece)
        return tokens if self.stems is None else tuple(map(self.stems.__getitem__, tokens))

    def tokenize(self, text: str) -> list[str]:
        """Tokens of a text, in order, without sentence breaks ([D18] 4.1)."""
        return list(chain.from_iterable(map(self.memo.__getitem__, text.split())))

    def sentences(self, text: str) -> list[list[str]]:
        """Tokens of each sentence of a text, to train word2vec on ([D18] 4.1)."""
        return [tokens for tokens in map(self.tokenize, split_sentences(text)) if tokens]


@cache
def tokenizer(stemmer: str | None) -> Tokenizer:
    """The tokenizer with this stemmer; None for none."""
    return Tokenizer(stemmer)


PLAIN = tokenizer(None)


def tokenizer_with(settings: Any, subject: str) -> Tokenizer:
    """The tokenizer with these settings; an unknown one is an `InputError` that begins with ``subject`` ("x was")."""
    for stemmer in (None, *stemming.STEMMERS):
        if tokenizer(stemmer).settings == settings:
            return tokenizer(stemmer)
    raise InputError(
        f"{subject} tokenized with {settings}; this program knows {SETTINGS}, also with "
        f"{' or '.join(repr({'stemmer': name}) for name in stemming.STEMMERS)}: create it again"
    )


def tokenize(text: str) -> list[str]:
    """Tokens of a text, in order, without sentence breaks and unstemmed ([D18] 4.1).

    >>> tokenize("TNF-α and IL-2 in 31,236 women, 1995–2003 (60.2%; p<0.001)")
    ['tnfalpha', 'and', 'il2', 'in', '<integer>', 'women', '<19xx>', '<20xx>', '<percentage>', 'p', '<fraction>']
    """
    return PLAIN.tokenize(text)
