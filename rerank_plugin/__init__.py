"""Neural re-ranking for Pyserini/Lucene over PubMed-style literature.

The names in ``__all__`` are the library's public interface (``docs/api.md``); everything else is internal. Each is
imported when it is first used, so that importing the package costs nothing. The commands are
``python -m rerank_plugin.index``, ``.search``, ``.train``, ``.evaluate`` and ``.embed``.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.2.0"

# What is public, and where it is defined; type checkers read the same from __init__.pyi.
_PUBLIC = {
    "Document": "rerank_plugin.files.records",
    "Explanation": "rerank_plugin.ranking.explanation",
    "Filter": "rerank_plugin.files.filters",
    "Hit": "rerank_plugin.ranking.reranker",
    "Index": "rerank_plugin.indexes.index_folder",
    "InputError": "rerank_plugin.files.errors",
    "Query": "rerank_plugin.files.records",
    "RankedList": "rerank_plugin.files.runs",
    "RankedText": "rerank_plugin.ranking.reranker",
    "Reranker": "rerank_plugin.ranking.reranker",
    "Searcher": "rerank_plugin.ranking.searcher",
    "build_index": "rerank_plugin.indexes.corpus_index",
    "evaluate_runs": "rerank_plugin.evaluation.judged_runs",
    "rank": "rerank_plugin.ranking.searcher",
    "rank_many": "rerank_plugin.ranking.searcher",
    "read_run": "rerank_plugin.files.runs",
    "train_model": "rerank_plugin.training.one_model",
    "write_run": "rerank_plugin.files.runs",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_PUBLIC[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
