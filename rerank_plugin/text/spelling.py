"""Spellings of one word that differ by a rule: British and American English, and names with or without a hyphen."""

from __future__ import annotations

import re

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
_NAME = re.compile(r"([a-z]{1,6})[- ]?(\d{1,3}[a-z]?)")
_GREEK = re.compile(rf"([a-z]{{2,8}}\d?)[- ]?({'|'.join(sorted(GREEK_NAMES, key=len, reverse=True))})(\d?)")


def spellings(word: str) -> list[str]:
    """The word, in the form for Lucene's analyzers, and its other spellings.

    >>> spellings("anemia"), spellings("IL-6"), spellings("TNFα"), spellings("cats")
    (['anemia', 'anaemia'], ['il-6', 'il6'], ['tnfalpha', 'tnf-alpha'], ['cats'])
    """
    word = analyzable(word).lower()
    if match := _NAME.fullmatch(word) or _GREEK.fullmatch(word):
        name, number, *more = match.groups()
        number += "".join(more)
        return list(dict.fromkeys((word, f"{name}-{number}", f"{name}{number}")))
    forms = [word]
    if len(word) >= SHORTEST and word.isascii() and word.isalpha():
        for british, american in _BRITISH.items():
            one, other = (british, american) if british in word else (american, british)
            if word.endswith(one) if british in _SUFFIXES else one in word:
                forms += [
                    form.replace(one, other, 1)
                    for form in forms
                    if one in form and (one == british or british not in form)
                ]
    return list(dict.fromkeys(forms))
