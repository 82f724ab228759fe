"""What PubMed's automatic term mapping looks up among the words of a query."""

from __future__ import annotations

from typing import Protocol

from rerank_plugin.base.strategy import Strategy, Term


class Headings(Protocol):
    """The headings of MeSH, as of :class:`~rerank_plugin.concepts.headings.Headings`."""

    def heading(self, name: str) -> str | None: ...

    def longest(self, words: list[str]) -> tuple[int, str] | None: ...

    def below(self, heading: str) -> tuple[str, ...]: ...


class Names(Protocol):
    """The authors and journals of an index."""

    def longest(self, words: list[str]) -> tuple[int, Term] | None: ...

    def count(self, strategy: Strategy) -> int: ...
