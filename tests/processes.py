"""Python in processes of its own: what a user starts, and what must not share the modules of the tests."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest

import rerank_plugin
from rerank_plugin import options as commandline
from rerank_plugin.__main__ import COMMANDS

ROOT = Path(rerank_plugin.__file__).parents[1]


def environment(paths=(ROOT,), **more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **more}


def run(*arguments, folder=None, paths=(ROOT,), status=0, text=None, program=sys.executable, **more):
    """Run a program, Python over the package of this tree, and check its exit status.

    Args:
        folder: where it runs.
        paths: where Python looks for packages first.
        text: what it reads from stdin.
        more: environment variables.

    Returns:
        What it wrote: stdout, or stderr if it should fail.
    """
    command = [program, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment(paths, **more), input=text, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def start(folder, *arguments, **more):
    """A process of Python with these arguments, in a folder; ``more`` are environment variables."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], cwd=folder, env=environment(**more),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def attempt(folder, line, **more):
    """Run a command of the package in a folder, whether or not it fails; its status, stdout and stderr."""
    name, *rest = line.split()
    process = start(folder, "-m", f"rerank_plugin.{name}", *rest, **more)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def status_of(main, arguments):
    """The exit status of a command whose ``main`` runs in this process."""
    try:
        commandline.run(main, [str(one) for one in arguments])
    except SystemExit as stopped:
        return stopped.code or 0
    return 0


def inside(folder, line):
    """What a command prints that runs in this process, in a folder."""
    name, *rest = line.split()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.chdir(folder)
        import_module(COMMANDS[name][0]).main(rest)
    return printed.getvalue()


class Commands:
    """A process that runs one command of the package after the other, so that Java and torch start once.

    A command fails here as it does alone, but for what is in memory already: lazy imports and caches.
    """

    PROGRAM = """if True:
        import contextlib, io, json, runpy, sys

        for line in sys.stdin:
            name, *arguments = json.loads(line)
            out, err, status = io.StringIO(), io.StringIO(), 0
            sys.argv = [name, *arguments]
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    runpy.run_module(f"rerank_plugin.{name}", run_name="__main__")
                except SystemExit as stopped:
                    status = stopped.code or 0
            print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
    """

    def __init__(self, folder, paths=(ROOT,), **more):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM], cwd=folder, env=environment(paths, **more), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def attempt(self, line):
        """Run a command, as a text without quotes or as its words, whether or not it fails; as `attempt`."""
        words = line.split() if isinstance(line, str) else line
        print(json.dumps([*map(str, words)]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"{words[0]} ended its process"
        return json.loads(answer)

    def run(self, name, *arguments, status=0):
        """Run ``python -m rerank_plugin.NAME``; its stdout, or its stderr if it should fail."""
        found, out, err = self.attempt([name, *arguments])
        assert found == status, out + err
        return err if status else out

    def line(self, line, status=0):
        """Run a command line, as a text without quotes or as its words; what :meth:`run` gives."""
        return self.run(*(line.split() if isinstance(line, str) else line), status=status)
