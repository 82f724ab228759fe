"""What an update did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NAMED = 5  # ids in a note


@dataclass(frozen=True)
class UpdateReport:
    """What an update did: documents added, deleted (replaced ones included), and in the index afterwards.

    Attributes:
        withdrawn: ids of documents that were deleted because the added corpus deletes them.
        unheld: how many ids the corpus deletes of which the index holds no such version.
        older: ids of documents of the corpus that were left out, since the index holds a newer version.
        unchanged: how many documents of the corpus the index held as they are.
    """

    added: int
    deleted: int
    documents: int
    withdrawn: Sequence[str] = ()
    unheld: int = 0
    older: Sequence[str] = ()
    unchanged: int = 0

    def notes(self) -> list[str]:
        """What else than adding an update did, in sentences; ids are examples."""
        sentences = {
            "documents deleted, as the corpus says": self.withdrawn,
            "documents left out, which are older versions than those in the index": self.older,
        }
        notes = [
            f"{len(ids):,} {sentence}: {', '.join(ids[:NAMED])}{', ...' * (len(ids) > NAMED)}"
            for sentence, ids in sentences.items()
            if ids
        ]
        numbers = {
            "documents left out, which the index holds as they are": self.unchanged,
            "deletions of documents that the index does not hold": self.unheld,
        }
        return notes + [f"{number:,} {sentence}" for sentence, number in numbers.items() if number]
