"""The cases of a campaign: kills, limits, damages, attacks. Each is drawn from a seed and its number, and is judged."""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import cycle
from pathlib import Path

from tests.campaign.children import Children
from tests.campaign.clicking import DONE
from tests.campaign.commands import COMMANDS, SEARCHED, WHILE_SEARCHED, Command, make_inputs
from tests.campaign.damages import TARGETS
from tests.campaign.hostile import ATTACKS, Served
from tests.processes import attempt

MARK = ".rerank_plugin-"
BATCH = 25  # damages to a process
LIMITS = {  # what a child gets; a reason to skip is found when it is tried
    "no more than 24 open files": {"limits": {"files": 24}},
    "no file beyond 4 KB": {"limits": {"file_size": 4096}},
    "no file beyond 200 KB": {"limits": {"file_size": 200_000}},
    "300 MB more memory": {"limits": {"memory": 300 << 20}},
    "50 MB more memory": {"limits": {"memory": 50 << 20}},
    "stdout on a full device": {"stdout": "/dev/full"},
    "no stdout": {"closed": [1]},
    "no stderr": {"closed": [2]},
    "no stdin": {"closed": [0]},
    "LANG=C": {"environment": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}},
    "no HOME": {"environment": {"HOME": "/nonexistent"}},
    "stopped and continued": {"signals": [[0.1, signal.SIGSTOP], [0.4, signal.SIGCONT]]},
    "SIGTERM": {"signals": [[0.15, signal.SIGTERM]]},
    "a storm of signals": {"signals": [[0.1 + n / 50, signal.SIGTERM] for n in range(5)]},
    "a full disk": {"full": 300_000},
}


