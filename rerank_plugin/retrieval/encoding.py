"""Encodes the documents of an index with a model, builds approximate vector indexes, and encodes judged queries."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.index_folder import ADAPTED
from rerank_plugin.indexes.nearest import AnnConfig, build_ann
from rerank_plugin.indexes.stored_encodings import encodings_folder, find_encodings
from rerank_plugin.retrieval.dense import ENCODER, QueryEncoder, opened_encoder

log = logging.getLogger(__name__)


class IndexEncoder:
    """Encodes the documents of an index with the model of a checkpoint.

    Args:
        checkpoint: as in :class:`~rerank_plugin.retrieval.dense.DenseConfig`.
        device: torch device of the model.

    Raises:
        InputError: the checkpoint cannot be read, or does not fit the index.

    Attributes:
        size: E, the dimension of an encoding.
    """

    def __init__(self, index: ForwardIndex, checkpoint: str | Path, device: str = "cpu"):
        from rerank_plugin.models.document_encodings import check_encodes

        self.index, self.checkpoint, self.device = index, checkpoint, device
        reranker = opened_encoder(index, checkpoint, device=device, fast=False)  # with its module
        self.model, self.builder = reranker.model, reranker.builder
        check_encodes(self.model)
        self.size = self.model.encoding_size

    @cached_property
    def key(self) -> str:
        """The checksum of the model's weights, by which its encodings are stored."""
        from rerank_plugin.models.encoded_documents import encodings_key

        return encodings_key(self.index, self.model, self.builder.vocabulary)

    def vectors(self) -> np.ndarray | None:
        """The stored encodings, as :func:`~rerank_plugin.indexes.stored_encodings.find_encodings` gives them."""
        return find_encodings(self.index, self.key, self.size)

    def encode(
        self,
        batch_size: int | None = None,
        dtype: str = "float32",
        overwrite: bool = False,
        progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    ) -> Path:
        """Encode all documents, store the vectors, and return their folder. Overwriting replaces the whole folder.

        Args:
            batch_size: documents encoded at once; None for the device's default.
            dtype: of the stored vectors, ``float32`` or ``float16``.
            progress: wraps the iteration over the rows, for a progress bar.

        Raises:
            InputError: vectors are stored already and ``overwrite`` is false, or an encoding is not finite.
        """
        from rerank_plugin.models.document_encodings import encode_index

        log.info("encoding by %s", self._description())
        described = {"checkpoint": str(self.checkpoint)}
        return encode_index(self.model, self.builder, self.device, batch_size, dtype, described, overwrite, progress)

    def _description(self) -> str:
        """The encoder and the purpose of its encodings: an index may be encoded by two."""
        if self.checkpoint == ENCODER:
            return f"the bundled {ENCODER}, for re-ranking and dense retrieval"
        if self.checkpoint == self.index.folder / ADAPTED:
            return f"{ENCODER} as adapted to this collection, for the hybrid"
        return str(self.checkpoint)

    @property
    def adapts(self) -> bool:
        """Whether this is the bundled encoder and the index has enough documents to adapt it to."""
        from rerank_plugin.models.ktrel.adaptation import FEWEST

        return self.checkpoint == ENCODER and len(self.index) >= FEWEST

    def adapted(
        self, seed: int = 42, overwrite: bool = False, progress: Callable[[Iterable[int]], Iterable[int]] = iter
    ) -> IndexEncoder:
        """The bundled encoder adapted to the collection, a checkpoint in the index folder.

        An existing one is reused unless ``overwrite`` is set, it cannot be read, or the bundled encoder has changed.
        Encodings by a replaced one are removed.

        Args:
            progress: wraps the iteration over pieces of documents, for a progress bar.

        Raises:
            InputError: this encoder is not the bundled one, or the index is too small.
        """
        from rerank_plugin.models.ktrel.adaptation import adapt
        from rerank_plugin.models.register import checkpoint_folder

        if self.checkpoint != ENCODER:
            raise InputError(f"{self.checkpoint} cannot be adapted to a collection: the bundled encoder ktrel can")
        existing, folder = self._existing_adapted(), self.index.folder / ADAPTED
        if existing is not None and self._is_source_of(existing) and not overwrite:
            return existing
        adapt(self.index, checkpoint_folder(ENCODER), folder, seed, progress=progress)
        adapted = IndexEncoder(self.index, folder, self.device)
        if existing is not None and existing.key != adapted.key:
            shutil.rmtree(encodings_folder(self.index, existing.key), ignore_errors=True)
        return adapted

    def is_adapted(self) -> bool:
        """Whether the index holds this encoder's adapted version and its encodings."""
        adapted = self._existing_adapted()
        return adapted is not None and self._is_source_of(adapted) and adapted.vectors() is not None

    def _existing_adapted(self) -> IndexEncoder | None:
        """The adapted encoder in the index folder; None if it is missing or cannot be read."""
        try:
            return IndexEncoder(self.index, self.index.folder / ADAPTED, self.device)
        except InputError:
            return None

    def _is_source_of(self, adapted: IndexEncoder) -> bool:
        from rerank_plugin.models.encoded_documents import weights_checksum
        from rerank_plugin.models.ktrel.adaptation import is_of

        return is_of(Path(adapted.checkpoint), weights_checksum(self.model, self.builder.vocabulary))

    def build_ann(self, config: AnnConfig, overwrite: bool = False) -> Path:
        """Build an approximate index of the stored vectors and return its folder.

        Raises:
            InputError: no vectors are stored, or the index exists and ``overwrite`` is false.
        """
        vectors = self.vectors()
        if vectors is None:
            raise InputError(f"{self.index.folder} holds no encodings by {self.checkpoint}: encode it first")
        return build_ann(encodings_folder(self.index, self.key), vectors, config, overwrite)

    def keep_judged(self, specs: Sequence[str], overwrite: bool = False) -> tuple[Path, int]:
        """Encode judged queries and store them; return their folder and their number.

        Args:
            specs: specs of queries and judgments, as :func:`rerank_plugin.corpora.queries_and_judgments` reads them.

        Raises:
            InputError: a source cannot be read, or as in :func:`rerank_plugin.retrieval.neighbours.write_judged`.
        """
        from rerank_plugin.corpora import queries_and_judgments
        from rerank_plugin.retrieval.neighbours import write_judged

        sets = [(spec, *queries_and_judgments(spec)) for spec in specs]
        return write_judged(self.index, QueryEncoder(self.index, self.checkpoint), sets, overwrite)
