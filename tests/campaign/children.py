"""Commands in forked children of one process that has imported everything: a tenth of a second each, where a process of
its own takes seconds. Java and threads start in the children only. ``Children`` is the other end, for the campaign.

A request is a JSON object a line (`answer`); the answer has status, signal, stdout, stderr, steps and seconds.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

from rerank_plugin.java.jvm import OPTIONS
from tests.campaign.shim import Steps
from tests.processes import ROOT, environment

MODULES = (
    "torch", "numba", "scipy.sparse", "safetensors.torch", "jnius_config", "rerank_plugin.search",
    "rerank_plugin.train", "rerank_plugin.distill", "rerank_plugin.index", "rerank_plugin.indexes.building",
    "rerank_plugin.rerankers.neural", "rerank_plugin.training.session", "rerank_plugin.retrieval.dense",
    "rerank_plugin.ranking.bulk", "rerank_plugin.ranking.pipeline", "rerank_plugin.files.run_writer",
    "rerank_plugin.evaluation.report", "rerank_plugin.knowledge.compiling",
    "tests.campaign.damages", "tests.campaign.clicking",
)  # fmt: skip
LIMITS = {"files": resource.RLIMIT_NOFILE, "file_size": resource.RLIMIT_FSIZE, "memory": resource.RLIMIT_AS}
HELD = 1.0  # seconds between two looks, beyond which this process was held
LONGEST = 60.0  # seconds of processor time without a sign, after which a command counts as hanging
PATIENCE = 10  # times as long by the clock: a command that waits for ever takes no processor time


def run_command(argv):
    """The status of a command in this process, with what a user would see on stderr."""
    from rerank_plugin import options
    from rerank_plugin.__main__ import COMMANDS
    from tests.campaign.clicking import OWN

    try:
        if argv[0] in OWN:
            OWN[argv[0]](argv[1:])
            return 0
        options.run(import_module(COMMANDS[argv[0]][0]).main, argv[1:])
    except SystemExit as stopped:
        return stopped.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def run_quietly(argv):
    """The status of a command in this process, and what it writes to stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run_command(argv)
    return status, err.getvalue()


def _child(request, steps, files):
    """Run a request in a forked child and end it; the process group is its own."""
    status = 70
    try:
        os.setpgid(0, 0)
        os.chdir(request["folder"])
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.environ.update(request.get("environment", {}))
        for name, value in request.get("limits", {}).items():
            kind = LIMITS[name]
            if name == "memory":  # beyond what is mapped already
                value += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            if name == "file_size":
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(kind, (value, value))
        for number in request.get("closed", ()):
            os.close(number)
        if request.get("stdout"):
            os.dup2(os.open(request["stdout"], os.O_WRONLY), 1)
        steps.arm(Path(request["folder"]), request.get("step", 0))
        if "damages" in request:
            from tests.campaign.damages import try_all

            try_all(request, run_command)
            status = 0
        else:
            status = run_command(request["argv"])
        try:
            sys.stdout.flush()
        except OSError:
            status = 120  # as Python ends where stdout cannot be written
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)


def processor_seconds(group):
    """The processor time of the processes of a group, and of their children that have ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            of_group, *rest = path.read_text().rpartition(")")[2].split()[2:]
            ticks += sum(map(int, rest[8:12])) if int(of_group) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def answer(request, scratch):
    """Fork a child for a request, wait for it or kill it, and describe how it ended."""
    steps = Steps()
    paths = [scratch / "out", scratch / "err"]
    files = [os.open(os.devnull, os.O_RDONLY), *(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for path in paths)]
    started, longest = time.monotonic(), request.get("longest", LONGEST)
    child = os.fork()
    if child == 0:
        _child(request, steps, files)
    ended, code, sent = False, 0, []
    plan = sorted(request.get("signals", []))  # [seconds, number]
    last_sign, size, now, used = started, 0, started, 0.0
    while not ended:
        pid, code, usage = os.wait4(child, os.WNOHANG)
        before, now = now, time.monotonic()
        last_sign += max(now - before - HELD, 0)  # this process was stopped meanwhile: the command does not hang
        ended = pid != 0
        while plan and not ended and now - started >= plan[0][0]:
            number = plan.pop(0)[1]
            os.kill(child, number)
            sent.append(number)
        if (found := os.fstat(files[1]).st_size) != size:  # a damage more was tried
            last_sign, size, used = now, found, processor_seconds(child)
        silent = now - last_sign
        hangs = silent > longest and (silent > PATIENCE * longest or processor_seconds(child) - used > longest)
        if not ended and hangs:
            os.kill(child, signal.SIGABRT if request.get("dump") else signal.SIGKILL)
            pid, code, usage = os.wait4(child, 0)
            ended, code = True, None
        if not ended:
            time.sleep(0.005 if silent < longest else min(longest, 1))
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever it started
    for file in files:
        os.close(file)
    out, err = (path.read_text(errors="replace") for path in paths)
    return {
        "status": os.waitstatus_to_exitcode(code) if code is not None else None,  # None: it hung
        "out": out if "damages" in request else out[-4000:],
        "err": err[-6000:],
        "steps": steps.done,
        "seconds": round(time.monotonic() - started, 3),
        "cpu": round(usage.ru_utime + usage.ru_stime, 3),
        "sent": sent,
    }


def serve(scratch):
    """Answer requests from stdin on stdout until it is closed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in MODULES:
        with suppress(ImportError):
            import_module(name)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), scratch)), file=replies, flush=True)


class Children:
    """The process whose children run the commands; a context."""

    def __init__(self, scratch: Path, library: Path | None):
        preload = {"LD_PRELOAD": str(library)} if library else {}
        options = os.environ.get(OPTIONS, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        more = {OPTIONS: options, "OMP_NUM_THREADS": "1"}
        scratch.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.children", scratch], cwd=ROOT, text=True,
            env=environment(**more, **preload), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, **request):
        """Run a request; its answer. See `answer`."""
        print(json.dumps(request, default=str), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process of the campaign's commands has ended")
        return json.loads(line)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
