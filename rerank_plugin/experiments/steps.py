"""Steps of an experiment: each one is a command of this package, run once and remembered.

The work folder keeps a log of every step and a journal with its command and the time it took. A step whose output is
there and whose command is the journal's is not run again, so an experiment that was interrupted goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import INNER, FileKind, beginning, replacing

log = logging.getLogger(__name__)

JOURNAL, LOGS = "journal.json", "logs"
PAGE = FileKind(
    "a page of this experiment",
    lambda path: re.match(rb"# The \w+ experiments\n[^#]*```sh\npython -m rerank_plugin", beginning(path)) is not None,
)


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of the step, for its log and the journal.
        command: what follows ``python -m rerank_plugin.``, in words.
        output: the file or folder it makes.
        prints: whether the output is a file of what the command prints.
    """

    name: str
    command: tuple[str, ...]
    output: Path
    prints: bool = False

    @property
    def shown(self) -> str:
        """The command as one would type it."""
        typed = "python -m rerank_plugin." + shlex.join(self.command)
        return f"{typed} > {shlex.quote(str(self.output))}" if self.prints else typed


class Runner:
    """Runs steps in a work folder.

    Attributes:
        journal: by step, its command, the seconds it took and the seconds of processor time.
    """

    def __init__(self, folder: Path):
        self.folder, self.lock = Path(folder), Lock()
        (self.folder / LOGS).mkdir(parents=True, exist_ok=True)
        path = self.folder / JOURNAL
        try:
            self.journal = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {path}: {error}; delete it to run everything again") from None

    def run(self, steps: Sequence[Step], at_once: int = 1) -> None:
        """Run those of the steps that are still to do, several at once; they must not need one another.

        Raises:
            InputError: a step failed; its log says why. Steps that were done before are kept.
        """
        to_do = [step for step in steps if not self.is_done(step)]
        with ThreadPoolExecutor(max(at_once, 1)) as executor:
            for future in [executor.submit(self._run, step) for step in to_do]:
                future.result()

    def run_stages(self, stages: Iterable[Sequence[Step]], at_once: int = 1) -> None:
        """:meth:`run` one stage after the other; a stage may be made from what the ones before it gave."""
        for stage in stages:
            self.run(stage, at_once)

    def is_done(self, step: Step) -> bool:
        return step.output.exists() and self.journal.get(step.name, {}).get("command") == list(step.command)

    def _run(self, step: Step) -> None:
        log.info("%s: %s", step.name, step.shown)
        started = time.monotonic()
        path = self.folder / LOGS / f"{step.name}.log"
        with open(path, "wb") as file, _printed(step, file) as printed:
            # The arithmetic of one thread is the same everywhere; steps share the processors instead.
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            command = [sys.executable, "-m", f"rerank_plugin.{step.command[0]}", *step.command[1:]]
            process = subprocess.Popen(command, stdout=printed, stderr=file, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode == 0 and step.prints:
                Path(printed.name).replace(step.output)
        if process.returncode:
            last = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise InputError(f"step {step.name} failed ({' '.join(last)}); see {path}, and run again to go on")
        self._remember(step, time.monotonic() - started, used)

    def _remember(self, step: Step, seconds: float, used: resource.struct_rusage) -> None:
        entry = {
            "command": list(step.command),
            "seconds": round(seconds, 1),
            "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        }
        with self.lock:
            self.journal[step.name] = entry
            with replacing(self.folder / JOURNAL, INNER, overwrite=True) as file:
                file.write(json.dumps(self.journal, indent=1).encode())


@contextmanager
def _printed(step: Step, log_file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Where a step's standard output goes: to its log, or to a file beside its output."""
    if not step.prints:
        yield log_file
        return
    step.output.parent.mkdir(parents=True, exist_ok=True)
    with open(step.output.with_name(f"{step.output.name}.part"), "wb") as file:
        yield file
