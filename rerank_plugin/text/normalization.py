"""One normalization of characters, for the tokenizer, the annotator, and Lucene's fields and queries.

* **Format characters** vanish: soft hyphens, zero-width spaces and joiners, marks of direction, variation selectors.
  They are invisible, so a word with one is that word (``hyper\\u00adtension``).
* **Letters** are decomposed (Unicode NFKD) and lose their accents (``Sjögren``, ``naïve``); ligatures, subscripts and
  full-width forms become plain characters (``ﬁbrosis``, ``H₂O``); letters become lower-case.
* **Greek letters**, one or two in a row, are spelled out (``TNF-α``, ``β-catenin``); longer runs are Greek words. A
  ``μ`` before a unit becomes ``u`` (``μg``).
* Dashes become hyphens, and quotes apostrophes; trade marks separate.

Lucene's analyzers read a text of the same words (`analyzable`), with these differences: scripts other than Latin and
Greek are only composed (NFC), as other programs write them; letters with a stroke and the like are folded, too, as in
Lucene's own ASCII folding (``Tromsø``), which the tokenizer keeps, because models know such words; and superscripts
after a word end it, as for Lucene's tokenizer, since many are references.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

NORMALIZATION_VERSION = (
    1  # in the description of an index; an index without it was built before there was this normalization
)

# Unicode's format characters and variation selectors, for a character class of a regular expression.
IGNORED = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_IGNORED = re.compile(f"[{IGNORED}]+")

_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau "
        "upsilon phi chi psi omega".split(),
    )
)
GREEK_NAMES = frozenset(_GREEK.values())
_GREEK_RUN = re.compile("(?<![α-ω])[α-ω]{1,2}(?![α-ω])")  # longer runs are Greek words, not symbols
_MICRO_UNIT = re.compile("μ(?=(?:g|l|m|mol|s|sv|gy|w|v|a|ci|u)(?![a-z]))")

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-")
QUOTES = dict.fromkeys(map(ord, "’ʼ′＇"), "'")
_TRADE_MARKS = dict.fromkeys(map(ord, "™℠"), " ")  # which Unicode decomposes to letters: Yutiq™ is not yutiqtm
_PLAIN_MARKS = {**_DASHES, **QUOTES, **_TRADE_MARKS}


class PieceCache(dict):
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


def without_format_characters(text: str) -> str:
    """A text without its invisible characters."""
    return text if text.isascii() else _IGNORED.sub("", text)


def plain(text: str) -> str:
    """A text without white space in lower case, without accents, ligatures, Greek symbols and typographic marks."""
    if text.isascii():
        return text.lower()
    marked = _IGNORED.sub("", text).translate(_PLAIN_MARKS)
    # Decomposition yields apostrophes; the minus it makes of a superscript minus is not a hyphen (m⁻² is not m2).
    decomposed = unicodedata.normalize("NFKD", marked).translate(QUOTES)
    bare = "".join(character for character in decomposed if not unicodedata.combining(character)).lower()
    bare = _MICRO_UNIT.sub("u", bare)
    return _GREEK_RUN.sub(lambda run: "".join(map(_GREEK.__getitem__, run.group())), bare)


# Latin and Greek with their marks, punctuation, symbols, and compatibility forms of these.
_LATIN_OR_GREEK = re.compile("[\0-\u03ff\u1d00-\u2bff\ua720-\ua7ff\ufb00-\ufb06\uff01-\uff5e\U0001d400-\U0001d7ff]+")
_UNDECOMPOSED = {
    ord(letter): other
    for letter, other in zip("ßæœøłđħŧðþıſ", ("ss", "ae", "oe", "o", "l", "d", "h", "t", "d", "th", "i", "s"))
}
_RAISED = "²³¹⁰ⁱ⁴-⁺⁻ⁿ"
_RAISED_OR_FRACTION = re.compile(rf"(?<=[^\W_{_RAISED}])[{_RAISED}]+|[¼-¾⅐-⅟]")


def composed(text: str) -> str:
    """A text in Unicode's composed form (NFC) without format characters, as other programs index it."""
    return text if text.isascii() else unicodedata.normalize("NFC", _IGNORED.sub("", text))


def _analyzable_piece(piece: str) -> str:
    if piece.isascii():
        return piece
    piece = _RAISED_OR_FRACTION.sub(" ", composed(piece))
    folded = _LATIN_OR_GREEK.sub(lambda run: plain(run.group()).translate(_UNDECOMPOSED), piece)
    return unicodedata.normalize("NFC", folded)


_analyzable = PieceCache(_analyzable_piece, 1 << 18)


def analyzable(text: str) -> str:
    """A text for Lucene's analyzers, with the plain spelling of every word.

    >>> analyzable("Sjögren’s syndrome and TNF-α in Tromsø")
    "sjogren's syndrome and tnf-alpha in tromso"
    """
    return text if text.isascii() else " ".join(map(_analyzable.__getitem__, text.split(" ")))