class Campaign:
    """The inputs, and the undisturbed result of each command, in a folder that later campaigns use again."""

    def __init__(self, children, folder: Path, seed: int, trained: bool = True):
        self.children, self.folder, self.seed = children, folder, seed
        self.inputs = folder / "inputs"
        if not (folder / "inputs.made").exists():
            shutil.rmtree(self.inputs, ignore_errors=True)
            make_inputs(children, self.inputs, trained)
            self._make_part()
            (folder / "inputs.made").touch()
        self.undisturbed: dict[str, dict] = {}
        self.searchers: Children | None = None  # a second process, for searches beside a command
        self.served: Served | None = None

    def close(self) -> None:
        """End the service that was attacked."""
        if self.served is not None:
            self.served.close()
            self.served = None

    def _make_part(self) -> None:
        """The part of a killed search, in the inputs."""
        place = self.inputs / "part"
        place.mkdir()
        line = "search --index in/index --queries in/queries.tsv --output part/made.run"
        self.children.ask(folder=self.inputs, argv=line.split(), step=15)
        assert (place / "made.run.part.journal").exists(), "the search ended before it was killed"

    # Kills.

    def _prepared(self, command: Command, name: str, at: Path | None = None) -> Path:
        case = (at or self.folder) / name
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir(parents=True)
        (case / "in").symlink_to(self.inputs)
        if command.copied:
            shutil.copytree(self.inputs / command.copied, case / "made")
        for line in command.before:
            done = self.children.ask(folder=case, argv=line.split())
            assert done["status"] == 0, done
        return case

    def expected(self, command: Command) -> dict:
        """The steps and seconds of a command, and the checksums of what it leaves and of what was there before.

        Files that differ between two undisturbed runs, as those with a time, are compared by name only.
        """
        if command.name not in self.undisturbed:
            found = []
            for _ in range(2):
                case = self._prepared(command, "undisturbed")
                read_before = self._read(command, case) if command.by_readers else None
                before = contents(case)
                done = self.children.ask(folder=case, argv=command.argv, longest=300)
                assert done["status"] == 0, (command.name, done)
                found.append((contents(case), self._read(command, case)))
            (first, read), (second, _) = found
            varying = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
            names = {generic(name) for name in varying}
            self.undisturbed[command.name] = {
                "before": before, "after": first, "varying": names, "read": read, "read_before": read_before,
                "steps": done["steps"], "seconds": done["seconds"],
            }  # fmt: skip
        return self.undisturbed[command.name]

    def _read(self, command: Command, case: Path) -> list:
        """What the readers of a command make of its outputs: their statuses and files."""
        read = []
        for line in command.readers:
            done = self.children.ask(folder=case, argv=line.split())
            files = sorted(case.glob("read*"))
            read.append(
                [done["status"], [blake2b(path.read_bytes()).hexdigest() for path in files], done["err"][-300:]]
            )
            for path in files:
                path.unlink()
        return read

    def kill(self, number: int, command: Command) -> dict:
        """Kill a command once or twice, at a step or at random, and recover it; the faults that this shows."""
        generator, whole = random.Random(f"{self.seed} kill {number}"), self.expected(command)
        case = self._prepared(command, "case")
        faults, hows = [], []
        entry = {"kind": "kill", "name": command.name, "faults": faults}
        line = command.argv
        for _ in range(generator.choice((1, 1, 1, 2))):
            if generator.random() < 0.8 and whole["steps"]:
                step = generator.randint(1, whole["steps"])
                how = {"step": step}
                hows.append(f"step {step} of {whole['steps']}")
            else:
                after = generator.random() * whole["seconds"]
                how = {"signals": [[after, signal.SIGKILL]]}
                hows.append(f"after {after:.2f} s")
            done = self.children.ask(folder=case, argv=line, longest=120, **how)
            faults += trouble(done, may_be_killed=True)
            if done["status"] != -signal.SIGKILL:
                hows[-1] += " (it was done before)"
                break
            if command.commits:
                statuses = [status for status, *_ in self._read(command, case)]
                if any(statuses) and (case / "made/index.json").exists():
                    faults.append(f"after the kill the index is damaged: {statuses}")
            elif command.by_readers:
                read = [one[:2] for one in self._read(command, case)]
                if read == [one[:2] for one in whole["read"]] != [one[:2] for one in whole["read_before"]]:
                    return {**entry, "how": "; ".join(hows)}  # it was done
                if read != [one[:2] for one in whole["read_before"]]:
                    faults.append(f"after the kill its readers find neither the old nor the new: {read}")
            else:
                faults += self._is_nothing_lost(command, case, whole)
            line = self._again(command, case)
        done = self.children.ask(folder=case, argv=line, longest=120)
        faults += trouble(done)
        if done["status"] == 2 and self._differences(command, case, whole):
            faults.append(
                f"is not recovered by {' '.join(line[len(command.argv) :]) or 'the same command'}: {done['err']}"
            )
            done = self.children.ask(folder=case, argv=command.argv, longest=120)
            faults += trouble(done)
        faults += self._differences(command, case, whole)
        return {**entry, "how": "; ".join(hows)}

    def _again(self, command: Command, case: Path) -> list[str]:
        """The command that goes on: with the option to resume if there is something to resume."""
        is_begun = any(case.rglob("*.part*")) or any(case.glob("made*.training"))
        return [*command.argv, command.resume] if command.resume and is_begun else command.argv

    def _is_nothing_lost(self, command: Command, case: Path, whole: dict) -> list[str]:
        """After a kill, each output is the old one or the new one; of a folder, as a whole, if it is replaced."""
        before, after, found = whole["before"], whole["after"], contents(case)
        stable = [n for n in before if generic(n) not in whole["varying"]]
        lost = [name for name in stable if found.get(name) not in (before[name], after.get(name, before[name]))]
        return [f"after the kill {name} is neither the old nor the new" for name in lost if name in after][:3]

    def _differences(self, command: Command, case: Path, whole: dict) -> list[str]:
        found, expected, varying = contents(case), whole["after"], whole["varying"]
        if command.by_readers:
            expected, varying = found, set()
        left = {name for name in found if MARK in name}
        of_others = {generic(name) for name in found.keys() - left} ^ {generic(name) for name in expected}
        wrong = [
            f"{name} is {'left' if name in map(generic, found) else 'missing'}" for name in sorted(of_others - varying)
        ]
        wrong += [
            f"{name} differs" for name in expected
            if generic(name) not in varying and name in found and found[name] != expected[name]
        ]  # fmt: skip
        if not wrong and command.readers:
            read = self._read(command, case)
            if [one[:2] for one in read] != [one[:2] for one in whole["read"]]:
                wrong.append(f"its readers find something else: {[one[2] for one in read]}")
        if left:
            wrong.append(f"left: {', '.join(sorted(left))[:200]}")
        return wrong[:4]

    # Searches beside.

    def searches(self, number: int, name: str) -> dict:
        """Search an index again and again while a command changes it: each run is that of before or of after."""
        line, copied = WHILE_SEARCHED[name]
        case = self._prepared(Command(name, line, copied=copied), "case")
        entry = {"kind": "search", "name": name, "how": f"case {number}", "faults": []}
        if self.searchers is None:
            self.searchers = Children(self.folder / "searchers", None)
        states = [self._run_at_rest(case, "before")]
        with ThreadPoolExecutor(1) as executor:
            argv = ["repeat", *SEARCHED.split(), "read.N.run"]
            searching = executor.submit(self.searchers.ask, folder=case, argv=argv, longest=120)
            time.sleep(random.Random(f"{self.seed} search {number}").random() * 2)
            done = self.children.ask(folder=case, argv=line.split(), longest=120)
            (case / DONE).touch()
            ended = searching.result()
        entry["faults"] += trouble(done) + trouble(ended)
        if done["status"] != 0:
            entry["faults"].append(f"the command was refused: {done['err'][-300:]}")
        states.append(self._run_at_rest(case, "after"))
        found = json.loads(ended["out"].strip().splitlines()[-1]) if ended["status"] == 0 else []
        for place, (status, err) in enumerate(found):
            if status == 0 and (case / f"read.{place}.run").read_bytes() not in states:
                entry["faults"].append(f"search {place} of {len(found)} finds what no build has")
            elif status and "was replaced while it was being opened" not in "".join(err):
                entry["faults"].append(f"search {place} of {len(found)} ends with status {status}: {err}")
        return {**entry, "searches": len(found)}

    def _run_at_rest(self, case: Path, name: str) -> bytes:
        done = self.children.ask(folder=case, argv=[*SEARCHED.split(), f"{name}.run"])
        assert done["status"] == 0, done
        return (case / f"{name}.run").read_bytes()

    # Attacks.

    def attack(self, number: int, name: str) -> dict:
        """Attack a service, which goes on unless this shows a fault."""
        if self.served is None:
            self.served = Served(self.inputs / "index", self.folder / "served")
        faults = self.served.faults(ATTACKS[name], random.Random(f"{self.seed} attack {number}"))
        if faults:
            self.close()
        return {"kind": "attack", "name": name, "how": f"case {number}", "faults": faults}

    # Limits.

    def limit(self, number: int, command: Command, name: str) -> dict:
        """Run a command under a limit: it ends well and equal, or is refused and leaves nothing; then it recovers."""
        whole, limits = self.expected(command), dict(LIMITS[name])
        entry = {"kind": "limit", "name": command.name, "how": name, "faults": []}
        full = limits.pop("full", None)
        if name == "stdout on a full device" and not os.path.exists("/dev/full"):
            return {**entry, "skipped": "this machine has no /dev/full"}
        place = self.folder / "disk"
        if full:
            place.mkdir(exist_ok=True)
            if os.system(f"mount -t tmpfs -o size={full} campaign {place} 2>/dev/null") != 0:
                return {**entry, "skipped": "a small disk cannot be mounted here"}
        try:
            try:
                case = self._prepared(command, "case", place if full else None)
            except (OSError, AssertionError):
                return {**entry, "skipped": "what the command needs does not fit onto the small disk"}
            if name == "LANG=C":  # read when Python starts, so in a process of its own
                status, _, err = attempt(case, command.line, **limits["environment"])
                done = {"status": status, "err": err, "sent": []}
            else:
                done = self.children.ask(folder=case, argv=command.argv, longest=60, **limits)
            entry["faults"] += trouble(done, silent="no stderr" in name, signalled=set(done["sent"]))
            if done["status"] == 0:
                entry["faults"] += self._differences(command, case, whole)
                if name in ("stdout on a full device", "no stdout"):
                    entry["faults"].append("what it prints is lost, with exit 0")
            if full or (command.by_readers and done["status"] == 0):
                return entry
            if left := [path.name for path in case.iterdir() if path.name.startswith("hs_err")]:
                entry["faults"].append(f"left {left}")
                for name in left:
                    (case / name).unlink()
            done = self.children.ask(folder=case, argv=self._again(command, case), longest=120)
            entry["faults"] += trouble(done)
            if done["status"] == 2 and self._differences(command, case, whole):
                entry["faults"].append(f"is not recovered: {done['err']}")
            elif differences := self._differences(command, case, whole):
                entry["faults"] += [f"afterwards: {one}" for one in differences]
            return entry
        finally:
            if full:
                os.system(f"umount {place} 2>/dev/null")

    # Damages.

    def damages(self, numbers: list[int], target) -> Iterator[dict]:
        """Damages to one target, in one process unless it ends; an entry for each."""
        open_ones = [[n, f"{self.seed} damage {n}", bool(target.sealed and n % 2)] for n in numbers]
        while open_ones:
            case = self.folder / "case"
            shutil.rmtree(case, ignore_errors=True)
            case.mkdir()
            (case / "in").symlink_to(self.inputs)
            copy = self.inputs / target.source
            request = {"folder": case, "target": target.name, "copy": copy, "damages": open_ones, "longest": 60}
            answered = self.children.ask(**request)
            entries = [json.loads(line) for line in answered["out"].splitlines() if line.startswith("{")]
            if not entries or entries[0]["status"] != 0:
                late = answered["status"] is None and f"no answer in {request['longest']} seconds of processor time"
                why = late or entries or f"status {answered['status']}: {answered['err']}"
                raise RuntimeError(f"{target.name}: the undamaged files cannot be read: {why}")
            resealed = {number: sealed for number, _, sealed in open_ones}
            trying = None
            for entry in entries:
                trying = (
                    entry
                    if "trying" in entry
                    else None
                    if entry.get("number") == (trying or {}).get("trying")
                    else trying
                )
                if "number" in entry:
                    yield self._judged(target, entry, resealed[entry["number"]])
            done = {entry["number"] for entry in entries if "number" in entry}
            if trying is not None:  # the process ended or hung with this one
                done.add(trying["trying"])
                what = "hangs" if answered["status"] is None else f"ends the process with status {answered['status']}"
                yield {
                    "kind": "damage", "number": trying["trying"], "name": target.name,
                    "how": f"{trying['kind']} {trying['file']}", "outcome": "fault",
                    "faults": [f"{what}: {answered['err'][-300:]}"],
                }  # fmt: skip
            elif not entries[-1].get("again", True):
                yield {"kind": "damage", "number": open_ones[-1][0], "name": target.name, "how": "after all", "outcome":
                       "fault", "faults": [f"the undamaged files are read otherwise: {entries[-1]}"]}  # fmt: skip
            open_ones = [one for one in open_ones if one[0] not in done] if trying is not None else []

    def _judged(self, target, entry: dict, resealed: bool) -> dict:
        faults = trouble({"status": entry["status"], "err": entry["err"], "sent": []})
        changed = entry["status"] == 0 and not entry["same"]
        if changed and target.ours and not resealed:
            faults.append("another result, with exit 0")
        outcome = (
            "fault" if faults else "another result" if changed else "refused" if entry["status"] else "same result"
        )
        how = f"{entry['kind']} {entry['file']}{' (resealed)' if resealed else ''}"
        return {
            "kind": "damage", "number": entry["number"], "name": target.name, "how": how,
            "outcome": outcome, "faults": faults,
        }  # fmt: skip


