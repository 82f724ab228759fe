"""Inline markup in texts of corpora, which many exports of PubMed, PMC and Crossref keep: tags and entities.

Only tags of HTML, JATS and MathML are removed, and only where they are written as such: ``p <0.05 and b> 3`` and
``<integer>`` stay.
"""

from __future__ import annotations

import html
import re

_INLINE = (
    "a abbr b big bold em ext-link font i img inf inline-formula inline-graphic italic monospace named-content "
    "overline roman s sans-serif sc small span strike strong styled-content sub sup tt u underline xref"
)
_BLOCK_NAMES = (
    "abstract abstracttext alternatives article-title blockquote br caption center code dd disp-formula div dl dt fig "
    "graphic h1 h2 h3 h4 h5 h6 hr label li list list-item ol p pre sec section table tbody td th thead title tr ul"
)
_MATHS = (
    "annotation math menclose mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow "
    "mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none semantics"
)
_ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>=]+))*\s*"""
_NAMES = "|".join(f"{_INLINE} {_BLOCK_NAMES} {_MATHS}".split())
# A name with a namespace, such as jats:p, is always a tag.
_TAG = re.compile(rf"</?(?:[a-z]\w*:([a-z][\w-]*)|({_NAMES})){_ATTRIBUTES}/?>", re.IGNORECASE)
BLOCKS = frozenset(_BLOCK_NAMES.split())  # elements that end a line or a cell
_POWER = re.compile(
    rf"(?<=\d)<(?:\w+:)?sup{_ATTRIBUTES}>\s*(?:([+−–-])\s*)?(\d+)\s*</(?:\w+:)?sup\s*>", re.IGNORECASE
)  # fmt: skip
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_TIMES_ESCAPED = 3


def without_markup(text: str) -> str:
    """A text without tags, and with the characters that its entities name, also where they were escaped twice.

    ``CO<sub>2</sub>`` is CO2. A power keeps a mark, as in PubMed XML, because ``10<sup>6</sup>`` is not 106.

    >>> without_markup("TNF-&alpha; &lt; 5 in CO<sub>2</sub>, 10<sup>-6</sup> by <i>E. coli</i>")
    'TNF-α < 5 in CO2, 10^-6 by E. coli'
    """
    if "&" not in text and "<" not in text:
        return text
    plain = text
    for _ in range(_TIMES_ESCAPED):
        if plain == (plain := _ENTITY.sub(lambda entity: html.unescape(entity.group()), plain)):
            break
    if "<" in plain:
        plain = _TAG.sub(_space, _POWER.sub(_power, _without_comments(plain)))
    return text if plain == text else plain.strip()


def _without_comments(text: str) -> str:
    """The text without comments; the time is linear, also where none ends."""
    kept, at = list[str](), 0
    while (begun := text.find("<!--", at)) >= 0 and (end := text.find("-->", begun + 4)) >= 0:
        kept.append(text[at:begun])
        at = end + 3
    return "".join([*kept, text[at:]])


def _power(found: re.Match) -> str:
    return f"^{'-' if found[1] in ('−', '–') else found[1] or ''}{found[2]}"


def _space(tag: re.Match) -> str:
    """What a tag leaves: white space where it ends a line or a cell."""
    name = (tag[1] or tag[2] or "").lower()
    return " " if name in BLOCKS else ""


def superscript(base: str, exponent: str) -> str:
    """The text of a superscript after ``base``: ``^6`` and ``^-6`` after a digit, else the superscript itself."""
    power = re.fullmatch(r"\s*([+−–-]?)\s*(\d+)\s*", exponent)
    if not power or not base[-1:].isdigit():
        return exponent
    sign = "-" if power[1] in ("−", "–") else power[1]
    return f"^{sign}{power[2]}"


def without_brackets(title: str) -> str:
    """``[Translated title].`` without its brackets; ``[18F]FDG in [11C].``, which is not one bracket, is unchanged."""
    match = re.fullmatch(r"\[(.*)\]\.?", title)
    if not match:
        return title
    depth = 0
    for character in match[1]:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return title
    return match[1].strip()
