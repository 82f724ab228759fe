"""A reader who follows a page: its blocks run in a clean folder, and must print what the page shows below them.

Bash runs the blocks of a page as one script, so that variables, loops, pipes and files work as for a reader. Its
commands of the package, and the page's Python, run in the process of the tests, where Java and torch have started; bash
asks for them through named pipes. A ``python -m http.server`` is a process of its own, until the page ends. Commands by
which several pages index, embed and train on the sample run once; the other pages get a copy of the output.
"""

import io
import json
import os
import re
import runpy
import shutil
import socket
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from tempfile import mkdtemp

import pytest

from rerank_plugin import options as commandline
from tests.processes import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = re.compile(r"http\.server (\d+)")
PORT = re.compile(r"(?<=http\.server )\d+|(?<=localhost:)\d+")
NUMBER = re.compile(r"([-+]?[\d,]*\.?\d+(?:e-?\d+)?)(\D*)")
FIRST = ("python", "-m", "rerank_plugin.index", "--corpus", "sample", "--index", "indexes/sample")
SHARED = {(f"rerank_plugin.{name}",) for name in ("index", "embed", "train")}
SHELL = """\
set -euo pipefail
trap 'status=$?; kill $(jobs -p) 2> {pipes}/killed || true; printf "end\\0%s\\0" $status > {pipes}/ask' EXIT
ask() {{
    if [ -p /dev/stdin ] || [ -f /dev/stdin ]; then cat > {pipes}/stdin; else : > {pipes}/stdin; fi
    printf '%s\\0' "$PWD" "$@" > {pipes}/ask
    cat {pipes}/answer
    return "$(cat {pipes}/status)"
}}
python() {{
    if [ "${{2-}}" = http.server ]; then exec {python} "$@"; fi
    ask python "$@"
}}
rerank-plugin() {{ ask python -m "rerank_plugin.$1" "${{@:2}}"; }}
make() {{ command make --dry-run --always-make -C {root} "$@" > {pipes}/made; }}
source() {{ [ "$*" = .venv/bin/activate ]; }}
pip() {{ ask pip "$@"; }}
exec < /dev/null
"""


