"""The tokenizer of [D18] 4.1, the same for queries and documents.

The paper: split on space and punctuation while preserving abbreviations and numeric forms, lower-case, discard all
punctuation, and collapse numeric forms into 7 classes. Decisions that the paper leaves open:

* **Space comes first.** A text is cut at white space and every piece is tokenized on its own, so the result for a piece
  never depends on its neighbours and is cached: a repeated piece costs one dictionary look-up.
* **Abbreviations** are single letters with full stops (``U.S.A.`` gives ``usa``) and short symbols joined by a hyphen
  to a number or a Greek letter (``IL-2`` gives ``il2``, ``TNF-α`` gives ``tnfalpha``), which then equal the spellings
  without the hyphen. Ordinary short words before a number (``type-2``, ``day-7``) are not abbreviations and are split.
* **Letters** are decomposed by Unicode NFKD and lose their accents; ligatures and sub- and superscripts become plain
  characters; one or two Greek letters in a row are spelled out (``β-catenin`` gives ``beta catenin``), and a ``μ``
  before a unit becomes ``u`` as in ``ug``. A possessive ``'s`` is dropped.
* **Numbers inside words** stay (``p53``, ``b12``, ``10mg``); only free-standing numbers are collapsed. Powers of ten,
  also in PubMed's ASCII forms ``10(-6)`` and ``10^-6``, are numbers.
* **Glued numbers.** A reference number after the full stop of a sentence (``disease.2``) is an integer, and so are a
  volume and its issue (``67(12)``): without a sign, a number in parentheses is an exponent only after 10.

Known limit: ``10(12)`` is a power, though it may be a volume with its issue.

An optional stemmer ([D18] 4.3.4, for DRMM) replaces plain words (letters a to z) by their stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any

from rerank_plugin.base.errors import InputError
from rerank_plugin.text import stemming

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

_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau "
        "upsilon phi chi psi omega".split(),
    )
)
_GREEK_RUN = re.compile("(?<![α-ω])[α-ω]{1,2}(?![α-ω])")  # longer runs are Greek words, not symbols
_MICRO_UNIT = re.compile("μ(?=(?:g|l|m|mol|s|sv|gy|w|v|a|ci|u)(?![a-z]))")

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-")
_QUOTES = dict.fromkeys(map(ord, "’ʼ′＇"), "'")
_PLAIN_MARKS = {**_DASHES, **_QUOTES}

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
_GREEK_NAMES = "|".join(sorted(set(_GREEK.values()), key=len, reverse=True))
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
    piece = _POWER.sub(_mark_power, piece.replace("\x00", " "))
    if not piece.isascii():
        piece = _DECIMAL_DOT.sub(".", piece.translate(_PLAIN_MARKS))
        # Decomposition yields apostrophes; the minus it makes of a superscript minus is not a hyphen (m⁻² is not m2).
        decomposed = unicodedata.normalize("NFKD", piece).translate(_QUOTES)
        piece = "".join(character for character in decomposed if not unicodedata.combining(character)).lower()
        piece = _MICRO_UNIT.sub("u", piece)
        return _GREEK_RUN.sub(lambda run: "".join(map(_GREEK.__getitem__, run.group())), piece)
    return piece.lower()


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


class PieceMemo(dict):
    """A cache of a function's results by piece of text, emptied when ``limit`` is reached.

    After the first few thousand documents nearly every piece is in the cache.
    """

    def __init__(self, function: Callable[[str], Any], limit: int = 1 << 20):
        super().__init__()
        self.function, self.limit = function, limit

    def __missing__(self, piece: str) -> Any:
        if len(self) >= self.limit:
            self.clear()
        result = self[piece] = self.function(piece)
        return result


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
        self.stems = None if stemmer is None else PieceMemo(getattr(stemming, stemmer))
        self.memo = PieceMemo(self.tokenize_piece)

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
