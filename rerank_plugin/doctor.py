"""``rerank-plugin doctor``: checks which extras are installed, and whether they work."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Callable
from importlib.metadata import requires, version
from pathlib import Path

from rerank_plugin import __version__
from rerank_plugin import options as commandline
from rerank_plugin.base.errors import one_line
from rerank_plugin.base.extras import MissingExtraError, modules_of, naming_extras, require

CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
EPILOG = f"""The extra lucene installs Pyserini, which needs torch. On Linux pip's torch takes 5.3 GB, 4.1 GB of them
CUDA libraries. Without a GPU, install the CPU build first, 0.8 GB:
  {CPU_TORCH}

examples:
  rerank-plugin doctor
  rerank-plugin doctor --index indexes/sample"""


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser(
        "doctor",
        "Check the installation, and an index with --index. The exit status is 1 if an installed part does not work,\n"
        "else 0.",
        EPILOG,
    )
    parser.add_argument("--index", type=Path, help="index folder to verify and open (default: none)")
    options = commandline.parse(parser, argv)
    checks: dict[str, Callable[[], str]] = {"Python": python, "Java": java, "Pyserini": pyserini, "torch": torch}
    checks |= {"kernels": kernels, "extras": extras}
    if options.index:
        checks[str(options.index)] = lambda: index(options.index)
    width, faults = max(map(len, checks)), 0
    for name, check in checks.items():
        try:
            state, message = "ok   ", check()
        except MissingExtraError as error:
            required = name == str(options.index)
            state, message, faults = "FAULT" if required else "none ", str(error), faults + required
        except Exception as error:  # a broken installation can raise anything
            state, message, faults = "FAULT", one_line(error) or type(error).__name__, faults + 1
        print(f"{name:<{width}}  {state}  {commandline.with_program_prefix(message)}", flush=True)
    if faults:
        sys.exit(1)


def python() -> str:
    """Versions of Python, this package and the packages it always needs."""
    requirements = [line for line in requires("rerank_plugin") or () if "extra ==" not in line]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requirements]
    return f"{platform.python_version()}, rerank_plugin {__version__}, " + ", ".join(
        f"{name} {version(name)}" for name in sorted(names)
    )


def java() -> str:
    """The folder of the Java that is used."""
    from rerank_plugin.java.jvm import java_home

    require("pyserini", "Lucene")
    return str(java_home())


def pyserini() -> str:
    """Versions of Pyserini, its Lucene and the running Java."""
    from rerank_plugin.java.jvm import java_class

    require("pyserini", "Lucene")
    lucene = java_class("org.apache.lucene.util.Version").LATEST.toString()
    java_version = java_class("java.lang.System").getProperty("java.version")
    return f"{version('pyserini')} with Lucene {lucene}, on Java {java_version}"


def torch() -> str:
    """The version of torch, and its GPU once a computation there has succeeded."""
    with naming_extras():
        import torch

    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        torch.ones(1, device="cuda").item()
        return f"{torch.__version__} on {gpu.name} with {gpu.total_memory / 2**30:.0f} GiB"
    no_gpu = f"{torch.__version__}, no CUDA GPU"
    if torch.version.cuda is None:
        return no_gpu
    return f"{no_gpu}, but CUDA libraries are installed: the CPU build is 4.5 GB smaller ({CPU_TORCH})"


def kernels() -> str:
    """The cache folder of compiled kernels, once one was compiled."""
    import numpy as np

    from rerank_plugin.kernels.intrinsics import spin_until_above

    spin_until_above(np.ones(1, np.int64), 0, 1)
    folder = spin_until_above.stats.cache_path
    return f"numba {version('numba')}, " + (f"cached in {folder}" if folder else "not cached: set NUMBA_CACHE_DIR")


def extras() -> str:
    """The installed extras, with the modules that a partly installed extra lacks, and the extras not installed."""
    installed: list[str] = []
    absent: list[str] = []
    for name, modules in modules_of().items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if len(missing) == len(modules):
            absent.append(name)
        else:
            installed.append(f"{name} without {', '.join(missing)}" if missing else name)
    return f"{', '.join(installed) or 'none'}; not installed: {', '.join(absent) or 'none'}"


def index(folder: Path) -> str:
    """Verifies the files of an index and opens it with Lucene."""
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.indexes.verification import verify
    from rerank_plugin.retrieval.register import configure

    opened = Index(folder)
    files = verify(opened)
    opened.first_stage(configure("bm25")).close()
    return f"{len(opened):,} documents, all {files} files match their checksums, and Lucene opens them"


if __name__ == "__main__":
    commandline.run(main)
