"""``rerank-plugin doctor``: tells which extras are installed, and whether what is installed works."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from importlib.metadata import requires, version
from pathlib import Path

from rerank_plugin import __version__
from rerank_plugin import options as commandline
from rerank_plugin.base.extras import MissingExtraError, modules_of, naming_extras, require
from rerank_plugin.base.register import one_line

CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
EPILOG = f"""The extra lucene brings Pyserini, which needs torch. On Linux pip's torch takes 5.3 GB, of which 4.1
are libraries of CUDA. Where there is no GPU, install the build for the CPU first, 0.8 GB:
  {CPU_TORCH}

examples:
  rerank-plugin doctor
  rerank-plugin doctor --index indexes/sample"""


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser(
        "doctor",
        "Check the installation, and an index if one is named. The status is 1 if something that is installed does\n"
        "not work, else 0.",
        EPILOG,
    )
    parser.add_argument("--index", type=Path, help="verify this index, too, and open it")
    options = commandline.parse(parser, argv)
    checks = {"Python": python, "Java": java, "Pyserini": pyserini, "torch": torch, "kernels": kernels}
    checks["extras"] = extras
    if options.index:
        checks[str(options.index)] = lambda: index(options.index)
    width, faults = max(map(len, checks)), 0
    for name, check in checks.items():
        try:
            state, said = "ok   ", check()
        except MissingExtraError as error:
            asked = name == str(options.index)
            state, said, faults = "FAULT" if asked else "none ", str(error), faults + asked
        except Exception as error:  # whatever a broken installation does
            state, said, faults = "FAULT", f"{one_line(error) or type(error).__name__}", faults + 1
        print(f"{name:<{width}}  {state}  {commandline.as_called(said)}", flush=True)
    if faults:
        sys.exit(1)


def python() -> str:
    """Versions of Python and of the packages that this one needs."""
    needed = [re.match(r"[\w.-]+", one)[0] for one in requires("rerank_plugin") if "extra ==" not in one]
    return f"{platform.python_version()}, rerank_plugin {__version__}, " + ", ".join(
        f"{name} {version(name)}" for name in sorted(needed)
    )


def java() -> str:
    from rerank_plugin.java.jvm import java_home

    require("pyserini", "Lucene")
    return str(java_home())


def pyserini() -> str:
    """The versions of Pyserini, its Lucene and the running Java."""
    from rerank_plugin.java.jvm import java_class

    require("pyserini", "Lucene")
    lucene = java_class("org.apache.lucene.util.Version").LATEST.toString()
    runs = java_class("java.lang.System").getProperty("java.version")
    return f"{version('pyserini')} with Lucene {lucene}, on Java {runs}"


def torch() -> str:
    """The version of torch, and its GPU after a computation there."""
    with naming_extras():
        import torch

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        torch.ones(1, device="cuda").item()
        return f"{torch.__version__} on {found.name} with {found.total_memory / 2**30:.0f} GiB"
    without = f"{torch.__version__}, no GPU of CUDA"
    if torch.version.cuda is None:
        return without
    return f"{without} though its libraries are here: the build for the CPU is 4.5 GB smaller ({CPU_TORCH})"


def kernels() -> str:
    """Where numba keeps what it has compiled; it refuses where it can write nowhere."""
    from rerank_plugin.kernels.intrinsics import wait_beyond

    return f"numba {version('numba')} keeps them in {wait_beyond.stats.cache_path}"


def extras() -> str:
    """The extras that are installed, those that are in part, with what they lack, and the others."""
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
    """The health of an index: its files, and whether Lucene opens its part."""
    from rerank_plugin.indexes.index_folder import Index
    from rerank_plugin.indexes.verification import verify
    from rerank_plugin.retrieval.register import configure

    opened = Index(folder)
    files = verify(opened)
    opened.first_stage(configure("bm25")).close()
    return f"{len(opened):,} documents, all {files} files match their checksums, and Lucene opens them"


if __name__ == "__main__":
    commandline.run(main)
