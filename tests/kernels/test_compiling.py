"""Compiling kernels is logged once, and compiled kernels are cached."""

from tests.processes import ROOT, run

CODE = """
import sys
sys.stderr = sys.stdout  # where logging writes in a program that has not set it up
import numba, numpy
from rerank_plugin.kernels.intrinsics import wait_beyond
from rerank_plugin.kernels.exponential import exponential
numba.njit(lambda x: x)(1)
print("another package's function")
wait_beyond(numpy.ones(1, numpy.int64), 0, 1)
exponential(numpy.float32(1))
"""


def test_compiling_is_announced_once_and_only_when_it_happens(tmp_path):
    first, second = (run("-c", CODE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first.splitlines() == [
        "another package's function", "compiling kernels that are not on disk yet: 2 to 20 seconds, once"
    ]  # fmt: skip
    assert second.splitlines() == ["another package's function"]


def test_every_kernel_is_compiled_by_our_njit():
    importing = [
        path.name for path in (ROOT / "rerank_plugin").rglob("*.py") if "numba import njit" in path.read_text()
    ]
    assert importing == ["compiling.py"]
