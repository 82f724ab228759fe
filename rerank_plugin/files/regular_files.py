"""Regular files: all that is read in a folder of ours. A pipe in its place would keep its reader waiting for ever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def regular(path: Path) -> Path:
    """The path of a regular file; links are followed.

    Raises:
        OSError: it is missing, or a folder, a pipe, a socket or a device.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path
