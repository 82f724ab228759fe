"""The wheel: built from a copy of the sources, installed over the same libraries, and used from another folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin

ROOT = Path(rerank_plugin.__file__).parents[1]


def run(folder, *arguments, **environment):
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed wheel. The wheel is built from the source distribution, so both are complete."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "rerank_plugin", source / "rerank_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(folder, "build", "--no-isolation", "--outdir", folder / "dist", source)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert rerank_plugin.__version__ in wheel.name
    pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run(folder, *pip, "--target", folder / "site", wheel)
    return folder / "site"


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(site):
    def files(folder):
        return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    ignored = {path for path in files(ROOT / "rerank_plugin") if "__pycache__" in path.parts}
    assert files(site / "rerank_plugin") - ignored == files(ROOT / "rerank_plugin") - ignored
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"rerank_plugin"}


def test_the_wheel_indexes_and_searches(site, tmp_path):
    environment = {"PYTHONPATH": str(site)}
    run(tmp_path, "rerank_plugin.index", "--corpus", "sample", "--index", "index", **environment)
    search = ["rerank_plugin.search", "--index", "index", "--query", "heart attack aspirin", "--show", "3"]
    listed = run(tmp_path, *search, "--reranker", "delta", **environment).splitlines()
    assert len(listed) == 4 and [line.split()[0] for line in listed[1:]] == ["1", "2", "3"]
    code = "import rerank_plugin, sys; sys.exit(not rerank_plugin.__file__.startswith(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(site)], cwd=tmp_path, env={**os.environ, **environment})
    assert done.returncode == 0
