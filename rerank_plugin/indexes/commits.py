"""Commits of an index: the lock of the process that writes, the switch to a new commit, and the removal of old ones.

An update writes new files beside those of the current commit, and then replaces ``index.json``. Until then no reader
sees them; what an interrupted update has left is removed by the next. Open indexes hold a shared lock on the file of
their commit, which ends with their process. After the switch, and before the next update, the files of all commits that
nobody has open are removed.

No other module removes a file that a commit names. Encodings, which a commit need not have, are also replaced by
:mod:`rerank_plugin.encoding.index_encoder`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from rerank_plugin import __version__
from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import save_array, slices
from rerank_plugin.files.artifact import FILES
from rerank_plugin.files.outputs import (
    INNER,
    OutputLockedError,
    is_same_file,
    locked,
    remove_leftovers,
    replacing,
    sync,
    writing_to,
)
from rerank_plugin.indexes.index_concepts import KNOWLEDGE, IndexKnowledge
from rerank_plugin.indexes.index_folder import INDEX, Index, of_commit
from rerank_plugin.indexes.joining import CommitSegment, Joined, join
from rerank_plugin.indexes.layout import (
    COMMIT,
    COMMIT_DATA,
    COMMITS,
    DERIVED,
    DESCRIPTION,
    EMPTIED,
    LUCENE_COMMIT_FILE,
    OF_COMMITS,
    REST,
    SHARDS,
    commit_file,
    numbered,
    shard_folder,
)
from rerank_plugin.indexes.lucene_reader import field_counts, filterable_counts, open_reader
from rerank_plugin.indexes.lucene_writer import LuceneUpdate, lucene_rows, write_numbers
from rerank_plugin.indexes.rows import NO_ROWS
from rerank_plugin.indexes.segment import SEGMENTS, Segment, chunks

BATCH = 1000  # ids that are read at once


class NextCommit:
    """The commit after the current one of an index, or its first, while it is written.

    Args:
        folder: the index folder.
        before: the current commit; None for a new index.
        shards: the number of shards of a new index; None for one that is not divided.
        knowledge: the knowledge base of the concepts of a new index.
        check: raises an `InputError` if the folder was replaced meanwhile.

    Attributes:
        lucene: the Lucene index of each shard; empty for an index without any.
        lucene_description: what the description says of all Lucene indexes together.
        entries: of the description, besides those of the commit before.

    Raises:
        InputError: the Lucene index is of another program.
    """

    def __init__(
        self,
        folder: Path,
        before: Index | None = None,
        shards: int | None = None,
        knowledge: IndexKnowledge | None = None,
        check: Callable[[], None] = lambda: None,
    ):
        self.check = check
        self.folder, self.before, self.number = folder, before, 1 if before is None else before.number + 1
        self.own, self.shards, self.knowledge = f"{COMMITS}/{numbered(self.number)}", shards, knowledge
        self.lucene_description: dict[str, Any] = {}
        self.entries: dict[str, Any] = {}
        if before is None:
            self.lucene = [LuceneUpdate(folder, f"{self.prefix(shard)}lucene") for shard in range(shards or 1)]
            return
        self.knowledge, description = before.forward.knowledge, before.description
        self.shards = len(description[SHARDS]) if SHARDS in description else None
        if self.shards is None and before.lucene_folder.parent != before.folder:
            raise InputError(
                f"{before.folder} is beside the Lucene index {before.lucene_folder}, which is not changed: change that "
                f"with the program that built it, then: rerank-plugin index --lucene {before.lucene_folder} --index "
                f"{before.folder} --overwrite"
            )
        if any(LUCENE_COMMIT_FILE not in part for part in before.lucene_indexes):
            raise InputError(f"{before.folder} has no Lucene index, which an update changes: {before.rebuild}")
        self.lucene_description, self.lucene = dict(description["lucene"]), []
        for part, rows in zip(before.lucene_indexes, before.forward.lucene_rows_of_shards):
            files = [name for name in description["files"] if name.startswith(f"{part['path']}/")]
            self.lucene.append(LuceneUpdate(folder, part["path"], part, rows, files))

    def prefix(self, shard: int) -> str:
        """What the paths of a shard's folders begin with."""
        return "" if self.shards is None else f"{shard_folder(shard)}/"

    def segment_folder(self, shard: int) -> Path:
        """The folder of the segment of a shard that this commit writes."""
        return self.folder / f"{self.prefix(shard)}{SEGMENTS}/{numbered(self.number)}"

    def written_segment(self, shard: int) -> Segment:
        """The segment of a shard that this commit has written."""
        return Segment(self.segment_folder(shard), self.knowledge)

    @property
    def parts(self) -> list[CommitSegment]:
        """The segments of the commit before."""
        if self.before is None:
            return []
        forward = self.before.forward
        return [
            CommitSegment(segment, int(forward.row_map.shard_of[number]), forward.row_map.of_segment(number))
            for number, segment in enumerate(forward.segments)
        ]

    # Lucene

    def change_lucene(self, gone: np.ndarray, new: Mapping[int, tuple[Path, Segment]] = {}) -> None:
        """Delete documents from Lucene, and add those of other Lucene indexes.

        Args:
            gone: rows int64 [n].
            new: by shard the folder of a Lucene index, and the segment of the same documents.
        """
        index = self.before
        assert index is not None, "only an index that there is can be changed"
        forward, counts = index.forward, Counter[str](self.lucene_description["metadata"])
        deleted = {shard: (gone[at], local) for shard, at, local in forward.row_map.by_shard(gone)}
        for shard, update in enumerate(self.lucene):
            rows, local = deleted.get(shard, (NO_ROWS, NO_ROWS))
            added, folder = NO_ROWS, None
            if shard in new:
                folder, segment = new[shard]
                reader = open_reader(folder)
                added = lucene_rows(segment.ids, reader, len(forward.row_map.of_shard(shard)))
                update.counts = field_counts(reader, index.lucene_fields)
                counts += filterable_counts(reader)
                reader.close()
            if folder is not None or len(rows):
                ids = (id for some in chunks(rows, BATCH) for id in forward.ids.take(some))
                update.change(local, ids, folder, added)
        self.lucene_description["metadata"] = dict(sorted(counts.items()))

    @property
    def filterable(self) -> dict[str, int]:
        """The number of documents with each field that has a filter; all of Lucene's indexes are new or merged."""
        return dict(sorted(sum((update.filterable for update in self.lucene), Counter[str]()).items()))

    def _write_rest(self, shard: int) -> str | None:
        """Write Lucene's numbers of the documents that this commit has added to the other shards.

        Returns:
            the folder; None if there are no such documents.
        """
        others = [update.counts for number, update in enumerate(self.lucene) if number != shard]
        fields = sorted({name for counts in others for name in counts})
        totals = {name: np.sum([counts.get(name, (0, 0)) for counts in others], axis=0) for name in fields}
        if not any(documents for documents, _ in totals.values()):
            return None
        rest = f"{self.prefix(shard)}{REST}/{numbered(self.number)}"
        write_numbers(self.folder / rest, {name: (int(some), int(words)) for name, (some, words) in totals.items()})
        return rest

    def _describe_lucene(self, anew: bool) -> tuple[dict[str, Any], list[str]]:
        """The entries of the description on Lucene, and the names of their files."""
        description, names = [], list[str]()
        for shard, update in enumerate(self.lucene):
            entry = dict(update.description)
            if update.changed:
                entry["rows"] = f"{self.own}/lucene_rows{'' if self.shards is None else f'.{shard:03d}'}.npy"
                save_array(self.folder / entry["rows"], update.rows.astype(np.uint32, copy=False))
            names += [entry["rows"], *update.files]
            if self.shards is not None:
                entry[REST] = [*([] if anew else entry.get(REST, [])), *filter(None, [self._write_rest(shard)])]
                for rest in entry[REST]:
                    names += [f"{rest}/{path.name}" for path in (self.folder / rest).iterdir()]
            description.append(entry)
        if self.shards is not None:
            return {"lucene": {**self.lucene_description, "path": SHARDS}, SHARDS: description}, names
        return {
            "lucene": {**self.lucene_description, **(description[0] if description else {})} | self._metadata
        }, names

    @property
    def _metadata(self) -> dict[str, Any]:
        return {"metadata": self.lucene_description["metadata"]} if "metadata" in self.lucene_description else {}

    # the description

    def describe(
        self,
        parts: Sequence[CommitSegment],
        added: int,
        entries: Mapping[str, Any],
        gone: np.ndarray = NO_ROWS,
        deleted: np.ndarray = NO_ROWS,
        copied: bool = False,
    ) -> Joined:
        """Join the segments, and write the description of the commit; it is not the current one yet.

        ============  ==========================  =====  =======  ====================
        commit        parts                       added  deleted  and
        ============  ==========================  =====  =======  ====================
        new index     the new                     all             without ``before``
        add           those of before, the new    new    more     ``gone``: replaced
        delete        those of before             0      more     ``gone``
        small merge   those of before, one a      one a  fewer    ``copied``
                      shard for several           shard
        merge         one a shard                 all    none     ``copied``
        ============  ==========================  =====  =======  ====================

        Args:
            parts, added, gone, deleted, copied: as in :func:`~rerank_plugin.indexes.joining.join`.
            entries: of the description, that do not follow from these.
        """
        anew = added == len(parts)  # terms get new numbers, and the documents are counted anew
        before = None if self.before is None or anew else self.before.forward
        joined = join(self.folder, self.own, parts, added, before, gone, deleted, copied)
        lucene, names = self._describe_lucene(anew)
        for segment, *_ in parts:
            names += [path.relative_to(self.folder).as_posix() for path in segment.folder.iterdir()]
        for path in {self.folder / str(joined.data[name]) for name in ("terms", "frequency")}:
            prefix = {"terms": "terms.", "frequency": "df_"}
            names += [
                f"{joined.data[name]}/{file.name}"
                for name, start in prefix.items()
                if self.folder / str(joined.data[name]) == path
                for file in path.glob(f"{start}*.npy")
            ]
        names += [name for key in ("deleted", "places") if (name := joined.data[key]) is not None]
        before_files = {} if self.before is None else self.before.description["files"]
        if self.knowledge is not None:
            names += [name for name in before_files if name.startswith(f"{KNOWLEDGE}/")] or _knowledge_files(
                self.folder
            )
            entries = {**entries, KNOWLEDGE: self.knowledge.settings, "concepts": _concepts(parts, deleted)}
        kept = {} if self.before is None else self.before.description
        description = {
            **{name: value for name, value in kept.items() if name != FILES},
            COMMIT: uuid4().hex,
            "number": self.number,
            "documents": joined.documents,
            "terms": joined.terms,
            "created_by": f"rerank_plugin {__version__}",
            **entries,
            **self.entries,
            "fields": {field: asdict(numbers) for field, numbers in joined.fields.items()},
            SEGMENTS: [
                {
                    "path": segment.folder.relative_to(self.folder).as_posix(),
                    "documents": len(segment),
                    "shard": shard,
                }
                for segment, shard, _ in parts
            ],
            COMMIT_DATA: joined.data,
            **lucene,
        }
        files = INDEX.describe(self.folder, set(names), before_files)
        self.description = of_commit(self.number).seal(self.folder, description, files)
        return joined

    @contextmanager
    def switching(self) -> Iterator[Index]:
        """The index of this commit, once it is described; at the end of the block it becomes the current one."""
        assert self.before is not None, "an update is of an index"
        with closing(self.before.of_next_commit(self.description)) as after:
            yield after
        self.check()
        self.switch()

    def switch(self) -> None:
        """Make this commit the current one, once it is described; what it names is on the disk before."""
        known = set() if self.before is None else self.before.description["files"].keys()
        new = [self.folder / name for name in self.description[FILES] if name not in known]
        for derived in DERIVED:
            new += (self.folder / derived / numbered(self.number)).rglob("*")
        new = [self.folder / commit_file(self.number), *new]
        folders = {folder for path in new for folder in path.parents if folder.is_relative_to(self.folder)}
        sync({*new, *folders})
        with replacing(self.folder / DESCRIPTION, INNER, overwrite=True) as file:
            file.write((self.folder / commit_file(self.number)).read_bytes())


