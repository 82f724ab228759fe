"""Reads Lucene indexes, ours and others': their commit, their documents in the order of their numbers, and filters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import FILTERS, Filter, years
from rerank_plugin.base.records import Document
from rerank_plugin.corpora.formats import jsonl
from rerank_plugin.corpora.metadata import metadata_of
from rerank_plugin.java.jvm import java_class, start_jvm

_ID_PAGE = 50_000
CONTENTS = "contents"
# Pyjnius binds a method to the object that asked for it last, in whatever thread.
_ONE_AT_A_TIME = RLock()


def open_reader(folder: Path) -> Any:
    """An IndexReader of a Lucene index; starts the JVM. An `InputError` if there is none that can be read."""
    start_jvm()
    from jnius import JavaException, cast

    try:
        directory = java_class("org.apache.lucene.store.FSDirectory").open(
            java_class("java.nio.file.Paths").get(str(folder.absolute()))  # Java stays where it was started
        )
        reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    except JavaException as error:
        said = str(error).splitlines()[0]
        raise InputError(
            f"{folder} cannot be opened as a Lucene index ({said:.200}): rebuild it, or if a newer pyserini built it, "
            "update pyserini"
        ) from None
    return cast("org.apache.lucene.index.IndexReader", reader)  # the declared type picks the right constructors


def without_stored_fields(reader: Any) -> Any:
    """The same index without what is stored of documents, which Anserini's RM3 reads of every hit and does not use.

    Close it as well as the reader.
    """
    from jnius import cast

    whole = cast("org.apache.lucene.index.CompositeReader", reader)
    bare = java_class("org.apache.lucene.index.ParallelCompositeReader")(False, [whole], [])
    return cast("org.apache.lucene.index.IndexReader", bare)


def commit_id(reader: Any) -> str:
    """The id of the commit that a reader has open: Lucene makes a new one for every commit.

    It is written to the base 36, as Lucene 9 writes ids; Lucene 10, which reads the same indexes, has the base 16.
    """
    from jnius import cast

    infos = cast("org.apache.lucene.index.StandardDirectoryReader", reader).getSegmentInfos()
    return java_class("java.math.BigInteger")(1, infos.getId()).toString(36)


def lucene_ids(reader: Any) -> Iterator[list[str]]:
    """External ids in the order of Lucene's document numbers, in large pages."""
    searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
    everything = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    score_doc = java_class("org.apache.lucene.search.ScoreDoc")
    scored_docs = java_class("io.anserini.search.ScoredDocs")
    page, done = searcher.search(everything, _ID_PAGE), 0
    while done < reader.maxDoc():
        ids = scored_docs.fromTopDocs(page, searcher).docids
        yield ids
        done += len(ids)
        # All documents score 1.0, so Lucene pages them by number.
        page = searcher.searchAfter(score_doc(done - 1, 1.0), everything, _ID_PAGE)


def indexed_fields(reader: Any) -> list[str]:
    """The names of the fields that can be searched, sorted."""
    names = java_class("org.apache.lucene.index.FieldInfos").getIndexedFields(reader)
    return sorted(names.toArray())


def lucene_numbers(reader: Any) -> np.ndarray:
    """The numbers of the documents that are not deleted, int64 [R]."""
    live = java_class("org.apache.lucene.index.MultiBits").getLiveDocs(reader)
    numbers = range(reader.maxDoc())
    return np.array([one for one in numbers if live is None or live.get(one)], np.int64)


