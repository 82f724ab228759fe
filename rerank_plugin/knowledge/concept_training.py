"""Trains concept vectors on a knowledge base, and evaluates them on held-out relations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.knowledge import link_prediction, transe
from rerank_plugin.knowledge.concept_vectors import save_concept_vectors
from rerank_plugin.knowledge.link_prediction import Prediction
from rerank_plugin.knowledge.transe import TransEConfig, Translation

log = logging.getLogger(__name__)


class Trained(NamedTuple):
    """Vectors, their evaluation and their settings; ``measured`` is None without held-out relations."""

    vectors: Translation
    measured: Prediction | None
    settings: dict[str, Any]


def train_vectors(
    knowledge: KnowledgeBase,
    config: TransEConfig,
    seed: int,
    holdout: float = 0.02,
    final: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Trained:
    """Train, evaluate on the held-out share and, with ``final``, train again on all relations.

    Raises:
        InputError: the knowledge base has no relation, or too few relations to hold any out.
    """
    triples = np.stack([knowledge.heads, knowledge.relations, knowledge.tails], axis=1).astype(np.int32)  # [E, 3]
    names = knowledge.relation_names

    def train(training: np.ndarray) -> Translation:
        return transe.train(training, len(knowledge), len(names), config, seed, progress)

    measured, training = None, triples
    if holdout and len(triples):
        training, held_out = link_prediction.hold_out(triples, len(knowledge), holdout, seed)
        if not len(held_out):
            raise InputError(
                f"{knowledge.folder}: no pair of concepts can be held out ({len(triples)} relations); "
                "use a larger share, or 0"
            )
        log.info("training on %s relations, %s held out", f"{len(training):,}", f"{len(held_out):,}")
    vectors = train(training)
    if holdout:
        measured = link_prediction.evaluate(vectors, held_out, triples, config.norm)
        if final:
            training, vectors = triples, train(triples)
    settings = {
        "transe": asdict(config),
        "seed": seed,
        "knowledge": {name: knowledge.description.get(name) for name in ("source", "edition", "checksum")},
        "relations": list(names),
        "trained_on": len(training),
        "holdout": holdout,
        "measured": measured._asdict() if measured else None,
    }
    return Trained(vectors, measured, settings)


def save(trained: Trained, knowledge: KnowledgeBase, folder: Path, overwrite: bool = False) -> None:
    """Write the vectors with the ids of the knowledge base's concepts, atomically."""
    ids = knowledge.ids.take(np.arange(len(knowledge)))
    save_concept_vectors(ids, *trained.vectors, folder, trained.settings, overwrite)


def figures(trained: Trained) -> list[str]:
    """The measured figures as lines of text; none without held-out relations."""
    measured = trained.measured
    if measured is None:
        return []
    return [
        f"{measured.triples:,} relations held out, both directions, filtered: hits@10 {measured.hits_at_10:.4f}, "
        f"hits@1 {measured.hits_at_1:.4f}, MRR {measured.mrr:.4f}; raw: hits@10 {measured.raw_hits_at_10:.4f}",
        f"hits@10 of tails {measured.tail_hits_at_10:.4f}, of heads {measured.head_hits_at_10:.4f}",
    ]
