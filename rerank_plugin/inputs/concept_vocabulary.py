"""The concept vocabulary of a model: its concept ids by row, and the settings of its training texts' annotation."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rerank_plugin.base.errors import InputError
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
