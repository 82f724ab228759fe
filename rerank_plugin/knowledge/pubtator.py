"""Texts with gold mentions of concepts in the PubTator format, of BC5CDR and the NCBI disease corpus.

    8701013|t|Famotidine-associated delirium. A series of six cases.
    8701013|a|Famotidine is a histamine H2-receptor antagonist ...
    8701013<TAB>0<TAB>10<TAB>Famotidine<TAB>Chemical<TAB>D015738

Places count characters of title and abstract with one character between them. A mention may have several concepts,
joined by ``|`` or ``+`` (D003110|D009369), none (-1), or a prefix (MESH:D015738; OMIM:215600 is of another vocabulary).
A seventh field and lines of relations (CID) are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.text_files import lines

NO_CONCEPT = "-1"
_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)")
_JOINED = re.compile(r"[|+]")


class GoldMention(NamedTuple):
    """A mention: characters ``start`` to ``end``, its type as the corpus has it, and its concepts' ids, () for none."""

    start: int
    end: int
    type: str
    concepts: tuple[str, ...]


class GoldText(NamedTuple):
    """A title and an abstract, joined by a line feed, and their mentions."""

    id: str
    text: str
    mentions: tuple[GoldMention, ...]


def read(path: Path) -> list[GoldText]:
    """The texts of a file, plain or .gz, in its order.

    Raises:
        InputError: a line is of none of the three kinds, or a mention's text differs from the text at its place.
    """
    titles: dict[str, str] = {}
    abstracts: dict[str, str] = {}
    mentions: dict[str, list[GoldMention]] = {}
    for number, line in lines(path):
        where = f"{path}:{number}"
        if text := _TEXT.fullmatch(line):
            (titles if text[2] == "t" else abstracts)[text[1]] = text[3]
            continue
        fields = line.split("\t")
        if len(fields) == 4:
            continue  # a relation
        if len(fields) < 6:
            raise InputError(f"{where}: neither ID|t|TITLE, ID|a|ABSTRACT nor a mention of six fields split by tabs")
        if fields[0] not in titles:
            raise InputError(f"{where}: a mention in {fields[0]}, which has no title before it")
        mention = _mention(fields, where)
        text = f"{titles[fields[0]]}\n{abstracts.get(fields[0], '')}"
        if text[mention.start : mention.end].split() != fields[3].split():
            raise InputError(
                f"{where}: {fields[3]!r} is not at {mention.start} to {mention.end}, where the text has "
                f"{text[mention.start : mention.end]!r}"
            )
        mentions.setdefault(fields[0], []).append(mention)
    if not titles:
        raise InputError(f"{path}: no text: a PubTator file begins with ID|t|TITLE")
    return [
        GoldText(id, f"{title}\n{abstracts.get(id, '')}", tuple(mentions.get(id, ()))) for id, title in titles.items()
    ]


def _mention(fields: list[str], where: str) -> GoldMention:
    _, start, end, _, type, concepts = fields[:6]
    if not (start.isdecimal() and end.isdecimal() and int(start) < int(end)):
        raise InputError(
            f"{where}: a mention from {start!r} to {end!r}: two whole numbers are expected, the first smaller"
        )
    ids = (one.strip().removeprefix("MESH:") for one in _JOINED.split(concepts))
    return GoldMention(
        int(start), int(end), type, tuple(dict.fromkeys(one for one in ids if one not in ("", NO_CONCEPT)))
    )
