"""The one border of all commands: any failure is one line and status 2, and a terminal gets no escape sequences."""

import errno
import gc
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest

from rerank_plugin import Searcher, __version__
from rerank_plugin import options as commandline
from rerank_plugin.base.errors import FAULT, SystemFailure, describe_error, system_failure
from rerank_plugin.base.terminal import escaped
from rerank_plugin.indexes.collection_statistics import CollectionStatistics
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.register import entry_of
from rerank_plugin.text.vocabulary import read_lines
from rerank_plugin.text.word_vectors import read_tensors
from tests.processes import ROOT, environment, status_of

HOSTILE = "Aspirin \x1b]0;owned\x07 \u009b31m \u202e and\rheart"


def failing(error):
    """A command that fails with an exception."""

    def main(argv):
        commandline.set_up_logging("--verbose" in argv)
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENAMETOOLONG, "File name too long", "n"), "n: File name too long: names of files have at most"),
        (OSError(errno.EROFS, "Read-only file system", "a", None, "b"), "a and b: Read-only file system: choose"),
        (PermissionError(errno.EACCES, "Permission denied", "c"), "c: Permission denied: check its permissions"),
        (MemoryError("Unable to allocate 4.47 GiB"), "memory is exhausted: free memory"),
        (RuntimeError("can't start new thread"), "memory is exhausted: free memory"),
        (RecursionError("maximum recursion depth exceeded"), "brackets or tags are nested too deeply"),
        (
            ValueError("two\nlines"),
            f"{FAULT} {__version__}: ValueError at rerank_plugin/options.py:",
        ),
    ],
)
def test_any_exception_is_one_line_and_status_2(capsys, error, line):
    assert status_of(failing(error), []) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith(f"error: {line}"), err


def test_verbose_shows_the_traceback(capsys):
    assert status_of(failing(KeyError("x")), ["--verbose"]) == 2
    assert "Traceback" in (err := capsys.readouterr().err) and err.endswith("; --verbose shows the traceback\n")


def test_a_failure_names_the_file_that_was_being_read(tmp_path, monkeypatch):
    from rerank_plugin.files import text_files

    def exhausted(*_):
        raise MemoryError

    (tmp_path / "corpus.jsonl").write_text("{}\n")
    monkeypatch.setattr(text_files, "open_bytes", exhausted)
    with pytest.raises(MemoryError) as caught:
        list(text_files.lines(tmp_path / "corpus.jsonl"))
    assert describe_error(caught.value).startswith(f"{tmp_path / 'corpus.jsonl'}: memory is exhausted")


@pytest.fixture
def no_more_files():
    """A function from which on the process can open no file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:

        def exhaust():
            gc.collect()  # what earlier tests left open would be closed later
            last = opened.enter_context(open(os.devnull))
            resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno(), hard))
            with suppress(OSError):
                while True:  # numbers below, which were freed
                    opened.enter_context(open(os.devnull))

        yield exhaust
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", ["index", "searcher", "lucene", "checkpoint", "weights", "statistics", "lines"])
def test_too_many_open_files_are_no_damage(index_folder, no_more_files, kind):
    index, bundled = Index(index_folder), entry_of("delta").bundled
    read = {
        "index": lambda: Index(index_folder),
        "searcher": lambda: Searcher(index_folder),
        "lucene": lambda: index.open_lucene().close(),
        "checkpoint": lambda: Checkpoint.open(bundled).description,
        "weights": lambda: read_tensors(bundled / "model.safetensors"),
        "statistics": lambda: CollectionStatistics.load(bundled),
        "lines": lambda: read_lines(bundled / "config.json"),
    }[kind]
    read()  # what it imports is imported
    no_more_files()
    with pytest.raises(SystemFailure) as failure:
        read()
    assert "Too many open files: raise the limit of open files (ulimit -n)" in str(failure.value)
    assert failure.value.errno == errno.EMFILE and "again" not in str(failure.value)


def test_errors_of_java_are_one_line(index_folder):
    from jnius import JavaException

    from rerank_plugin.java.jvm import java_class

    with pytest.raises(JavaException) as caught:
        java_class("java.lang.Integer").parseInt("x" * 1000)
    line = describe_error(caught.value)
    assert line.startswith("Java failed: ") and "NumberFormatException" in line and "\n" not in line
    assert len(line) < 600


def search(index_folder, *arguments, **more):
    line = [sys.executable, "-m", "rerank_plugin", "search", "--index", index_folder, *arguments]
    return subprocess.run(list(map(str, line)), env=environment(), stderr=subprocess.PIPE, timeout=100, **more)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--query", "aspirin"], ["--help"], ["--list-rerankers"]])
def test_output_that_cannot_be_written_is_not_lost_in_silence(index_folder, arguments):
    with open("/dev/full", "wb") as full:
        done = search(index_folder, *arguments, stdout=full)
    assert done.returncode == 2 and b"Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"error: standard output: No space left on device: free space")


def test_output_to_a_closed_stream_is_not_lost_in_silence(index_folder):
    done = search(index_folder, "--query", "aspirin", preexec_fn=lambda: os.close(1))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(b"error: standard output: closed: redirect it")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("latin-1", "é \\u2265 \\ud83d\\ude00 \udcff\n"), ("ascii", "\\u00e9 \\u2265 \\ud83d\\ude00 \udcff\n")],
)
def test_any_character_is_written_in_any_encoding(encoding, expected):
    code = "from rerank_plugin.options import run; run(lambda argv: print('\\xe9 \\u2265 \\U0001f600 \\udcff'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(PYTHONIOENCODING=encoding), capture_output=True, check=True
    )
    assert done.stdout == expected.encode("latin-1" if encoding == "latin-1" else "ascii", "surrogateescape")


def on_a_terminal(code):
    """What a program writes to a terminal, which is its stdout and stderr."""
    master, terminal = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], env=environment(), stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    process.wait()
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


PRINTING = f"""if True:
    import logging
    from rerank_plugin import options
    from rerank_plugin.base.errors import InputError
    from rerank_plugin.base.terminal import print_red

    def main(argv):
        options.set_up_logging(False)
        print_red("RETRACTED:")
        print({HOSTILE!r})
        logging.getLogger("rerank_plugin").warning("%s", {HOSTILE!r})
        raise InputError({HOSTILE!r})

    options.run(main)
