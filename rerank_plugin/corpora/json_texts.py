"""Keys of JSON objects by their use, and texts of JSON values, in the shapes of many exports.

Texts are strings, lists, labelled parts or inverted indexes. All keys of an object and the types of their values decide
its shape, never one key alone: a word of an abstract or a label of a section may have any name.

* OpenAlex's inverted index has a list of positions under every word: the text is the words in order. It may also be a
  string of JSON, or the ``InvertedIndex`` of an object.
* A part of a text has it under one key of `TEXTS` (or of `ABSTRACTS`, as an article has), and otherwise only
  `ATTRIBUTES`, such as a label, which precedes the text: ``METHODS: ...``.
* Labelled texts are all other objects that hold texts: each follows its key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rerank_plugin.corpora.metadata import KEYS, folded_key, is_empty

ABSTRACTS = "abstract abstracttext articleabstract abstractinvertedindex invertedindex bodytext fulltext".split()
TEXTS = "text content contents value p paragraph paragraphs sentences sections".split()  # and "#text" of xmltodict
LABELS = ("label", "heading", "nlmcategory")
ATTRIBUTES = frozenset(
    "label heading nlmcategory category section sectiontitle sectype title name type kind model lang language xmllang "
    "id sid paperid format mimetype source license citespans refspans eqspans annotations metadata infons entities "
    "backmatter bibentries refentries references copyright copyrightinformation url hash sha version".split()
)  # of a part of a text, beside the text; numbers may have any key
_POSITION = re.compile(r"[0-9]{1,9}(?:\.0)?")
_INDEX = re.compile(r'\s*\{\s*"')
_SEPARATOR = re.compile(r"\s*[.:;|!?/=~>•–—-]+\s+|\s*[\n\t|]\s*|\s*$")  # of a title and a text


def first_value(record: dict, keys: Iterable[str]) -> object:
    """The first value under these keys that is not empty, or None."""
    return next((value for key in keys if not is_empty(value := record.get(key))), None)


def first_text(record: dict, keys: Iterable[str], unread: list[str]) -> tuple[str, str]:
    """The first text that is not blank under these keys, and its key; both "" if there is none."""
    for key in keys:
        value = record[key]
        text = value if type(value) is str and value[:1].isalnum() else text_of(value, unread)
        if not is_empty(text):
            return text, key
    return "", ""


def text_of(value: object, unread: list[str] | None = None) -> str:
    """The text of a JSON value; "" if it has none.

    Args:
        unread: gets the reasons of parts that are no text, which are left out.

    Raises:
        ValueError: a part is no text, and there is no list for it.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return _words(index) if (index := _parsed_index(value)) is not None else value
    if isinstance(value, list):
        return " ".join(text for part in value if (text := text_of(part, unread)))
    if isinstance(value, dict):
        return _text_of_object(value, unread)
    if type(value) is int or type(value) is float and math.isfinite(value):  # Python reads 1e999 as infinity
        return str(value)
    return _unreadable(f"expected a text, found {type(value).__name__}", unread)


def without_title(text: str, title: str) -> str:
    """A text that begins with a title, as Anserini's ``contents`` may, without it.

    A sentence that only begins with the words of the title is left as it is.
    """
    words, text = title.split(), text.lstrip()
    if not words or text[: len(words[0])].lower() != words[0].lower():  # nearly always, and fast
        return text
    if (match := re.match(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)) is None:
        return text
    rest = text[match.end() :]
    if separator := _SEPARATOR.match(rest):
        return rest[separator.end() :]
    begun = rest.lstrip()[:1]  # a space alone separates if the title has ended, or a sentence seems to begin
    if words[-1][-1] in ".!?:" or len(words) > 2 and rest[:1].isspace() and (begun.isupper() or begun.isdigit()):
        return rest.lstrip()
    return text


def _unreadable(reason: str, unread: list[str] | None) -> str:
    if unread is None:
        raise ValueError(reason)
    unread.append(reason)
    return ""


def _text_of_object(part: dict, unread: list[str] | None) -> str:
    if _is_index(part):
        return _words(part)
    by_key = {folded_key(key): value for key, value in part.items()}
    named = [name for name in (*ABSTRACTS, *TEXTS) if name in by_key]
    if named and not any(_is_labelled(key, value) for key, value in part.items()):
        reasons: list[str] = []
        read = [text for name in named if (text := text_of(by_key[name], reasons)).strip()]
        if len(read) < 2 or named[0] in ABSTRACTS or all(text in read[0] for text in read):
            label = next((label for name in LABELS if isinstance(label := by_key.get(name), str) and label.strip()), "")
            for reason in reasons:
                _unreadable(reason, unread)
            return _labelled(label, read[0]) if read else ""
    if not any(map(_has_string, part.values())):
        reason = f"expected a text, found an object of {', '.join(part):.80}"
        return "" if is_empty(part) else _unreadable(reason, unread)
    return " ".join(_labelled(label, text) for label, value in part.items() if (text := text_of(value, unread)))