def generic(name: str) -> str:
    """A name without what is drawn at random in it, and without the numbers of Lucene's segments."""
    return "lucene/*" if "lucene/" in name else name


def contents(folder: Path) -> dict[str, str]:
    """The checksums of all files of a folder but the inputs, by their names."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith("in/"):
            content = path.read_bytes()
            if path.name == "log.jsonl":  # of a training, which took other seconds
                content = re.sub(rb'_seconds": [\d.]+', b"", content)
            found[name] = blake2b(content, digest_size=16).hexdigest()
        elif path.is_dir() and not path.is_symlink() and MARK in path.name:
            found[name] = "folder"
    return found


def trouble(done: dict, may_be_killed=False, silent=False, signalled=frozenset()) -> list[str]:
    """What no command may do, whatever happens to it: a traceback, a hang, an abort, an error of many lines."""
    status, err = done["status"], done["err"]
    if status is None:
        return ["hangs for a minute"]
    if status < 0 and not (may_be_killed and status == -signal.SIGKILL):
        return [f"ends by signal {-status}: {err[-200:]}"]
    if "Traceback (most recent call last)" in err:
        return ["traceback: " + " | ".join(last_frames(err))]
    allowed = {0, 2} | {128 + number for number in signalled}
    if status >= 0 and status not in allowed:
        return [f"ends with status {status}: {err[-200:]}"]
    if status == 2 and not silent and sum(line.startswith("error:") for line in err.splitlines()) != 1:
        return [f"is refused without a line that says why: {err[-200:]}"]
    return []


def last_frames(err: str) -> list[str]:
    """The innermost frame of ours in a traceback, and the error."""
    lines = err.strip().splitlines()
    ours = [line.strip() for line in lines if "/rerank_plugin/" in line and line.strip().startswith("File")]
    place = ours[-1].partition("/rerank_plugin/")[2].replace('"', "") if ours else ""
    return [place, lines[-1][:200]]


def kills_of(seed: int) -> Iterator[tuple[int, Command]]:
    """All commands in turn, without an end."""
    usable = [command for command in COMMANDS if not command.is_missing]
    number = 0
    while True:
        for command in usable:
            yield number, command
            number += 1


def searches_of() -> Iterator[tuple[int, str]]:
    """All commands that change an index in turn, without an end."""
    return enumerate(cycle(WHILE_SEARCHED))


def attacks_of() -> Iterator[tuple[int, str]]:
    """All attacks in turn, without an end."""
    return enumerate(cycle(ATTACKS))


def limits_of() -> Iterator[tuple[int, Command, str]]:
    usable = [command for command in COMMANDS if not command.is_missing]
    for number, (name, command) in enumerate((name, command) for name in LIMITS for command in usable):
        yield number, command, name


def damages_of() -> Iterator[tuple[list[int], object]]:
    """All targets in turn, `BATCH` damages each, without an end."""
    start = 0
    while True:
        for target in TARGETS:
            yield list(range(start, start + BATCH)), target
            start += BATCH
