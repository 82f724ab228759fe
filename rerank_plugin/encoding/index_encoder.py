"""Encodes the documents of an index with a model, and judged queries, and keeps them in the index."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.lazily import cached_property
from rerank_plugin.base.records import Judgments, Query
from rerank_plugin.files.outputs import check_free, remaking_folder, replacing_folder
from rerank_plugin.indexes.commits import adding_to
from rerank_plugin.indexes.derived import DRIFT, DocumentEncoder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.indexes.judged_queries import JUDGED, JudgedQueries, judged_folder
from rerank_plugin.indexes.layout import ADAPTED, derived_folder
from rerank_plugin.indexes.vector_store import ENCODER, SOURCE, VectorStore, encodings_folder, open_store
from rerank_plugin.indexes.vector_store_writer import ListsConfig
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.retrieval.dense import QueryEncoder, opened_encoder
from rerank_plugin.retrieval.neighbours import unit

if TYPE_CHECKING:
    from rerank_plugin.models.document_encoder import EncodedBatch


log = logging.getLogger(__name__)


class IndexEncoder:
    """Encodes the documents of an index with the model of a checkpoint.

    Args:
        checkpoint: as in :class:`~rerank_plugin.retrieval.dense.DenseConfig`.
        device: torch device of the model.

    Raises:
        InputError: the checkpoint cannot be read, or does not fit the index.
    """

    def __init__(self, index: ForwardIndex, checkpoint: str | Path, device: str = "cpu"):
        from rerank_plugin.models.document_encoder import check_encodes

        self.index, self.checkpoint, self.device = index, checkpoint, device
        reranker = opened_encoder(index, checkpoint, device=device, fast=False)  # with its module
        self.model, self.builder = reranker.model, reranker.builder
        check_encodes(self.model)

    @cached_property
    def key(self) -> str:
        """The checksum of the model's weights, by which its encodings are stored."""
        from rerank_plugin.models.encoded_path import weights_checksum

        return weights_checksum(self.model, self.builder.vocabulary)

    @cached_property
    def spaces(self) -> Spaces:
        """The spaces of its encodings."""
        from rerank_plugin.models.encoded_path import encoding_scorer

        return encoding_scorer(self.model, self.builder, 1).spaces

    def store(self) -> VectorStore | None:
        """The stored encodings, as :func:`~rerank_plugin.indexes.vector_store.open_store` gives them."""
        return open_store(self.index, self.key, self.spaces)

    def encoder(self, batch_size: int | None = None, threads: int | None = None) -> DocumentEncoder:
        """The model as an encoder of documents of the index; arguments as in :meth:`encode`."""
        from rerank_plugin.models.document_encoder import document_encoder, unknown_words

        encode = document_encoder(self.model, self.builder, self.device, batch_size, threads)
        return DocumentEncoder(encode, partial(unknown_words, self.builder))

    def encode(
        self,
        batch_size: int | None = None,
        overwrite: bool = False,
        progress: Callable[[Iterable[int]], Iterable[int]] = iter,
        lists: ListsConfig = ListsConfig(),
        threads: int | None = None,
        encode_batches: Callable[[Iterable[np.ndarray]], Iterable[EncodedBatch]] | None = None,
    ) -> Path:
        """Encode all documents, store the vectors, and return their folder.

        The store of the adapted encoder replaces that of the encoder that it was adapted from, which can read it.

        Args:
            batch_size: documents encoded at once; None for the device's default.
            progress: wraps the iteration over the rows, for a progress bar.
            threads: None for all available.
            encode_batches: encodes batches of rows by this encoder, in their order; None encodes them here.

        Raises:
            InputError: as :func:`rerank_plugin.models.document_encoder.encode_index`.
        """
        from rerank_plugin.models.document_encoder import encode_index

        log.info("encoding by %s", self._description())
        from rerank_plugin.models.register import checkpoint_folder

        checkpoint = str(self.checkpoint)
        if checkpoint == str(checkpoint_folder(checkpoint)):  # no name: updates find it from other folders
            checkpoint = os.path.abspath(checkpoint)
        description: dict[str, Any] = {"checkpoint": checkpoint}
        source = self._source()
        with adding_to(self.index.owner):
            if source is not None:
                description = {"checkpoint": ENCODER, SOURCE: source, DRIFT: self._drift()}
            folder = encode_index(
                self.model, self.builder, self.device, batch_size, description, overwrite, progress, lists, threads,
                encode_batches,
            )  # fmt: skip
            if source is not None:
                shutil.rmtree(encodings_folder(self.index, source), ignore_errors=True)
        return folder

    def _drift(self) -> dict[str, Any]:
        """The documents that the encoder is adapted to, and the words of theirs that it does not know."""
        unknown, words = self.encoder().unknown_words(np.arange(len(self.index)))
        since = {"documents": 0, "unknown": 0, "words": 0}
        return {"documents": self.index.documents, "unknown": unknown, "words": words, "since": since}

    def _source(self) -> str | None:
        """The checksum of the encoder that this one was adapted from; None if it is not the index's adapted one."""
        from rerank_plugin.models.ktrel.adaptation import source_of

        return source_of(Path(self.checkpoint)) if self.checkpoint == derived_folder(self.index, ADAPTED) else None

    def _description(self) -> str:
        """The encoder and the purpose of its encodings: an index may be encoded by two."""
        if self.checkpoint == ENCODER:
            return f"the bundled {ENCODER}"
        if self.checkpoint == derived_folder(self.index, ADAPTED):
            return f"{ENCODER} as it is and as adapted to this collection"
        return str(self.checkpoint)

    @property
    def adapts(self) -> bool:
        """Whether this is the bundled encoder and the index has enough documents to adapt it to."""
        from rerank_plugin.models.ktrel.adaptation import FEWEST

        return self.checkpoint == ENCODER and self.index.documents >= FEWEST

    def adapted(
        self, seed: int = 42, overwrite: bool = False, progress: Callable[[Iterable[int]], Iterable[int]] = iter
    ) -> IndexEncoder:
        """The bundled encoder adapted to the collection, a checkpoint in the index folder.

        An existing one is reused unless ``overwrite`` is set, it cannot be read, or the bundled encoder has changed.
        Encodings by a replaced one are removed.

        Args:
            progress: wraps the iteration over batches of documents, for a progress bar.

        Raises:
            InputError: this encoder is not the bundled one, or the index is too small.
        """
        from rerank_plugin.models.ktrel.adaptation import adapt
        from rerank_plugin.models.register import checkpoint_folder

        if self.checkpoint != ENCODER:
            raise InputError(f"{self.checkpoint} cannot be adapted to a collection: the bundled encoder ktrel can")
        existing, folder = self._existing_adapted(), derived_folder(self.index, ADAPTED)
        if existing is not None and self._is_source_of(existing) and not overwrite:
            return existing
        with adding_to(self.index.owner):
            with remaking_folder(folder) as new:  # what cannot be read would be taken for somebody else's folder
                adapt(self.index, checkpoint_folder(ENCODER), new, seed, progress=progress)
        adapted = IndexEncoder(self.index, folder, self.device)
        if existing is not None and existing.key != adapted.key:
            shutil.rmtree(encodings_folder(self.index, existing.key), ignore_errors=True)
        return adapted

    def is_adapted(self) -> bool:
        """Whether the index holds this encoder's adapted version and its encodings."""
        adapted = self._existing_adapted()
        return adapted is not None and self._is_source_of(adapted) and adapted.store() is not None

    def _existing_adapted(self) -> IndexEncoder | None:
        """The adapted encoder in the index folder; None if it is missing or cannot be read."""
        try:
            return IndexEncoder(self.index, derived_folder(self.index, ADAPTED), self.device)
        except InputError:
            return None

    def _is_source_of(self, adapted: IndexEncoder) -> bool:
        return adapted._source() == self.key

    def keep_judged(self, specs: Sequence[str], overwrite: bool = False) -> tuple[Path, int]:
        """Encode judged queries and store them; return their folder and their number.

        Args:
            specs: specs of queries and judgments, as :func:`rerank_plugin.corpora.queries_and_judgments` reads them.

        Raises:
            InputError: a source cannot be read, or as in :func:`rerank_plugin.encoding.index_encoder.write_judged`.
        """
        from rerank_plugin.corpora import queries_and_judgments

        sets = [(spec, *queries_and_judgments(spec)) for spec in specs]
        with adding_to(self.index.owner):
            return write_judged(self.index, QueryEncoder(self.index, self.checkpoint), sets, overwrite)


