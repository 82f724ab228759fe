"""First stages by name, with the parameters that each has by default."""

from __future__ import annotations

from typing import Any, Callable

from rerank_plugin.files.errors import InputError


def _dense(checkpoint: str) -> Any:
    from rerank_plugin.retrieval.dense import DenseConfig

    return DenseConfig(checkpoint)


def _neighbours(checkpoint: str) -> Any:
    from rerank_plugin.retrieval.neighbours import NeighboursConfig

    return NeighboursConfig(checkpoint)


WITH_CHECKPOINT: dict[str, Callable[[str], Any]] = {"dense": _dense, "neighbours": _neighbours}


def named_first_stage(spec: str) -> Any:
    """The configuration of a first stage: ``bm25``, ``qld``, ``bm25+rm3``, ``dense:CHECKPOINT``,
    ``neighbours:CHECKPOINT`` or ``all``.

    Raises:
        InputError: there is no first stage of this name.
    """
    from rerank_plugin.retrieval.lucene import FIRST_STAGES, FirstStageConfig
    from rerank_plugin.retrieval.whole import WholeConfig

    name, _, checkpoint = spec.partition(":")
    if spec in FIRST_STAGES:
        return FirstStageConfig(spec)
    if spec == WholeConfig().name:
        return WholeConfig()
    if name in WITH_CHECKPOINT:
        return WITH_CHECKPOINT[name](checkpoint)
    known = (*FIRST_STAGES, *(f"{one}:CHECKPOINT" for one in WITH_CHECKPOINT), WholeConfig().name)
    raise InputError(f"unknown first stage '{spec}'; known: {', '.join(known)}")
