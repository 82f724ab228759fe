"""Documents and queries as JSON: one object a line, as in BEIR, Pyserini and many exports of PubMed; or several lines
an object; an array of objects; or an object that holds such an array, as of BioASQ and Europe PMC.

Metadata (date, journal, ...: :mod:`rerank_plugin.base.filters`) are read from the object and from its ``metadata``.

The id (a string or an integer) is under ``_id``, ``id``, ``docid``, ``doc_id`` or ``pmid``, the title under ``title``
or ``question``, the abstract under ``text``, ``abstract``, ``contents``, ``body``, ``paragraphs`` or ``answer``: the
first non-empty value. The keys of Europe PMC, pubmed_parser, MEDLINE and others follow (`ALIASES`), in any letter case.
A list of strings (SciFact's sentences) or of labelled parts is joined by spaces, as is an object whose keys are labels;
OpenAlex's inverted index becomes its text. A title may be in ``metadata``, as in CORD-19. Tags and entities are markup.

This is the hot path of indexing: a line costs a few look-ups besides the parsing of JSON.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.metadata import KEYS, folded_key
from rerank_plugin.corpora.problems import BAD_JSON_LINE, UNREAD_TEXT, Problems
from rerank_plugin.corpora.records import Record, usable_documents
from rerank_plugin.corpora.register import CORPUS, QUERIES, Format, register
from rerank_plugin.files.text_files import BUFFER, DAMAGED, beginning, byte_lines, damaged, open_bytes
from rerank_plugin.text.markup import without_markup

ID_KEYS = ("_id", "id", "docid", "doc_id", "pmid")
TITLE_KEYS = ("title", "question")
TEXT_KEYS = ("text", "abstract", "contents", "body", "paragraphs", "answer")
QUERY_ID_KEYS = ("_id", "id", "qid", "query_id")
QUERY_TEXT_KEYS = ("text", "query", "title")
# Further keys, without letter case and punctuation.
ALIASES = {
    ID_KEYS: "id docid docno documentid pmid pubmedid articleid paperid corduid corpusid pmcid doi",
    TITLE_KEYS: "title articletitle documenttitle papertitle question ti",
    TEXT_KEYS: "text abstract abstracttext articleabstract contents content body bodytext passage paragraphs summary "
    "answer ab pagecontent abstractinvertedindex",
    QUERY_ID_KEYS: "id qid queryid topicid questionid number",
    QUERY_TEXT_KEYS: "text query title body question",
}
NO_TEXT = frozenset(
    "metadata affiliation affiliations citation citations copyright country license publisher references "
    "source vernaculartitle".split()
)  # keys of values that are no text of a document
PART_TEXTS, PART_LABELS = ("text", "abstracttext", "content", "value"), ("label", "heading", "nlmcategory")

LONGEST = 1 << 26  # characters of an object in an array; longer data are not an object
_WRAPPER = re.compile(r'\s*\{\s*"(?:articles|data|docs|documents|questions|records|results)"\s*:\s*(?=\[\s*[{\]])')
_BETWEEN = re.compile(r"[\s,\[\]]*")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^][{}",\s]+|.')


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order. What is not a JSON object is added to ``problems``."""
    return usable_documents(_records(paths, problems), problems, ids_required)


def _records(paths: Iterable[Path], problems: Problems) -> Iterator[tuple[str, Record]]:
    def report(kind: str, where: str, reason: object) -> None:
        problems.add(kind, f"{where} ({reason})")

    for path in paths:
        for where, record in objects(path, report):
            keys = _keys(tuple(record))
            try:
                title, abstract = first(record, keys.title), first(record, keys.text)
                if title is None and type(inner := record.get("metadata")) is dict:
                    title = first(inner, _present(tuple(inner), TITLE_KEYS))
                title = title if type(title) is str else text_of(title)
                abstract = abstract if type(abstract) is str else text_of(abstract)
            except (ValueError, RecursionError) as error:  # a value that is not text
                report(BAD_JSON_LINE, where, error)
                continue
            if not keys.text and (unread := [key for key in keys.unknown if _is_text(record[key])]):
                if title:
                    report(UNREAD_TEXT, where, ", ".join(unread))
                else:
                    where += f", keys {', '.join(unread)}"
            id = first(record, keys.id)
            yield where, Record(str(id) if type(id) is int else id, title, abstract, record)


