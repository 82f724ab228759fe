"""CSV, separated by commas, semicolons or tabs: exports of PubMed, Europe PMC, Scopus, Rayyan, ASReview, Zotero and
CORD-19 as a corpus; queries, and judgments.

Names in the header tell what a column holds, in any letter case and order. The id of a document is the PMID of a row
that has one, or else the first of `IDS`. A value in quotes may have several lines.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Judgments
from rerank_plugin.corpora.formats import qrels, tsv
from rerank_plugin.corpora.json_texts import ALIASES, TEXT_KEYS, TITLE_KEYS
from rerank_plugin.corpora.metadata import folded_key, is_empty, whole_number
from rerank_plugin.corpora.problems import LONGEST, Problems
from rerank_plugin.corpora.records import Record, text_lines, usable_documents
from rerank_plugin.corpora.register import CORPUS, JUDGMENTS, QUERIES, Format, register

BAD_ROW = "bad CSV row"
PMIDS = ("pmid", "pubmedid")
IDS = (
    *PMIDS, "id", "docid", "docno", "documentid", "recordid", "paperid", "articleid", "extid", "corduid", "key", "eid",
    "openalexid", "pmcid", "doi", "accessionnumber",
)  # fmt: skip
TITLES, TEXTS = ALIASES[TITLE_KEYS].split(), ALIASES[TEXT_KEYS].split()
QUERY_IDS = (*tsv.IDS, "query", "q")  # of judgments
DOCUMENT_IDS = ("docid", "documentid", "docno", "corpusid", "pmid", "corduid", "doc", "document", "did")
SEPARATORS = ",;\t"
_QUERY_ID = '"?(?:q|query|topic)[ _-]?id'
_NAME = r'"?[\w #()/+.-]{0,60}"?'  # in a header


def documents(paths: Iterable[Path], problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of files, in their order.

    Raises:
        InputError: a header names no column of a title or an abstract.
    """
    records = (record for path in paths for record in _records(path, problems))
    return usable_documents(records, problems, ids_required)


def _records(path: Path, problems: Problems) -> Iterator[tuple[str, Record]]:
    rows = _rows(path, problems)
    where, header = next(rows, ("", []))
    names = [folded_key(name) for name in header]
    ids, titles, texts = ([names.index(name) for name in known if name in names] for known in (IDS, TITLES, TEXTS))
    if header and not titles and not texts:
        raise InputError(
            f"{where}: no column of a title or an abstract among {', '.join(header)}: rename one, as abstract"
        )
    for where, row in rows:
        id, title, text = (
            next(((names[at], row[at]) for at in columns if not is_empty(row[at])), ("", ""))
            for columns in (ids, titles, texts)
        )
        yield where, Record(whole_number(id[1].strip(), id[0] in PMIDS), title[1], text[1], dict(zip(header, row)))


def queries(path: Path, selected: object = (), field: str | None = None) -> Iterator[tuple[str, str, str]]:
    """(where, id, text) of every row; ``field``: the column of the text.

    Raises:
        InputError: a row cannot be read, or the columns of ids and texts are not known.
    """
    rows = _rows(path, Problems(strict=True))
    where, header = next(rows, ("", []))
    columns = tsv.header(header, field)
    if columns is None and (len(header) != 2 or field is not None):
        raise InputError(
            f"{where}: no columns of {field or 'query'} and id among {', '.join(header)}: rename two, as qid"
        )
    if columns is None:
        yield where, header[0].strip(), header[1]
    id, text = columns or (0, 1)
    yield from ((where, row[id].strip(), row[text]) for where, row in rows)


def judgments(path: Path) -> Judgments:
    """The judgments of a file; without names in a header, the columns are those of qrels."""
    return qrels.collected(path, _judged(path))


def _judged(path: Path) -> Iterator[tuple[str, list[str]]]:
    order: list[int] = []
    for where, row in _rows(path, Problems(strict=True)):
        if not order:
            names = [folded_key(name) for name in row]
            known = [
                next((names.index(name) for name in of_use if name in names), -1)
                for of_use in (QUERY_IDS, DOCUMENT_IDS, qrels.GRADES)
            ]
            order = known if min(known) >= 0 else [*range(len(row))]
        yield where, [row[at].strip() for at in order]


def _columns(text: str, separator: str) -> int:
    """The number of columns of a line; 0 of one that cannot be read."""
    try:
        return len(next(csv.reader([text], delimiter=separator)))
    except csv.Error:
        return 0


def _rows(path: Path, problems: Problems) -> Iterator[tuple[str, list[str]]]:
    """The place and the values of each row, the header first, all of as many columns.

    After a row that cannot be read, such as one with a quote that does not end, reading goes on at the next line.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    lines, ahead = text_lines(path, problems, "\r\n"), deque[tuple[str, str]]()
    separator, width = "", 0
    while (line := ahead.popleft() if ahead else next(lines, None)) is not None:
        where, text = line
        if not text.strip():
            continue
        separator = separator or max(SEPARATORS, key=lambda one: _columns(text, one))
        taken, complete = [line], True

        def row_lines() -> Iterator[str]:
            nonlocal complete
            yield f"{text}\n"
            length = len(text)
            while length <= LONGEST and (line := ahead.popleft() if ahead else next(lines, None)) is not None:
                taken.append(line)
                length += len(line[1])
                yield f"{line[1]}\n"
            complete = False

        try:
            row = next(csv.reader(row_lines(), delimiter=separator))
            reason = f"{len(row)} columns, where the header has {width}" if complete else "a quote does not end"
        except csv.Error as error:
            row, reason = [], str(error)
        width = width or len(row)
        if complete and row and len(row) == width:
            yield where, row
        else:
            problems.add(BAD_ROW, f"{where} ({reason})")
            ahead.extendleft(reversed(taken[1:]))


register(
    Format(
        "CSV",
        __name__,
        {
            CORPUS: "CSV with a header (*.csv)",
            QUERIES: "a CSV file[:field=COLUMN]",
            JUDGMENTS: "a CSV file of query, document and grade",
        },
        suffixes=(".csv",),
        begins=rf"(?i:(?!{_QUERY_ID}\b)(?=[^\r\n]*(?:title|abstract)){_NAME}(?:[,;\t]{_NAME})+[ \t]*(?:\r?\n|$)"
        rf'|{_QUERY_ID}"?[,;])',
        has_fields=True,
    )
)
