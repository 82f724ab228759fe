"""Reads Lucene indexes, also of other programs: the commit, documents in the order of their numbers, and filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.base.filters import DATES, FILTERS, Filter, years
from rerank_plugin.base.metadata_fields import COMPARED
from rerank_plugin.base.records import Document
from rerank_plugin.base.stopping import LateError, Stopped, may_be_stopped, seconds_left, stop_if_asked
from rerank_plugin.corpora.json_objects import parse
from rerank_plugin.corpora.json_texts import TEXT_KEYS, TITLE_KEYS, first_value, text_of
from rerank_plugin.corpora.metadata import metadata_of
from rerank_plugin.java.jvm import java_class, java_path, start_jvm
from rerank_plugin.text.markup import without_markup

_ID_PAGE = 50_000
CONTENTS, ID = "contents", "id"
LONGEST_SIMILAR = 64  # letters of a term that similar ones are read of: an automaton grows with them
FIRST_DOCUMENTS = 1 << 14  # a step of matching, which grows to STEP
STEP = 0.1  # seconds
ASKED = 2.0  # seconds, beyond which Lucene asks us whether to go on: each time it waits for Python's lock
TRIES = 5  # to list the commits of an index from which an update removes older ones
Counts = Mapping[str, tuple[int, int]]  # of each field, the documents that have it and its words in all


def open_reader(folder: Path, commit: str | None = None) -> Any:
    """An IndexReader of a Lucene index; starts the JVM.

    Args:
        commit: the file of the commit to open, such as ``segments_2``; by default the last one.

    Raises:
        InputError: the folder cannot be read as a Lucene index, or has no such commit.
    """
    start_jvm()
    from jnius import JavaException, cast

    try:
        directory = open_directory(folder)
        opened = directory if commit is None else find_commit(directory, folder, commit)
        reader = java_class("org.apache.lucene.index.DirectoryReader").open(opened)
    except JavaException as error:
        message = damage(error)
        raise InputError(
            f"{folder} cannot be opened as a Lucene index ({message:.200}): rebuild it, or if a newer pyserini built "
            "it, update pyserini"
        ) from None
    return cast("org.apache.lucene.index.IndexReader", reader)  # the declared type picks the right constructors


def side_by_side(readers: list[Any]) -> Any:
    """One IndexReader of several, which it closes; it scores as one index of all documents."""
    from jnius import cast

    multi_reader = java_class("org.apache.lucene.index.MultiReader")(readers, True)
    return cast("org.apache.lucene.index.IndexReader", multi_reader)


def open_directory(folder: Path) -> Any:
    """Lucene's directory of a folder; starts the JVM."""
    start_jvm()
    return java_class("org.apache.lucene.store.FSDirectory").open(java_path(folder))


def segment_sizes(reader: Any) -> dict[str, int]:
    """The number of documents, deleted ones included, of each segment by its name, in the order of Lucene's numbers."""
    from jnius import cast

    leaves = reader.leaves()
    readers = [cast("org.apache.lucene.index.SegmentReader", leaves.get(i).reader()) for i in range(leaves.size())]
    return {segment.getSegmentName(): segment.maxDoc() for segment in readers}


def find_commit(directory: Any, folder: Path, file: str) -> Any:
    """The commit of a Lucene index whose file has this name; an `InputError` if there is none."""
    from jnius import JavaException, cast

    readers = java_class("org.apache.lucene.index.DirectoryReader")
    for tries_left in reversed(range(TRIES)):
        try:
            commits = readers.listCommits(directory).toArray()
            break
        except JavaException:  # Lucene read an older commit whose files the end of an update then removed, with it
            if not tries_left:
                raise
    for commit in commits:
        commit = cast("org.apache.lucene.index.IndexCommit", commit)
        if commit.getSegmentsFileName() == file:
            return commit
    raise InputError(f"{folder} lacks the commit {file}: the index is damaged; rebuild it")


def commit_files(reader: Any) -> tuple[str, list[str]]:
    """The file of a reader's commit, and all files of the commit, sorted."""
    from jnius import cast

    commit = cast("org.apache.lucene.index.DirectoryReader", reader).getIndexCommit()
    commit = cast("org.apache.lucene.index.IndexCommit", commit)
    return commit.getSegmentsFileName(), sorted(commit.getFileNames().toArray())


