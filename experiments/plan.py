"""The engine of all experiments: steps, which are commands of this package, and plans, which are stages of steps.

The work folder keeps a log of every step and a journal with its command and time. A step whose output exists and whose
command is in the journal is finished and does not run again, so an interrupted experiment resumes. Outputs are named
after a digest of the commands that lead to them: after a change of options, only the affected steps run again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, TypeVar

import rerank_plugin as rp
from experiments.settings import Settings
from rerank_plugin.files.outputs import INNER, replacing

log = logging.getLogger(__name__)

JOURNAL, LOGS = "journal.json", "logs"
T = TypeVar("T")


def merged(*parts: Sequence) -> tuple[str, ...]:
    """Options of a command; a later part overrides an earlier one, and values of --set one another by name.

    Options may be written ``--name value...`` or ``--name=value``.
    """
    options: dict[str, list[str]] = {}
    values: dict[str, str] = {}  # of --set
    for part in parts:
        name = ""
        for word in map(str, part):
            if word.startswith("--"):
                name, equals, word = word.partition("=")
                options[name] = []
                if not equals:
                    continue
            if name == "--set":
                values[word.partition("=")[0]] = word
            else:
                options[name].append(word)
    if "--set" in options:
        options["--set"] = list(values.values())
    return tuple(word for name, words in options.items() for word in (name, *words))


@dataclass(frozen=True)
class Step:
    """One command."""

    name: str  # of the step, for its log and the journal
    command: tuple[str, ...]  # the words after ``python -m rerank_plugin.``
    output: Path  # file or folder that it writes
    prints: bool = False  # whether the output is the command's standard output

    @property
    def shown(self) -> str:
        """The shell command."""
        command = "python -m rerank_plugin." + shlex.join(self.command)
        return f"{command} > {shlex.quote(str(self.output))}" if self.prints else command


class Runner:
    """Runs steps in a work folder. Its journal has the command, seconds and CPU seconds of each step."""

    def __init__(self, folder: Path):
        self.folder, self.lock = Path(folder), Lock()
        (self.folder / LOGS).mkdir(parents=True, exist_ok=True)
        path = self.folder / JOURNAL
        try:
            self.journal = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise rp.InputError(f"cannot read {path}: {error}; delete it to run everything again") from None

    def run(self, stages: Iterable[Sequence[Step]], at_once: int = 1) -> None:
        """Run the unfinished steps, stage by stage, several of a stage at once.

        A stage may read the outputs of earlier stages; its steps must not depend on one another.

        Raises:
            InputError: a step failed; its log says why. Finished steps are kept.
        """
        for stage in stages:
            unfinished = [step for step in stage if not self.is_done(step)]
            with ThreadPoolExecutor(max(at_once, 1)) as executor:
                try:
                    futures = [executor.submit(self._run, step) for step in unfinished]
                    wait(futures)
                except (KeyboardInterrupt, SystemExit):  # begin no other step
                    executor.shutdown(wait=False, cancel_futures=True)
                    raise
                for future in futures:
                    future.result()

    def is_done(self, step: Step) -> bool:
        return step.output.exists() and self.journal.get(step.name, {}).get("command") == list(step.command)

    def minutes(self, steps: Sequence[Step]) -> list[str]:
        """Minutes and CPU minutes of some steps together."""
        taken = [self.journal[step.name] for step in steps]
        return [f"{sum(one[kind] for one in taken) / 60:.1f}" for kind in ("seconds", "processor_seconds")]

    def _run(self, step: Step) -> None:
        log.info("%s: %s", step.name, step.shown)
        started = time.monotonic()
        path = self.folder / LOGS / f"{step.name}.log"
        with open(path, "wb") as file, _printed(step, file) as printed:
            # One thread gives the same sums on any number of cores; steps share the cores instead.
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            command = [sys.executable, "-m", f"rerank_plugin.{step.command[0]}", *step.command[1:]]
            process = subprocess.Popen(command, stdout=printed, stderr=file, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode == 0 and step.prints:
                Path(printed.name).replace(step.output)
        if process.returncode:
            last = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise rp.InputError(f"step {step.name} failed ({' '.join(last)}); see {path}, and run again to resume")
        self._record(step, time.monotonic() - started, used)

    def _record(self, step: Step, seconds: float, used: resource.struct_rusage) -> None:
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
    """The file of a step's standard output: its log, or a file beside its output."""
    if not step.prints:
        yield log_file
        return
    step.output.parent.mkdir(parents=True, exist_ok=True)
    with open(step.output.with_name(f"{step.output.name}.part"), "wb") as file:
        yield file


