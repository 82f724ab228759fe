"""The concepts of queries and documents as ids of a model, with masks ([K] 3), and the model's concept vocabulary."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_concepts import IndexKnowledge, differences
from rerank_plugin.text.vocabulary import read_lines

log = logging.getLogger(__name__)

CONCEPTS_FILE = "concepts.txt"


class ConceptVocabulary:
    """Concept ids in the order of a model's concept vectors. There is no UNK: unknown concepts are left out.

    Args:
        ids: without repetition.
        annotation: settings of the annotator, with the checksum of its knowledge base, as JSON values; None before
            any annotation.

    Raises:
        InputError: an id occurs twice or is not one word.
    """

    def __init__(self, ids: Sequence[str], annotation: dict[str, Any] | None = None):
        self.ids, self.annotation = list(ids), annotation
        if len(set(self.ids)) != len(self.ids):
            repeated = next(id for id, count in Counter(self.ids).items() if count > 1)
            raise InputError(f"the concept vocabulary has '{repeated}' twice")
        for number, id in enumerate(self.ids, 1):
            if not id or id.split() != [id]:
                raise InputError(f"concept {number} has the id '{id}', which is not one word")

    def __len__(self) -> int:
        return len(self.ids)

    def save(self, path: Path) -> None:
        """Write one id a line."""
        path.write_text("".join(f"{id}\n" for id in self.ids), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, annotation: dict[str, Any] | None = None) -> ConceptVocabulary:
        """Read a file of `save`; an `InputError` if it cannot be read, a line is not one id, or an id occurs twice."""
        lines = read_lines(path)
        try:
            return cls(lines, annotation)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def numbers(self, knowledge: IndexKnowledge) -> np.ndarray:
        """The model's row of each concept of an index's knowledge base, int32 [C of the base]; -1 if it has none.

        Logs a warning once if the index and the model's training texts were annotated with different settings.

        Raises:
            InputError: the two have no concept in common.
        """
        if self.annotation is not None and self.annotation != knowledge.settings:
            _warn_other_annotation(str(knowledge.folder.parent), differences(self.annotation, knowledge.settings))
        base = knowledge.base
        if len(base) == len(self.ids) and base.ids.take(np.arange(len(base))) == self.ids:
            return np.arange(len(base), dtype=np.int32)  # the usual case, and ten times as fast as looking ids up
        rows = base.ids.find(self.ids)
        present = rows >= 0
        if not present.any():
            raise InputError(
                f"none of the model's {len(self.ids):,} concepts (such as {' '.join(self.ids[:3])}) is in the "
                f"knowledge base of {knowledge.folder.parent}: build the index with the model's knowledge base"
            )
        numbers = np.full(len(base), -1, np.int32)
        numbers[rows[present]] = np.flatnonzero(present)
        return numbers


@cache
def _warn_other_annotation(index: str, differences: str) -> None:
    log.warning("the model's training texts were annotated otherwise than %s: %s", index, differences)


class ConceptReader:
    """Reads the concepts of one index for one model. Concepts that the model does not know are left out.

    Args:
        document_concepts, query_concepts: L of documents and queries; longer sequences are cut.

    Raises:
        InputError: the index holds no concepts, or only concepts that the model does not know.
    """

    def __init__(self, index: ForwardIndex, vocabulary: ConceptVocabulary, document_concepts: int, query_concepts: int):
        if index.in_memory:
            raise InputError(
                "the model reads concepts, which need an index built with a knowledge base: give document ids of such "
                "an index, or use a model of words alone (ktrel-w)"
            )
        if index.knowledge is None:
            raise InputError(
                f"the model reads concepts, and the index holds no concepts: build {index.folder} with "
                "a knowledge base, or use a model of words alone (ktrel-w)"
            )
        self.vocabulary, self.knowledge = vocabulary, index.knowledge
        self.document_concepts, self.query_concepts = document_concepts, query_concepts
        self.numbers = vocabulary.numbers(index.knowledge)  # int32 [C of the base]
        self.knows_all = bool((self.numbers >= 0).all())

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The concepts of a query, cut or padded to L: ids int64 [L], mask bool [L]."""
        numbers = self.numbers[self.knowledge.query(text)]
        known = numbers[numbers >= 0][: self.query_concepts]
        ids = np.zeros(self.query_concepts, np.int64)
        ids[: len(known)] = known
        return ids, np.arange(self.query_concepts) < len(known)

    def documents(self, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
        """The first L concepts of each of C documents: ids int64 [C, L], 0 where padded; mask bool [C, L]."""
        longest = self.document_concepts
        # Concepts may be cut before the look-up only if the look-up leaves none out.
        flat = candidates.flat_concepts(longest if self.knows_all else None)
        numbers, candidate = self.numbers[flat.ids], flat.candidate
        if not self.knows_all:
            known = numbers >= 0
            numbers, candidate = numbers[known], candidate[known]
        lengths = np.bincount(candidate, minlength=len(candidates))  # [C]
        position = np.arange(len(numbers)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        inside = position < longest
        ids = np.zeros((len(candidates), longest), np.int64)
        ids[candidate[inside], position[inside]] = numbers[inside]
        return ids, np.arange(longest) < lengths[:, None]
