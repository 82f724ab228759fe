"""The wheel: built from a copy of the sources, installed over the same libraries, and used from another folder."""

import shutil
import subprocess
import sys

import pytest

import rerank_plugin
from rerank_plugin.base.extras import EXTRA_OF
from tests.processes import ROOT, Commands, run

PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the source distribution, so that both are complete."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in ROOT.glob("*/__init__.py"):  # the tests and the experiments are to stay outside
        name = package.parent.name
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run("-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    (built,) = (folder / "dist").glob("*.whl")
    assert rerank_plugin.__version__ in built.name
    return built


@pytest.fixture(scope="module")
def site(wheel):
    """A folder with the installed wheel."""
    folder = wheel.parents[1] / "site"
    run(*PIP, "install", "--no-index", "--no-deps", "--target", folder, wheel)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(site):
    def files(folder):
        return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    ignored = {path for path in files(ROOT / "rerank_plugin") if "__pycache__" in path.parts}
    assert files(site / "rerank_plugin") - ignored == files(ROOT / "rerank_plugin") - ignored
    assert (site / "rerank_plugin" / "py.typed").is_file()  # type checkers read the package
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"rerank_plugin", "bin"}


def test_the_console_script_is_installed(site):
    said = run("search", program=site / "bin" / "rerank-plugin", paths=[site], status=2)
    assert said == "error: --index is required (see rerank-plugin search --help)\n"


def test_the_wheel_indexes_and_searches(site, tmp_path):
    with Commands(tmp_path, [site]) as process:
        process.run("index", "--corpus", "sample", "--index", "index")
        search = ("--index", "index", "--query", "heart attack aspirin", "--show", "3", "--plain")
        listed = process.run("search", *search, "--reranker", "delta").splitlines()
    assert len(listed) == 4 and [line.split()[0] for line in listed[1:]] == ["1", "2", "3"]
    found = run("-c", "import rerank_plugin; print(rerank_plugin.__file__)", folder=tmp_path, paths=[site])
    assert found.strip() == str(site / "rerank_plugin" / "__init__.py")


TEXTS = ["Aspirin tablets are white.", "Low-dose aspirin prevents a second myocardial infarction."]
BASE = """
import importlib.util, sys
import rerank_plugin as rp

print([name for name in sys.argv[3:] if importlib.util.find_spec(name)])
for one in rp.Reranker.load("delta").rerank("aspirin after a heart attack", sys.argv[1:3]):
    print(one.index, round(one.score, 3))
try:
    rp.Reranker.load("ktrel")
except rp.InputError as error:
    print(error)
"""


def test_the_wheel_alone_re_ranks_texts(wheel, tmp_path):
    """In an environment of its own, as ``pip install WHEEL`` makes it, where it compiles its kernels without scipy."""
    asked = [*PIP, "download", "--no-deps", "--retries", "1", "--timeout", "20", "--dest", tmp_path, "safetensors"]
    if subprocess.run([sys.executable, *asked], capture_output=True).returncode:
        pytest.skip("no package registry can be reached, from which pip would get numpy, numba and safetensors")
    python = tmp_path / "base" / "bin" / "python"
    run("-m", "venv", "--without-pip", tmp_path / "base")
    versions = ("--constraint", ROOT / "constraints.txt")
    # Without this tree on the path, where pip would find the package installed.
    run(*PIP, "--python", python, "install", "--no-compile", *versions, wheel, paths=[])
    how = {"program": python, "folder": tmp_path, "paths": []}
    found, *ranked, refused = run("-c", BASE, *TEXTS, *EXTRA_OF, **how).splitlines()
    assert found == "[]" and refused.endswith("needs torch: pip install 'rerank_plugin[train]'")
    here = rerank_plugin.Reranker.load("delta").rerank("aspirin after a heart attack", TEXTS)
    assert ranked == [f"{one.index} {round(one.score, 3)}" for one in here]
    said = run("-m", "rerank_plugin.index", "--corpus", "sample", "--index", "index", status=2, **how)
    assert said == "error: Lucene needs pyserini: pip install 'rerank_plugin[lucene]'\n"
