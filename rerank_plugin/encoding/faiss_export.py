"""Writes the document vectors of an index as a folder that Pyserini's ``FaissSearcher`` opens: ``index`` and ``docid``.

In shapes n are some documents, D the numbers of a vector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import require
from rerank_plugin.base.settings import check_bounds, setting
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.files.outputs import replacing_folder
from rerank_plugin.indexes.faiss_folder import EXPORT, IDS, INDEX
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store_writer import ListsConfig

log = logging.getLogger(__name__)

BATCH = 1 << 13  # vectors


@dataclass(frozen=True)
class ExportConfig:
    """The settings of an export.

    Attributes:
        factory: Faiss's description of the index; vectors are compared by inner product.
        training: documents, drawn at random, that an index with parts to be trained is trained on.
    """

    factory: str = setting("Flat", "Faiss's description of an exported index, such as HNSW32 or IVF4096,SQ8")
    training: int = setting(
        100_000,
        "documents that the inverted lists or codes of an exported index are trained on",
        option="faiss_training",
        ge=1,
    )
    float32: bool = setting(False, "encode the documents again for an export, instead of decoding the stored codes")
    seed: int = 42

    def __post_init__(self) -> None:
        check_bounds(self)


def export_faiss(
    index: Index,
    checkpoint: str,
    output: str | Path,
    config: ExportConfig = ExportConfig(),
    overwrite: bool = False,
    device: str = "cpu",
    progress: Callable[[Iterable[np.ndarray]], Iterable[np.ndarray]] = iter,
) -> int:
    """Export the documents' vectors by an encoder; returns their number.

    The stored codes are decoded, if the index has them and ``float32`` is not set; otherwise the documents are encoded.

    Args:
        checkpoint: the encoder, as ``index --encode`` takes it.
        progress: wraps the iteration over batches of rows int64 [n].

    Raises:
        InputError: Faiss is not installed or does not know the description, the encoder cannot be used, or ``output``
            exists and may not be replaced.
    """
    require("faiss", "exporting to Faiss")
    import faiss

    encoder = IndexEncoder(index.forward, checkpoint, device)
    store = None if config.float32 else encoder.store()
    log.info("%s: %s", output, "encoding the documents" if store is None else "decoding the stored codes")
    vectors_of = encoder.encoder().encode if store is None else store.decode
    rows = index.forward.live_rows
    with replacing_folder(output, EXPORT, overwrite) as folder:
        dimension = vectors_of(rows[:1]).shape[1]
        try:
            exported = faiss.index_factory(dimension, config.factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError:
            raise InputError(f"Faiss knows no index '{config.factory}' of {dimension} numbers") from None
        training = np.zeros(0, np.int64)
        if not exported.is_trained:
            draw = np.random.default_rng(config.seed)
            training = np.sort(draw.choice(rows, min(config.training, len(rows)), replace=False))
            try:
                exported.train(_joined(vectors_of, training))
            except RuntimeError as error:
                reason = str(error).strip().splitlines()[-1]
                raise InputError(
                    f"'{config.factory}' cannot be trained on {len(training):,} documents: {reason}"
                ) from None
        lists = faiss.try_extract_index_ivf(exported)
        if lists is not None:  # Faiss's own default is 1
            lists.nprobe = min(ListsConfig(lists=lists.nlist).sizes(len(rows))[1], lists.nlist)
        with open(folder / IDS, "w", encoding="utf-8") as ids:
            for batch in progress([rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]):
                exported.add(np.ascontiguousarray(vectors_of(batch), np.float32))
                ids.writelines(f"{id}\n" for id in index.forward.ids.take(batch))
        faiss.write_index(exported, str(folder / INDEX))
        record = {
            "query_encoder": checkpoint,
            "factory": config.factory,
            "vectors": "float32" if store is None else "decoded 8-bit codes",
            "documents": len(rows),
            "dimension": dimension,
            "trained_on": len(training),
            "nprobe": None if lists is None else lists.nprobe,
            "seed": config.seed,
        }
        EXPORT.seal(folder, record)
    return len(rows)


def _joined(vectors_of: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> np.ndarray:
    batches = [vectors_of(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    return np.ascontiguousarray(np.concatenate(batches), np.float32)
