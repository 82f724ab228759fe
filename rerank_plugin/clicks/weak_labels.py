"""Weak labels from a corpus: a title is a query, and its abstract the relevant document.

[D17] 7 names training on data made from the corpus as future work. The documents have no titles, since each would match
its own title exactly. The task is to rank a title's abstract above the other candidates of a first stage.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Document
from rerank_plugin.base.settings import setting
from rerank_plugin.files.beir_folder import write_queries_and_judgments
from rerank_plugin.files.outputs import FolderKind, replacing_folder
from rerank_plugin.text.tokenizer import tokenize

DESCRIPTION = "weak-labels.json"
WEAK_LABELS = FolderKind(
    "a folder of weak labels", DESCRIPTION, ("queries", "held_out"), ("corpus.jsonl.gz", "queries.jsonl", "qrels/*.tsv")
)


@dataclass(frozen=True)
class WeakLabelsConfig:
    """The numbers of queries, and the smallest documents."""

    queries: int = setting(5000, "number of titles to draw as queries")
    held_out: int = setting(500, "number of these queries to hold out for validation")
    title_words: tuple[int, int] = (3, 30)  # smallest and largest number of distinct words of a title
    abstract_words: int = 30  # smallest number of words of an abstract

    def __post_init__(self) -> None:
        if not 0 < self.held_out < self.queries:
            raise InputError(f"{self.held_out} of {self.queries} queries are held out: hold out at least 1, not all")


def write(
    documents: Iterable[Document], folder: Path, config: WeakLabelsConfig, seed: int, overwrite: bool = False
) -> int:
    """Write a BEIR folder with the splits ``train`` and ``dev``, atomically; returns the number of its documents.

    Only the first of the documents with the same title or the same abstract is used. The drawn queries depend on the
    order of the documents and the seed alone. Documents get new ids.

    Raises:
        InputError: the folder exists and must not be replaced, or too few documents are usable.
    """
    with replacing_folder(folder, WEAK_LABELS, overwrite) as writing:
        titles = _write_corpus(documents, writing / "corpus.jsonl.gz", config)
        if len(titles) < config.queries:
            raise InputError(
                f"only {len(titles)} documents have a title of {' to '.join(map(str, config.title_words))} words and "
                f"an abstract of {config.abstract_words} words or more: ask for fewer queries"
            )
        drawn = np.random.default_rng(seed).choice(len(titles), config.queries, replace=False).tolist()
        held_out = config.held_out
        write_queries_and_judgments(
            writing,
            ((f"t{number}", titles[number]) for number in drawn),
            {
                split: ((f"t{number}", f"d{number}", 1) for number in numbers)
                for split, numbers in (("dev", drawn[:held_out]), ("train", drawn[held_out:]))
            },
        )
        (writing / DESCRIPTION).write_text(json.dumps({**asdict(config), "seed": seed}, indent=1), encoding="utf-8")
    return len(titles)


def _write_corpus(documents: Iterable[Document], path: Path, config: WeakLabelsConfig) -> list[str]:
    """Write the usable abstracts with the ids d0, d1, ...; returns their titles."""
    shortest, longest = config.title_words
    titles: list[str] = []
    seen: set[int] = set()
    with (
        open(path, "wb") as raw,
        gzip.GzipFile("", "wb", 3, raw, mtime=0) as zipped,  # equal contents give equal files
        TextIOWrapper(zipped, "utf-8") as file,
    ):
        for document in documents:
            if not shortest <= len(set(tokenize(document.title))) <= longest:
                continue
            if len(tokenize(document.abstract)) < config.abstract_words:
                continue
            hashes = {hash(("title", document.title.lower())), hash(("abstract", document.abstract.lower()))}
            if hashes & seen:
                continue
            seen |= hashes
            record = {"_id": f"d{len(titles)}", "title": "", "text": document.abstract}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            titles.append(document.title)
    return titles
