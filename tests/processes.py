"""Python in processes of its own: what a user starts, and what must not share the modules of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import rerank_plugin

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

    def __init__(self, folder, paths=(ROOT,)):
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM], cwd=folder, env=environment(paths), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def run(self, name, *arguments, status=0):
        """Run ``python -m rerank_plugin.NAME``; its stdout, or its stderr if it should fail."""
        print(json.dumps([name, *map(str, arguments)]), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"{name} ended its process"
        found, out, err = json.loads(answer)
        assert found == status, out + err
        return err if status else out
