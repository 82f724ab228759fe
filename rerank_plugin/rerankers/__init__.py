"""Rerankers: the register that finds them by name. Their interface is in :mod:`rerank_plugin.rerankers.scorer`.

A reranker is named as

* ``name`` or ``name:CHECKPOINT`` for a known name; ``delta`` alone is the bundled model,
* a checkpoint folder alone (its ``config.json`` names the model; write a folder that has a known name as ``./name``),
* ``ORG/NAME``, alone or as the checkpoint: a model on the Hugging Face hub, unless there is a folder of that name, or
* ``package.module:Thing`` or ``package.module:Thing:CHECKPOINT`` from elsewhere.

Known names are those of the models (:mod:`rerank_plugin.models.register`), of the untrained rerankers (``UNTRAINED``),
and of the entry points that other packages declare in the group ``rerank_plugin.rerankers``. An entry point, or
``package.module:Thing``, names one of these:

* a :class:`~rerank_plugin.models.register.ModelEntry`, for a model that can also be trained and measured (entry points
  only);
* a factory: a function, or a class whose constructor has a parameter ``checkpoint``. Its arguments are the forward
  index, the checkpoint (Path or None) and the :class:`RerankerOptions`, in this order;
* any other class: its only argument is the forward index, and it has no checkpoint.

Importing this module needs neither Java nor torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rerank_plugin.base.errors import InputError, one_line, unknown
from rerank_plugin.models import register
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.models.register import ModelEntry
from rerank_plugin.rerankers.scorer import CandidateScorer, Scorer, as_scorer, score_many, warn_first_stage_mismatch

if TYPE_CHECKING:
    from rerank_plugin.indexes.forward import ForwardIndex

__all__ = [
    "UNTRAINED", "CandidateScorer", "RerankerOptions", "Scorer", "as_scorer", "checkpoint_of", "known_names", "load",
    "score_many", "warn_first_stage_mismatch",
]  # fmt: skip


class UntrainedEntry(NamedTuple):
    """The register entry of an untrained reranker."""

    factory: str  # 'package.module:Name', called with (index) or, if it reads vectors, (index, checkpoint)
    summary: str  # one line for help and documentation
    settings: dict[str, Any] = {}  # further arguments of the factory, by name
    reads_vectors: bool = False  # whether its checkpoint is a folder of word vectors; otherwise it has no checkpoint
    benched: bool = False  # whether benchmarks measure it by default


_LEXICAL, _WMD = "rerank_plugin.rerankers.untrained", "rerank_plugin.rerankers.wmd:from_word_vectors"
UNTRAINED = {
    "bm25-abstract": UntrainedEntry(f"{_LEXICAL}:FieldBM25", "BM25 of the abstract", {"field": "abstract"}),
    "bm25-text": UntrainedEntry(f"{_LEXICAL}:FieldBM25", "BM25 of title and abstract", {"field": "text"}),
    "bm25-title": UntrainedEntry(f"{_LEXICAL}:FieldBM25", "BM25 of the title", {"field": "title"}),
    "docid": UntrainedEntry(f"{_LEXICAL}:DocumentId", "the order of document ids, an uninformed baseline"),
    "qld-title": UntrainedEntry(
        f"{_LEXICAL}:TitleLikelihood", "likelihood of the query under the title's unigram model"
    ),
    "wmd-title": UntrainedEntry(_WMD, "Word Mover's Distance of query and title", reads_vectors=True, benched=True),
    "wmd-title-nostop": UntrainedEntry(
        _WMD, "wmd-title, no stop-words", {"remove_stop_words": True}, reads_vectors=True
    ),
    "wmd-title-top20": UntrainedEntry(
        _WMD, "wmd-title, exact for the first 20 only", {"exact_top": 20}, reads_vectors=True
    ),
}


def known_names() -> list[str]:
    """Names of all installed rerankers, sorted. Entry points of other packages are not imported."""
    return sorted({*UNTRAINED, *register.names(), *register.MODELS.installed()})


def summary_of(spec: str) -> str:
    """One line on the reranker named by ``spec`` and on its bundled weights; empty if unknown."""
    name, _, rest = spec.partition(":")
    entry = UNTRAINED.get(name) or register.MODELS.find(name)
    good_for = "" if rest else getattr(entry, "good_for", "")
    return "; ".join(filter(None, (getattr(entry, "summary", ""), good_for)))


def load(spec: str, index: ForwardIndex, options: RerankerOptions = RerankerOptions()) -> Scorer:
    """The reranker named by ``spec``.

    Raises:
        InputError: no such name, or its checkpoint cannot be used with this index.
    """
    return load_over(index, spec, options)


@singledispatch  # an index whose documents other processes score loads it there: registered in cluster/index.py
def load_over(index: ForwardIndex, spec: str, options: RerankerOptions) -> Scorer:
    """As `load`."""
    name, _, rest = spec.partition(":")
    folder = checkpoint_of(spec)
    if name in UNTRAINED:
        register.MODELS.check_not_taken(name)
        return _load_untrained(name, index, rest)
    if (target := register.MODELS.find(name)) is None:
        if folder is None:
            thing, _, checkpoint = rest.partition(":")
            return _load_import(f"{name}:{thing}", index, Path(checkpoint) if checkpoint else None, options)
        name = register.foreign_model(folder) or _model_in(folder)
        if (target := register.MODELS.find(name)) is None:
            raise InputError(f"{folder} holds the unknown model '{name}'; known: {', '.join(known_names())}")
    if not isinstance(target, ModelEntry):
        return _call_factory(name, target, index, folder, options)
    from rerank_plugin.rerankers.neural import from_checkpoint

    assert folder is not None  # checkpoint_of gives the folder of every model, or raises
    return from_checkpoint(index, folder, options, name)


def _model_in(folder: Path) -> str:
    """The name of the model in a checkpoint."""
    from rerank_plugin.models.checkpoint import Checkpoint  # here, because it imports numpy

    return Checkpoint.open(folder).name


def checkpoint_of(spec: str) -> Path | None:
    """The checkpoint folder of the model named by ``spec``, which may be bundled; None for a reranker without one.

    Raises:
        InputError: no such name, or the name needs a folder and ``spec`` has none.
    """
    name, _, rest = spec.partition(":")
    if name in UNTRAINED:
        return None
    if (target := register.MODELS.find(name)) is not None:
        if not isinstance(target, ModelEntry):
            return Path(rest) if rest else None
        if not rest and target.bundled is None:
            needed = "a trained checkpoint" if target.foreign is None else "the folder of a model"
            raise InputError(f"'{name}' has no bundled weights and needs {needed}: give it as {name}:FOLDER")
        return register.packaged_folder(rest) if rest else target.bundled
    if Path(spec).is_dir():
        return Path(spec)
    if rest and "." in name and not Path(name).exists():
        return None
    if register.is_hub_name(spec):
        return register.hub_folder(spec)
    forms = "a checkpoint folder", "ORG/NAME on the Hugging Face hub", "or package.module:Class"
    weight = "; a weight is below 1, as in delta+0.5@10" if "+" in spec else ""
    raise InputError(unknown("reranker", spec, known_names(), *forms) + weight)


def _load_untrained(name: str, index: ForwardIndex, checkpoint: str) -> Scorer:
    entry = UNTRAINED[name]
    factory = register.resolve(entry.factory)
    if entry.reads_vectors:
        return factory(index, Path(checkpoint) if checkpoint else None, **entry.settings)
    if checkpoint:
        raise InputError(f"{name} loads no checkpoint: write '{name}', not '{name}:{checkpoint}'")
    return factory(index, **entry.settings)


def _load_import(name: str, index: ForwardIndex, checkpoint: Path | None, options: RerankerOptions) -> Scorer:
    """The reranker of ``package.module:Thing``."""
    try:
        factory = register.resolve(name)
    except Exception as error:  # any exception that the module raises on import
        raise InputError(f"cannot load the reranker '{name}': {one_line(error)}") from error
    if not callable(factory):
        raise InputError(f"'{name}' is not a reranker: give a class or a function")
    return _call_factory(name, factory, index, checkpoint, options)


def _call_factory(
    name: str, factory: Callable[..., Any], index: ForwardIndex, checkpoint: Path | None, options: RerankerOptions
) -> Scorer:
    """The reranker that a factory or a class makes; the module docstring lists the arguments.

    Raises:
        InputError: the result is not a reranker, or a checkpoint was given for a class that takes none.
    """
    try:
        if not isinstance(factory, type) or "checkpoint" in inspect.signature(factory).parameters:
            return as_scorer(factory(index, checkpoint, options))
        if checkpoint is not None:
            raise InputError(f"it takes no checkpoint, but got {checkpoint}")
        return as_scorer(factory(index))
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    except Exception as error:  # any exception of its own
        raise InputError(f"'{name}' makes no reranker: {type(error).__name__}: {one_line(error)}") from error