def without_stored_fields(reader: Any) -> Any:
    """The same index without stored fields, which Anserini's RM3 reads for every hit and does not use.

    Close it as well as the reader.
    """
    from jnius import cast

    composite = cast("org.apache.lucene.index.CompositeReader", reader)
    unstored = java_class("org.apache.lucene.index.ParallelCompositeReader")(False, [composite], [])
    return cast("org.apache.lucene.index.IndexReader", unstored)


def commit_id(reader: Any) -> str:
    """The id of a reader's commit; every commit has a new one.

    It is written in base 36, as in Lucene 9; Lucene 10, which reads the same indexes, writes base 16.
    """
    from jnius import cast

    infos = cast("org.apache.lucene.index.StandardDirectoryReader", reader).getSegmentInfos()
    return java_class("java.math.BigInteger")(1, infos.getId()).toString(36)


def field_counts(reader: Any, fields: Iterable[str]) -> Counts:
    """Lucene's counts of fields, from which it computes their mean lengths."""
    return {name: (reader.getDocCount(name), reader.getSumTotalTermFreq(name)) for name in fields}


def filterable_counts(reader: Any) -> Counter[str]:
    """The number of documents with each field of metadata that has a filter, deleted ones included."""
    counts = {name: reader.getDocCount(name) for name in sorted(FILTERS.values())}
    return Counter({name: count for name, count in counts.items() if count > 0})


def lucene_ids(reader: Any) -> Iterator[list[str]]:
    """External ids of all documents of an index of this package, by Lucene's numbers, in large pages."""
    values = java_class("org.apache.lucene.index.MultiDocValues").getBinaryValues(reader, ID)
    for first in range(0, end := reader.maxDoc(), _ID_PAGE):
        page = list[str]()
        for _ in range(first, min(first + _ID_PAGE, end)):
            values.nextDoc()
            page.append(values.binaryValue().utf8ToString())
        yield page


def indexed_fields(reader: Any) -> list[str]:
    """The names of the searchable fields, sorted."""
    return sorted(java_class("org.apache.lucene.index.FieldInfos").getIndexedFields(reader).toArray())


def lucene_numbers(reader: Any) -> np.ndarray:
    """The numbers of the documents that are not deleted, int64 [R]."""
    live = java_class("org.apache.lucene.index.MultiBits").getLiveDocs(reader)
    numbers = range(reader.maxDoc())
    return np.array([number for number in numbers if live is None or live.get(number)], np.int64)


def stored_text(reader: Any, number: int) -> tuple[str | None, str | None]:
    """The stored fields ``raw`` and ``contents`` of a document; these only where the first does not hold them."""
    document = reader.storedFields().document(number)
    raw = document.get("raw")
    return raw, None if raw is not None and '"contents"' in raw else document.get("contents")


def first_with_term(reader: Any, field: str, term: str) -> int | None:
    """The number of the first document with a term in a field; None without one."""
    term_query, of_field = java_class("org.apache.lucene.search.TermQuery"), java_class("org.apache.lucene.index.Term")
    searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
    hits = searcher.search(term_query(of_field(field, term)), 1).scoreDocs
    return int(hits[0].doc) if len(hits) else None


def similar_terms(reader: Any, field: str, term: str, edits: int) -> Iterator[tuple[str, int]]:
    """The terms of a field that begin alike, within so many edits of a term, and the documents that have each.

    None are read of a term of more than `LONGEST_SIMILAR` letters.
    """
    terms = java_class("org.apache.lucene.index.MultiTerms").getTerms(reader, field)
    if terms is None or len(term) > LONGEST_SIMILAR:
        return
    like = java_class("org.apache.lucene.index.Term")(field, term)
    each = java_class("org.apache.lucene.search.FuzzyTermsEnum")(terms, like, edits, min(1, len(term)), True)
    while (found := each.next()) is not None:
        yield found.utf8ToString(), int(each.docFreq())


