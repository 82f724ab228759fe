"""Neural re-ranking for Pyserini/Lucene over PubMed-style literature.

The names in ``__all__`` are the library's public interface (``docs/api.md``); everything else is internal. Each is
imported when it is first used, so that importing the package costs nothing. The commands are
``rerank-plugin index``, ``search``, ``train``, ``evaluate``, ``embed`` and others (``rerank-plugin --help``).
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.2.0"


def _imports() -> dict[str, str]:
    """What is public, and where it is defined, as type checkers read it: the imports of ``__init__.pyi``."""
    with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as stub:
        lines = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in lines}


_PUBLIC = _imports()
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> _Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(_import_module(_PUBLIC[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
