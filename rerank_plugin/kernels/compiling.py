"""numba's ``njit`` for all kernels of this package; the first compilation in a process is logged.

A kernel is compiled when it is first called, and cached on disk (in ``NUMBA_CACHE_DIR``, else beside its module) for
this CPU, this numba and this state of the module, so packages cannot include it. Loading a cached kernel is not logged.

The cache is never needed: without a folder that can be written, or on a full disk, kernels are compiled in every
process, and damaged files are compiled again. A checksum behind the code tells a damage that would run otherwise.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit as numba_njit
from numba.core import config, event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

from rerank_plugin.base.errors import one_line

__all__ = ["njit"]
log = logging.getLogger(__name__)

CURE = "set NUMBA_CACHE_DIR to a folder that can be written, or every process compiles them for 2 to 20 seconds"
DIGEST = 32  # bytes of a SHA-256


class _CheckedFiles(IndexDataCacheFile):
    """Files of a cache with a checksum behind the code of each kernel, where numba reads no further."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception:  # unpickling damaged bytes can raise anything
            return {}

    def _dump(self, obj: Any) -> bytes:
        data = super()._dump(obj)
        return data + hashlib.sha256(data).digest()

    def _load_data(self, name: str) -> Any:
        with open(self._data_path(name), "rb") as file:
            data = file.read()
        if hashlib.sha256(data[:-DIGEST]).digest() != data[-DIGEST:]:
            raise OSError(f"{name} is damaged")
        return super()._load_data(name)


class _Cache(FunctionCache):
    """The cache of one kernel: a file that cannot be read counts as none, and one that cannot be written is logged."""

    is_reported = False  # for all kernels

    def __init__(self, kernel: Callable):
        super().__init__(kernel)
        files: Any = self._cache_file  # type: ignore[has-type]  # of numba, which declares none
        self._cache_file = _CheckedFiles(files._cache_path, self._impl.filename_base, files._source_stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # as above
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _report(f"compiled kernels cannot be kept in {self.cache_path} ({one_line(error)})")


def _report(problem: str) -> None:
    """Log once in a process that kernels are not cached."""
    if not _Cache.is_reported:
        _Cache.is_reported = True
        log.warning("%s: %s", problem, CURE)


def njit(function: Callable | None = None, *, cache: bool = False, **options: Any) -> Any:
    """As numba's ``njit``, but without signatures, with a cache that may fail, and also under NUMBA_DISABLE_JIT.

    Kernels call instructions that Python has not, so they are compiled even if other code is not.
    """
    if function is None:
        return lambda function: njit(function, cache=cache, **options)
    with _jit_enabled():
        kernel = numba_njit(**options)(function)
    kernel.compile = _jit_enabled()(kernel.compile)  # numba compiles functions of its own for a kernel
    if cache:
        try:
            kernel._cache = _Cache(function)
        except (RuntimeError, OSError):  # numba found no folder, or the source cannot be read
            _report("compiled kernels cannot be kept: neither the package nor the home folder can be written")
    return kernel


@contextmanager
def _jit_enabled() -> Iterator[None]:
    """Let numba compile in the block, or in the function decorated, whatever NUMBA_DISABLE_JIT says."""
    with global_compiler_lock:
        disabled, config.DISABLE_JIT = config.DISABLE_JIT, 0
        try:
            yield
        finally:
            config.DISABLE_JIT = disabled


class _CompilationLogger(event.Listener):
    """Logs the first compilation of a kernel of this package; numba reports compilations of all packages."""

    logged = False

    def on_start(self, started: event.Event) -> None:
        if not self.logged and started.data["dispatcher"].__module__.startswith("rerank_plugin."):
            self.logged = True
            if not _Cache.is_reported:
                log.warning("compiling kernels that are not on disk yet: 2 to 20 seconds, once")

    def on_end(self, ended: event.Event) -> None:
        pass


event.register("numba:compile", _CompilationLogger())