def _knowledge_files(folder: Path) -> list[str]:
    """The files of the knowledge base that were just written, but those that the annotator rebuilds."""
    files = (path.relative_to(folder).as_posix() for path in (folder / KNOWLEDGE).rglob("*") if path.is_file())
    return [name for name in files if not name.startswith(f"{KNOWLEDGE}/annotation/")]


def _concepts(parts: Sequence[CommitSegment], deleted: np.ndarray) -> int:
    """The number of concepts of all documents that are not deleted."""
    total = sum(len(part.segment.concepts) for part in parts if part.segment.concepts is not None)
    for segment, _, rows in parts:
        assert segment.concept_offsets is not None, "the index has a knowledge base"
        total -= int(slices(segment.concept_offsets, np.flatnonzero(np.isin(rows, deleted)))[1].sum())
    return total


@contextmanager
def next_commit(folder: str | Path) -> Iterator[NextCommit]:
    """The next commit of an index, which an update by this process alone describes and switches to.

    Raises:
        InputError: the index cannot be opened or written; as an `OutputLockedError` if another process updates it.
    """
    before = Index(folder)  # an InputError before anything is locked
    before.close()
    with _locked_index(folder) as (index, descriptor, real):

        def check() -> None:
            if not is_same_file(descriptor, real):
                raise InputError(f"{index.folder} was replaced or removed while it was being updated: start again")

        yield NextCommit(index.folder, index, check=check)


