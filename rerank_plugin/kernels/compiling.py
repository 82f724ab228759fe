"""numba's ``njit`` for all kernels of this package; the first compilation in a process is logged.

A kernel is compiled when it is first called, and cached on disk (in ``NUMBA_CACHE_DIR``, else beside its module) for
this CPU, this numba and this state of the module, so packages cannot include it. Loading a cached kernel is not logged.
"""

from __future__ import annotations

import logging

from numba import njit
from numba.core import event

__all__ = ["njit"]
log = logging.getLogger(__name__)


class _CompilationLogger(event.Listener):
    """Logs the first compilation of a kernel of this package; numba reports compilations of all packages."""

    logged = False

    def on_start(self, started: event.Event) -> None:
        if not self.logged and started.data["dispatcher"].__module__.startswith("rerank_plugin."):
            self.logged = True
            log.warning("compiling kernels that are not on disk yet: 2 to 20 seconds, once")

    def on_end(self, ended: event.Event) -> None:
        pass


event.register("numba:compile", _CompilationLogger())
