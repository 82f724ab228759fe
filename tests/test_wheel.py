"""The wheel: built from a copy of the sources, installed over the same libraries, and used from another folder."""

import shutil

import pytest

import rerank_plugin
from tests.processes import ROOT, Commands, run


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed wheel. The wheel is built from the source distribution, so both are complete."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in ROOT.glob("*/__init__.py"):  # the tests and the experiments are to stay outside
        name = package.parent.name
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run("-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert rerank_plugin.__version__ in wheel.name
    pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run("-m", *pip, "--target", folder / "site", wheel)
    return folder / "site"


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
