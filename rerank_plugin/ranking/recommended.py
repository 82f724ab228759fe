"""The recommended ranking of an index without judgments, for the command, the library, the service and its page.

What it gains and costs: docs/models/README.md. Where rankings are chosen: experiments/results/dev-sets.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.ranking.pipeline import OpenPipeline
from rerank_plugin.retrieval.dense import NotEncodedError
from rerank_plugin.retrieval.hybrid import HYBRID
from rerank_plugin.retrieval.lucene import BM25
from rerank_plugin.retrieval.register import configure


class Recommended(NamedTuple):
    """A first stage and a reranker, by their names."""

    first_stage: str
    reranker: str


ENCODED, NOT_ENCODED = Recommended(HYBRID, "delta+0.5"), Recommended(BM25, "delta")


def recommended(index: str | Path | Index) -> Recommended:
    """The first stage and the reranker by which to rank without judgments.

    They are ``hybrid`` and ``delta+0.5`` for an index that ``index --encode ktrel`` encoded, otherwise ``bm25`` and
    ``delta``.

    Args:
        index: as for `Searcher`.

    Raises:
        InputError: there is no such index, or its encodings cannot be used.
    """
    opened = open_index(index)
    try:
        OpenPipeline(opened, opened.first_stage(configure(HYBRID))).close()
    except NotEncodedError:
        return NOT_ENCODED
    finally:
        if opened is not index:
            opened.close()
    return ENCODED
