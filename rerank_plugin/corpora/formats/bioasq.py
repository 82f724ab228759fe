"""Judgments of BioASQ's questions: the documents that experts named, by PMID, have the grade 1.

:mod:`jsonl` reads the questions themselves.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora.formats.qrels import check_number
from rerank_plugin.corpora.json_objects import objects
from rerank_plugin.corpora.register import JUDGMENTS, Format, register

log = logging.getLogger(__name__)
_PMID = re.compile(r"(?:.*/)?([1-9]\d{0,8})/?")  # at the end of an address, or alone


def judgments(path: Path) -> Judgments:
    """The judgments of a file; other addresses than PubMed's are logged.

    Raises:
        InputError: the file is not JSON, or no question names a document.
    """

    def refuse(kind: str, where: str, reason: object) -> None:
        raise InputError(f"{where}: {kind} ({reason}): expected questions of BioASQ, with id and documents")

    result: Judgments = {}
    others: list[str] = []
    count = 0
    for where, question in objects(path, refuse):
        id, named = question.get("id"), question.get("documents") or []
        if not isinstance(id, str) or not isinstance(named, list):
            raise InputError(f"{where}: expected a question with an id, a text, and a list of documents")
        check_number(count := count + 1 + len(named), where)
        for address in map(str, named):
            if match := _PMID.fullmatch(address.strip()):
                result.setdefault(id, {})[match[1]] = 1
            else:
                others.append(address)
    if not result:
        raise InputError(f"{path}: no question names documents: questions of BioASQ's training or golden sets do")
    if others:
        log.warning("%s: %d documents are not of PubMed: %s", path, len(others), ", ".join(others[:3]))
    return result


register(Format("BioASQ", __name__, {JUDGMENTS: "BioASQ's questions with documents (JSON)"}, begins=r"\{|\["))
