"""The words of an index on a torch device, for all models that score there.

An index whose words fit stays on the device: 4 bytes a word and 20 a document. Of a larger one, and of texts without an
index, the words of a batch's candidates are copied with every batch.

In shapes R are documents and T words of the index, n documents of a batch and N words of a document.
"""

from __future__ import annotations

import logging
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from rerank_plugin.files.arrays import ranges
from rerank_plugin.indexes.forward import ForwardIndex

log = logging.getLogger(__name__)

SHARE = 0.5  # of the device's free memory, which the words of an index may take
CHUNK = 1 << 24  # words that are copied at once
PADDING = -1


class DeviceTokens:
    """Words of documents on a device.

    Args:
        tokens: uint32 [T]. offsets: uint64 [R + 1]. title_lengths: uint32 [R].
        rows: rows of the index that these documents are, int64 [R]; None for all of an index.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        offsets: np.ndarray,
        title_lengths: np.ndarray,
        device: torch.device,
        rows: np.ndarray | None = None,
    ):
        self.rows, self.device = rows, device
        self.tokens = torch.zeros(max(len(tokens), 1), dtype=torch.int32, device=device)
        for start in range(0, len(tokens), CHUNK):
            chunk = np.array(tokens[start : start + CHUNK], np.uint32).view(np.int32)
            self.tokens[start : start + len(chunk)] = torch.from_numpy(chunk)
        self.offsets = torch.from_numpy(np.array(offsets, np.int64)).to(device)
        self.title_lengths = torch.from_numpy(np.array(title_lengths, np.int32)).to(device)

    def lengths(self, rows: Tensor) -> Tensor:
        """The numbers of words of documents int64 [n]; 0 for `PADDING`."""
        rows_read = rows.clamp_min(0)  # [n]
        return (self.offsets[rows_read + 1] - self.offsets[rows_read]) * (rows >= 0)

    def terms(self, rows: Tensor, width: int) -> Tensor:
        """The first ``width`` words of documents int64 [n] as terms of the index, int64 [n, width], else `PADDING`."""
        position = torch.arange(width, device=rows.device)  # [width]
        present = position < self.lengths(rows)[:, None]  # [n, width]
        places = torch.where(present, self.offsets[rows.clamp_min(0)][:, None] + position, 0)  # [n, width]
        return torch.where(present, self.tokens[places].long(), PADDING)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The numbers of documents here, int64 [n], by rows of the index that they are, int64 [n]."""
        return rows if self.rows is None else np.searchsorted(self.rows, rows)


_resident: WeakKeyDictionary[ForwardIndex, dict[torch.device, DeviceTokens | None]] = WeakKeyDictionary()


def resident_tokens(index: ForwardIndex, device: torch.device) -> DeviceTokens | None:
    """The words of an index, which stay on the device; None where they do not fit, for texts and several segments."""
    if index.in_memory or not index.is_one_segment:
        return None
    of_devices = _resident.setdefault(index, {})
    if device not in of_devices:
        size = 4 * len(index.tokens) + 12 * len(index)
        if device.type == "cuda" and size > SHARE * torch.cuda.mem_get_info(device)[0]:
            log.info("%s: its words take %d MB and stay off %s; those of candidates are copied for every query",
                     index.name, size >> 20, device)  # fmt: skip
            of_devices[device] = None
        else:
            of_devices[device] = DeviceTokens(index.tokens, index.offsets, index.title_lengths, device)
            log.info("%s: %d MB of words are on %s", index.name, size >> 20, device)
    return of_devices[device]


def tokens_of(index: ForwardIndex, rows: np.ndarray, device: torch.device) -> DeviceTokens:
    """The words of documents of an index alone, by their rows, int64 [n]."""
    rows = np.unique(rows)
    tokens, starts, lengths = index.words(rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return DeviceTokens(tokens[ranges(starts, lengths)], offsets, index.title_lengths[rows], device, rows)
