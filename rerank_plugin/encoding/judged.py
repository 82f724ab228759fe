"""Encodes judged queries, and keeps them in an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.files.outputs import check_free, replacing_folder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.judged_queries import JUDGED, JudgedQueries, judged_folder
from rerank_plugin.retrieval.dense import QueryEncoder
from rerank_plugin.retrieval.neighbours import unit


def write_judged(
    index: ForwardIndex,
    encoder: QueryEncoder,
    sets: Iterable[tuple[str, Sequence[Query], Judgments]],
    overwrite: bool = False,
) -> tuple[Path, int]:
    """Encode judged queries and store them in the index folder, atomically; returns the folder and their number.

    Args:
        sets: for each source its name, its queries, and their judgments. Queries without a relevant document in the
            index, or without a word the model knows, are left out.

    Raises:
        InputError: the folder exists and ``overwrite`` is false, or no query is left.
    """
    folder = judged_folder(index, encoder.key)
    check_free(folder, JUDGED, overwrite)
    vectors, rows, sources = [], [], []
    for source, queries, judgments in sets:
        sources.append(source)
        for query in queries:
            relevant = [id for id, grade in judgments.get(query.id, {}).items() if grade > 0]
            indexed = index.rows(relevant) if relevant else np.zeros(0, np.int64)
            indexed = np.unique(indexed[indexed >= 0])
            vector = unit(encoder.encode(query.text)) if len(indexed) else None
            if vector is not None:
                vectors.append(vector)
                rows.append(indexed)
    if not vectors:
        raise InputError(f"{', '.join(sources)}: no query has a word the model knows and a relevant document")
    starts = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    judged = JudgedQueries(np.stack(vectors), starts, np.concatenate(rows).astype(np.uint32))
    with replacing_folder(folder, JUDGED, overwrite) as writing:
        judged.write(writing, index, sources)
    return folder, len(vectors)