def stored_documents(
    reader: Any,
    folder: Path,
    title_field: str | None = None,
    text_field: str | None = None,
    numbers: np.ndarray | None = None,
) -> Iterator[Document]:
    """Documents of a Lucene index, from what it stores of them.

    Titles and texts are in the JSON object that is stored as ``raw``, under the names that :mod:`jsonl
    <rerank_plugin.corpora.formats.jsonl>` knows, or else stored as ``contents``.

    Args:
        title_field, text_field: where titles and texts are: a key of that object or a stored field.
        numbers: of the documents, int64 [n]; by default of all that are not deleted, increasing.

    Raises:
        InputError: a document has no id, one that a run cannot hold, or no stored text; or none of all has a field.
    """
    stored, missing = reader.storedFields(), {title_field, text_field} - {None}
    for number in (lucene_numbers(reader) if numbers is None else numbers).tolist():
        found = stored.document(number)
        id = found.get("id")
        if not id or id.split() != [id]:
            raise InputError(f"{folder}: document number {number} has the id {id!r}: every document needs one")
        raw = found.get("raw")
        record: dict = {}
        if raw is not None:
            with suppress(ValueError, RecursionError):  # other collections store what they were made of
                record = jsonl.parse(raw.encode())
        missing = {field for field in missing if field not in record and found.get(field) is None}
        yield _document(id, record, raw, found, title_field, text_field, folder)
    if missing and numbers is None:
        raise InputError(f"{folder}: no document stores '{missing.pop()}': name keys of raw, or stored fields")


def _document(id: str, record: dict, raw: str | None, found: Any, title_field, text_field, folder: Path) -> Document:
    def value(field: str | None, keys: tuple[str, ...]) -> Any:
        if field is None:
            return jsonl.first(record, keys)
        return record.get(field, found.get(field))

    # Contents repeat the title where there is a text beside them, if only an empty one.
    texts = tuple(key for key in jsonl.TEXT_KEYS if key != CONTENTS and key in record)
    title, text = value(title_field, jsonl.TITLE_KEYS), value(text_field, texts or (CONTENTS,))
    if text is None and text_field is None and (title is None or not texts):
        text = record.get(CONTENTS) or found.get(CONTENTS) or (None if record else raw)
    if text is None and title is None:
        raise InputError(
            f"{folder}: document {id} has no stored text (neither raw nor contents): name the fields of titles and "
            "texts, or build the Lucene index again with -storeRaw"
        )
    try:
        return Document(id, jsonl.text_of(title), jsonl.text_of(text), metadata_of(record)[0])
    except ValueError as error:
        raise InputError(f"{folder}: document {id}: {error}") from None


def filter_query(filter: Filter) -> Any:
    """Lucene's query for the documents that fit a filter."""
    any_of = ([(_value_query(field, value), "SHOULD") for value in values] for field, values in filter.values)
    return clauses(*((clauses(*one), "FILTER") for one in any_of))


def _value_query(field: str, value: str) -> Any:
    term, name = java_class("org.apache.lucene.index.Term"), FILTERS[field]
    if field == "year":
        first, last = years(value)
        ranged = java_class("org.apache.lucene.search.TermRangeQuery")
        return ranged.newStringRange(name, first, f"{last}~", True, False)  # the tilde follows digits and hyphens
    one = java_class("org.apache.lucene.search.TermQuery")
    if (field, value) != ("retracted", "no"):
        return one(term(name, value))
    everything = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    return clauses((everything, "MUST"), (one(term(name, "yes")), "MUST_NOT"))  # those that do not say, too


def clauses(*parts: tuple[Any, str]) -> Any:
    """Lucene's query of other queries, each with what it is for: MUST, FILTER, SHOULD or MUST_NOT."""
    builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    occur = java_class("org.apache.lucene.search.BooleanClause$Occur")
    with _ONE_AT_A_TIME:
        for query, role in parts:
            builder.add(query, getattr(occur, role))
        return builder.build()


def matching_numbers(reader: Any, query: Any) -> np.ndarray:
    """Whether each Lucene number is of a document that matches a query, bool [L]."""
    with _ONE_AT_A_TIME:
        searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
        bit_set = java_class("org.apache.lucene.util.FixedBitSet")
        no_scores = java_class("org.apache.lucene.search.ScoreMode").COMPLETE_NO_SCORES
        weight = searcher.createWeight(searcher.rewrite(query), no_scores, 1.0)
        matching = [np.zeros(0, bool)]
        leaves = reader.leaves()
        for place in range(leaves.size()):
            leaf = leaves.get(place)
            bits, scorer = bit_set(leaf.reader().maxDoc()), weight.scorer(leaf)
            if scorer is not None:
                getattr(bits, "or")(scorer.iterator())
            words = np.array(bits.getBits(), np.int64).view(np.uint8)
            matching.append(np.unpackbits(words, bitorder="little")[: bits.length()].astype(bool))
    return np.concatenate(matching)