SENTENCES, SENTENCES_TITLE = "sentences", "Sentence encoder, not trained"  # the row of `Settings.encoder`


class Plan:
    """The steps of an experiment in stages; the steps of a stage do not depend on one another.

    Args:
        dry: whether to choose the first candidate everywhere, to list the steps before any has run.
    """

    def __init__(self, settings: Settings, dry: bool = False):
        self.settings, self.work, self.dry = settings, Path(settings.work), dry

    def stages(self) -> Iterator[list[Step]]:
        """The stages one by one: the choices of a stage are read after it has run."""
        raise NotImplementedError

    def step(
        self,
        kind: str,
        name: str,
        command: Sequence,
        suffix: str = "",
        prints: bool = False,
        output: Path | None = None,
        seed: int | None = None,
    ) -> Step:
        """A step whose output, by default in the folder ``kind``, is named after its command."""
        words = tuple(map(str, (*command, "--seed", self.settings.seed if seed is None else seed)))
        name = f"{name}-{digest(words)}"
        output = output or self.work / kind / f"{name}{suffix}"
        target = () if prints else ("--index" if words[0] == "index" else "--output", str(output))
        return Step(f"{kind}-{name}".replace("/", "-"), (*words, *target), output, prints)

    def indexing(self, kind: str, name: str, corpus: str | Path, *options, stem: str | None = None) -> Step:
        stemmed = ("--stem", stem) if stem else ()
        return self.step(kind, name, ("index", "--corpus", corpus, *options, *stemmed, "--overwrite"))

    def search(self, kind: str, name: str, index: Step, queries: str, *options, **more) -> Step:
        command = ("search", "--index", index.output, "--queries", queries, *options, "--overwrite")
        return self.step(kind, name, command, **{"suffix": ".run", **more})

    def train(
        self, kind: str, name: str, index: Step, words: str | Path | None, *options, seed: int | None = None
    ) -> Step:
        given = () if words is None else ("--words", words)
        command = ("train", "--index", index.output, *given, *options, "--overwrite", "--resume")
        return self.step(kind, name, command, seed=seed)

    def encode(self, kind: str, name: str, index: Step, encoder: str | Path, *options) -> Step:
        """Encodings of an index's documents, which are stored in it; the output is what the command prints."""
        command = ("index", "--encode", encoder, "--index", index.output, *options, "--overwrite")
        return self.step(kind, name, command, ".txt", prints=True)

    def extended_words(self, kind: str, index: Step) -> Step:
        """Word vectors for all words of an index."""
        command = ("embed", "extend", "--words", self.settings.words, "--index", index.output, "--overwrite")
        return self.step(kind, "extended", command)

    def chosen(self, tried: Sequence[T], value: Callable[[T], float]) -> T:
        """The candidate with the highest value; ties are won by the first."""
        return tried[0] if self.dry else max(tried, key=value)

    def reached(self, training: Step) -> dict[str, float]:
        """The measures of a training's best epoch on the validation queries."""
        return checkpoint_config(training)["measures"]


def digest(words: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:8]


def checkpoint_config(training: Step) -> dict:
    """The config.json of a checkpoint."""
    return json.loads((training.output / "config.json").read_text(encoding="utf-8"))


def history(training: Step) -> list[dict]:
    """The log of a training, an entry per epoch."""
    return [json.loads(line) for line in (training.output / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def once(steps: Iterable[Step]) -> list[Step]:
    """The steps without repetitions, in their order."""
    return list({step.name: step for step in steps}.values())