class Reader:
    """Runs pages, each in a folder of its own; ``folder`` is for these, and for what pages share.

    Blocks with one of the texts ``without`` are left out: they need what is not installed.
    """

    def __init__(self, folder: Path, without: tuple[str, ...] = ()):
        self.folder = folder
        self.without = without
        self.made: dict[tuple, tuple[Path, str]] = {}  # by calls that pages share: output and text

    def follow(self, page: Path) -> None:
        """Run every block of a page; fail where one fails, or prints something else than the page shows."""
        place, pipes = (Path(mkdtemp(prefix=f"{page.stem}-", dir=self.folder)) for _ in range(2))
        blocks = _with_free_ports(_blocks(page))
        script, shown = [SHELL.format(pipes=pipes, root=ROOT, python=sys.executable)], []
        for number, (language, code) in enumerate(blocks):
            if language in ("sh", "python") and not any(text in code for text in self.without):
                body = code if language == "sh" else f"ask block {number}\n"
                script.append(f"{{\n{body}}} > {pipes}/{number}.out 2>&1\n")
            elif language == "text":
                shown.append((number, code))
        for name in ("ask", "answer", "status"):
            os.mkfifo(pipes / name)
        (pipes / "script").write_text("".join(script), "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(ROOT))
            patch.delenv("OPENAI_API_KEY", raising=False)  # the tests set one, and readers have none
            self._answer(place, pipes, [code for _, code in blocks], patch)
        for number, text in shown:
            printed = (pipes / f"{number - 1}.out").read_text("utf-8")
            missing = unlike(text, printed)
            assert missing is None, f"{page.name} shows\n{missing}\nbut printed was\n{printed}"

    def _answer(self, place, pipes, blocks, patch):
        """Answer what a script asks for, until it ends."""
        calls, names = [], {"__name__": "__main__"}
        with Popen(["bash", pipes / "script"], cwd=place, stdout=PIPE, stderr=STDOUT, text=True) as bash:
            while True:
                folder, *arguments = (pipes / "ask").read_text("utf-8").split("\0")[:-1]
                if folder == "end":
                    outputs = sorted(pipes.glob("*.out"), key=lambda path: int(path.stem))
                    last = outputs[-1].read_text("utf-8") if outputs else ""
                    assert arguments == ["0"], f"{calls[-1:]} {last}{bash.stdout.read()}"
                    return
                calls.append(tuple(arguments))
                patch.chdir(folder)
                status, output = self._call(place, calls, lambda: _run(arguments, blocks, names, pipes / "stdin"))
                (pipes / "answer").write_text(output, "utf-8")
                (pipes / "status").write_text(str(status))

    def _call(self, place, calls, run):
        """Run a call, or copy what it made for another page; what it prints, and its exit status."""
        shared = [call for call in calls if call[2:3] in SHARED]
        if calls[-1] not in shared or shared[0] != FIRST or not all(call in self.made for call in shared[:-1]):
            return run()
        output = calls[-1][calls[-1].index("--output" if "--output" in calls[-1] else "--index") + 1]
        if calls[-1] in self.made:
            folder, printed = self.made[calls[-1]]
            shutil.copytree(folder, place / output, dirs_exist_ok=True)
            return 0, printed
        status, printed = run()
        if not status:
            folder = self.folder / f"made-{len(self.made)}"
            shutil.copytree(place / output, folder)
            self.made[calls[-1]] = folder, printed
        return status, printed


def _blocks(page):
    """The language and the text of each block of a page, or of each cell of a notebook."""
    if page.suffix == ".md":
        return BLOCK.findall(page.read_text("utf-8"))
    cells = json.loads(page.read_text("utf-8"))["cells"]
    return [("python" if cell["cell_type"] == "code" else "", "".join(cell["source"])) for cell in cells]


def _with_free_ports(blocks):
    """The blocks, with free ports in place of those of ``http.server``."""
    ports = {}
    for port in {port for _, code in blocks for port in SERVED.findall(code)}:
        with socket.create_server(("localhost", 0)) as server:
            ports[port] = str(server.getsockname()[1])
    return [(language, PORT.sub(lambda found: ports.get(found[0], found[0]), code)) for language, code in blocks]


def _run(arguments, blocks, names, stdin):
    """What a call prints, on stdout and stderr, and its exit status."""
    program, *rest = arguments
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    before, status = os.dup(0), 0
    with stdin.open("rb") as file, redirect_stdout(printed), redirect_stderr(printed):
        os.dup2(file.fileno(), 0)
        try:
            if program == "block":
                exec(compile(blocks[int(rest[0])], "the page", "exec"), names)
            elif program == "pip":
                _check_installation(rest)
            elif rest[0] == "-m":
                module = rest[1] + (".__main__" if find_spec(rest[1]).submodule_search_locations is not None else "")
                commandline.run(import_module(module).main, rest[2:])
            else:
                code = rest[1] if rest[0] == "-c" else stdin.read_text("utf-8") if rest[0] == "-" else None
                runpy.run_path(rest[0], run_name="__main__") if code is None else exec(code, {"__name__": "__main__"})
        except SystemExit as stopped:
            status = stopped.code or 0
        except Exception:  # of a block of Python
            status = 1
            traceback.print_exc()
        finally:
            os.dup2(before, 0)
            os.close(before)
    return status, printed.buffer.getvalue().decode()


def _check_installation(arguments):
    """Refuse to install an extra that setup.cfg does not have."""
    extras = (ROOT / "setup.cfg").read_text("utf-8").split("extras_require]")[1]
    for wanted in re.findall(r"\[([\w,-]+)\]", " ".join(arguments)):
        assert all(f"\n{extra} =\n" in extras for extra in wanted.split(",")), wanted


def unlike(text, printed):
    """The first line of a text that was not printed, in its order; None if all were.

    Numbers may differ by 2%, or 0.03, and then marks of significance, too: what is trained differs by processor and
    number of threads. ``...`` stands for anything.
    """
    lines = iter(printed.splitlines())
    for line in text.splitlines():
        if line.strip() not in ("", "...") and not any(_alike(line, other) for other in lines):
            return line
    return None


def _alike(line, other):
    words, others = line.split(), other.split()
    if "..." in words:
        place = words.index("...")
        words, others = words[:place], others[:place]
    return len(words) == len(others) and all(map(_alike_words, words, others))


def _alike_words(word, other):
    if word == other:
        return True
    numbers = NUMBER.fullmatch(word), NUMBER.fullmatch(other)
    if not all(numbers):
        return False
    (first, mark), (second, other_mark) = ((float(found[1].replace(",", "")), found[2]) for found in numbers)
    if mark != other_mark and (first == second or not {mark, other_mark} <= {"", "+", "-", "="}):
        return False
    return abs(first - second) <= max(0.03, abs(first) / 50)
