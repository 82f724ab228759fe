"""The lines of a pasted search strategy, as PubMed's history, its CSV file, Ovid or a paper shows them.

Around the query of a line there may be its number, ``Search:``, ``Filters:``, ``Sort by:``, the number of results and
the time. The history has its newest line first.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from io import StringIO
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.metadata_fields import LANGUAGE_FORMS
from rerank_plugin.strategies import ovid
from rerank_plugin.strategies.other_languages import is_ovid, note_other_languages

_NUMBERED = re.compile(r"\s*#?(\d{1,4})(?:[.):]\s*|\s+)(?=\S)")
_MARKED = re.compile(r"\s*(?:#\d|\d{1,4}(?:[.):]|\t| {2}))")  # a number that begins a line of a strategy for sure
_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_CSV = re.compile(r"\s*Search number[,\t]Query[,\t]")
_COLUMNS = re.compile(r"\s*\d{1,4}\t[^\t\n]+(?:\t[^\t\n]*){2,3}\t[\d,]+\t\d\d:\d\d:\d\d\s*$", re.MULTILINE)
_HEADER = re.compile(
    r"\s*Search(?:\t(?:Actions|Add to builder|Details|Query|Sort By|Filters|Items found|Results|Time))+[ \t]*$", re.M
)
_SEARCH = re.compile(r"[\s.…>]*(?:#?\d{1,4}\b[\s.…>]*)?(?:Add[ \t]+)?Search(?::\s*|\s+(?=[(\"]))")
_EVERY_SEARCH = re.compile(r"(\s*(?:Add[ \t]+)?Search)[ \t:]")  # of every line of the older history, before words, too
_NO_OPERATOR = r"(?<!\bAND)(?<!\bOR)(?<!\bNOT)(?<!\band)(?<!\bor)(?<!\bnot)"
_TIME = re.compile(r"[ \t]+\d\d:\d\d:\d\d$")
_COUNT = re.compile(
    rf"{_NO_OPERATOR}(?:[ \t]+\d{{1,3}}(?:,\d{{3}})+|(?:\t|  +)\d+|[ \t]+\(\d[\d,]*(?:[ ](?:results?|hits))?\))$"
)
# A number of results if every line has one, or a word.
_BARE = re.compile(rf"{_NO_OPERATOR}[ \t]+\(?(\d{{1,3}}(?:,\d{{3}})+|\d+)\)?$")
_BEHIND = re.compile(r"(?:(?<=[])\"*/.])|(?<=#\d)|(?<=#\d\d))[ \t]+\d+$")  # no word of a query
_LINES_ONLY = re.compile(
    r"[\s\d#()]*(?:\b(?:and|or|not)\b[\s\d#()]+)+|\s*(?:and|or)/[\d,-]+\s*|\s*remove duplicates from \d+\s*|"
    r"\s*limit \d+ to .*",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_COMMENT = re.compile(r"\s*#\s*[^\W\d]")
_RULE = re.compile(r"\s*[*=~_.-]{2,}\s*")  # a line of them
_SYNTAX = re.compile(r"[\[\]\"*$|]|\b(?:AND|OR|NOT)\b|(?i:^\s*(?:and|or|not)\b)")  # of the rest of a wrapped line
_ENDED = re.compile(r"[])\"*/.]\s*$|#\d{1,4}\s*$")
_UNENDED = re.compile(r"(?i:\b(?:and|or|not|adj\d*))\s*$|[,:]\s*$")
_SORT = re.compile(r"\sSort by: [\w /]{1,40}$")
_SHOWN_COMMENTS = 3  # lines that are left out
_TAIL = 80  # characters: what stands behind a query, but for its filters
HISTORY = (
    r"(?-i:^\s*(?:\#?\d{1,4}\s)?[\s.…>]*Search:\s|\sFilters:\s(?=[A-Z]|from\s\d|in\sthe\slast)"
    r"|\sSort\sby:\s[A-Z]|^\s*Search\snumber[\s,]Query[\s,])"
)  # its signs, for a verbose pattern
_PART = re.compile(r",\s+(?!Phase\b|NIH\b|Veterinary\b|Protocol\b|N\.I\.H\.|Non-U|U\.S\.|Extramural|Intramural)")
_FROM = re.compile(r"from (\d{4}(?:/\d{1,2}){0,2}) ?[-–] ?(\d{4}(?:/\d{1,2}){0,2}|present)")
_LAST = re.compile(r"(?:in|published in) the last (\d{1,4} (?:day|week|month|year)s?)|published last (.*)")
_AGES = {
    "child": "infant OR child OR adolescent", "newborn": "infant, newborn", "infant": "infant",
    "preschool child": "child, preschool", "adolescent": "adolescent", "adult": "adult", "young adult": "young adult",
    "middle aged": "middle aged", "middle aged + aged": "middle aged OR aged", "aged": "aged",
    "80 and over": "aged, 80 and over",
}  # fmt: skip
_SUBJECTS = {"humans": "humans", "other animals": "animals", "animals": "animals", "female": "female", "male": "male"}
_SEXES = ("female", "male")
_LACKING = (
    "free full text", "full text", "associated data", "medline", "nursing journals", "dental journals",
    "core clinical journals", "veterinary science", "cancer", "aids", "bioethics", "toxicology",
)  # fmt: skip


class Line(NamedTuple):
    """A line of a strategy.

    Attributes:
        number: the line's number, by which later lines name it; 0 for a strategy of one line.
        query: the search itself, without ``Search:``, numbers of results, times and ``Sort by:``.
        place: offset of the query in the pasted text, in characters.
        filters: the text after ``Filters:``.
    """

    number: int
    query: str
    place: int
    filters: str = ""


def lines(text: str, note: Callable[[str], None]) -> list[Line]:
    """The lines of a text, in their order. ``note`` takes what is left out."""
    if _CSV.match(text) or _COLUMNS.match(text):
        return sorted(_history(text))
    if header := _HEADER.match(text):
        text = " " * header.end() + text[header.end() :]
    begun = numbered(text)
    if not begun:
        marked = _MARKED.match(text)  # one line of Ovid, with its number
        start = marked.end() if marked and "\n" not in text.strip() and is_ovid(text[marked.end() :]) else 0
        return _from_elsewhere([_line(0, text[start:], start, lambda query: query)], note)
    if before := " ".join(text[: begun[0].start()].split()):
        note(f"'{before:.60}' stands before the first numbered line, and is left out")
    ends = [*(match.start() for match in begun[1:]), len(text)]
    comments = list[str]()
    queries = [_without_comments(text[match.end() : end], comments.append) for match, end in zip(begun, ends)]
    for comment in comments[:_SHOWN_COMMENTS]:
        note(f"'{comment:.60}' stands below a line of the strategy, and is left out")
    if len(comments) > _SHOWN_COMMENTS:
        note(f"{len(comments) - _SHOWN_COMMENTS} more lines below others are left out")
    if all(map(_EVERY_SEARCH.match, queries)):
        queries = [_EVERY_SEARCH.sub(r"\1:", query, count=1) for query in queries]
    bare = [_BARE.search(query.rstrip()[-_TAIL:]) for query in queries]
    counted = all(bare) and not all(_YEAR.fullmatch(match[1]) for match in bare if match)
    certain = list(map(_surely_counted, queries))
    counted = counted and any(sure or _SEARCH.match(query) for query, sure in zip(queries, certain))  # "vitamin b 12"
    doubtful = [
        query
        for query, number, sure in zip(queries, bare, certain)
        if number and not (sure or _YEAR.fullmatch(number[1]) or _SEARCH.match(query))
    ]
    if doubtful and (counted or any(number and sure for number, sure in zip(bare, certain))):
        shown = " ".join(doubtful[0].split())[-60:]
        if counted:
            note(f"the numbers at the ends of all lines are read as numbers of results, as that of '{shown}'")
        else:
            note(f"the number at the end of '{shown}' is read as a word, not as one of results")
    found = [
        _line(int(match[1]), query, match.end(), _without_number if counted or sure else lambda query: query)
        for match, query, sure in zip(begun, queries, certain)
    ]
    numbers = [line.number for line in found]
    if numbers == sorted(numbers, reverse=True):
        found.sort()
    return _from_elsewhere(found, note)


def _without_comments(query: str, comment: Callable[[str], None]) -> str:
    """A line of a strategy with spaces for what stands below it and is not the rest of it: a title, a date, a rule.

    Left out are lines without syntax below one that is complete: it ends as no words do, or is short or before an
    empty line while the next one begins with a capital letter.
    """
    last, *below = query.split("\n")
    kept, opened, quotes = [last], last.count("(") - last.count(")"), last.count('"')
    empty = commented = False
    for line in below:
        before = last.rstrip()
        counted = _without_number(_without(_COUNT, before)) != before
        ended = commented or counted or _ENDED.search(before) or _LINES_ONLY.fullmatch(before)
        title = line.lstrip()[:1].isupper() and (empty or len(before) < _TAIL // 2)
        whole = opened <= 0 and quotes % 2 == 0 and not _UNENDED.search(before)
        plain = whole and not (_SYNTAX.search(line) or _LINES_ONLY.fullmatch(line) or is_ovid(line.strip()))
        if not line.strip() or _RULE.fullmatch(line):
            empty = True
            kept.append(" " * len(line))
        elif _COMMENT.match(line) or (plain and (ended or title)):
            comment(line.strip())
            commented = True
            kept.append(" " * len(line))
        else:
            last, empty, commented = line, False, False
            opened, quotes = opened + line.count("(") - line.count(")"), quotes + line.count('"')
            kept.append(line)
    return "\n".join(kept)


def _from_elsewhere(found: list[Line], note: Callable[[str], None]) -> list[Line]:
    """The lines, those of Ovid's language in PubMed's; others in another language get a note."""
    if not any(map(is_ovid, (line.query for line in found))):
        read = [ovid.references(line.query) for line in found]
    else:
        loosened = list[str]()
        read = [ovid.translated(line.query, loosened.append) or ovid.references(line.query) for line in found]
        if loosened:
            more = f"; {len(loosened) - 1} more lines, too" if len(loosened) > 1 else ""
            note(f"adj with truncated words, as '{loosened[0]:.60}', is read as AND, which finds more{more}")
        if any(query != line.query for line, query in zip(found, read)):
            note("Ovid's language is read as PubMed's")
    for line, query in zip(found, read):
        if query == line.query:
            note_other_languages(query, line.number, note)
    return [line._replace(query=query) for line, query in zip(found, read)]


def of_ovid(text: str) -> bool:
    """Whether a text has numbered lines, and one of them is in Ovid's language."""
    begun = numbered(text)
    ends = [*(match.start() for match in begun[1:]), len(text)]
    queries = (_without_number(_without(_COUNT, text[match.end() : end])) for match, end in zip(begun, ends))
    return any(is_ovid(query.strip()) for query in queries)