def stored_documents(
    reader: Any,
    folder: Path,
    title_field: str | None = None,
    text_field: str | None = None,
    numbers: np.ndarray | None = None,
) -> Iterator[Document]:
    """Documents of a Lucene index, from its stored fields.

    Titles and texts come from the JSON object stored as ``raw``, under the keys of :mod:`jsonl
    <rerank_plugin.corpora.formats.jsonl>`, or from ``contents``; without inline markup.

    Args:
        title_field, text_field: the titles and texts: a key of that object or a stored field.
        numbers: of the documents, int64 [n]; by default all that are not deleted, increasing.

    Raises:
        InputError: a document has no id, an id that a run cannot hold, or no stored text; or no document has a field.
    """
    stored, missing = reader.storedFields(), {title_field, text_field} - {None}
    for number in (lucene_numbers(reader) if numbers is None else numbers).tolist():
        fields = stored.document(number)
        id = fields.get("id")
        if not id or id.split() != [id]:
            raise InputError(
                f"{folder}: document number {number} has the id {id!r}: every document needs an id without white space"
            )
        raw = fields.get("raw")
        record: dict = {}
        if raw is not None:
            with suppress(ValueError, RecursionError):  # other collections store raw in other formats
                record = parse(raw.encode())
        missing = {field for field in missing if field not in record and fields.get(field) is None}
        yield _document(id, record, raw, fields, title_field, text_field, folder)
    if missing and numbers is None:
        raise InputError(f"{folder}: no document stores '{missing.pop()}': name keys of raw, or stored fields")


def _document(
    id: str, record: dict, raw: str | None, fields: Any, title_field: str | None, text_field: str | None, folder: Path
) -> Document:
    def value(field: str | None, keys: tuple[str, ...]) -> Any:
        if field is None:
            return first_value(record, keys)
        return record.get(field, fields.get(field))

    # Contents repeat the title if there is a text beside them, even an empty one.
    texts = tuple(key for key in TEXT_KEYS if key != CONTENTS and key in record)
    title, text = value(title_field, TITLE_KEYS), value(text_field, texts or (CONTENTS,))
    if text is None and text_field is None and (title is None or not texts):
        text = record.get(CONTENTS) or fields.get(CONTENTS) or (None if record else raw)
    if text is None and title is None:
        raise InputError(
            f"{folder}: document {id} has no stored text (neither raw nor contents): name the fields of titles and "
            "texts, or build the Lucene index again with -storeRaw"
        )
    try:
        title, text = without_markup(text_of(title)), without_markup(text_of(text))
        return Document(id, title, text, metadata_of(record)[0])
    except ValueError as error:
        raise InputError(f"{folder}: document {id}: {error}") from None


def filter_query(filter: Filter, strategy: Any = None) -> Any:
    """Lucene's query for the documents that match a filter; ``strategy`` is that of its strategy, if it has one."""

    def any_of(field: str, values: Iterable[str]) -> Any:
        return clauses(*((value_query(field, value), "SHOULD") for value in values))

    required = [(any_of(*group), "FILTER") for group in filter.values]
    if strategy is not None:
        required.append((strategy, "FILTER"))
    elif not required:
        required = [(java_class("org.apache.lucene.search.MatchAllDocsQuery")(), "FILTER")]
    return clauses(*required, *((any_of(*group), "MUST_NOT") for group in filter.excluded))


def value_query(field: str, value: str) -> Any:
    """Lucene's query for the documents with a value, as :mod:`rerank_plugin.base.filters` compares it."""
    term, name = java_class("org.apache.lucene.index.Term"), COMPARED[FILTERS[field]]
    if field in DATES:
        first, last = years(value)
        term_range = java_class("org.apache.lucene.search.TermRangeQuery")
        return term_range.newStringRange(name, first, f"{last}~", True, False)  # the tilde sorts after digits, hyphens
    term_query = java_class("org.apache.lucene.search.TermQuery")
    if (field, value) != ("retracted", "no"):
        return term_query(term(name, value))
    match_all = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    return clauses((match_all, "MUST"), (term_query(term(name, "yes")), "MUST_NOT"))  # also documents without the field


def clauses(*parts: tuple[Any, str]) -> Any:
    """Lucene's Boolean query of other queries, each with its role: MUST, FILTER, SHOULD or MUST_NOT."""
    builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    for query, role in parts:
        builder.add(query, _occur(role))
    return builder.build()


@cache
def _occur(role: str) -> Any:
    return getattr(java_class("org.apache.lucene.search.BooleanClause$Occur"), role)


def count_matching(reader: Any, query: Any) -> int:
    """The exact number of documents that match a query."""
    searcher = limited(java_class("org.apache.lucene.search.IndexSearcher")(reader))
    count = int(searcher.count(query))  # others may search meanwhile
    check_ended(searcher)
    return count


def limited(searcher: Any) -> Any:
    """An IndexSearcher, whose searches end when the time of this thread is over; then call `check_ended`.

    Those with much time also end when the work of this thread is to stop.
    """
    if (seconds := seconds_left()) < inf:
        stop_if_asked()
        timer = java_class("org.apache.lucene.index.QueryTimeoutImpl")
        searcher.setTimeout(_asking() if seconds > ASKED and may_be_stopped() else timer(1 + int(1000 * seconds)))
    return searcher


