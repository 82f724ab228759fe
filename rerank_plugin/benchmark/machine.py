"""The machine of the measurements, and their memory."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import version

from rerank_plugin.kernels.parallel import processors

LIBRARIES = ("torch", "numpy", "numba")
GIGABYTE, MEGABYTE = 1 << 30, 1 << 20


def describe(threads: int, device: str) -> str:
    """CPU, cores used, memory, system and library versions (and the GPU), in one line."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    parts = [
        cpu_model(),
        f"{threads} of {processors()} cores used",
        f"{memory_bytes() / GIGABYTE:.0f} GiB memory",
        *([_gpu(device)] if device.startswith("cuda") else []),
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}, {libraries}",
    ]
    return "; ".join(parts)


def cpu_model() -> str:
    """The CPU's name, with family and model number if known, since virtual machines hide names."""
    lines: list[str] = []
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        lines = file.read().split("\n\n")[0].splitlines()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    numbers = f" (family {facts['cpu family']}, model {facts['model']})" if "cpu family" in facts else ""
    return facts["model name"] + numbers


def memory_bytes() -> int:
    """Memory of the machine; 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def load_average() -> str:
    """The system's one-minute load average."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _gpu(device: str) -> str:
    import torch

    gpu = torch.cuda.get_device_properties(device)
    return f"{gpu.name} with {gpu.total_memory / GIGABYTE:.0f} GiB, CUDA {torch.version.cuda}"


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
