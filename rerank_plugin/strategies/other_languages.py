"""Signs of search languages other than PubMed's, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rerank_plugin.strategies import ovid
from rerank_plugin.strategies.qualifiers import QUALIFIERS

_TAGS = {**ovid.PUBMED_TAGS, **ovid.SIMILAR_TAGS}
_CODES = "|".join(_TAGS)
_HEADING = r"(\*?)[\"']?([^\W\d_][\w, '-]{1,80}?)[\"']?/"
_QUALIFIER = f"(?:{'|'.join(QUALIFIERS)})"
_QUALIFIED = rf"(?:{_QUALIFIER}(?:,[ ]?{_QUALIFIER})*)?(?:[ ]\[[^\[\]]*\])?"  # and/or, yes/no are none


def _tag(codes: str) -> str:
    return " or ".join(f"[{name}]" for name in ovid.tags(codes, _TAGS))


def _word(text: str) -> str:
    """A word of Ovid's in PubMed's language, which has no wildcard within a word."""
    return "each spelling, as woman or women" if re.search("[?#]", text) else text.replace("$", "*")


def _near(first: str, second: str, words: int) -> str:
    if "*" in first + second:  # which PubMed's proximity does not have
        return f"{first}[tiab] AND {second}[tiab]"
    return f'"{first} {second}"[tiab:~{max(0, words - 1)}]'


def _lines(match: re.Match[str]) -> str:
    first, last = int(match[2]), min(int(match[3]), int(match[2]) + 20)
    return f" {match[1].upper()} ".join(map(str, range(first, last + 1)))


# By the language, a pattern and its text in PubMed's language. The first that is found in a line is told.
_SIGNS: list[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    ("Ovid", re.compile(r"\b([a-z]{2,80})\$\d{1,2}(?!\w)"), lambda match: f"{match[1]}*, which finds more"),
    ("Ovid", re.compile(rf"\b[Ee]xp {_HEADING}"), lambda match: f'"{match[2]}"[{"majr" if match[1] else "mh"}]'),
    ("Ovid", re.compile(r"\b([Oo]r|[Aa]nd|OR|AND)/(\d{1,3})-(\d{1,3})"), _lines),
    (
        "Ovid",
        re.compile(r"([\w*$?-]{1,80}) adj(\d{1,2}) ([\w*$?-]{1,80})"),
        lambda match: _near(match[1].replace("$", "*"), match[3].replace("$", "*"), int(match[2])),
    ),
    ("Ovid", re.compile(r"\badj\d{1,2}\b"), lambda match: '"two words"[tiab:~2]'),
    (
        "Ovid",
        re.compile(rf"([\w*$?#-]{{1,80}}|\)|\")\.((?:{_CODES})(?:,(?:\w\w))*)(?:\.|,(?=\s|$))"),
        lambda match: ("(...)" if match[1] in ')"' else _word(match[1])) + _tag(match[2]),
    ),
    (
        "Ovid",
        re.compile(
            rf"(?:^|(?<=\()|(?<=\b[Oo]r )|(?<=\b(?:[Aa]nd|[Nn]ot) ))\s*{_HEADING}{_QUALIFIED}"
            r"(?=\s*$|\)|\s+(?:or|and|not)\b)"
        ),
        lambda match: f'"{match[2]}"[{"majr" if match[1] else "mh"}:noexp]',
    ),
    ("Ovid", re.compile(r"^\s*limit \d+ to\b"), lambda match: "1 AND review[pt] AND 2010:2020[dp]"),
    ("Embase", re.compile(r"'([^']{1,80})'/(?:exp|de|mj)\b"), lambda match: f'"{match[1]}"[mh]'),
    (
        "Embase",
        re.compile(r"([\w*'-]{1,80}):((?:ti|ab|kw)\b(?:,\w+)*)"),
        lambda match: match[1].replace("'", '"') + _tag(match[2]),
    ),
    ("Embase", re.compile(r"\bNEAR/\d+", re.IGNORECASE), lambda match: '"two words"[tiab:~2]'),
    ("Cochrane", re.compile(r"MeSH descriptor: \[([^\]]{1,80})\](?: explode \w+ trees?)?"), lambda m: f'"{m[1]}"[mh]'),
    ("Scopus", re.compile(r"\bTITLE(?:-ABS(?:-KEY)?)? ?\(|\bPUBYEAR\b|\bW/\d+"), lambda match: "aspirin[tiab]"),
    ("EBSCO", re.compile(r'\bM[HJM] "([^"]{1,80}?)\+?"'), lambda match: f'"{match[1]}"[mh]'),
    ("EBSCO", re.compile(r'\b(?:TI|AB|TX) (?=[("])'), lambda match: "aspirin[ti]"),
]
OVID = "|".join(
    (
        rf"\b(?-i:exp)[ ]\*?[\w,\ '-]{{2,80}}/{_QUALIFIED}(?=\s|$|\))",
        rf"^\s*\*[\w,\ '-]{{2,80}}/{_QUALIFIED}\s*$",
        r"[\w*$?)\"]\.(?:ti|ab|tw|mp|kw|kf|pt|sh|fs|jn|yr|hw|ez|dt)(?:,\w\w)*\.(?=\s|$|\))",
        rf"[\w,\ '-]{{2,80}}/{_QUALIFIED}\s(?-i:or|and|not)\s(?:exp\s)?\*?[\w,\ '-]{{2,80}}/{_QUALIFIED}(?=\s|$|\))",
        r"\w[ ]adj\d[ ]\w",
    )
)  # what no plain text has; for a verbose pattern


def is_ovid(query: str) -> bool:
    """Whether a line has signs of Ovid's language."""
    return any(owner == "Ovid" and pattern.search(query) for owner, pattern, _ in _SIGNS)


def note_other_languages(query: str, number: int, note: Callable[[str], None]) -> None:
    """Note the signs of other languages in a line, each language once."""
    told = set[str]()
    for owner, pattern, cure in _SIGNS:
        if owner not in told and (match := pattern.search(query)):
            told.add(owner)
            line = f"line {number}: " if number else ""
            note(f"{line}'{match[0].strip()}' of {owner}'s language is read as words: write {cure(match)}")


def summed_up(notes: Iterable[str]) -> list[str]:
    """The notes, of each language only the first three."""
    kept, left_out = list[str](), dict[str, int]()
    for note in notes:
        match = re.search(r"of (\w+)'s language is read as words", note)
        if match and sum(f"of {match[1]}'s language" in other for other in kept) >= 3:
            left_out[match[1]] = left_out.get(match[1], 0) + 1
        else:
            kept.append(note)
    return kept + [f"{count} more lines are in {owner}'s language" for owner, count in left_out.items()]
