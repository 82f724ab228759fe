"""Joins segments, and opens what a commit says of all its documents together.

=====================  =======  ======  =============================================================================
commits/NUMBER/        dtype    shape   content
=====================  =======  ======  =============================================================================
terms                  (string table: the vocabulary of all segments)
df_FIELD               uint32   [V]     documents that hold the term in the field
deleted                uint32   [n]     rows of deleted and replaced documents, sorted
places                 uint32   [R]     of each row among the documents of all segments, one after the other
lucene_rows            uint32   [L]     row of each Lucene document number; the largest uint32 for a deleted document
=====================  =======  ======  =============================================================================

A commit writes what has changed, and names the files of earlier ones for the rest. Of an index of one segment without
deleted documents, vocabulary and document frequencies are the segment's own. Only an index of shards has ``places``,
and ``lucene_rows`` of each shard, by the rows there (:mod:`rerank_plugin.indexes.rows`).

Terms are numbered in the order of their first occurrence in the rows. Numbers stay as long as there is a segment that
was written with them; when all are merged into one, its terms are numbered anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.files.arrays import are_below, open_array, save_array
from rerank_plugin.files.checksums import check_once
from rerank_plugin.files.string_table import StringTable, StringTableWriter
from rerank_plugin.indexes.forward import NOTHING_DELETED, CommitData, ForwardIndex
from rerank_plugin.indexes.layout import COMMIT_DATA
from rerank_plugin.indexes.rows import NO_ROWS, Rows
from rerank_plugin.indexes.segment import FIELDS, NUMBERS, SEGMENTS, Segment, chunks, distinct_terms

CHUNK = 10_000  # documents whose terms are counted, and terms that are copied, at once


@dataclass(frozen=True)
class FieldStatistics:
    """Token count of one field over the collection, and the mean over documents."""

    tokens: int
    mean_length: float


class CommitSegment(NamedTuple):
    """A segment of a commit, the shard that has it, and the rows of its documents, increasing, int64 [n]."""

    segment: Segment
    shard: int
    rows: np.ndarray


class Joined(NamedTuple):
    """What a commit says of all documents: their number, the size of the vocabulary, and each field's statistics.

    Attributes:
        data: the folders or files of the parts, by name; None for none.
    """

    documents: int
    terms: int
    fields: dict[str, FieldStatistics]
    data: dict[str, str | None]


def join(
    folder: Path,
    own: str,
    parts: Sequence[CommitSegment],
    added: int,
    before: ForwardIndex | None = None,
    gone: np.ndarray = NO_ROWS,
    deleted: np.ndarray = NO_ROWS,
    copied: bool = False,
) -> Joined:
    """Join the segments of a commit.

    Args:
        own: the commit's folder in the index folder, in which what has changed is written.
        parts: all segments, those that no commit before has at the end. added: the number of these.
        before: the commit before; None where the terms of all segments are numbered anew.
        gone: rows of ``before`` that this commit deletes, int64 [n].
        deleted: all rows that are deleted in this commit, sorted, int64 [n].
        copied: whether the new segments have documents of ``before``, which are counted already.
    """
    (folder / own).mkdir(parents=True, exist_ok=True)
    data: dict[str, str | None] = {"deleted": None, "places": None}
    new = parts[len(parts) - added :]
    counts = dict.fromkeys(FIELDS, 0)
    if before is None and len(parts) == 1:
        segment = parts[0].segment
        data["terms"] = data["frequency"] = segment.folder.relative_to(folder).as_posix()
        terms, counts = len(segment.terms), segment.token_counts()
    else:
        description = None if before is None else before.owner.description
        known = None if before is None else before.terms
        assert known is None or isinstance(known, StringTable), "the terms of an index folder"
        missing = _number_terms(new, known)
        terms = len(missing) + (0 if known is None else len(known))
        if description is None or missing:
            _write_terms(folder / own, known, missing)
            data["terms"] = own
        else:
            data["terms"] = description[COMMIT_DATA]["terms"]
        if description is not None:
            counts = {field: description["fields"][field]["tokens"] for field in FIELDS}
        if description is not None and (copied or not (added or len(gone))):
            data["frequency"] = description[COMMIT_DATA]["frequency"]
        else:
            frequency = {field: np.zeros(max(terms, 1), np.uint32) for field in FIELDS}
            if before is not None:
                for field, numbers in before.document_frequency.items():
                    frequency[field][: len(numbers)] = numbers
            for segment, *_ in new:
                _count(segment, frequency, counts)
            if before is not None:
                for number, _, local in before.row_map.by_segment(gone):
                    _discount(before.segments[number], local, frequency, counts)
            for field, numbers in frequency.items():
                save_array(folder / own / f"df_{field}.npy", numbers)
            data["frequency"] = own
    if len(deleted):
        data["deleted"] = _saved(folder, f"{own}/deleted.npy", deleted)
    if len({part.shard for part in parts}) > 1:
        rows = np.concatenate([part.rows for part in parts])
        places = np.empty(len(rows), np.uint32)
        places[rows] = np.arange(len(rows), dtype=np.uint32)
        data["places"] = _saved(folder, f"{own}/places.npy", places)
    documents = sum(len(part.rows) for part in parts) - len(deleted)
    fields = {field: FieldStatistics(total, total / max(documents, 1)) for field, total in counts.items()}
    return Joined(documents, terms, fields, data)


def open_commit_data(
    folder: Path, description: Mapping[str, Any], segments: Sequence[Segment], shard: int | None
) -> CommitData:
    """What a commit says of all its segments together; of a shard that is opened alone, what it says of this one's.

    Args:
        segments: those that are open.

    Raises:
        ValueError: it does not fit the segments.
    """
    files, entries = description[COMMIT_DATA], description[SEGMENTS]
    folders = {segment.folder: segment for segment in segments}
    opened = list[Path]()

    def array(path: Path, length: int | None = None) -> np.ndarray:
        opened.append(path)
        return open_array(path, np.uint32, (length,))

    vocabulary = folders.get(folder / files["terms"])
    terms = StringTable(folder / files["terms"], "terms") if vocabulary is None else vocabulary.terms
    counts = folder / files["frequency"]
    frequency = {field: array(counts / f"df_{field}.npy", max(len(terms), 1)) for field in FIELDS}
    order, deleted = None, NOTHING_DELETED
    lengths = [one["documents"] for one in entries]
    if files["places"] is not None:
        order = array(folder / files["places"], sum(lengths))
    if files["deleted"] is not None:
        deleted = array(folder / files["deleted"])

    def is_sound() -> bool:
        return (
            are_below(deleted, sum(lengths))
            and bool((deleted[1:] > deleted[:-1]).all())
            and (order is None or bool((np.bincount(order, minlength=sum(lengths)) == 1).all()))
            and all(are_below(segment.numbers, len(terms)) for segment in segments)
            and all(len(segment.numbers) or len(segment.terms) <= len(terms) for segment in segments)
        )

    if not check_once(
        [*opened, *(one.folder / "terms.offsets.npy" for one in segments)], is_sound, lengths, len(terms)
    ):
        raise ValueError("what the commit says of its documents does not fit them")
    means = {field: numbers["mean_length"] for field, numbers in description["fields"].items()}
    shards = [one["shard"] for one in entries]
    if shard is None:
        return CommitData(terms, frequency, means, deleted, order, shards)
    gone = {number: local for number, _, local in Rows(lengths, order, shards).by_shard(deleted)}
    here = np.sort(gone.get(shard, NOTHING_DELETED)).astype(np.uint32)
    own = [number for number in shards if number == shard]
    return CommitData(terms, frequency, means, here, None, own, description["documents"])


def _saved(folder: Path, name: str, values: np.ndarray) -> str:
    save_array(folder / name, values.astype(np.uint32, copy=False))
    return name


def _number_terms(new: Sequence[CommitSegment], known: StringTable | None) -> list[str]:
    """Write the numbers of each new segment's terms; returns the terms that get new ones, in their order.

    Args:
        known: the vocabulary before.
    """
    strings = [part.segment.terms.take(np.arange(len(part.segment.terms))) for part in new]
    numbers = [
        np.full(len(some), -1, np.int64) if known is None else np.asarray(known.find(some), np.int64)
        for some in strings
    ]
    missing = [np.flatnonzero(some < 0) for some in numbers]
    owners = np.repeat(np.arange(len(new)), list(map(len, missing)))
    places = np.concatenate([NO_ROWS, *missing])
    if len(new) > 1:  # documents of several segments alternate
        order = np.lexsort(np.concatenate([np.zeros((2, 0), np.int64), *map(_firsts, new, missing)], axis=1))
        owners, places = owners[order], places[order]
    first = 0 if known is None else len(known)
    ids: dict[str, int] = {}
    for owner, place in zip(owners.tolist(), places.tolist()):
        numbers[owner][place] = first + ids.setdefault(strings[owner][place], len(ids))
    for (segment, *_), own in zip(new, numbers):
        segment.numbers = own.astype(np.uint32)
        save_array(segment.folder / f"{NUMBERS}.npy", segment.numbers)
    return list(ids)


def _firsts(part: CommitSegment, terms: np.ndarray) -> np.ndarray:
    """Where terms int64 [n] of a segment occur first: the position in the document, and its row; int64 [2, n]."""
    occurrences = part.segment.first_occurrences()[terms]
    documents = np.searchsorted(part.segment.offsets, occurrences, "right") - 1
    return np.stack([occurrences - part.segment.offsets[documents].astype(np.int64), part.rows[documents]])


def _write_terms(folder: Path, known: StringTable | None, missing: Sequence[str]) -> None:
    """Write the vocabulary: the one before, and the terms that it lacks."""
    writer = StringTableWriter(folder, "terms", True)
    if known is not None:
        writer.copy(known)
    writer.extend(missing)
    writer.close()


def _count(segment: Segment, frequency: dict[str, np.ndarray], counts: dict[str, int]) -> None:
    """Count the documents of a segment."""
    for field, total in segment.token_counts().items():
        frequency[field][segment.numbers] += segment.document_frequency[field][: len(segment.terms)]
        counts[field] += total


def _discount(segment: Segment, rows: np.ndarray, frequency: dict[str, np.ndarray], counts: dict[str, int]) -> None:
    """Take documents of a segment, rows int64 [n] there, out of the counts."""
    for field, total in segment.token_counts(rows).items():
        counts[field] -= total
    arrays, vocabulary = (segment.tokens, segment.offsets, segment.title_lengths), max(len(segment.terms), 1)
    for some in chunks(rows, CHUNK):
        for field, (_, terms) in distinct_terms(*arrays, vocabulary, some).items():
            np.subtract.at(frequency[field], segment.of_whole(terms), 1)
