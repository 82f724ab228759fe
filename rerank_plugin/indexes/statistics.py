"""Statistics of a collection, by which texts are scored that are in no index.

They are the number of documents, the mean length of each field, and the document frequencies of words. Those of an
index are read from it; a checkpoint keeps those of its training collection in ``statistics.safetensors``: ``terms``
(uint8, the words in UTF-8, one a line), ``frequency_FIELD`` (unsigned [V], of the fields that the model reads) and, as
JSON in the metadata, the rest. Words of one document only are left out there: they count as words of none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.string_table import StringsInMemory, StringTable
from rerank_plugin.indexes.forward import FIELDS, ForwardIndex
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer, tokenizer_with

STATISTICS_FILE = "statistics.safetensors"
MOST_TERMS, FEWEST_DOCUMENTS = 200_000, 2  # of the words that a checkpoint keeps
FORMAT_VERSION = 1


@dataclass(frozen=True)
class CollectionStatistics:
    """Statistics of a collection."""

    documents: int  # how many there are
    mean_lengths: Mapping[str, float]  # words of a document by field
    tokenizer: Tokenizer  # of the collection's texts
    terms: StringTable | StringsInMemory  # the words
    document_frequency: Mapping[str, np.ndarray]  # by field, unsigned [V]; a field that is not there is not known
    index: ForwardIndex | None  # the forward index that they are read from; None for those of a checkpoint
    source: str  # what they are from, for messages

    @classmethod
    def of_index(cls, index: ForwardIndex) -> CollectionStatistics:
        """The statistics of all documents of an index."""
        source, frequency = index.name, index.document_frequency
        return cls(len(index), index.mean_lengths, index.tokenizer, index.terms, frequency, index, source)

    @classmethod
    def of_nothing(cls) -> CollectionStatistics:
        """The statistics of no document, for a model that reads texts as they are."""
        frequency, lengths = {"text": np.zeros(0, np.uint32)}, dict.fromkeys(FIELDS, 1.0)
        return cls(0, lengths, PLAIN, StringsInMemory(), frequency, None, "no collection")

    @classmethod
    def load(cls, checkpoint: Path) -> CollectionStatistics:
        """The statistics that a checkpoint keeps; an `InputError` if it keeps none, or they cannot be read."""
        from safetensors import SafetensorError, safe_open

        path = checkpoint / STATISTICS_FILE
        if not checkpoint.is_dir():
            raise InputError(f"{checkpoint} is no checkpoint: there is no such folder")
        if not path.is_file():
            raise InputError(
                f"{checkpoint} keeps no statistics of its training collection, by which texts are scored: name an "
                "index as statistics, or add them with: "
                f"rerank-plugin index --index INDEX --statistics {checkpoint}"
            )
        try:
            with safe_open(path, framework="numpy") as file:
                described = json.loads(file.metadata()["statistics"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
            if described["format_version"] != FORMAT_VERSION:
                raise InputError(f"{path} has format version {described['format_version']}, expected {FORMAT_VERSION}")
            terms = tensors.pop("terms").tobytes().decode().split("\n")
            frequency = {name.removeprefix("frequency_"): counts for name, counts in tensors.items()}
            if any(counts.shape != (len(terms),) for counts in frequency.values()) or "text" not in frequency:
                raise ValueError("its arrays do not fit together")
            documents, mean_lengths = int(described["documents"]), described["mean_lengths"]
            mean_lengths = {field: float(mean_lengths[field]) for field in FIELDS}
            tokenizer = tokenizer_with(described["tokenizer"], f"{path}: the collection was")
        except InputError:
            raise
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} cannot be read ({error}): add the statistics of an index again") from None
        return cls(documents, mean_lengths, tokenizer, StringsInMemory(terms), frequency, None, str(checkpoint))

    def as_file(self, fields: Iterable[str]) -> bytes:
        """What a checkpoint keeps of them: the most frequent words with their frequencies in some fields."""
        from safetensors.numpy import save

        counts = np.asarray(self.document_frequency["text"]).astype(np.int64)
        kept = np.argsort(-counts, kind="stable")[:MOST_TERMS]
        kept = kept[counts[kept] >= FEWEST_DOCUMENTS]
        small = np.min_scalar_type(self.documents)
        tensors = {f"frequency_{one}": self.document_frequency[one][kept].astype(small) for one in sorted(fields)}
        tensors["terms"] = np.frombuffer("\n".join(self.terms.take(kept)).encode(), np.uint8)
        described = {
            "format_version": FORMAT_VERSION,
            "documents": self.documents,
            "mean_lengths": dict(self.mean_lengths),
            "tokenizer": self.tokenizer.settings,
            "source": self.source,
        }
        return save(tensors, {"statistics": json.dumps(described)})
