"""The vectors of an index on a torch device: exhaustive search, and the scores of given documents.

The 8-bit codes of a store are whole numbers that float16 holds exactly: they are decoded once, 2 bytes a number, and
multiplied by tensor cores. A query's 16-bit numbers are two of 8 bits, and sums are in single precision: what is found
is scored again on the CPU by the codes, so that scores do not depend on the device.

Letters in shapes: R documents, P codes of a vector, S spaces, Q queries, k best.
"""

from __future__ import annotations

import logging
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.checksums import CHECKSUM
from rerank_plugin.indexes.vector_search import Fits, Hits, Queries, VectorSearch
from rerank_plugin.indexes.vector_store import VectorStore
from rerank_plugin.kernels.quantization import QuantizedQueries

log = logging.getLogger(__name__)

CHUNK = 1 << 18  # documents that are copied at once
PRODUCTS = 1 << 28  # products of queries and documents that are held at once
MORE = 16  # documents found beyond those asked for: single precision may exchange neighbours
SPLIT = 256  # a number of a query is one multiple of it and a rest


class DeviceVectors(VectorSearch):
    """The codes of a store on a device, which are searched as :meth:`VectorStore.search` searches them, but all.

    Raises:
        InputError: they do not fit into the device's memory.
    """

    def __init__(self, store: VectorStore, device: str | torch.device):
        self.store, self.device = store, torch.device(device)
        count, padded, spaces = len(store), store.spaces.padded, len(store.spaces.widths)
        size = count * (2 * padded + 4 * spaces)
        try:
            # A CPU multiplies halves one by one.
            kind = torch.float32 if self.device.type == "cpu" else torch.float16
            self.codes = torch.empty((count, padded), dtype=kind, device=self.device)  # [R, P]
            self.scales = torch.empty((count, spaces), device=self.device)  # [R, S]
        except torch.OutOfMemoryError:
            raise InputError(
                f"the vectors of {count:,} documents take {size / 1e9:.1f} GB, more than is free on {device}: search "
                "them on the CPU"
            ) from None
        for first, segment in zip(store.row_map.starts.tolist(), store.segments):
            for start in range(0, len(segment.rows), CHUNK):
                chunk = slice(start, start + CHUNK)
                here = slice(first + start, first + start + len(segment.rows[chunk]))
                self.codes[here] = torch.from_numpy(np.array(segment.codes.codes[chunk])).to(self.device)
                self.scales[here] = torch.from_numpy(np.array(segment.codes.scales[chunk])).to(self.device)
        log.info("%d MB of vectors of %d documents are on %s", size >> 20, count, device)

    @torch.inference_mode()
    def search_many(self, queries: Queries, count: int, fits: Fits = None, probes: int | None = None) -> list[Hits]:
        quantized, fitting = self.store.quantize(queries), self.store.fitting(fits)
        allowed = None if fitting is None else torch.from_numpy(fitting.positions).to(self.device)  # [n]
        most = min(count + MORE, len(self.store) if fitting is None else len(fitting.positions))
        step, hits = max(1, PRODUCTS // max(len(self.store), 1)), []
        for start in range(0, len(quantized.numbers), step):
            chunk = quantized.take(np.arange(start, min(start + step, len(quantized.numbers))))
            products = self._products(chunk)  # [R, Q]
            if allowed is not None:
                products = products[allowed]
            places = products.T.topk(most, dim=1, sorted=False).indices  # [Q, k]
            positions = (places if allowed is None else allowed[places]).cpu().numpy()
            hits += [self.store.best_of(chunk.take([place]), found, count) for place, found in enumerate(positions)]
        return hits

    def _products(self, queries: QuantizedQueries) -> Tensor:
        """The products of all documents and queries, float32 [R, Q]."""
        numbers = queries.numbers.astype(np.int32)  # [Q, P]
        high = numbers // SPLIT
        halves = np.stack([high * SPLIT, numbers - high * SPLIT]).astype(np.float16)  # [2, Q, P], exact
        multiplied = torch.from_numpy(halves).to(self.device, self.codes.dtype).flatten(0, 1).T  # [P, 2 Q]
        scales = torch.from_numpy(queries.scales.astype(np.float32)).to(self.device)  # [Q, S]
        total: Tensor | None = None
        for space, (first, last) in enumerate(zip(queries.starts, queries.starts[1:])):
            sums = self._sums(self.codes[:, first:last], multiplied[first:last])  # [R, 2 Q]
            products = (sums[:, : len(numbers)] + sums[:, len(numbers) :]) * scales[:, space]  # [R, Q]
            products = products * self.scales[:, space, None]
            total = products if total is None else total + products
        assert total is not None, "a store has one space at least"
        return total

    @staticmethod
    def _sums(codes: Tensor, numbers: Tensor) -> Tensor:
        """The products of codes [R, P] and whole numbers [P, Q], float32 [R, Q]."""
        if codes.dtype == torch.float32:
            return codes @ numbers
        return torch.mm(codes, numbers, out_dtype=torch.float32)  # the sums exceed what float16 holds

    @torch.inference_mode()
    def scores(self, queries: QuantizedQueries, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The score of each of some documents for its query, to the last bit that of :meth:`VectorStore.scores`.

        Args:
            query: place among the queries, int64 [n]. rows: int64 [n].
        """
        count, (among, width), spaces = len(rows), queries.numbers.shape, queries.scales.shape[1]
        packed = np.empty((2 * count + among * (width + spaces)), np.float64)  # whole numbers are exact in it
        packed[:count], packed[count : 2 * count] = query, self.store.positions(rows)
        packed[2 * count : -among * spaces], packed[-among * spaces :] = queries.numbers.ravel(), queries.scales.ravel()
        moved = torch.from_numpy(packed if self.device.type != "mps" else packed.astype(np.float32)).to(self.device)
        places, positions = moved[:count].long(), moved[count : 2 * count].long()  # [n] each
        numbers, factors = (
            moved[2 * count : -among * spaces].view(among, width),
            moved[-among * spaces :].view(among, -1),
        )
        products = self.codes[positions] * (numbers if among == 1 else numbers[places])  # [n, P]
        scales = self.scales[positions] * (factors if among == 1 else factors[places])  # [n, S]
        total: Tensor | None = None
        for space, (first, last) in enumerate(zip(queries.starts, queries.starts[1:])):
            score = products[:, first:last].sum(dim=1) * scales[:, space]
            total = score if total is None else total + score
        assert total is not None, "a store has one space at least"
        return total.float().cpu().numpy()


_in_use: WeakValueDictionary[tuple[str, str], DeviceVectors] = WeakValueDictionary()


def vectors_on(store: VectorStore, device: str) -> DeviceVectors:
    """The vectors of a store on a device: one copy while any first stage or reranker uses these encodings.

    Each of them opens a store of its own; the checksum of the description tells that the encodings are the same. The
    documents that were deleted from them may differ: a search gets those that are left as `Fitting`.
    """
    if CHECKSUM not in store.description:  # a store in memory
        return DeviceVectors(store, device)
    key = store.description[CHECKSUM], device
    vectors = _in_use.get(key)
    if vectors is None:
        vectors = _in_use[key] = DeviceVectors(store, device)
    return vectors
