"""The machine of the measurements."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import version

from rerank_plugin.kernels.parallel import processors

LIBRARIES = ("torch", "numpy", "numba")
GIGABYTE = 1 << 30


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
