"""The records of a file of JSON: an object a line, of several lines, or in arrays, and the records inside objects.

An object without a title and a text may hold its record in an envelope (``_source`` of Elasticsearch), a list of
records (``hits.hits``, ``resultList.result`` of Europe PMC), or records under their ids (PubMedQA, MIRAGE). Lines of
Elasticsearch's bulk format name the id of the next line.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rerank_plugin.corpora.json_texts import keys_of
from rerank_plugin.corpora.metadata import folded_key, is_empty
from rerank_plugin.corpora.problems import BAD_JSON_LINE
from rerank_plugin.files.text_files import BUFFER, DAMAGED, beginning, byte_lines, damaged, open_text

ENVELOPES = ("_source", "fields", "source", "doc", "document", "article", "record", "paper", "item", "data", "message")
MANY = 10  # records of a list, of which one tells whether it is one of documents
LONGEST = 1 << 26  # characters of an object in an array; longer data are not an object
_WRAPPER = re.compile(r'\s*\{\s*"(?:articles|data|docs|documents|questions|records|results)"\s*:\s*(?=\[\s*[{\]])')
_BETWEEN = re.compile(r"[\s,\[\]]*")
_MEMBER = re.compile(r'[\s,]*"((?:[^"\\\n]|\\.)*)"\s*:\s*(?=\{)|\s*\}')
_FIRST_MEMBER = re.compile(r'\{\s*"(?:[^"\\\n]|\\.)*"\s*:\s*\{')
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\]]')
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|[^][{}",\s]+|.')


Report = Callable[[str, str, object], None]


def objects(path: Path, report: Report) -> Iterator[tuple[str, dict]]:
    """The place (``file:line``) and the value of each record of a file, without the objects around it.

    Args:
        report: is called with the kind of a problem, its place and the reason, and may raise an exception.
    """
    values = _of_lines(path, report) if _is_one_a_line(beginning(path)) else _of_values(path, report)
    action: dict = {}
    for where, value in values:
        if len(value) == 1 and (named := _action(value)) is not None:
            action = named
            continue
        for record in _records_in(value):
            yield where, _with_ids(action, record) if action else record
        action = {}


def _action(value: dict) -> dict | None:
    """The id in a line of Elasticsearch's bulk format that names the record of the next line; None for other lines."""
    [(name, entry)] = value.items()
    if name in ("index", "create", "update") and type(entry) is dict and all(key[:1] == "_" for key in entry):
        return {key: entry[key] for key in ("_id",) if key in entry}
    return None


def _records_in(value: dict) -> list[dict]:
    """The records in an object: itself, that of an envelope, those of a list, or those under their ids."""
    if _has_text(value):
        return [value]
    for key in ENVELOPES:
        if type(inner := value.get(key)) is dict and (key == ENVELOPES[0] or _has_text(inner)):
            return [_with_ids({key: value[key] for key in keys_of(tuple(value)).id}, inner)]
    if keys_of(tuple(value)).id:
        return [value]
    collections = list(_collections(value))
    records = next((records for records in collections if any(map(_has_record, records[:MANY]))), None)
    if records is None:
        return collections[0] if collections else [value]
    return [inner for record in records for inner in (_records_in(record) if record.keys() & ENVELOPES else [record])]


def _collections(value: dict) -> Iterator[list[dict]]:
    """The lists of objects in an object and in the objects in it, and its objects under ids.

    These come last where the object holds anything else.
    """
    by_id, only = _by_id(value), all(type(inner) is dict for inner in value.values())
    if by_id and only:
        yield by_id
    for inner in value.values():
        if type(inner) is list and inner and all(type(record) is dict for record in inner):
            yield inner
        elif type(inner) is dict and not _has_record(inner):
            yield from _collections(inner)
    if by_id and not only:
        yield by_id


def _by_id(value: dict) -> list[dict]:
    """The records of an object whose keys are their ids, as in PubMedQA, or of several such, as in MIRAGE.

    Ids of several that occur in more than one are joined with the key of theirs: ``medqa:0000``.
    """
    objects = {key: inner for key, inner in value.items() if type(inner) is dict and inner}
    if sum(map(_has_text, objects.values())) * 2 > len(objects):
        return [_with_ids({"_id": id}, record) for id, record in objects.items()]
    if len(objects) < len(value) or not all(type(one) is dict for inner in objects.values() for one in inner.values()):
        return []
    groups = {key: _by_id(inner) for key, inner in objects.items() if not _has_record(inner)}
    if len(groups) < len(objects) or not all(groups.values()):
        return []
    ids = Counter(id for inner in objects.values() for id in inner)
    if len(ids) == ids.total():
        return [record for records in groups.values() for record in records]
    return [_with_ids({"_id": f"{key}:{id}"}, record) for key, inner in objects.items() for id, record in inner.items()]


def _with_ids(ids: dict, record: dict) -> dict:
    """A record with ids from around it, unless it has one of its own; a DOI does not count as one."""
    own = (key for key in keys_of(tuple(record)).id if folded_key(key) not in ("doi", "pmcid"))
    return record if not all(is_empty(record[key]) for key in own) else {**record, **ids}


def _has_text(record: dict) -> bool:
    keys = keys_of(tuple(record))
    return bool(keys.title or keys.text or keys.format)


def _has_record(record: dict) -> bool:
    """Whether an object is or envelops a record."""
    return bool(keys_of(tuple(record)).id) or _has_text(record) or ENVELOPES[0] in record


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
    members, member = False, None  # whether the members of an object are read one by one, and the key of the next
    with open_text(path) as file:
        while True:
            between = _BETWEEN.match(text, position)
            assert between is not None, "the pattern matches an empty text"
            depth += between[0].count("[") - between[0].count("]")
            number, position = number + between[0].count("\n"), between.end()
            if wrapped and depth == 0 and "]" in between[0]:
                return
            where, enough = f"{path}:{number}", not more or len(text) - position > LONGEST
            if members and member is None and (found := _MEMBER.match(text, position)):
                position, member, members = found.end(), found[1], found[1] is not None
                continue
            end = _end(text, position)
            if end is None and more and enough and not members and _FIRST_MEMBER.match(text, position):
                position, members = position + 1, True  # records under their ids, which are too many to be read at once
                continue
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
                    yield where, record if member is None else {member: record}
            if end is not None:
                number, position, member = number + text.count("\n", position, end), end, None
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
    if position < len(text) or depth > 0 or members:
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
