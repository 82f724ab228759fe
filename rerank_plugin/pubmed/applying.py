"""Builds an index from a mirror, or brings it up to date: file by file, in the order of their numbers.

Each file is one update of the index, which appears whole or not at all and says in the same commit which file was
applied last. So after a kill a run goes on with the file that was being applied. A file that was applied changes
nothing when it is applied again: records that the index holds as they are, or in a newer version, are left out.

A file that was published anew after it was applied is applied again, with all later ones that were, in one update: the
last record of an article counts, as it did before.

The baseline of the next year repeats nearly all records. Its files are applied to the index like updates. The first
update file after them shows that the baseline is complete: with it, articles of the index go that it lacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document
from rerank_plugin.corpora import Problems, pubmed_xml
from rerank_plugin.corpora.records import Deletion, DocumentStream
from rerank_plugin.encoding.updates import add_documents
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.index_folder import APPLIED, Index
from rerank_plugin.indexes.layout import DESCRIPTION
from rerank_plugin.indexes.revisions import UpdateReport
from rerank_plugin.indexes.segment import chunks
from rerank_plugin.pubmed.distribution import BASELINE, UPDATES, SourceFile, file_name
from rerank_plugin.pubmed.mirror import Mirror
from rerank_plugin.pubmed.reading import readers
from rerank_plugin.pubmed.selection import Selection

PUBMED = "pubmed"
ROWS = 1 << 20  # whose ids are compared at once


@dataclass(frozen=True)
class Applied:
    """What an index holds of the distribution, as its commit says.

    Attributes:
        release, last: of the file that was applied last.
        published: when the server changed that file, as an ISO date and time.
        replaces: the release whose articles are still to be compared with a new baseline; None for none.
        filter: the groups of the filter by which records were selected, as lists (:class:`Filter`); None for all.
        pace: seconds per megabyte that the file before it took; 0 where that is unknown.
        md5: of the files of this release that were applied, by their numbers from 1 on; "" where that is unknown.
        refused: articles whose newest version, above 1, the filter did not select, with this version.
    """

    release: int
    last: int
    published: str
    replaces: int | None = None
    filter: Sequence[Sequence[Any]] | None = None
    pace: float = 0.0
    md5: Sequence[str] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    source: str = PUBMED

    @property
    def name(self) -> str:
        return file_name(self.release, self.last)


@dataclass(frozen=True)
class FileReport:
    """What the application of a file did.

    Attributes:
        update: None without any record.
        problems: of its records.
        since: the file that was published anew, from which on files up to this one were applied again; None for none.
    """

    file: SourceFile
    update: UpdateReport | None
    problems: Problems
    seconds: float
    since: SourceFile | None = None


def applied(folder: str | Path) -> Applied | None:
    """What the index in a folder holds; None without an index.

    Raises:
        InputError: the index cannot be opened, or was not built from a mirror.
    """
    if not (Path(folder) / DESCRIPTION).exists():
        return None
    with closing(Index(folder)) as index:
        record = index.description.get(APPLIED)
    if not isinstance(record, dict) or record.get("source") != PUBMED:
        raise InputError(f"{folder} was not built from a mirror of PubMed: choose another folder for the index")
    return Applied(**record)


def pending(files: Sequence[SourceFile], before: Applied | None) -> list[SourceFile]:
    """The files that are to be applied next, up to the first number that is missing, of files that are sorted.

    A baseline that begins a newer release follows on what there is of the older one.
    """
    of_release: dict[int, dict[int, SourceFile]] = {}
    for file in files:
        of_release.setdefault(file.release, {}).setdefault(file.number, file)
    started = [release for release, numbers in of_release.items() if 1 in numbers and numbers[1].folder == BASELINE]
    if before is None:
        order = {max(started): 1} if started else {}
    else:
        order = {before.release: before.last + 1} | {release: 1 for release in started if release > before.release}
    following: list[SourceFile] = []
    for release, number in sorted(order.items()):
        numbers = of_release.get(release, {})
        while number in numbers:
            following.append(numbers[number])
            number += 1
    return following


def next_missing(files: Sequence[SourceFile], before: Applied | None) -> str | None:
    """The name of the file without which later ones of a mirror cannot be applied; None if there is no such file."""
    following = pending(files, before)
    applied = (0, 0) if before is None else (before.release, before.last)
    last = following[-1][:2] if following else applied
    later = [file for file in files if file[:2] > last]
    if not later:
        return None
    return file_name(later[0].release, last[1] + 1 if later[0].release == last[0] else 1)


def published_anew(mirror: Mirror, files: Sequence[SourceFile], before: Applied | None) -> list[SourceFile]:
    """The first applied file that the mirror has with another MD5 by now, and all that were applied after it.

    Raises:
        InputError: the mirror lacks one of these.
    """
    if before is None:
        return []
    of_release = {file.number: file for file in reversed(files) if file.release == before.release}
    known = ((of_release[number], md5) for number, md5 in enumerate(before.md5, 1) if md5 and number in of_release)
    first = next((file for file, md5 in known if mirror.md5(file) not in (md5, None)), None)
    if first is None:
        return []
    numbers = range(first.number, before.last + 1)
    if missing := [number for number in numbers if number not in of_release]:
        raise InputError(
            f"{mirror.folder} lacks {file_name(before.release, missing[0])}, which has to be applied again after "
            f"{first.name}, which was published anew: sync again"
        )
    return [of_release[number] for number in numbers]


def bring_up_to_date(
    mirror: Mirror,
    folder: str | Path,
    filter: Filter | None = None,
    threads: int | None = None,
    device: str = "cpu",
    progress: Callable[[Iterable[Document]], Iterable[Document]] = iter,
) -> Iterator[FileReport]:
    """Apply the files of a mirror that an index lacks, one at a time; each report follows on its commit.

    Args:
        folder: of the index, which is built if it does not exist.
        filter: selects the records of a new index; one that exists keeps its own.
        threads, device: of encoding, as for :func:`~rerank_plugin.encoding.updates.add_documents`.
        progress: wraps the documents of each file, for a progress bar.

    Raises:
        InputError: the index or the mirror cannot be used, a file of the mirror is damaged, the filter is another than
            that of the index, or no file has a record to index.
    """
    before = applied(folder)
    groups: Sequence[Sequence[Any]] | None
    if before is None:
        groups = None if filter is None else _groups(filter)
    elif filter is not None and _groups(filter) != before.filter:
        raise InputError(f"{folder} was built with another filter: build an index of this one in another folder")
    else:
        groups = before.filter
    files, pace = mirror.files(), 0.0
    again = published_anew(mirror, files, before)
    ordered = [*([again] if again else []), *([file] for file in pending(files, before))]
    with closing(readers([mirror.path(file) for file in group] for group in ordered)) as reading:
        for group, reader in zip(ordered, reading):
            for file in group:
                mirror.check(file)
            started, problems = time.monotonic(), Problems()
            replaces, refused, md5 = None, dict[str, int](), list[str]()
            if before is not None:
                replaces = before.replaces if before.release == file.release else before.release
                pace = pace or before.pace
            if before is not None and before.release == file.release:
                refused, md5 = dict(before.refused), list(before.md5)
            md5 += [""] * (file.number - len(md5))
            md5[group[0].number - 1 :] = [mirror.md5(one) or "" for one in group]
            absent = list[Deletion]()
            if replaces is not None and file.folder == UPDATES:
                absent, replaces = _absent(mirror, files, file.release, folder), None
            stat = reader.paths[-1].stat()
            published = datetime.fromtimestamp(stat.st_mtime, timezone.utc).isoformat(timespec="seconds")
            following = Applied(file.release, file.number, published, replaces, groups, pace, md5, refused)
            read = reader.documents(problems)
            selected = Selection(_filter(groups), refused).of(DocumentStream(read, [*read.lists, absent]))
            update = _apply(selected, folder, mirror, problems, before, following, threads, device, progress)
            seconds = time.monotonic() - started
            pace = round(seconds / sum(path.stat().st_size for path in reader.paths) * 1e6, 2)
            before = following if update is not None else before
            yield FileReport(file, update, problems, seconds, group[0] if group is again else None)


def _apply(
    documents: DocumentStream,
    folder: str | Path,
    mirror: Mirror,
    problems: Problems,
    before: Applied | None,
    following: Applied,
    threads: int | None,
    device: str,
    progress: Callable[[Iterable[Document]], Iterable[Document]],
) -> UpdateReport | None:
    """Make a commit of the documents and deletions of a file; None for a file without documents for a new index."""
    if before is None:
        if (first := next(documents, None)) is None:
            return None
        built = build_single(
            progress(chain((first,), documents)), Path(folder), str(mirror.folder), problems, applied=vars(following)
        )
        return UpdateReport(built.documents, 0, built.documents)

    def planned() -> Iterator[Document]:
        if applied(folder) != before:  # the index is locked by now
            raise InputError(f"{folder} was updated by another process: start again")
        yield from documents

    return add_documents(
        folder, DocumentStream(planned(), documents.lists), str(mirror.folder), problems, threads, progress, device,
        applied=vars(following),
    )  # fmt: skip


def _groups(filter: Filter) -> list[list[Any]]:
    """A filter as it is read from JSON: the groups whose values are required, and those that are excluded."""
    return [[[field, list(values)] for field, values in groups] for groups in (filter.values, filter.excluded)]


def _filter(groups: Sequence[Sequence[Any]] | None) -> Filter | None:
    if groups is None:
        return None
    required, excluded = (tuple((field, tuple(values)) for field, values in group) for group in groups)
    return Filter(required, excluded)


def _absent(mirror: Mirror, files: Sequence[SourceFile], release: int, folder: str | Path) -> list[Deletion]:
    """Deletions of the articles of an index that are not in the baseline of a release.

    Raises:
        InputError: the mirror lacks a file of the release's baseline.
    """
    of_release = {file.number: file for file in reversed(files) if file.release == release}
    first_update = min(file.number for file in of_release.values() if file.folder == UPDATES)
    if missing := sorted({*range(1, first_update)} - of_release.keys()):
        raise InputError(
            f"{mirror.folder} lacks {file_name(release, missing[0])}: all of a new baseline is read once more to "
            "find the articles that it has no longer; sync again"
        )
    baseline = (pubmed_xml.pmids(mirror.path(of_release[number])) for number in range(1, first_update))
    pmids = np.unique(np.concatenate([*baseline]))
    absent: list[Deletion] = []
    with closing(Index(folder)) as index:
        for rows in chunks(index.forward.live_rows, ROWS):
            ids = index.forward.ids.take(rows)
            numbers = np.array(list(map(pubmed_xml.number, ids)), np.uint32)  # 0 for none
            gone = (numbers > 0) & np.isin(numbers, pmids, invert=True)
            absent += [Deletion(ids[place]) for place in np.flatnonzero(gone).tolist()]
    return absent