def queries(
    path: Path, selected: Sequence[tuple[str, str]] = (), field: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every object that has all ``selected`` keys and values; ``field``: the key of the text."""

    def refuse(kind: str, where: str, reason: object) -> None:
        raise InputError(f"{where}: {kind} ({reason}): expected a JSON object")

    for where, record in objects(path, refuse):
        if any(str(record.get(key)) != value for key, value in selected):
            continue
        id = first(record, _present(tuple(record), QUERY_ID_KEYS))
        keys = _present(tuple(record), QUERY_TEXT_KEYS) if field is None else [key for key in (field,) if key in record]
        text = first(record, keys)
        if id is None:
            raise InputError(f"{where}: a query without an id: add one under {' or '.join(QUERY_ID_KEYS)}")
        if text is None and not keys:
            expected = f"name one of {', '.join(record)}" if field else f"add one under {' or '.join(QUERY_TEXT_KEYS)}"
            raise InputError(f"{where}: query {id} has no {field or 'text'}: {expected}")
        if type(id) not in (str, int) or not isinstance(text, (str, type(None))):
            raise InputError(f"{where}: the id of a query must be a string or an integer, and its text a string")
        yield where, str(id), without_markup(text or "")


class _Keys(NamedTuple):
    """The keys of a record by what they hold, the preferred first."""

    id: list[str]
    title: list[str]
    text: list[str]
    unknown: list[str]


@lru_cache(maxsize=1024)
def _keys(keys: tuple[str, ...]) -> _Keys:
    ids, titles, texts = by_use = [_present(keys, known) for known in (ID_KEYS, TITLE_KEYS, TEXT_KEYS)]
    others = NO_TEXT.union(*(names.split() for names in KEYS.values()))
    unknown = [key for key in keys if folded_key(key) not in others and not any(key in use for use in by_use)]
    return _Keys(ids, titles, texts, unknown)


@lru_cache(maxsize=1024)
def _present(keys: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The keys of a record that are among ``known``, in that order, then those among their aliases."""
    exact = [key for key in known if key in keys]
    aliases = (key for alias in ALIASES[known].split() for key in keys if folded_key(key) == alias)
    return [*exact, *dict.fromkeys(key for key in aliases if key not in exact)]


def _is_text(value: object) -> bool:
    """Whether a value looks like a text: some words."""
    if isinstance(value, (list, dict)):
        return any(map(_is_text, islice(value.values() if isinstance(value, dict) else value, 3)))
    return isinstance(value, str) and len(value.split(None, 3)) > 2


Report = Callable[[str, str, object], None]


def objects(path: Path, report: Report) -> Iterator[tuple[str, dict]]:
    """The place (``file:line``) and the value of each JSON object of a file; the objects inside another without an id.

    Args:
        report: is called with the kind of a problem, its place and the reason, and may raise an exception.
    """
    values = _of_lines(path, report) if _is_one_a_line(beginning(path)) else _of_values(path, report)
    for where, record in values:
        if (inner := _inner(record)) is None:
            yield where, record
        else:
            yield from ((where, one) for one in inner)


def _inner(record: dict) -> list[dict] | None:
    """The objects of the list that an object without a document of its own holds; None for other objects."""
    if _has_document(record):
        return None
    lists = list(_lists(record))
    return next((one for one in lists if _has_document(one[0])), lists[0] if lists else None)


def _has_document(record: dict) -> bool:
    keys = _keys(tuple(record))
    return bool(keys.id or keys.title or keys.text)


def _lists(record: dict) -> Iterator[list[dict]]:
    """The lists of objects in an object, and in the objects in it."""
    for value in record.values():
        if type(value) is list and value and all(type(one) is dict for one in value):
            yield value
        elif type(value) is dict and not _has_document(value):
            yield from _lists(value)


def _is_one_a_line(head: bytes) -> bool:
    """Whether a file that begins so has an object a line."""
    start = head.lstrip()
    line, end, rest = start.partition(b"\n")
    if start.startswith(b"[") or _WRAPPER.match(start[:1000].decode(errors="replace")):
        return False
    if not end or not line.startswith(b"{") or line.rstrip().endswith(b"}"):
        return True
    try:  # the first line is not a whole object: the next may be, if only this one is damaged
        parse(rest.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True


def _of_lines(path: Path, report: Report) -> Iterator[tuple[str, dict]]:
    name, number = str(path), 0
    try:
        for number, line in enumerate(byte_lines(path), 1):
            try:
                record = parse(line)
            except (ValueError, RecursionError) as error:  # invalid JSON or UTF-8
                if line.strip():
                    report(BAD_JSON_LINE, f"{name}:{number}", error)
                continue
            yield f"{name}:{number}", record
    except DAMAGED as error:
        report(damaged(path), f"{name}:{number + 1}", error)


def _of_values(path: Path, report: Report) -> Iterator[tuple[str, dict]]:
    """The objects of arrays, and those that take several lines; an object that cannot be read costs itself only."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    text, position, number = "", 0, 1  # the text that is not yet read, an offset in it, and the line there
    depth, wrapped, more = 0, False, True  # open arrays; whether an object holds the array
    with open_bytes(path) as file:
        while True:
            between = _BETWEEN.match(text, position)
            assert between is not None, "the pattern matches an empty text"
            depth += between[0].count("[") - between[0].count("]")
            number, position = number + between[0].count("\n"), between.end()
            if wrapped and depth == 0 and "]" in between[0]:
                return
            where, enough = f"{path}:{number}", not more or len(text) - position > LONGEST
            end = _end(text, position)
            if end is not None:
                try:
                    record = parse(text[position:end].encode(errors="surrogateescape"))
                except (ValueError, RecursionError) as error:
                    # A string without its end may hide brackets: only a line that is complete can be damaged.
                    if enough or text.find("\n", end) >= 0:
                        report(BAD_JSON_LINE, where, error)
                    else:
                        end = None
                else:
                    yield where, record
            if end is not None:
                number, position = number + text.count("\n", position, end), end
                continue
            if enough:
                break
            try:
                data = file.read(max(BUFFER, len(text) - position))
            except DAMAGED as error:
                report(damaged(path), where, error)
                return
            begins = not text
            text, position, more = text[position:] + decoder.decode(data, not data), 0, bool(data)
            if begins and (wrapper := _WRAPPER.match(text)):
                number, position, wrapped = number + wrapper[0].count("\n"), wrapper.end(), True
    if position < len(text) or depth > 0:
        report(BAD_JSON_LINE, where, "an object or an array does not end: the rest of the file is not read")


def _end(text: str, position: int) -> int | None:
    """The end of the value at a position: of an object its closing bracket; None if the text ends before."""
    if text[position : position + 1] != "{":
        value = _SCALAR.match(text, position)
        return value and value.end()
    depth = 0
    for token in _TOKEN.finditer(text, position):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth == 0:
            return token.end()
    return None


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON: write null for a missing value")


# Unlike json.loads with an option, this does not make a decoder for every line.
_decode = json.JSONDecoder(parse_constant=_reject_constant).decode


def parse(line: bytes) -> dict:
    """The JSON object of a line; a ValueError for any other line."""
    record = _decode(line.decode())
    if type(record) is not dict:
        raise ValueError(f"expected an object, found {type(record).__name__}")
    if b"\\ud" in line or b"\\uD" in line:
        # Half of an escaped surrogate pair is not a character: no file and no Lucene index could hold it.
        repaired = json.dumps(record, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        record = json.loads(repaired)
    return record


def first(record: dict, keys: Iterable[str]) -> object:
    """The first value under ``keys`` that is neither null nor empty, or None."""
    for key in keys:
        value = record.get(key)
        if value is not None and value != "":
            return value
    return None


def text_of(value: object) -> str:
    """The text of a JSON value; lists are joined by spaces. A ValueError for any other value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(map(text_of, value))
    if isinstance(value, dict):
        return _part(value)
    if type(value) is int or type(value) is float and math.isfinite(value):  # Python reads 1e999 as infinity
        return str(value)
    raise ValueError(f"expected a text, found {type(value).__name__}")


def _part(part: dict) -> str:
    """A part of a structured abstract with its label, ``METHODS: ...``, or all its parts by their labels.

    Of OpenAlex's inverted index, {word: places}, it is the words in order. A ValueError if there is no text.
    """
    keys = {folded_key(key): value for key, value in part.items()}
    if (text := first(keys, PART_TEXTS)) is not None:
        label = first(keys, PART_LABELS)
        return f"{label.strip().rstrip(':')}: {text_of(text)}" if isinstance(label, str) else text_of(text)
    if part and all(type(places) is list and all(type(one) is int for one in places) for places in part.values()):
        return " ".join(word for _, word in sorted((place, word) for word, places in part.items() for place in places))
    if not any(map(_is_text, part.values())):
        raise ValueError(
            f"expected an object with {' or '.join(PART_TEXTS)}, or labelled texts, found {', '.join(part)}"
        )
    return " ".join(f"{label.strip().rstrip(':')}: {text_of(text)}" for label, text in part.items() if text)


register(
    Format(
        "JSON lines",
        __name__,
        {
            CORPUS: "JSON lines or arrays (*.jsonl[.gz], *.json or a folder)",
            QUERIES: "a JSON file[:key=value...][:field=KEY]",
        },
        suffixes=(".jsonl", ".json", ".ndjson"),
        begins=r'\{\s*["}]|\[\s*[{\]]',
        selectable=True,
        has_fields=True,
    )
)
