"""Questions and answers as bytes: msgpack with arrays, tuples, and records of known classes. Nothing else is read."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import msgpack
import numpy as np

from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document, Query
from rerank_plugin.cluster.shard import ScoredPart, WholeQuery
from rerank_plugin.indexes.forward import WordSlices
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.kernels.quantization import Codes, QuantizedQueries
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.retrieval.lucene import LuceneConfig

MOST = 1 << 30  # bytes of a message
NESTED = 16  # tuples, arrays and records in one another

# Numbers of msgpack's extensions: each is a list itself.
TUPLE, ARRAY, RECORD = 1, 2, 3
RECORDS = {
    record.__name__: record
    for record in (
        Attribution, Codes, Document, Filter, Commit, LuceneConfig, ScorePart, QuantizedQueries, Query, RerankerOptions,
        ScoredPart, WholeQuery, WordSlices,
    )
}  # fmt: skip


def packed(message: Any) -> bytes:
    """A message of None, bool, int, float, str, bytes, lists, dictionaries, tuples, arrays of numbers and `RECORDS`.

    Raises:
        TypeError: it holds something else.
        ValueError: it is longer than `MOST`.
    """
    data: bytes = msgpack.packb(message, default=_extension, strict_types=True)
    if len(data) > MOST:
        raise ValueError(f"a message of {len(data):,} bytes is longer than {MOST:,}")
    return data


def unpacked(data: bytes | memoryview, within: int = 0) -> Any:
    """The message; arrays can be written to, as if they were made here.

    Raises:
        ValueError, TypeError, KeyError: the bytes are no message.
    """
    if within > NESTED:
        raise ValueError(f"more than {NESTED} records in one another")
    return msgpack.unpackb(data, ext_hook=partial(_value, within=within + 1), strict_map_key=False)


def _extension(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return msgpack.ExtType(ARRAY, packed([value.dtype.str, list(value.shape), value.tobytes()]))
    if kind is tuple:
        return msgpack.ExtType(TUPLE, packed(list(value)))
    if RECORDS.get(kind.__name__) is kind:
        values = [getattr(value, each.name) for each in fields(value)] if is_dataclass(value) else list(value)
        return msgpack.ExtType(RECORD, packed([kind.__name__, *values]))
    raise TypeError(f"a message cannot hold {kind.__name__}")


def _value(number: int, data: bytes, within: int) -> Any:
    parts = unpacked(data, within)
    if number == TUPLE:
        return tuple(parts)
    if number == RECORD:
        return RECORDS[parts[0]](*parts[1:])
    if number != ARRAY:
        raise ValueError(f"unknown extension {number}")
    dtype, shape, content = parts
    array = np.frombuffer(bytearray(content), np.dtype(dtype)).reshape(shape)
    return array if shape else array[()]  # a single number
