"""The concepts of an index, stored beside its words, and the knowledge base that defines them ([K] 3).

An index that was built with a knowledge base holds

* ``concepts.npy`` and ``concept_offsets.npy`` in its segments: the concepts of every document, as rows of the
  knowledge base. Mentions are in text order, and the concepts of one mention in order of preference;
* ``knowledge/``: the compiled knowledge base, so that the index needs no other folder;
* in ``index.json``, under ``knowledge``: the settings of the annotator, which also annotates queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, ranges

if TYPE_CHECKING:
    from rerank_plugin.concepts.annotation import Annotator
    from rerank_plugin.concepts.knowledge_base import KnowledgeBase

KNOWLEDGE = "knowledge"  # the folder's name, and the key in index.json
QUERIES_KEPT = 4096  # queries whose concepts are cached: training repeats the same queries every epoch


def differences(stored: dict, current: dict) -> str:
    """The differences between two annotators' settings, as 'name value, here value'."""
    names = [name for name in sorted({*stored, *current}) if stored.get(name) != current.get(name)]
    return "; ".join(f"{name} {stored.get(name)}, here {current.get(name)}" for name in names)


class ConceptWriter:
    """Writes the concepts of documents into the folder of a segment, in the order of the documents."""

    def __init__(self, folder: Path) -> None:
        self.concepts = ArrayWriter(folder / "concepts.npy", np.uint32)
        self.offsets = OffsetsWriter(folder / "concept_offsets.npy")

    def extend(self, concepts: Sequence[np.ndarray]) -> None:
        """Append the concepts of each document, uint32 [n]."""
        for of_document in concepts:
            self.concepts.append(of_document)
        self.offsets.extend(list(map(len, concepts)))

    def copy(self, concepts: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
        """Append the concepts of documents, each ``concepts[start : start + length]``."""
        self.concepts.append(concepts[ranges(starts, lengths)])
        self.offsets.extend(lengths.tolist())

    def close(self) -> None:
        self.concepts.close()
        self.offsets.close()


def text_to_annotate(title: str, abstract: str) -> str:
    """A document's text for the annotator, joined so that no mention spans title and abstract."""
    return f"{title}\n{abstract}"


class IndexKnowledge:
    """The compiled knowledge base of an index, and an annotator with the settings of its documents; loaded lazily.

    Raises:
        InputError: the knowledge base cannot be read, or this program annotates differently.
    """

    def __init__(self, folder: Path, settings: dict):
        self.folder, self.settings = folder, settings
        self.query = lru_cache(QUERIES_KEPT)(self._query)

    @cached_property
    def base(self) -> KnowledgeBase:
        from rerank_plugin.concepts.knowledge_base import KnowledgeBase

        return KnowledgeBase(self.folder)

    @cached_property
    def annotator(self) -> Annotator:
        """The annotator of queries."""
        return self.new_annotator(threads=1)

    def new_annotator(self, threads: int | None = None) -> Annotator:
        """An annotator of documents, with as many threads as there are by default.

        Raises:
            InputError: this program annotates differently.
        """
        from rerank_plugin.concepts import word_forms
        from rerank_plugin.concepts.annotation import Annotator, AnnotatorConfig

        names = {field.name for field in fields(AnnotatorConfig)}
        config = AnnotatorConfig(**{name: value for name, value in self.settings.items() if name in names})
        # Checked first: an annotator with other rules would rebuild its files in the folder.
        current = {**asdict(config), "rules": word_forms.RULES_VERSION, "knowledge": self.base.checksum}
        if current != self.settings:
            raise InputError(
                f"{self.folder.parent} was annotated with other settings than this program has "
                f"({differences(self.settings, current)}); rebuild the index"
            )
        return Annotator(self.base, config, threads)

    def _query(self, text: str) -> np.ndarray:
        """Concepts of a query's text, uint32 [n]; ``query`` caches them."""
        concepts = self.annotator.concepts([text])[0]
        concepts.flags.writeable = False
        return concepts
