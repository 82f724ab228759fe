"""Neural re-ranking for Pyserini/Lucene over PubMed-style literature.

The names in ``__all__`` are the library's public interface (``docs/api.md``); everything else is internal. They are
lazily loaded, so importing the package is fast. The commands are ``rerank-plugin index``, ``search``, ``train``,
``evaluate``, ``embed`` and others (``rerank-plugin --help``).
"""

import signal as _signal
import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.3.0"


_PUBLIC = {  # as in __init__.pyi, which type checkers read
    "Document": "rerank_plugin.base.records",
    "Explanation": "rerank_plugin.ranking.explanation",
    "Filter": "rerank_plugin.base.filters",
    "Hit": "rerank_plugin.ranking.hits",
    "Index": "rerank_plugin.indexes.index_folder",
    "InputError": "rerank_plugin.base.errors",
    "Query": "rerank_plugin.base.records",
    "RankedList": "rerank_plugin.files.runs",
    "RankedText": "rerank_plugin.ranking.reranker",
    "Reranker": "rerank_plugin.ranking.reranker",
    "Searcher": "rerank_plugin.ranking.searcher",
    "build_index": "rerank_plugin.indexes.corpus_index",
    "evaluate_runs": "rerank_plugin.evaluation.judged_runs",
    "rank": "rerank_plugin.ranking.ranked_lists",
    "rank_many": "rerank_plugin.ranking.ranked_lists",
    "read_run": "rerank_plugin.files.runs",
    "recommended": "rerank_plugin.ranking.recommended",
    "train_model": "rerank_plugin.training.train_model",
    "update_index": "rerank_plugin.encoding.updates",
    "write_run": "rerank_plugin.files.runs",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_PUBLIC[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _starts_a_command() -> bool:
    """Whether this process was started as ``rerank-plugin``, or as ``python -m`` with a module of this package."""
    if _sys.argv[:1] != ["-m"]:
        return _sys.argv[:1] != [] and _sys.argv[0].rpartition("/")[2] == "rerank-plugin"
    named = _sys.orig_argv[-len(_sys.argv) :][:1]  # either the module, or -m with it in one
    return named[0].removeprefix("-m").partition(".")[0] == __name__


# Before `options.run` there is nothing to clean up: Ctrl-C during imports ends a command without a traceback.
if _starts_a_command() and _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
