"""``python -m tests.mutants``: the faults of mutants.txt, planted one after another in a copy, and those no test sees.

A block of mutants.txt is a file and the tests that must fail, a text that is in the file once, and what replaces it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.processes import ROOT, environment

LIST = Path(__file__).with_suffix(".txt")
LEFT_OUT = (".git", ".venv*", ".*_cache", "__pycache__", "build", ".hypothesis")  # of the copy: others write caches
LONGEST = 600  # seconds; a fault that makes its tests hang is seen


class Fault(NamedTuple):
    file: str
    tests: list[str]
    before: str
    after: str

    def __str__(self):
        return f"{self.file}: {self.before!r} as {self.after!r}"


def faults(text: str) -> list[Fault]:
    """The faults of a list, in its order."""
    planted = []
    for block in text.strip().split("\n\n"):
        subject, before, after = block.split("\n")
        file, *tests = subject.split()
        planted.append(Fault(file, tests, before.removeprefix("- "), after.removeprefix("+").removeprefix(" ")))
    return planted


def outcome(copy: Path, fault: Fault) -> str:
    """What the tests of a fault make of it, planted in a copy of the project."""
    path = copy / fault.file
    text = path.read_text() if path.exists() else ""
    if text.count(fault.before) != 1:
        return f"its text is in the file {text.count(fault.before)} times"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(text.replace(fault.before, fault.after))
    status = tested(copy, fault.tests)
    path.write_text(text)
    os.utime(path, ns=times)  # of which caches of compiled code are made
    return {0: "survives", 1: "killed", 2: "killed", None: "killed"}.get(status, f"pytest's exit status is {status}")


def tested(copy: Path, tests: list[str]) -> int | None:
    """The exit status of pytest in a copy, until the first failure; None if it hangs."""
    command = [sys.executable, "-B", "-m", "pytest", "--exitfirst", "--quiet", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment([copy]), capture_output=True, timeout=LONGEST)
        return done.returncode
    except subprocess.TimeoutExpired:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="plant faults whose file or text has this")
    only = parser.parse_args().only
    planted = [fault for fault in faults(LIST.read_text()) if only in str(fault)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if (ROOT.parent / "shared").exists():
            (copy.parent / "shared").symlink_to(ROOT.parent / "shared")
        counts = {"killed": 0}
        for number, fault in enumerate(planted, 1):
            started = time.monotonic()
            found = outcome(copy, fault)
            counts[found] = counts.get(found, 0) + 1
            took = time.monotonic() - started
            print(f"{number} of {len(planted)}: {found} ({took:.0f} s): {fault}", flush=True)
        broken = [file for file in sorted({file for fault in planted for file in fault.tests}) if tested(copy, [file])]
    print(*(f"{count} {found}" for found, count in counts.items()), sep=", ")
    if broken:
        print(f"without any fault these fail, so they killed nothing: {', '.join(broken)}")
    sys.exit(bool(broken) or counts["killed"] < len(planted))


if __name__ == "__main__":
    main()
