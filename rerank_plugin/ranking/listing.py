"""A ranking for readers: a list that fits the terminal, or the ranked documents in formats of other programs."""

from __future__ import annotations

import logging
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing

from rerank_plugin.base.records import Document
from rerank_plugin.base.terminal import print_red
from rerank_plugin.corpora.exports import EXPORTS
from rerank_plugin.indexes.filter_values import emptied
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.ranking.pipeline import Ranking

log = logging.getLogger(__name__)
NARROW, INDENT = 60, 6  # characters: a narrower column of titles stands below the numbers, indented
RETRACTED = "RETRACTED:"
SHOWN = {"authors", "journal", "date", "retracted"}


def documents_of(ranking: Ranking, index: Index) -> Iterator[Document]:
    """The ranked documents as they are stored; where they are not, their titles."""
    rows, titles = ranking.candidates.rows[ranking.order], ranking.candidates.index.titles
    with closing(index.texts()) as stored:
        for row, id in zip(rows.tolist(), ranking.doc_ids):
            yield stored.document(row) or Document(id, titles[row], "")


def exported(ranking: Ranking, index: Index, format: str, first_rank: int = 1) -> Iterator[str]:
    """The ranked documents in a format of :mod:`rerank_plugin.corpora.exports`."""
    ranks = enumerate(ranking.ranked_scores.tolist(), first_rank)
    return EXPORTS[format].write(documents_of(ranking, index), ranks)


def print_list(ranking: Ranking, index: Index, first_rank: int = 1) -> None:
    """Print rank, score, first-stage rank, id, title, authors, journal and date of each document.

    On a terminal, the texts are wrapped to its width; elsewhere a document is a line.
    """
    if not len(ranking.order):
        print(emptied(index, ranking.query.filter) or "no document matches the query")
        return
    if ranking.missing is not None:
        log.warning("%s", ranking.missing)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    width = max(len("document"), *map(len, ranking.doc_ids))
    print(header := f"{'rank':>4}  {'score':>9}  {'first stage':>11}  {'document':<{width}}  title")
    start = len(header) - len("title")
    below = columns and columns - start < NARROW
    indent = " " * (INDENT if below else start)
    end = f"\n{indent}" if below else "  "
    hits = zip(ranking.order.tolist(), ranking.ranked_scores.tolist(), _listed(ranking, index))
    for rank, (place, score, document) in enumerate(hits, first_rank):
        print(f"{rank:>4}  {score:>9.4f}  {place + 1:>11}  {document.id:<{width}}", end=end)
        metadata, text = document.metadata or {}, _citation(document)
        if metadata.get("retracted"):
            print_red(RETRACTED)
            text = f" {text}"
        if columns:
            first = f"{indent}{RETRACTED if text[0] == ' ' else ''}"
            text = textwrap.fill(text, columns, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)[
                len(first) :
            ]
        print(text)


def _listed(ranking: Ranking, index: Index) -> Iterator[Document]:
    """The documents of a list; of an index without what it shows beside titles, these, which do not need Java."""
    counts = index.description.get("lucene", {}).get("metadata")  # None for an index of another tool
    if counts is None or counts.keys() & SHOWN:
        return documents_of(ranking, index)
    titles = ranking.candidates.index.titles.take(ranking.candidates.rows[ranking.order])
    return (Document(id, title, "") for id, title in zip(ranking.doc_ids, titles))


def _citation(document: Document) -> str:
    """``Title (Smith JA et al.; BMJ, 2019-03)``."""
    metadata = document.metadata or {}
    authors = metadata.get("authors") or []
    by = f"{authors[0]} et al." if len(authors) > 2 else ", ".join(authors)
    source = ", ".join(filter(None, (metadata.get("journal"), metadata.get("date"))))
    more = "; ".join(filter(None, (by, source)))
    return f"{document.title or '(no title)'} ({more})" if more else document.title or "(no title)"
