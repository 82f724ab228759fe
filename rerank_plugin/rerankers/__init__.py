"""Rerankers: the interface, and the registry that finds them by name.

A reranker is named on the command line as

* ``name`` or ``name:CHECKPOINT`` for a known name; ``delta`` alone is the model that comes with the package,
* a checkpoint folder alone (its ``config.json`` names the model; a folder that is called like a known name is
  written ``./name``), or
* ``package.module:Class`` from elsewhere: a class that is called with the forward index and has ``score``.

Other packages add names through the entry-point group ``rerank_plugin.rerankers``; the entry point is a callable with
the arguments of :func:`load`'s factories. Importing this module needs neither Java nor torch.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Sequence

from rerank_plugin.files.errors import InputError
from rerank_plugin.models.base import RerankerOptions

if TYPE_CHECKING:
    import numpy as np

    from rerank_plugin.files.records import Query
    from rerank_plugin.indexes.candidates import Candidates
    from rerank_plugin.indexes.forward import ForwardIndex

MODELS = Path(__file__).parents[1] / "models"
ENTRY_POINTS = "rerank_plugin.rerankers"

# Name to 'module:factory'. A factory takes (index, checkpoint, options) and returns a Reranker.
BUILT_IN = {
    "bert": "rerank_plugin.rerankers.cross_encoder:bert",
    "biobert": "rerank_plugin.rerankers.cross_encoder:biobert",
    "bm25-abstract": "rerank_plugin.rerankers.lexical:bm25_abstract",
    "bm25-text": "rerank_plugin.rerankers.lexical:bm25_text",
    "bm25-title": "rerank_plugin.rerankers.lexical:bm25_title",
    "conv-knrm": "rerank_plugin.rerankers.neural:from_checkpoint",
    "delta": "rerank_plugin.rerankers.neural:from_checkpoint",
    "delta-classifier": "rerank_plugin.rerankers.neural:from_checkpoint",
    "docid": "rerank_plugin.rerankers.lexical:document_id",
    "drmm": "rerank_plugin.rerankers.neural:from_checkpoint",
    "duet": "rerank_plugin.rerankers.neural:from_checkpoint",
    "knrm": "rerank_plugin.rerankers.neural:from_checkpoint",
    "ktrel": "rerank_plugin.rerankers.neural:from_checkpoint",
    "ktrel-c": "rerank_plugin.rerankers.neural:from_checkpoint",
    "ktrel-w": "rerank_plugin.rerankers.neural:from_checkpoint",
    "matchpyramid": "rerank_plugin.rerankers.neural:from_checkpoint",
    "pacrr": "rerank_plugin.rerankers.neural:from_checkpoint",
    "qld-title": "rerank_plugin.rerankers.lexical:query_likelihood_title",
    "sevmos": "rerank_plugin.rerankers.neural:from_checkpoint",
    "wmd-title": "rerank_plugin.rerankers.wmd:from_word_vectors",
    "wmd-title-nostop": "rerank_plugin.rerankers.wmd:without_stop_words",
    "wmd-title-top20": "rerank_plugin.rerankers.wmd:first_twenty",
}

# Names of variants of a model: the model in the checkpoint, and what its hyper-parameters have to be.
VARIANTS = {"ktrel-c": ("ktrel", {"parts": "concepts"}), "ktrel-w": ("ktrel", {"parts": "words"})}


class Reranker(Protocol):
    """Scores the candidates of one query.

    A reranker may also have ``score_many(queries, candidates)``, which :func:`score_many` calls where several queries
    are at hand. ``listwise``, where it is there and true, says that a document's score depends on the candidates it
    stands among; first-stage scores count as such.
    """

    name: str

    def score(self, query: Query, candidates: Candidates) -> np.ndarray:
        """Scores, float32 [C], higher is better, in the order of the candidates."""
        ...


def score_many(reranker: Reranker, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[np.ndarray]:
    """Scores of several queries' candidates, float32 [C] each: at once where the reranker has ``score_many``."""
    if hasattr(reranker, "score_many"):
        return reranker.score_many(queries, candidates)
    return [reranker.score(query, found) for query, found in zip(queries, candidates)]


def known_names() -> list[str]:
    """Names of all rerankers that are installed, sorted."""
    return sorted({*BUILT_IN, *_entry_points()})


def _entry_points() -> dict:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def load(spec: str, index: ForwardIndex, options: RerankerOptions = RerankerOptions()) -> Reranker:
    """The reranker that ``spec`` names.

    Raises:
        InputError: no such name, or its checkpoint cannot be used with this index.
    """
    name, _, rest = spec.partition(":")
    checkpoint = Path(rest) if rest else bundled(name)
    if (factory := _factory(name)) is not None:
        if checkpoint is not None and BUILT_IN.get(name, "").endswith(":from_checkpoint"):
            _check_model(name, checkpoint)
        return factory(index, checkpoint, options)
    if Path(spec).is_dir():
        return _load_checkpoint_folder(Path(spec), index, options)
    if rest and "." in name and not Path(name).exists():
        return _third_party(spec, index)
    raise InputError(
        f"unknown reranker '{spec}'; known: {', '.join(known_names())}, a checkpoint folder, or package.module:Class"
    )


def bundled(name: str) -> Path | None:
    """The checkpoint of a model that comes with the package, or None."""
    folder = MODELS / name / "bundled"
    return folder if name in BUILT_IN and folder.is_dir() else None


def _check_model(name: str, checkpoint: Path) -> None:
    from rerank_plugin.models.checkpoints import read_config

    config = read_config(checkpoint)
    found, (model, required) = config["model"], VARIANTS.get(name, (name, {}))
    if found != model:
        raise InputError(f"{checkpoint} holds the model '{found}', not '{name}'")
    for field, value in required.items():
        other = config["config"].get(field)
        if other != value:
            raise InputError(f"{checkpoint} holds the model '{found}' with {field} {other}, not '{name}'")


def _load_checkpoint_folder(folder: Path, index: ForwardIndex, options: RerankerOptions) -> Reranker:
    from rerank_plugin.models.checkpoints import read_config
    from rerank_plugin.models.cross_encoder.encoder_folder import is_encoder_folder

    name = "bert" if is_encoder_folder(folder) else read_config(folder)["model"]
    factory = _factory(name)
    if factory is None:
        raise InputError(f"{folder} holds a model '{name}' that is unknown here; known: {', '.join(known_names())}")
    return factory(index, folder, options)


def _factory(name: str):
    """The factory behind a known name; None for an unknown one.

    Raises:
        InputError: another package declares the name, but cannot be loaded.
    """
    if name in BUILT_IN:
        return _resolve(BUILT_IN[name])
    entry = _entry_points().get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the reranker '{name}' from {entry.value}: {error}") from None


def _resolve(target: str):
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _third_party(spec: str, index: ForwardIndex) -> Reranker:
    try:
        reranker = _resolve(spec)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot load the reranker '{spec}': {error}") from None
    built = reranker(index)
    if not hasattr(built, "score"):
        raise InputError(f"'{spec}' is no reranker: it has no method score(query, candidates)")
    return built
