"""Verifies an index: the checksums of all files, and the statistics in its description."""

from __future__ import annotations

from collections import Counter

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.artifact import FILES, read_object
from rerank_plugin.indexes.index_folder import INDEX, Index
from rerank_plugin.indexes.judged_queries import verify_judged
from rerank_plugin.indexes.layout import (
    DESCRIPTION,
    ENCODINGS,
    JUDGED,
    LUCENE_COMMIT_FILE,
    commit_file,
    derived_folders,
)
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.indexes.vector_store import verify_store


def verify(index: Index) -> int:
    """Verify an index and its encodings; returns the number of files compared.

    Raises:
        InputError: a file is damaged, missing, or not listed in the description; or the description does not match its
            checksum or the files.
    """
    description, own = index.description, index.folder / commit_file(index.number)
    INDEX.compare(index.folder, description[FILES], "rebuild the index")
    for lucene in index.lucene_indexes:
        if (commit := lucene.get(LUCENE_COMMIT_FILE)) and f"{lucene['path']}/{commit}" not in description[FILES]:
            path = index.folder / lucene["path"] / commit
            raise InputError(f"{path} is not on the list of {DESCRIPTION}: rebuild the index")
    _check_statistics(index)
    if read_object(own, "rebuild the index") != description:
        raise InputError(f"{own} differs from {DESCRIPTION}: rebuild the index")
    count = len(description[FILES])
    count += sum(verify_store(folder, index.forward) for folder in derived_folders(index, ENCODINGS))
    count += sum(verify_judged(folder, index.forward) for folder in derived_folders(index, JUDGED))
    if fault := INDEX.fault(index.folder):
        raise InputError(f"{index.folder} {fault}")
    return count


def _check_statistics(index: Index) -> None:
    """Compare the description's statistics with the arrays: its checksum may have been taken out."""
    forward, path = index.forward, index.folder / DESCRIPTION
    counts = Counter[str]()
    for segment in forward.segments:
        counts.update(segment.token_counts())
    for number, _, local in forward.row_map.by_segment(forward.deleted):
        counts.subtract(forward.segments[number].token_counts(local))
    for field in FIELDS:
        mean = counts[field] / max(forward.documents, 1)
        description, expected = index.description["fields"].get(field), {"tokens": counts[field], "mean_length": mean}
        if description != expected:
            raise InputError(
                f"{path}: the field {field} has {description}, but its documents {expected}: rebuild the index"
            )
    if (count := index.description.get("documents")) != forward.documents:
        raise InputError(f"{path} has {count} documents, but its files {forward.documents}: rebuild the index")
