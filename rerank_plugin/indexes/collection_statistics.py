"""Collection statistics, to score texts that are not in an index.

They are the number of documents, the mean length of each field, and the document frequencies of words. An index has its
own; a checkpoint keeps those of its training collection in ``statistics.safetensors``: ``terms`` (uint8, the words in
UTF-8, one a line), ``frequency_FIELD`` (unsigned [V], of the fields that the model reads) and, as JSON in the metadata,
the rest. The file leaves out words of only one document: their frequency counts as 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.files.checksums import is_sound, sealed
from rerank_plugin.files.string_table import StringsInMemory, StringTable
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.text.tokenizer import PLAIN, Tokenizer, tokenizer_with

STATISTICS_FILE = "statistics.safetensors"
MOST_TERMS, FEWEST_DOCUMENTS = 200_000, 2  # limits of the words that a checkpoint keeps
STATISTICS_FORMAT = 1


@dataclass(frozen=True)
class CollectionStatistics:
    """Statistics of a collection."""

    documents: int  # the number of documents
    mean_lengths: Mapping[str, float]  # words per document, by field
    tokenizer: Tokenizer  # of the collection's texts
    terms: StringTable | StringsInMemory  # the words
    document_frequency: Mapping[str, np.ndarray]  # by known field, unsigned [V]
    index: ForwardIndex | None  # the forward index with these statistics; None for those of a checkpoint
    source: str  # the index or checkpoint, for messages

    @classmethod
    def of_index(cls, index: ForwardIndex) -> CollectionStatistics:
        """The statistics of all documents of an index."""
        source, frequency = index.name, index.document_frequency
        return cls(index.documents, index.mean_lengths, index.tokenizer, index.terms, frequency, index, source)

    @classmethod
    def of_empty_collection(cls) -> CollectionStatistics:
        """The statistics of an empty collection, for models that need none."""
        frequency, lengths = {"text": np.zeros(0, np.uint32)}, dict.fromkeys(FIELDS, 1.0)
        return cls(0, lengths, PLAIN, StringsInMemory(), frequency, None, "no collection")

    @classmethod
    def load(cls, checkpoint: Path) -> CollectionStatistics:
        """The statistics in a checkpoint; an `InputError` if they are missing or cannot be read."""
        from safetensors import SafetensorError, safe_open

        path = checkpoint / STATISTICS_FILE
        if not checkpoint.is_dir():
            raise InputError(f"{checkpoint} is not a checkpoint: there is no such folder")
        if not path.is_file():
            raise InputError(
                f"{checkpoint} keeps no statistics of its training collection, by which texts are scored: name an "
                "index as statistics, or add them with: "
                f"rerank-plugin index --index INDEX --statistics {checkpoint}"
            )
        try:
            open(path, "rb").close()  # safetensors calls every error of the system a missing file
            with safe_open(path, framework="numpy") as file:
                description = json.loads(file.metadata()["statistics"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            if (version := description["format_version"]) != STATISTICS_FORMAT:
                raise InputError(
                    f"{path} has format version {version}, expected {STATISTICS_FORMAT}: add the statistics of an "
                    "index again"
                )
            if not is_sound(description) or description.get("tensors", _digest(tensors)) != _digest(tensors):
                raise ValueError("it has changed since it was written")
            terms = tensors.pop("terms").tobytes().decode().split("\n")
            frequency = {name.removeprefix("frequency_"): counts for name, counts in tensors.items()}
            if any(counts.shape != (len(terms),) for counts in frequency.values()) or "text" not in frequency:
                raise ValueError("its arrays do not fit together")
            documents, mean_lengths = int(description["documents"]), description["mean_lengths"]
            mean_lengths = {field: float(mean_lengths[field]) for field in FIELDS}
            tokenizer = tokenizer_with(description["tokenizer"], f"{path}: the collection was")
        except InputError:
            raise
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} cannot be read ({damage(error)}): add the statistics of an index again") from None
        return cls(documents, mean_lengths, tokenizer, StringsInMemory(terms), frequency, None, str(checkpoint))

    def as_file(self, fields: Iterable[str]) -> bytes:
        """The file in a checkpoint: the most frequent words with their document frequencies in some fields."""
        from safetensors.numpy import save

        counts = np.asarray(self.document_frequency["text"]).astype(np.int64)
        kept = np.argsort(-counts, kind="stable")[:MOST_TERMS]
        kept = kept[counts[kept] >= FEWEST_DOCUMENTS]
        small = np.min_scalar_type(self.documents)
        frequency = self.document_frequency
        tensors = {f"frequency_{field}": frequency[field][kept].astype(small) for field in sorted(fields)}
        tensors["terms"] = np.frombuffer("\n".join(self.terms.take(kept)).encode(), np.uint8)
        description = {
            "format_version": STATISTICS_FORMAT,
            "documents": self.documents,
            "mean_lengths": dict(self.mean_lengths),
            "tokenizer": self.tokenizer.settings,
            "source": self.source,
            "tensors": _digest(tensors),
        }
        return save(tensors, {"statistics": json.dumps(sealed(description))})


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    """A checksum of tensors."""
    digest = blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode() + tensor.tobytes())
    return digest.hexdigest()
