"""Compiling kernels is logged once, and compiled kernels are cached."""

import shutil

import pytest

from tests.processes import ROOT, run

CODE = """
import sys
sys.stderr = sys.stdout  # where logging writes in a program that has not set it up
import numba, numpy
from rerank_plugin.kernels.intrinsics import spin_until_above
from rerank_plugin.kernels.exponential import exponential
numba.njit(lambda x: x)(1)
print("another package's function")
spin_until_above(numpy.ones(1, numpy.int64), 0, 1)
exponential(numpy.float32(1))
"""


COMPILING = "compiling kernels that are not on disk yet: 2 to 20 seconds, once"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache that was empty, and the lines printed when it was filled."""
    folder = tmp_path_factory.mktemp("kernels")
    return folder, run("-c", CODE, NUMBA_CACHE_DIR=str(folder)).splitlines()


def test_compiling_is_announced_once_and_only_when_it_happens(compiled):
    folder, first = compiled
    assert first == ["another package's function", COMPILING]
    assert run("-c", CODE, NUMBA_CACHE_DIR=str(folder)).splitlines() == first[:1]


def test_every_kernel_is_compiled_by_our_njit():
    importing = [
        path.name for path in (ROOT / "rerank_plugin").rglob("*.py") if "numba import njit" in path.read_text()
    ]
    assert importing == ["compiling.py"]


def damage_middle(data):
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 255]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("damaged", [damage_middle, lambda data: data[:-40], lambda data: b""])
def test_a_damaged_cache_is_compiled_again_and_heals(compiled, tmp_path, damaged):
    shutil.copytree(compiled[0], tmp_path, dirs_exist_ok=True)
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert len(files) == 4  # an index and the code of two kernels
    for path in files:
        path.write_bytes(damaged(path.read_bytes()))
    first, second = (run("-c", CODE, NUMBA_CACHE_DIR=str(tmp_path)).splitlines() for _ in range(2))
    assert COMPILING in first and second == ["another package's function"]


FAILING = """if True:
    from numba.core.caching import IndexDataCacheFile

    def full(*_):
        raise OSError(28, "No space left on device")

    IndexDataCacheFile._open_for_write = full
"""
NOWHERE = """if True:
    from numba.core.caching import CacheImpl

    CacheImpl._locator_classes = []  # as where neither the package nor the home folder can be written
"""


@pytest.mark.parametrize(
    ("before", "reason"), [(FAILING, "No space left on device"), (NOWHERE, "neither the package nor the home folder")]
)
def test_kernels_that_cannot_be_kept_run_and_the_cure_is_logged_once(tmp_path, before, reason):
    lines = run("-c", before + CODE, NUMBA_CACHE_DIR=str(tmp_path)).splitlines()
    (line,) = (line for line in lines if "cannot be kept" in line)
    assert reason in line and "set NUMBA_CACHE_DIR to a folder that can be written" in line


def test_kernels_are_compiled_even_if_other_code_is_not(tmp_path):
    code = CODE + "\nassert type(numba.njit(lambda x: x)) is type(lambda: 0)\nprint('other code is not')"
    assert run("-c", code, NUMBA_DISABLE_JIT="1").splitlines()[-1] == "other code is not"
