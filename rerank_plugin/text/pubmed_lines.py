"""The lines of a pasted search strategy: where its numbered lines begin, and which language it is written in."""

from __future__ import annotations

import re

OTHERS = {  # signs of languages that are none of PubMed's
    "Ovid": re.compile(r"\.(?:mp|ti|ab|tw|kw|pt|sh)\b[,.]|\badj\d+\b|\bexp [\w, -]{1,100}/|\b[Oo]r/\d+-\d+"),
    "Embase": re.compile(r"'/(?:exp|de|mj)\b|(?<=\S):(?:ti|ab|kw)\b(?:,\w+)*|\bNEAR/\d+"),
    "Scopus": re.compile(r"\bTITLE(?:-ABS(?:-KEY)?)? ?\(|\bPUBYEAR\b|\bW/\d+"),
    "EBSCO": re.compile(r'\bM[HJM] "|\b(?:TI|AB|TX) (?=[("])'),
}
_NUMBERED = re.compile(r"\s*#?(\d{1,4})(?:[.):]\s*|\s+)(?=\S)")
_MARKED = re.compile(r"\s*(?:#\d|\d{1,4}(?:[.):]|\t| {2}))")  # a number that begins a line of a strategy for sure


def other_languages(text: str) -> list[str]:
    """A note for each language other than PubMed's of which a text has signs."""
    found = [(owner, match[0].strip()) for owner, signs in OTHERS.items() if (match := signs.search(text))]
    return [
        f"'{sign}' of {owner}'s language is read as words: write PubMed's tags, as in aspirin[ti]"
        for owner, sign in found
    ]


def numbered(text: str) -> list[re.Match[str]]:
    """The beginnings of the numbered lines of a text; none if it is no strategy of numbered lines.

    Either every line has a number, or lines are marked 1, 2, 3 ... in order; one without belongs to the line before it.
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
    if len(all_numbered) == len(lines) > 1:
        return all_numbered
    return marked if len(marked) > 1 else []
