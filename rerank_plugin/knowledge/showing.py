"""A knowledge base as text."""

from __future__ import annotations

import numpy as np

from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

SHOWN = 10  # neighbours of a relation that are named


def summary_lines(knowledge: KnowledgeBase) -> list[str]:
    """What a knowledge base holds."""
    described = knowledge.description
    per_relation = np.bincount(knowledge.relations, minlength=len(knowledge.relation_names)).tolist()
    edition = f", edition {described['edition']}" if described.get("edition") else ""
    return [
        f"{described.get('format')}: {described.get('source')}{edition}",
        f"{len(knowledge):,} concepts, {len(knowledge.terms):,} names",
        *(f"{count:,} {name}" for name, count in zip(knowledge.relation_names, per_relation)),
        f"checksum {knowledge.checksum}",
    ]


def concept_lines(knowledge: KnowledgeBase, row: int) -> list[str]:
    """A concept: its id and name, types, other names, and its relations in both directions."""
    name, *synonyms = knowledge.terms_of(row)
    types = ", ".join(knowledge.semantic_types(row))
    lines = [f"{knowledge.ids[row]}  {name}" + (f"  [{types}]" if types else "")]
    if synonyms:
        lines.append(f"  names: {'; '.join(synonyms)}")
    outgoing, incoming = np.flatnonzero(knowledge.heads == row), np.flatnonzero(knowledge.tails == row)
    for edges, others, arrow in ((outgoing, knowledge.tails, "->"), (incoming, knowledge.heads, "<-")):
        for number in np.unique(knowledge.relations[edges]).tolist():
            rows = others[edges[knowledge.relations[edges] == number]]
            named = "; ".join(knowledge.names.take(rows[:SHOWN]))
            more = f"; and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
            lines.append(f"  {arrow} {knowledge.relation_names[number]}: {named}{more}")
    return lines
