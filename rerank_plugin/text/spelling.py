"""Spellings of one word that differ by a rule: British and American English, and names of molecules.

Names with a number or a Greek letter are written with or without a hyphen, and some with their first part in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rerank_plugin.text.normalization import GREEK_NAMES, analyzable

# British and American forms of parts of words. A form that no document has costs nothing.
_BRITISH = {
    "anaem": "anem", "aemia": "emia", "aemic": "emic", "haem": "hem", "paed": "ped", "gynaec": "gynec",
    "oesoph": "esoph", "oedem": "edem", "oestr": "estr", "foet": "fet", "rrhoea": "rrhea", "caec": "cec",
    "faec": "fec", "aetiol": "etiol", "anaesth": "anesth", "coel": "cel", "caesar": "cesar", "praevia": "previa",
    "oeci": "eci", "palaeo": "paleo", "manoeuv": "maneuv", "dyspnoea": "dyspnea", "apnoea": "apnea", "orthopnoea":
    "orthopnea", "homoeo": "homeo", "aesthet": "esthet", "tumour": "tumor", "colour": "color", "favour": "favor",
    "haviour": "havior", "labour": "labor", "neighbour": "neighbor", "odour": "odor", "vapour": "vapor",
    "humour": "humor", "rumour": "rumor", "fibre": "fiber", "centre": "center", "litre": "liter", "metre": "meter",
    "titre": "titer", "calibre": "caliber", "sulph": "sulf", "ageing": "aging", "programme": "program",
    "isation": "ization", "ising": "izing", "ised": "ized", "iser": "izer", "ise": "ize", "ises": "izes",
    "lysed": "lyzed", "lyse": "lyze", "lysing": "lyzing", "artefact": "artifact", "grey": "gray", "mould": "mold",
    "sceptic": "skeptic", "judgement": "judgment", "enrolment": "enrollment", "labelled": "labeled",
    "modelling": "modeling", "modelled": "modeled", "counselling": "counseling", "travell": "travel",
    "signalling": "signaling", "signalled": "signaled", "practise": "practice", "licence": "license",
    "tranquilli": "tranquili",
}  # fmt: skip
_SUFFIXES = ("ise", "ises", "ised", "iser", "ising", "isation", "lyse", "lysed", "lysing", "aemia", "aemic")
SHORTEST = 5  # letters of a word that has other spellings
MOST_FORMS = 64  # of a word: they double with each part that is spelled in two ways
# Short names of families, in full; "tumour" as well as "tumor", since a phrase has no other spellings.
_IN_FULL = {
    "il": ("interleukin",), "ifn": ("interferon",), "tgf": ("transforming growth factor",),
    "tnf": ("tumor necrosis factor", "tumour necrosis factor"),
}  # fmt: skip
_LETTERS = {"a": "alpha", "b": "beta", "g": "gamma", "d": "delta"}  # TNFa, IFNg
_SHORT = {long: short for short, longs in _IN_FULL.items() for long in longs}
_NAME = re.compile(rf"([a-z]{{1,6}}|{'|'.join(_SHORT)})[- ]?(\d{{1,3}}[a-z]?)")
_GREEK = re.compile(
    rf"([a-z]{{2,8}}|(?:[a-z]{{2,3}}|{'|'.join(_SHORT)})(?:[- ]?\d)?)[- ]?"
    rf"({'|'.join(sorted(GREEK_NAMES, key=len, reverse=True))})(\d?)"
)
_LETTER = re.compile(r"([A-Z]{3,5})-?([abgd])(\d?)")
SPACED_NAME = re.compile(rf"(?:{'|'.join((*_IN_FULL, *_SHORT))}|covid) \d{{1,3}}[a-z]?", re.IGNORECASE)


def spellings(word: str) -> list[str]:
    """The word, in the form for Lucene's analyzers, and its other spellings.

    >>> spellings("anemia"), spellings("p-53"), spellings("TNFα")[:3], spellings("cats")
    (['anemia', 'anaemia'], ['p-53', 'p53'], ['tnfalpha', 'tnf-alpha', 'tnfa'], ['cats'])
    """
    if match := _LETTER.fullmatch(word):
        word = f"{match[1]}-{_LETTERS[match[2]]}{match[3]}"
    word = analyzable(word).lower()
    if match := _GREEK.fullmatch(word):
        name, letter, digit = match.groups()
        short = _LETTERS.get(letter[0]) == letter and len(name) > 2  # no "era" of ER-alpha
        return _of_name(word, name, f"{letter}{digit}", [f"{letter[0]}{digit}"] if short else [])
    if match := _NAME.fullmatch(word):
        return _of_name(word, match[1], match[2])
    forms = [word]
    if len(word) >= SHORTEST and word.isascii() and word.isalpha():
        for british, american in _BRITISH.items():
            if len(forms) >= MOST_FORMS:
                break
            one, other = (british, american) if british in word else (american, british)
            if word.endswith(one) if british in _SUFFIXES else one in word:
                forms += [
                    form.replace(one, other, 1)
                    for form in forms
                    if one in form and (one == british or british not in form)
                ]
    return list(dict.fromkeys(forms))


def _of_name(word: str, name: str, end: str, ends: Iterable[str] = ()) -> list[str]:
    """The spellings of a name with a number or a Greek letter at its end; ``ends`` are written without a hyphen."""
    first = re.match(r"[a-z ]+", name)
    assert first is not None, "a name begins with letters"
    family, more = first[0].rstrip(), name[first.end() :].lstrip("- ")
    family = _SHORT.get(family, family)
    names = dict.fromkeys(f"{family}{mark}{more}" for mark in (("", "-") if more else ("",)))
    forms = [f"{each}{mark}{end}" for each in names for mark in ("-", "")] + [f"{family}{more}{each}" for each in ends]
    in_full = (" ".join(filter(None, (full, more, end))) for full in _IN_FULL.get(family, ()))
    return list(dict.fromkeys([word, *forms, *in_full]))
