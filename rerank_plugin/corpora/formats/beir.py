"""A folder in the layout of BEIR (Thakur et al., NeurIPS 2021, https://github.com/beir-cellar/beir).

    corpus.jsonl[.gz]        {"_id", "title", "text"}
    queries.jsonl[.gz]       {"_id", "text"}
    qrels/SPLIT.tsv[.gz]     query-id <TAB> corpus-id <TAB> score, with that header

`jsonl` reads the documents, `qrels` the grades (integers or not). A split is any name in qrels, such as ``test`` or
``train.graded``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document, Judgments, Query
from rerank_plugin.corpora import format_files
from rerank_plugin.corpora.formats import jsonl, qrels
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.register import READERS, Format, register
from rerank_plugin.files import zips
from rerank_plugin.files.text_files import plain_or_gz, uncompressed_name, with_suffix

log = logging.getLogger(__name__)


def corpus_file(folder: Path) -> Path | None:
    """The file of the documents, which all splits share, also of a zipped folder; None if there is none.

    A warning names other files that may hold documents.
    """
    if zips.is_zip(folder):
        return next((path for path in zips.members(folder) if uncompressed_name(path) == "corpus.jsonl"), None)
    path = plain_or_gz(folder / "corpus.jsonl")
    if path is not None:
        names = [one.name for one in with_suffix(folder, ".jsonl", ".json") if one.name != path.name]
        if others := [name for name in names if not name.startswith("queries")]:
            log.warning("%s: left out beside %s: %s", folder, path.name, ", ".join(others))
    return path


def documents(folder: Path, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents; none if the folder has no corpus."""
    path = corpus_file(folder)
    return jsonl.documents([path] if path else [], problems, ids_required)


def queries(folder: Path) -> list[Query]:
    """The queries of all splits of the folder, or of a folder of topics."""
    path = plain_or_gz(folder / "queries.jsonl")
    if path is None and (topics := format_files.folder_queries(folder)):
        return topics
    if path is None:
        raise InputError(f"{folder}: no queries.jsonl[.gz] in this folder: name a BEIR folder or a file of queries")
    return format_files.queries(path)


def judgments(folder: Path, split: str | None) -> Judgments:
    """The judgments of a split; None stands for the only split of the folder."""
    files = splits(folder)
    if not files:
        raise InputError(f"{folder}: no qrels/SPLIT.tsv in this folder: name a BEIR folder or a TREC qrels file")
    if split is None and len(files) == 1:
        split = next(iter(files))
    if split not in files:
        problem = f"no split {split!r}" if split else "several splits"
        raise InputError(f"{folder}: {problem}: use one of {', '.join(f'{folder}:{name}' for name in files)}")
    return qrels.judgments(files[split])


def splits(folder: Path) -> dict[str, Path]:
    """The names of the splits and their files, sorted."""
    qrels_folder = folder / "qrels"
    files = with_suffix(qrels_folder, ".tsv") if qrels_folder.is_dir() else []
    return {uncompressed_name(path)[: -len(".tsv")]: path for path in files}


register(Format("BEIR", __name__, dict.fromkeys(READERS, "a BEIR folder[:split] (data/nfcorpus:test)")))
register(Format("sample", __name__, dict.fromkeys(READERS, "sample[:split] (the bundled collection)")))
