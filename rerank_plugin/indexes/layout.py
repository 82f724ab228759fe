"""The files of an index folder: a commit that names segments of documents, a Lucene index of them, and what is derived.

=====================  ==========================================================================================
in the folder          format 5
=====================  ==========================================================================================
index.json             the current commit: its id and number, tokenizer, segments in their order, statistics, source,
                       Lucene's commit, and size and checksums (:mod:`rerank_plugin.files.checksums`) of every file;
                       replaced atomically, last
commits/NUMBER.json    the same of every commit that is kept; open indexes hold a lock on theirs
commits/NUMBER/        what a commit says of all documents together (:mod:`rerank_plugin.indexes.joining`)
segments/NUMBER/       the segment (:mod:`rerank_plugin.indexes.segment`) that the commit NUMBER has written
lucene/                the Lucene index; missing if ``index.json`` refers to an index elsewhere
encodings/NUMBER/KEY/  document vectors of a model in a commit (:mod:`rerank_plugin.indexes.vector_store`)
judged/NUMBER/KEY/     judged queries, encoded by a model (:mod:`rerank_plugin.indexes.judged_queries`)
adapted/NUMBER/        the bundled encoder, adapted to the collection (:mod:`rerank_plugin.models.ktrel.adaptation`)
knowledge/             the knowledge base of the concepts (:mod:`rerank_plugin.indexes.index_concepts`)
shards/NUMBER/         the ``segments``, the Lucene index and the ``rest`` of a shard, in an index that is divided
=====================  ==========================================================================================

No file of a commit is ever changed: a later commit names it again, or other files. So an update
(:mod:`rerank_plugin.indexes.updating`) changes no byte that an open index reads. Encodings, judged queries and the
adapted encoder are derived (:mod:`rerank_plugin.indexes.derived`): each commit has folders of its own, whose files
are hard links to those of the commit before where they did not change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rerank_plugin.files.outputs import MARK

INDEX_FORMAT = 5  # of the folder
DESCRIPTION = "index.json"
COMMIT, COMMITS = "commit", "commits"
SHARDS = "shards"  # the folder of the shards, and their list in the description
REST = "rest"  # in a shard, the folder of the Lucene indexes with the numbers of the other shards
COMMIT_DATA = "whole"  # in the description: the files of what a commit says of all documents together
LUCENE_COMMIT_FILE = "segments"  # in the description of our own Lucene index: the file of its commit
MOST_DIGITS = 6

ENCODINGS = "encodings"  # of documents, each with a description and checksums of its own
JUDGED = "judged"  # queries, the same
ADAPTED = "adapted"  # a checkpoint; its checksum is the name of its encodings
DERIVED = (ENCODINGS, JUDGED, ADAPTED)
SPILLS = ".pieces"  # ends the name of the folder of an encoding that is not complete

# Files that a commit lists, or that an interrupted update has left; others are of the user or of other commands.
# Lucene's commits are removed before their segments: Lucene opens nothing beside a commit that lacks files.
LUCENE = ("segments_*", "pending_segments_*", "_*")
OF_SHARD = (
    *(f"lucene/{name}" for name in LUCENE),
    "segments/*/*.npy",
    *(f"{REST}/*/{name}" for name in (*LUCENE, "write.lock")),
)
OF_COMMITS = (
    f"{COMMITS}/*.json",
    f"{COMMITS}/*/*.npy",
    *OF_SHARD,
    *(f"{SHARDS}/*/{pattern}" for pattern in OF_SHARD),
)
WRITE_LOCKS = ("lucene/write.lock", f"{SHARDS}/*/lucene/write.lock")
EMPTIED = (f"{COMMITS}/*", "segments/*", f"{SHARDS}/*/segments/*", f"{SHARDS}/*/{REST}/*")  # folders of files that went
OF_FORMAT_4 = (
    "generations/*.json",
    "forward/*/*.npy",
    "lucene_rows.*.npy",
    *(f"{SHARDS}/*/{name}" for name in ("index.json", "generations/*.json", "forward/*/*.npy", "lucene_rows.*.npy")),
    *(f"{SHARDS}/*/{ENCODINGS}/*/*/{name}" for name in ("encodings.json", "*.npy")),
)


class InFolder(Protocol):
    """An open index, or its forward index: the commit ``number`` in a folder."""

    @property
    def folder(self) -> Path: ...

    @property
    def number(self) -> int: ...


def numbered(number: int) -> str:
    """The number of a commit in names of files."""
    return f"{number:0{MOST_DIGITS}d}"


def commit_file(number: int) -> str:
    """The path of the description of a commit."""
    return f"{COMMITS}/{numbered(number)}.json"


def shard_folder(number: int) -> str:
    """The path of a shard in the folder of its index."""
    return f"{SHARDS}/{number:03d}"


def derived_folder(index: InFolder, name: str) -> Path:
    """The folder of what models derived from the documents of an open index (of `DERIVED`); it need not exist."""
    return index.folder / name / numbered(index.number)


def derived_folders(index: InFolder, name: str) -> list[Path]:
    """The folders of a kind, each of a model, without those of encodings that are not complete or were interrupted."""
    folders = (path for path in derived_folder(index, name).glob("*") if path.is_dir() and MARK not in path.name)
    return sorted(path for path in folders if not path.name.endswith(SPILLS))
