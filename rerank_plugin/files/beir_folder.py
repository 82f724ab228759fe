"""Writes queries and judgments in the layout of BEIR, which :mod:`rerank_plugin.corpora.formats.beir` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_queries_and_judgments(
    folder: Path, queries: Iterable[tuple[str, str]], splits: Mapping[str, Iterable[tuple[str, str, float]]]
) -> None:
    """Write queries.jsonl and a file of qrels for each split into an existing folder.

    Args:
        queries: ids and texts.
        splits: the judgments by name of the split: query id, document id, and grade, written with all its digits.
    """
    with open(folder / "queries.jsonl", "w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps({"_id": id, "text": text}, ensure_ascii=False) + "\n" for id, text in queries)
    (folder / "qrels").mkdir()
    for name, rows in splits.items():
        with open(folder / "qrels" / f"{name}.tsv", "w", encoding="utf-8", newline="\n") as file:
            file.write("query-id\tcorpus-id\tscore\n")
            file.writelines(f"{query}\t{document}\t{grade!r}\n" for query, document, grade in rows)