@contextmanager
def _locked_index(folder: str | Path) -> Iterator[tuple[Index, int, Path]]:
    """The current commit of an index, for this process alone; the descriptor of its folder, and its real path."""
    real = Path(os.path.realpath(folder))  # a link is followed
    with writing_to(folder), locked(real) as descriptor:
        index = Index(folder)
        try:
            _remove_others(index)
            yield index, descriptor, real
        finally:
            index.close()
            with suppress(InputError, OSError), closing(Index(folder)) as current:
                _remove_others(current)  # otherwise the next update does


@contextmanager
def adding_to(index: Index | None) -> Iterator[None]:
    """Write what is derived to the commit of an open index, by this process alone.

    Args:
        index: None, and that of an update of this process, need no lock.

    Raises:
        InputError: as `next_commit`; or the index was updated since it was opened.
    """
    if index is None or index.is_written:
        yield
        return
    with _locked_index(index.folder) as (current, _, _):
        if current.commit != index.commit:
            raise InputError(f"{index.folder} was updated since it was opened: open it again, or start again")
        yield


def _remove_others(index: Index) -> None:
    """Remove what neither the current commit nor any that is open needs."""
    folder, needed = index.folder, {*index.description["files"], commit_file(index.number)}
    for place in (folder, *(folder / SHARDS).glob("*")):
        remove_leftovers(place)
    for path in (folder / COMMITS).glob("*.json"):
        name = f"{COMMITS}/{path.name}"
        if name not in needed and _is_open(path):
            with suppress(ValueError):
                needed |= {name, *json.loads(path.read_bytes())["files"]}
    for pattern in OF_COMMITS:
        for path in folder.glob(pattern):
            if path.relative_to(folder).as_posix() not in needed:
                path.unlink()
    for derived in DERIVED:
        for path in (folder / derived).glob("[0-9]" * len(numbered(0))):
            if commit_file(int(path.name)) not in needed:
                shutil.rmtree(path)
    for empty in (path for pattern in EMPTIED for path in folder.glob(pattern)):
        if empty.is_dir():
            with suppress(OSError):
                empty.rmdir()


def _is_open(path: Path) -> bool:
    """Whether an open index holds the lock of a commit's file."""
    try:
        with locked(path):
            return False
    except (OutputLockedError, OSError):  # a file system without locks does not tell
        return True
