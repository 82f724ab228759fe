"""numba's ``njit`` for all kernels of this package, which says once a process that it compiles.

A kernel is compiled when it is first called, and kept on disk (in ``NUMBA_CACHE_DIR``, else beside its module) for this
CPU, this numba and this state of the module, so a package cannot bring it along. What comes from the disk is not
announced.
"""

from __future__ import annotations

import logging

from numba import njit
from numba.core import event

__all__ = ["njit"]
log = logging.getLogger(__name__)


class _Announcement(event.Listener):
    """Hears of each function that is not found on disk, ours and others."""

    said = False

    def on_start(self, started: event.Event) -> None:
        if not self.said and started.data["dispatcher"].__module__.startswith("rerank_plugin."):
            self.said = True
            log.warning("compiling kernels that are not on disk yet: 2 to 20 seconds, once")

    def on_end(self, ended: event.Event) -> None:
        pass


announcement = _Announcement()
event.register("numba:compile", announcement)