@cache
def _asking() -> Any:
    """Lucene's question whether a search is to end, which it asks in the thread that searches."""
    from jnius import PythonJavaClass, java_method

    class Asking(PythonJavaClass):
        __javainterfaces__ = ("org/apache/lucene/index/QueryTimeout",)
        __javacontext__ = "app"

        @java_method("()Z")
        def shouldExit(self) -> bool:
            try:
                stop_if_asked()
            except (Stopped, LateError):
                return True
            return False

    loader = java_class("java.lang.ClassLoader").getSystemClassLoader()
    java_class("java.lang.Thread").currentThread().setContextClassLoader(loader)  # threads of Python have none
    return Asking()


def check_ended(searcher: Any) -> None:
    """A `LateError` if a search by a `limited` searcher was ended before it had seen all documents."""
    if seconds_left() < inf and searcher.timedOut():  # Lucene's clock also counts while this thread waits for a core
        stop_if_asked(is_late=True)


def matching_numbers(reader: Any, query: Any) -> np.ndarray:
    """Whether the document of each Lucene number matches a query, bool [L]; others may search meanwhile."""
    searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
    bit_set = java_class("org.apache.lucene.util.FixedBitSet")
    no_scores = java_class("org.apache.lucene.search.ScoreMode").COMPLETE_NO_SCORES
    weight = searcher.createWeight(searcher.rewrite(query), no_scores, 1.0)
    leaves = reader.leaves()
    matching, documents = [np.zeros(0, bool)], FIRST_DOCUMENTS
    for number in range(leaves.size()):
        leaf = leaves.get(number)
        bits = bit_set(leaf.reader().maxDoc())
        documents = _match(weight, leaf, bits, documents)
        if not bits.cardinality():  # as of a rare value, in most segments
            matching.append(np.zeros(bits.length(), bool))
            continue
        words = np.array(bits.getBits(), np.int64).view(np.uint8)
        matching.append(np.unpackbits(words, bitorder="little")[: bits.length()].astype(bool))
    return np.concatenate(matching)


def _match(weight: Any, leaf: Any, bits: Any, documents: int) -> int:
    """Set the bits of the matching documents of one of Lucene's segments, in steps of so many; returns the next step.

    A step makes the scorer anew, which collects the forms of truncated words: few large steps are faster.
    """
    first, size = 0, bits.length()
    while first < size:
        stop_if_asked()
        started, last = perf_counter(), min(first + documents, size)
        if (scorer := weight.scorer(leaf)) is None:
            break
        found = scorer.iterator()
        if (first, last) != (0, size):
            both = java_class("java.util.ArrayList")()
            both.add(found)
            both.add(java_class("org.apache.lucene.search.DocIdSetIterator").range(first, last))
            found = java_class("org.apache.lucene.search.ConjunctionUtils").intersectIterators(both)
        getattr(bits, "or")(found)
        first, took = last, perf_counter() - started
        documents = documents * 4 if took < STEP / 4 else max(documents // 4, 1) if took > STEP else documents
    return documents


class StoredTexts:
    """Reads the stored texts of an `Index`. It is thread-safe; its constructor starts Java."""

    def __init__(self, index: Any):
        self.index, self.lock, self.reader = index, Lock(), index.open_lucene()

    def stored(self, number: int) -> tuple[str | None, str | None]:
        """The stored fields ``raw`` and ``contents`` of a Lucene document."""
        with self.lock:
            return stored_text(self.reader, number)

    def document(self, row: int) -> Document | None:
        """Title and abstract of a row as indexed; None if they are not stored."""
        with self.lock, suppress(InputError):
            return next(self.index.stored_documents(self.reader, np.array([row])))
        return None

    def first_with(self, field: str, terms: tuple[str, ...]) -> int | None:
        """The first Lucene document with one of the terms in a field; None without one.

        Raises:
            InputError: no such field is indexed.
        """
        with self.lock:
            if field not in (known := indexed_fields(self.reader)):
                raise InputError(f"{self.index.folder} indexes no field '{field}'; it has {', '.join(known)}")
            numbers = (first_with_term(self.reader, field, term) for term in terms)
            return next((number for number in numbers if number is not None), None)

    def close(self) -> None:
        self.reader.close()