def _labelled(label: str, text: str) -> str:
    label = label.strip().rstrip(":")
    return f"{label}: {text}" if label else text


def _is_labelled(key: str, value: object) -> bool:
    """Whether a value is a text under a label of its own, so that its object is no part of a text."""
    name = folded_key(key)
    if name in ABSTRACTS or name in TEXTS or key[:1] in ("@", "$", "_"):
        return False
    if key.isupper() and len(key) > 2:  # SOURCE, as the sections of abstracts are labelled
        return _has_string(value)
    if name in ATTRIBUTES:
        return False
    return _has_string(value) and isinstance(value, (str, list)) and not any(isinstance(one, dict) for one in value)


def _has_string(value: object) -> bool:
    """Whether a value is or holds a string that is not blank."""
    if isinstance(value, (list, dict)):
        return any(map(_has_string, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and bool(value.strip())


def _is_index(part: dict) -> bool:
    """Whether an object is an inverted index: positions of words, some of which may have none."""
    if not any(part.values()) or not all(positions is None or type(positions) is list for positions in part.values()):
        return False
    written = [position for positions in part.values() for position in positions or ()]
    read = [_position(position) for position in written]
    return None not in read and (all(type(position) is int for position in written) or len({*read}) == len(read))


def _position(value: object) -> int | None:
    """The position that a number is, which some exports write as 1.0 or as a string; None for another value."""
    if type(value) is float and value.is_integer() or type(value) is str and _POSITION.fullmatch(value):
        value = int(float(value))
    return value if type(value) is int and value >= 0 else None


def _parsed_index(text: str) -> dict | None:
    """The inverted index that a string of JSON is, or None."""
    if _INDEX.match(text):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if type(parsed) is dict and _is_index(parsed):
            return parsed
    return None


def _words(index: dict[str, list | None]) -> str:
    """The words of an inverted index in order; positions may lack, so that nothing is as long as the highest."""
    return " ".join(
        word for _, word in sorted((_position(place), word) for word, places in index.items() for place in places or ())
    )


ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "body", "paragraphs", "answer", "content", "contents")
QUERY_ID_KEYS = ("_id", "id", "qid", "query_id")
QUERY_TEXT_KEYS = ("text", "query", "title")
# Further keys, without letter case and punctuation.
ALIASES = {
    ID_KEYS: "id docid docno documentid pmid pubmedid articleid paperid corduid corpusid pmcid doi",
    TITLE_KEYS: "title articletitle documenttitle papertitle question ti displayname",
    TEXT_KEYS: "text abstract abstracttext articleabstract abstractnote ab abstractinvertedindex indexedabstract "
    "summary body passage paragraphs contexts context tldr bodytext articlebody fulltext pdfjson pmcjson pdfparse "
    "answer longanswer content contents pagecontent",
    QUERY_ID_KEYS: "id qid queryid topicid questionid number",
    QUERY_TEXT_KEYS: "text query title body question",
}
NO_TEXT = frozenset(
    "metadata affiliation affiliations citation citations copyright country license publisher references "
    "source vernaculartitle".split()
)  # keys of values that are no text of a document

FORMATS = ("passages", "protocolSection")  # keys of objects of BioC and of ClinicalTrials.gov


class Keys(NamedTuple):
    """The keys of a record by what they hold, the preferred first."""

    id: list[str]
    title: list[str]
    text: list[str]
    unknown: list[str]
    format: str | None  # one of `FORMATS`, for a record without a text of its own


@lru_cache(maxsize=1024)
def keys_of(keys: tuple[str, ...]) -> Keys:
    """The keys of a record by their use."""
    ids, titles, texts = by_use = [present(keys, known) for known in (ID_KEYS, TITLE_KEYS, TEXT_KEYS)]
    others = NO_TEXT.union(*(names.split() for names in KEYS.values()))
    unknown = [key for key in keys if folded_key(key) not in others and not any(key in use for use in by_use)]
    format = next((key for key in FORMATS if key in keys and not texts), None)
    return Keys(ids, titles, texts, unknown, format)


@lru_cache(maxsize=1024)
def present(keys: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The keys of a record that are among ``known``, in that order, then those among their aliases."""
    exact = [key for key in known if key in keys]
    aliases = (key for alias in ALIASES[known].split() for key in keys if folded_key(key) == alias)
    return [*exact, *dict.fromkeys(key for key in aliases if key not in exact)]
