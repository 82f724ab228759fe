"""The headings of MeSH in a compiled knowledge base: which one a name means, and those below it in the trees."""

from __future__ import annotations

import numpy as np

from rerank_plugin.base.lazily import cached_property
from rerank_plugin.concepts.knowledge_base import KnowledgeBase

PARENT = "parent"  # the relation of a heading to one above it
LONGEST = 8  # words of a name that is looked for among others


class Headings:
    """Looks up headings by their names and entry terms; its relations are read at the first use.

    Args:
        base: a knowledge base with the relation ``parent``, as MeSH has.
    """

    def __init__(self, base: KnowledgeBase):
        self.base = base
        self._below = dict[str, tuple[str, ...]]()  # a strategy may name a heading with thousands below it many times

    @classmethod
    def of(cls, base: KnowledgeBase | None) -> Headings | None:
        """The headings of a knowledge base; None if it has no trees."""
        return None if base is None or PARENT not in base.relation_names else cls(base)

    def heading(self, name: str) -> str | None:
        """The heading that a name or an entry term means; None for none, or for several."""
        rows = self.base.rows_of_name(name)
        return self.base.names[rows[0]] if len(rows) == 1 else None

    def longest(self, words: list[str]) -> tuple[int, str] | None:
        """The number of first words that are a name, as many as possible, and its heading; None if none are."""
        for count in range(min(len(words), LONGEST), 0, -1):
            if heading := self.heading(" ".join(words[:count])):
                return count, heading
        return None

    def names(self, heading: str) -> list[str]:
        """All names of a heading, itself first."""
        return [name for row in self.base.rows_of_name(heading) for name in self.base.terms_of(row)]

    def below(self, heading: str) -> tuple[str, ...]:
        """The narrower headings of a heading, whatever their depth, sorted."""
        if (known := self._below.get(heading)) is not None:
            return known
        children, offsets = self._children
        rows = found = set(self.base.rows_of_name(heading))
        while rows:
            rows = {child for row in rows for child in children[offsets[row] : offsets[row + 1]].tolist()} - found
            found = found | rows
        self._below[heading] = narrower = tuple(sorted({self.base.names[row] for row in found} - {heading}))
        return narrower

    @cached_property
    def _children(self) -> tuple[np.ndarray, np.ndarray]:
        """The children of all concepts, int32 [P], and where those of each begin, int64 [C+1]."""
        of_parent = np.asarray(self.base.relations) == self.base.relation_names.index(PARENT)
        children, parents = np.asarray(self.base.heads)[of_parent], np.asarray(self.base.tails)[of_parent]
        counts = np.bincount(parents, minlength=len(self.base))
        return children[np.argsort(parents, kind="stable")], np.append(0, np.cumsum(counts))
