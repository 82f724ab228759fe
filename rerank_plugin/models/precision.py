"""The precision of scores: exact single precision, unless the options ask for less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rerank_plugin.models.base import RerankerOptions

HALF = ("bfloat16", "float16")


@contextmanager
def in_precision(options: RerankerOptions) -> Iterator[None]:
    """Compute in the precision of the options.

    By default, torch's convolutions on a GPU round to ten bits (TF32): scores would differ in the fourth digit.
    """
    rounds, before = options.precision == "tf32", torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if rounds else "highest")
    half = getattr(torch, options.precision) if options.precision in HALF else None
    try:
        with (
            torch.backends.cudnn.flags(enabled=True, allow_tf32=rounds),
            torch.autocast(torch.device(options.device).type, half, enabled=half is not None),
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
