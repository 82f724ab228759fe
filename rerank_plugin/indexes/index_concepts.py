"""The concepts of an index, stored beside its words, and the knowledge base that defines them ([K] 3).

An index that was built with a knowledge base holds

* ``concepts.npy`` and ``concept_offsets.npy`` in each segment: the concepts of every document, as rows of the
  knowledge base. Concepts of one mention stand side by side, the best first, and mentions in text order;
* ``knowledge/``: the compiled knowledge base itself, so that the index needs no other folder;
* in ``index.json``, under ``knowledge``: the settings of the annotator, with which queries are annotated, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter

if TYPE_CHECKING:
    from rerank_plugin.knowledge.annotation import Annotator
    from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

KNOWLEDGE = "knowledge"  # the folder's name, and the key in index.json
QUERIES_KEPT = 4096  # texts whose concepts stay in memory: training asks for the same queries every epoch


def differences(one: dict, here: dict) -> str:
    """The differences between two annotators' settings, as 'name value, here value'."""
    names = [name for name in sorted({*one, *here}) if one.get(name) != here.get(name)]
    return "; ".join(f"{name} {one.get(name)}, here {here.get(name)}" for name in names)


class ConceptWriter:
    """Appends the concepts of documents to the folder of a segment, in the order of its documents."""

    def __init__(self, folder: Path):
        self.concepts = ArrayWriter(folder / "concepts.npy", np.uint32)
        self.offsets = OffsetsWriter(folder / "concept_offsets.npy")

    def extend(self, concepts: Sequence[np.ndarray]) -> None:
        """``concepts`` uint32 [n]: of each document."""
        for one in concepts:
            self.concepts.append(one)
        self.offsets.extend([len(one) for one in concepts])

    def close(self) -> None:
        self.concepts.close()
        self.offsets.close()


def text_to_annotate(title: str, abstract: str) -> str:
    """The text of a document for the annotator, joined so that no mention spans both title and abstract."""
    return f"{title}\n{abstract}"


class IndexKnowledge:
    """The compiled knowledge base of an index, and an annotator with the settings of the one that read the documents.

    Each is opened on first use.

    Raises:
        InputError: the knowledge base cannot be read, or this program annotates otherwise than the index was.
    """

    def __init__(self, folder: Path, settings: dict):
        self.folder, self.settings = folder, settings
        self.query = lru_cache(QUERIES_KEPT)(self._query)

    @cached_property
    def base(self) -> KnowledgeBase:
        from rerank_plugin.knowledge.knowledge_base import KnowledgeBase

        return KnowledgeBase(self.folder)

    @cached_property
    def annotator(self) -> Annotator:
        from rerank_plugin.knowledge import normalization
        from rerank_plugin.knowledge.annotation import Annotator, AnnotatorConfig

        names = {field.name for field in fields(AnnotatorConfig)}
        config = AnnotatorConfig(**{name: value for name, value in self.settings.items() if name in names})
        # Before it is opened: by other rules it would make what it keeps in the folder anew.
        here = {**asdict(config), "rules": normalization.VERSION, "knowledge": self.base.checksum}
        if here != self.settings:
            raise InputError(
                f"{self.folder.parent} was annotated otherwise than this program does it "
                f"({differences(self.settings, here)}); rebuild the index"
            )
        return Annotator(self.base, config, threads=1)

    def _query(self, text: str) -> np.ndarray:
        """Concepts of a query's text, uint32 [n]; ``query`` remembers them."""
        found = self.annotator.concepts([text])[0]
        found.flags.writeable = False
        return found