def numbered(text: str) -> list[re.Match[str]]:
    """The beginnings of the numbered lines of a text; none if it is no strategy of numbered lines.

    Either every line has a number, but for those below lines 1, 2, 3 ..., or lines are marked 1, 2, 3 ... in order;
    one without belongs to the line before it.
    """
    before, lines = 0, list[re.Match[str] | None]()
    marked = list[re.Match[str]]()
    for line in text.split("\n"):
        if line.strip():
            match = _NUMBERED.match(text, before, before + len(line))
            lines.append(match)
            if match and int(match[1]) == len(marked) + 1 and _MARKED.match(text, before):
                marked.append(match)
        before += len(line) + 1
    all_numbered = [match for match in lines if match]
    in_order = [int(match[1]) for match in all_numbered] == [*range(1, len(all_numbered) + 1)]
    if len(all_numbered) > 1 and (
        len(all_numbered) == len(lines) or (in_order and not any(lines[len(all_numbered) :]))
    ):
        return all_numbered
    return marked if len(marked) > 1 else []


def _history(text: str) -> list[Line]:
    """The lines of the CSV file of PubMed's history, or its cells as copied from a spreadsheet, with tabs."""
    found, at = list[Line](), 0
    try:
        lines = StringIO(text.lstrip())
        copied = "\t" in text.lstrip().partition("\n")[0]
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if copied else csv.reader(lines))
    except csv.Error as error:
        raise InputError(f"the history is no CSV file: {error}") from error
    names = [name.strip().lower() for name in rows[0]]
    for row in rows:
        if len(row) > 2 and _NUMBER.fullmatch(row[0]):
            at = max(at, text.find(row[1].replace('"', '""'), at))
            # "Sort By" stands before the filters since 2020; details, results and time behind them.
            filters = row[names.index("filters")] if "filters" in names else row[-4] if len(row) > 5 else ""
            found.append(_line(int(row[0]), row[1], at, lambda query: query)._replace(filters=filters))
    return found


