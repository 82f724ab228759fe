"""Judgment files: ``query iteration document grade`` of trec_eval, or ``query-id corpus-id score`` of BEIR.

White space separates the columns of both (ids have none); the number of columns decides between the two. Negative
grades occur in TREC and are kept. A whole grade is an int, also if written as 1.0; other grades, such as the relevance
levels of click logs, are floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments
from rerank_plugin.corpora.metadata import folded_key
from rerank_plugin.corpora.register import JUDGMENTS, Format, register
from rerank_plugin.files.text_files import lines, parse_number

GRADES = ("score", "relevance", "rel", "grade", "label", "judgment", "judgement", "qrel", "rating")  # in a header
HIGHEST = 2**31 - 1  # as trec_eval's
MOST = 20_000_000  # judgments, which are kept in memory


def judgments(path: Path) -> Judgments:
    """The judgments of a file."""
    return collected(path, ((f"{path}:{number}", line.split()) for number, line in lines(path)))


def collected(path: Path, rows: Iterable[tuple[str, list[str]]]) -> Judgments:
    """The judgments of lines, given by place and columns; a header is known by its last. A repeated pair must have the
    same grade.
    """
    result: Judgments = {}
    width = 0
    for count, (where, columns) in enumerate(rows):
        check_number(count, where)
        if not width:
            width = len(columns)
            if folded_key(columns[-1]) in GRADES:  # the header of BEIR, or another
                continue
        if len(columns) != width or width not in (3, 4):
            expected = width if width in (3, 4) else "4 (query 0 document grade) or 3 (query document grade)"
            raise InputError(f"{where}: expected {expected} columns, found {len(columns)}")
        query, document, grade = columns[0], columns[-2], _grade(columns[-1], where)
        of_query = result.setdefault(query, {})
        if of_query.setdefault(document, grade) != grade:
            raise InputError(
                f"{where}: query {query}, document {document} was judged {of_query[document]} before and "
                f"{grade} here: remove one judgment"
            )
    if not result:
        raise InputError(f"{path}: holds no judgments: expected lines with query 0 document grade")
    return result


def check_number(count: int, where: str) -> None:
    """An `InputError` if there are more judgments than are read."""
    if count > MOST:
        raise InputError(f"{where}: more than {MOST:,} judgments: give those of the queries that you evaluate")


def _grade(text: str, where: str) -> float:
    try:
        grade = parse_number(text)
    except ValueError:
        raise InputError(f"{where}: the grade {text!r:.50} is not a number") from None
    if not math.isfinite(grade):
        raise InputError(f"{where}: the grade {text!r:.50} is not finite")
    if abs(grade) > HIGHEST:
        raise InputError(f"{where}: the grade {text!r:.50} is above {HIGHEST:,}")
    return int(grade) if grade.is_integer() else grade


register(Format("qrels", __name__, {JUDGMENTS: "a TREC qrels file, a BEIR qrels .tsv file"}, default=True))
