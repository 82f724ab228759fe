"""Peak memory of this process, or of a GPU."""

from __future__ import annotations

from contextlib import suppress

MEGABYTE = 1 << 20


class PeakMemory:
    """Peak memory since :meth:`restart`, in MB.

    On a CPU, the resident memory of the whole process: Python, libraries, touched pages of the memory-mapped index, the
    models, and Java if it runs. On a GPU, the memory that torch allocated.

    Only Linux can reset the peak; elsewhere it is the peak since the start of the process.
    """

    def __init__(self, device: str = "cpu"):
        self.device = device

    def restart(self) -> None:
        if self.device.startswith("cuda"):
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)
            return
        with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # man 5 proc: resets the peak resident set size

    def read(self) -> float:
        if self.device.startswith("cuda"):
            import torch

            return torch.cuda.max_memory_allocated(self.device) / MEGABYTE
        return _peak_resident_bytes() / MEGABYTE


def _peak_resident_bytes() -> int:
    try:
        # Not getrusage, where a process inherits the peak of its parent.
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10
