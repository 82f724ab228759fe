"""Topics of CLEF's Technologically Assisted Reviews: the title of a review, its Boolean query, and the PMIDs found.

    Topic: CD008122

    Title: Rapid diagnostic tests for malaria

    Query:
    exp Malaria/

    Pids:
        12345

The query is the title; ``field=query`` chooses the Boolean one. CLEF has a file a topic: a folder of them is
read as a whole, and a file may hold several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora.register import QUERIES, Format, register
from rerank_plugin.files.text_files import lines

_SECTION = re.compile(r"(Topic|Title|Objective|Query|Protocol|Pids)\s*:\s*(.*)", re.IGNORECASE)


def queries(path: Path, selected: object = (), field: str = "title") -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every topic; ``field``: the section of the text.

    Raises:
        InputError: a line precedes the first topic, or a topic lacks the section.
    """
    where, topic = "", dict[str, list[str]]()
    for number, line in lines(path):
        if section := _SECTION.match(line):
            if (name := section[1].lower()) == "topic" and topic:
                yield where, *_id_and_text(where, topic, field)
                topic = {}
            where = where if topic else f"{path}:{number}"
            current = topic.setdefault(name, [])
            line = section[2]
        elif not topic:
            raise InputError(f"{path}:{number}: expected a line as Topic: CD008122, found {line.strip()!r:.50}")
        current.append(line.strip())
    if topic:
        yield where, *_id_and_text(where, topic, field)


def _id_and_text(where: str, topic: dict[str, list[str]], field: str) -> tuple[str, str]:
    texts = {name: " ".join(filter(None, parts)) for name, parts in topic.items()}
    if not texts.get("topic") or field.lower() not in texts:
        known = ", ".join(name for name in texts if name not in ("topic", "pids"))
        raise InputError(f"{where}: the topic {texts.get('topic', '')} has no {field}; it has {known or 'nothing'}")
    return texts["topic"], texts[field.lower()]


register(
    Format(
        "CLEF TAR topics",
        __name__,
        {QUERIES: "a file or folder of topics of CLEF TAR[:field=query]"},
        begins=r"(?i:Topic *: *\S+)",
        folders=True,
        has_fields=True,
    )
)