def write_judged(
    index: ForwardIndex,
    encoder: QueryEncoder,
    sets: Iterable[tuple[str, Sequence[Query], Judgments]],
    overwrite: bool = False,
) -> tuple[Path, int]:
    """Encode judged queries and store them in the index folder, atomically; returns the folder and their number.

    Args:
        sets: for each source its name, its queries, and their judgments. Queries without a relevant document in the
            index, or without a word the model knows, are left out.

    Raises:
        InputError: the folder exists and ``overwrite`` is false, or no query is left.
    """
    folder = judged_folder(index, encoder.key)
    check_free(folder, JUDGED, overwrite)
    vectors, rows, sources = [], [], []
    for source, queries, judgments in sets:
        sources.append(source)
        for query in queries:
            relevant = [id for id, grade in judgments.get(query.id, {}).items() if grade > 0]
            indexed = index.rows(relevant) if relevant else np.zeros(0, np.int64)
            indexed = np.unique(indexed[indexed >= 0])
            vector = unit(encoder.encode(query.text)) if len(indexed) else None
            if vector is not None:
                vectors.append(vector)
                rows.append(indexed)
    if not vectors:
        raise InputError(f"{', '.join(sources)}: no query has a word the model knows and a relevant document")
    starts = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    judged = JudgedQueries(np.stack(vectors), starts, np.concatenate(rows).astype(np.uint32))
    with replacing_folder(folder, JUDGED, overwrite) as writing:
        judged.write(writing, index, sources)
    return folder, len(vectors)