def _line(number: int, query: str, place: int, cleaned: Callable[[str], str]) -> Line:
    """The line with this query, without what the history shows around it."""
    match, timed = _SEARCH.match(query), query.rstrip()
    if match:
        timed, place = timed[match.end() :], place + match.end()
    query = _without(_TIME, timed)
    before = _without(_COUNT, query)
    if before == query:  # its number of results may look like a word
        before = _without(_BARE, query) if query != timed else cleaned(_without(_BEHIND, query) if match else query)
    query = _without(_SORT, before)
    before, found, filters = query.rpartition(" Filters: ")
    return Line(number, before, place, _without(_SORT, filters)) if found else Line(number, query, place)


def _without(pattern: re.Pattern[str], query: str) -> str:
    """The query without a match at its end."""
    query = query.rstrip()
    match = pattern.search(query[-_TAIL:])
    return query[: len(query) - len(match[0])] if match else query


def _surely_counted(query: str) -> bool:
    """Whether the number at the end of a line can hardly be a word: after a tag, a quote, lines or a limit."""
    query = query.rstrip()
    if any(pattern.search(query[-_TAIL:]) for pattern in (_BEHIND, _COUNT)):
        return True
    return _LINES_ONLY.fullmatch(_without_number(query)) is not None


def _without_number(query: str) -> str:
    return _without(_BARE, query)