"""


def test_a_terminal_runs_no_escape_sequence_of_a_title():
    shown = on_a_terminal(PRINTING)
    assert shown.startswith("\x1b[31mRETRACTED:\x1b[0mAspirin \\x1b]0;owned\\x07 \\x9b31m \\u202e and\\rheart\n")
    assert len(shown.splitlines()) == 3 and not set(shown.partition("\x1b[0m")[2]) & set("\x1b\x07\x9b\u202e\r")


def test_a_pipe_gets_the_title_as_it_is():
    done = subprocess.run([sys.executable, "-c", PRINTING], env=environment(), capture_output=True)
    assert done.stdout.decode() == f"RETRACTED:{HOSTILE}\n"


def test_what_is_escaped():
    assert escaped("é\tΔ ≥\n\u200d") == "é\tΔ ≥\n\u200d"
    assert escaped("\x7f\u2028\udc80\u2066\ufeff\U000e0041") == "\\x7f\\u2028\\udc80\\u2066\\ufeff\\U000e0041"


STORM = """if True:
    import pathlib, sys, time
    from rerank_plugin.options import run

    def main(argv):
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            for _ in range(20):
                time.sleep(0.02)
            pathlib.Path("cleaned").touch()

    run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_storm_of_signals_does_not_interrupt_the_clean_up(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", STORM], cwd=tmp_path, env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    process.stdout.readline()
    for _ in range(30):
        process.send_signal(number)
        time.sleep(0.01)
    _, err = process.communicate(timeout=60)
    assert err == "interrupted\n" and process.returncode == 128 + number and (tmp_path / "cleaned").exists()


def test_an_exception_in_place_of_an_interruption_is_one(capsys):
    """As some libraries raise an ImportError when a signal comes while they are imported."""

    def main(argv):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except KeyboardInterrupt:
            raise ImportError("the extension did not load") from None

    assert status_of(main, []) == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_during_imports_has_no_traceback(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Slow:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'rerank_plugin.corpora':\n"
        "            import time; print('importing', flush=True); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "rerank_plugin.search", "--help"], env=environment((tmp_path, ROOT)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "" and process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("os.path:join", "'os.path:join' makes no reranker: TypeError: "),
        ("no.such.module:Thing", "cannot load the reranker 'no.such.module:Thing': No module named 'no'"),
        ("n" * 300 + ".m:x", "File name too long: names of files have at most 255 bytes: shorten it"),
    ],
)
def test_what_is_no_reranker_is_one_line(index_folder, refused, spec, line):
    assert line in refused(f"search --index {index_folder} --query aspirin --reranker {spec}")


def test_the_cause_of_an_error_of_java_is_the_systems():
    jnius = pytest.importorskip("jnius")
    closed = (
        "JVM exception occurred: AlreadyClosedException: this IndexWriter is closed\n\tat IndexWriter\n\tCaused by:"
    )
    failure = system_failure(jnius.JavaException(f"{closed}\n\tjava.io.IOException: No space left on device\n\tat a.b"))
    assert str(failure).startswith("java.io.IOException: No space left on device: free space")
    assert failure.errno == errno.ENOSPC
