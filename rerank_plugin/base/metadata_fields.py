"""The Lucene fields of metadata, and the terms by which they are searched: entire values, folded.

A value is found by each of its forms, which are terms of a field of their own (``author_names``, ``journal_names``,
``type_names``, ``language_names``); the field of the metadata itself has one term a value, so that values are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rerank_plugin.base.filters import FILTERS, compared, folded

Metadata = Mapping[str, Any]
SPELLED_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})  # Mueller for Müller
_TAIL, _THE = re.compile(r"\s*[(:=].*| / .*"), re.compile("(?i)the ")
_SMALL_WORDS = frozenset("a an and of the for in on de der des et la".split())
INITIALS = re.compile(r"(?:[A-Z]{1,4}|[A-Z](?:[ -][A-Z]){1,3})")
_SUFFIX = re.compile(r",? (Jr|Sr|[2-9](?:nd|rd|th))\.?$", re.IGNORECASE)
AT_PUBMED = re.compile(r"https?://(?:pubmed\.ncbi|(?:www\.)?ncbi)\.nlm\.nih\.gov/(?:pubmed/)?([1-9][0-9]*)/?")

_CONTROLLED = ("controlled clinical trial", "clinical trial")
TYPE_FORMS = {
    "randomized controlled trial": ("rct", "randomised controlled trial", *_CONTROLLED),
    "controlled clinical trial": ("clinical trial",),
    **{f"clinical trial phase {phase}": ("clinical trial",) for phase in ("i", "ii", "iii", "iv")},
    "pragmatic clinical trial": _CONTROLLED,
    "equivalence trial": ("randomized controlled trial", *_CONTROLLED),
    "practice guideline": ("guideline",),
    "meta analysis": ("metaanalysis",),
    "multicenter study": ("multicentre study",),
}  # short and British names, and PubMed's broader types of trials and guidelines
LANGUAGES = """\
afr af afrikaans, alb sq albanian, ara ar arabic, arm hy armenian, aze az azerbaijani, bos bs bosnian, bul bg bulgarian,
cat ca catalan, chi zh chinese, cze cs czech, dan da danish, dut nl dutch, eng en english, est et estonian, fin fi
finnish, fre fr french, geo ka georgian, ger de german, gre el greek, heb he hebrew, hin hi hindi, hrv hr croatian, hun
hu hungarian, ice is icelandic, ind id indonesian, ita it italian, jpn ja japanese, kor ko korean, lat la latin, lav lv
latvian, lit lt lithuanian, mac mk macedonian, may ms malay, nor no norwegian, per fa persian, pol pl polish, por pt
portuguese, rum ro romanian, rus ru russian, slo sk slovak, slv sl slovenian, spa es spanish, srp sr serbian, swe sv
swedish, tha th thai, tur tr turkish, ukr uk ukrainian, vie vi vietnamese, und un undetermined, mul ml multiple
languages"""
LANGUAGE_FORMS = {
    form: forms for entry in LANGUAGES.split(",") for forms in [tuple(entry.split(None, 2))] for form in forms
}


def texts(metadata: Metadata, *names: str) -> list[str]:
    """The texts of these entries, a list or a text each."""
    values = (metadata.get(name) or () for name in names)
    return [text for value in values for text in ([value] if isinstance(value, str) else value)]


@lru_cache(maxsize=1 << 14)
def author_forms(name: str) -> tuple[str, ...]:
    """``smith``, ``smith j``, ``smith ja`` of ``Smith JA``; of a full name also ``smith john a``, ``john a smith``.

    Those of ``King ML Jr`` also have its end.
    """
    forms: list[str] = []
    name, suffix = without_suffix(name)
    for spelled in (name,) if name.isascii() else (name, name.lower().translate(SPELLED_OUT)):
        surname, comma, given = map(folded, spelled.partition(","))
        initials = "".join(word[0] for word in given.split())
        if not comma:
            before, space, after = name.rpartition(" ")
            if not space or not INITIALS.fullmatch(after):
                forms.append(folded(spelled))
                continue
            surname, initials = folded(spelled[: len(spelled) - len(after)]), folded(after).replace(" ", "")
        elif given:
            forms += [f"{surname} {given}", f"{given} {surname}"]
        forms += [surname, *(f"{surname} {initials[: count + 1]}" for count in range(len(initials)))]
    return tuple(dict.fromkeys((*forms, *(f"{form} {folded(suffix)}" for form in forms if suffix))))


def without_suffix(name: str) -> tuple[str, str]:
    """The name of an author without its ``Jr``, ``2nd`` and the like, and this; "" for none."""
    match = _SUFFIX.search(name)
    return (name[: match.start()], match[1]) if match else (name, "")


def _authors(names: Iterable[str]) -> Iterator[str]:
    return (form for name in names for form in author_forms(name))


def _first_author(metadata: Metadata) -> Iterator[str]:
    return _authors(name for entry in ("authors", "full_names") for name in texts(metadata, entry)[:1])


@lru_cache(maxsize=1 << 14)
def journal_forms(title: str) -> tuple[str, ...]:
    """A title, without its tail and ``the``, and its initials where there are three or more: ``nejm``."""
    short = _THE.sub("", _TAIL.sub("", title), count=1) if _THE.match(title) else _TAIL.sub("", title)
    initials = "".join(word[0] for word in folded(short).split() if word not in _SMALL_WORDS)
    forms = map(folded, (title, _TAIL.sub("", title), short))
    return tuple(dict.fromkeys((*forms, *([initials] if len(initials) > 2 else ()))))


def _journals(metadata: Metadata) -> Iterator[str]:
    return (form for title in texts(metadata, "journal", "full_journal_title") for form in journal_forms(title))


def _forms(name: str, forms_of: Mapping[str, tuple[str, ...]]) -> Callable[[Metadata], Iterator[str]]:
    return lambda metadata: (
        form for text in map(folded, texts(metadata, name)) for form in (text, *forms_of.get(text, ()))
    )


def _subheadings(metadata: Metadata) -> Iterator[str]:
    for pair in texts(metadata, "subheadings"):
        yield compared("subheading", pair)
        yield compared("subheading", pair.partition("/")[2])


def _plain(name: str) -> Callable[[Metadata], Iterable[str]]:
    return lambda metadata: map(folded, texts(metadata, name))


def _pages(metadata: Metadata) -> Iterator[str]:
    for pages in texts(metadata, "pages"):
        yield folded(pages)
        yield folded(pages.partition("-")[0])


def _pmid(metadata: Metadata) -> list[str]:
    match = AT_PUBMED.fullmatch(metadata.get("url") or "")
    return [match[1]] if match else []


TERMS: dict[str, Callable[[Metadata], Iterable[str]]] = {
    **{name: _plain(name) for name in FILTERS.values()},
    "date": lambda metadata: texts(metadata, "date"),
    "entry_date": lambda metadata: texts(metadata, "entry_date"),
    "create_date": lambda metadata: texts(metadata, "create_date"),
    "electronic_date": lambda metadata: texts(metadata, "electronic_date"),
    "volume": _plain("volume"),
    "issue": _plain("issue"),
    "pages": _pages,
    "registry_numbers": lambda metadata: (folded(of) for of in texts(metadata, "registry_numbers") if of != "0"),
    "retracted": lambda metadata: ["yes" if metadata["retracted"] else "no"] if "retracted" in metadata else [],
    "notices": lambda metadata: [folded(notice.partition(":")[0]) for notice in texts(metadata, "notices")],
    "subheadings": _subheadings,
    "author_names": lambda metadata: _authors(texts(metadata, "authors", "full_names")),
    "first_author": _first_author,
    "journal_names": _journals,
    "type_names": _forms("types", TYPE_FORMS),
    "language_names": _forms("languages", LANGUAGE_FORMS),
    "pmid": _pmid,
    "doi": lambda metadata: [doi.lower() for doi in texts(metadata, "doi")],
    "pmc": lambda metadata: [pmc.lower() for pmc in texts(metadata, "pmc")],
}  # of each field whose terms are entire values
COMPARED = {name: name for name in FILTERS.values()} | {
    "authors": "author_names", "journal": "journal_names", "types": "type_names", "languages": "language_names",
}  # of the metadata of a filter, the field in which its values are searched  # fmt: skip
SEARCHED = {
    "subjects": ("mesh", "chemicals", "keywords"),
    "other_text": ("original_title", "other_abstract", "keywords"),
}  # fields of analyzed text, beside title, abstract and contents
UNSTEMMED = {
    "title_exact": "title", "abstract_exact": "abstract", "subjects_exact": "subjects", "other_exact": "other_text"
}  # fields of the same text with its words as they are, for phrases and truncated words  # fmt: skip
VALUE, TEXT = "\n", ". "  # between the terms of a field, and between texts


def lucene_fields(metadata: Metadata | None) -> dict[str, str]:
    """The fields of a document's metadata that have a value: terms separated by `VALUE`, or a text."""
    if not metadata:
        return {}
    fields = {name: VALUE.join(dict.fromkeys(terms(metadata))) for name, terms in TERMS.items()}
    fields |= {name: TEXT.join(texts(metadata, *entries)) for name, entries in SEARCHED.items()}
    return {name: text for name, text in fields.items() if text}