def filters_strategy(filters: str, note: Callable[[str], None]) -> str:
    """PubMed's filters as a strategy: any of the values of one kind, and all kinds; empty if none can be answered."""
    kinds: dict[str, list[str]] = {}
    excluded = ""
    for part in map(str.strip, _PART.split(filters)):
        name = part.lower()
        age = _AGES.get(name.partition(":")[0].strip())
        if match := _FROM.fullmatch(name):
            kinds.setdefault("dates", []).append(f"{match[1]}:{match[2]}[dp]")
        elif match := _LAST.fullmatch(name):
            kinds.setdefault("dates", []).append(f'"last {match[1] or match[2]}"[dp]')
        elif name in _LACKING:
            note(f"the filter '{part:.60}' is not indexed, and is left out")
        elif name == "abstract":
            kinds["abstract"] = ["hasabstract[sb]"]
        elif name == "exclude preprints":
            excluded = " NOT preprint[pt]"
        elif age and ":" in name:
            kinds.setdefault("ages", []).extend(f'"{heading}"[mh]' for heading in age.split(" OR "))
        elif name in _SUBJECTS:
            kinds.setdefault("sexes" if name in _SEXES else "species", []).append(f"{_SUBJECTS[name]}[mh]")
        elif name:
            tag = "la" if name in LANGUAGE_FORMS else "pt"
            kinds.setdefault(tag, []).append(f'"{part.replace(chr(34), "")}"[{tag}]')
    return " AND ".join(f"({' OR '.join(values)})" for values in kinds.values()) + excluded if kinds else ""
