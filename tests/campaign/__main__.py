"""``python -m tests.campaign``: kills, limits, damages and attacks, reported in experiments/results/campaign.md.

Each case is drawn from the seed and its number, and its outcome is a line of ``results.jsonl`` in the folder: a
campaign that was interrupted, or is given more minutes, goes on with the next case. Other seeds try other cases.
"""

import argparse
import json
import math
import os
import platform
import re
import time
from collections import Counter
from itertools import chain
from pathlib import Path

from tests.campaign import cases, shim
from tests.campaign.children import Children
from tests.campaign.commands import COMMANDS, WHILE_SEARCHED
from tests.campaign.damages import TARGETS
from tests.campaign.hostile import ATTACKS, MOST_MEMORY, SECONDS
from tests.processes import ROOT

PAGE = ROOT / "experiments" / "results" / "campaign.md"
SHARES = {"kill": 0.45, "damage": 0.35, "limit": 0.1, "search": 0.05, "attack": 0.05}  # of the time
SUBJECTS = {"kill": COMMANDS, "damage": TARGETS, "limit": COMMANDS, "search": WHILE_SEARCHED, "attack": ATTACKS}

NAMES = {"kill": "kills", "damage": "damages", "limit": "runs under limits", "search": "changes of a searched index",
         "attack": "attacks"}  # fmt: skip
TRIES = {"kill": "kill", "limit": "limit", "search": "searches", "attack": "attack"}  # methods of `cases.Campaign`
COUNTED = "Steps are counted by a library that the campaign compiles."
NOT_COUNTED = "Without a C compiler, only the steps of Python are counted, and no writes."
INTRODUCTION = """\
# The campaign

Commands are killed, starved and given damaged files, again and again, by `make campaign`. A killed command must leave
every output as it was or as it should be, and the same command, or `--resume`, must then give what an undisturbed one
gives. Of a damaged file, a command must say so in one line, or not be affected. No command may print a traceback, hang
for a minute, or end by a signal. No client of the service may stop the others. This page is written by the campaign
itself: `make campaign MINUTES=180 SEED=1` goes on where it was, and another seed tries other cases.
"""
KILLS = """
## Kills

A step is a write into the folder of the outputs, or a rename, a removal or a creation there; the last write is done by
half. One kill in five is at a random time instead, and one recovery in four is killed again.

| command | kills | faults |
| --- | ---: | ---: |"""
DAMAGES = """
## Damages

A file of the target is drawn, and a damage: a bit, a word of four bytes, a lost or a repeated part, zeros, nothing, or
bytes at its end. Of the index, every second damage has its checksums written again. Another result is a fault unless
the file is an input of the user or its checksums were written again.

| files | damages | refused | same result | another result | faults |
| --- | ---: | ---: | ---: | ---: | ---: |"""
SEARCHES = """
## Searches beside

An index is searched again and again while a command changes it. Each run is that of the index before or after, or the
search is refused in one line since the index was replaced meanwhile.

| command | times | faults |
| --- | ---: | ---: |"""
ATTACKED = f"""
## Attacks

Clients send bodies, headers and connections that a service should not trust. Someone else's search and re-ranking are
answered within {SECONDS:g} seconds, the log stays short, memory below {MOST_MEMORY >> 30} GB, and the click log keeps
its lines.

| attack | times | faults |
| --- | ---: | ---: |"""
LIMITS = """
## Limits

A command under a limit ends with its result, or is refused in one line; without the limit it then gives its result.

| limit | runs | faults |
| --- | ---: | ---: |"""


def work(
    campaign: cases.Campaign, results: Path, seconds: float, kinds=SHARES, names: str = "", most: float = math.inf
) -> None:
    """Try cases that have no results yet until the time is over; the kind that is furthest behind its share is next.

    Args:
        most: how many cases to try; damages are counted by the batch.
        names: a regular expression that finds the commands and files to try.
    """
    done = [one for one in read(results) if one["seed"] == campaign.seed]
    numbers = {kind: {one["number"] for one in done if one["kind"] == kind} for kind in SHARES}
    spent = Counter(dict.fromkeys(kinds, 0.0))
    for one in done:
        if one["kind"] in kinds:
            spent[one["kind"]] += one["seconds"]
    todo = {
        "kill": (case for case in cases.kills_of(campaign.seed) if case[0] not in numbers["kill"]),
        "limit": (case for case in cases.limits_of() if case[0] not in numbers["limit"]),
        "search": (case for case in cases.searches_of() if case[0] not in numbers["search"]),
        "attack": (case for case in cases.attacks_of() if case[0] not in numbers["attack"]),
        "damage": (case for case in cases.damages_of() if not numbers["damage"].issuperset(case[0])),
    }
    kinds = {
        kind: share for kind, share in kinds.items() if any(re.search(names, name_of(one)) for one in SUBJECTS[kind])
    }
    todo = {kind: (case for case in found if re.search(names, name_of(case[1]))) for kind, found in todo.items()}
    end = time.monotonic() + seconds
    with open(results, "a") as file:
        while kinds and most > 0 and time.monotonic() < end:
            most -= 1
            kind = min(kinds, key=lambda one: spent[one] / kinds[one])
            case, started = next(todo[kind], None), time.monotonic()
            if case is None:
                del kinds[kind]
                continue
            number, subject, *more = case
            if kind == "damage":
                entries = list(campaign.damages(number, subject))
            else:
                entry = getattr(campaign, TRIES[kind])(number, subject, *more)
                entries = [{"number": number, **entry}]
            took = time.monotonic() - started
            spent[kind] += took
            for entry in entries:
                entry |= {"seed": campaign.seed, "seconds": round(took / len(entries), 3)}
                file.write(json.dumps(entry) + "\n")
            file.flush()


def name_of(subject) -> str:
    return subject if isinstance(subject, str) else subject.name


def read(results: Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    python = platform.python_version()
    return f"{platform.system()} {platform.release()}, Python {python}, {os.cpu_count()} CPUs, {memory} GB"


def report(entries: list[dict], injected: bool) -> str:
    """The page: what was tried, and what was found with its place."""
    of = {kind: [one for one in entries if one["kind"] == kind] for kind in SHARES}
    tried = {kind: [one for one in of[kind] if "skipped" not in one] for kind in of}
    minutes = sum(one["seconds"] for one in entries) / 60
    seeds = ", ".join(map(str, sorted({one["seed"] for one in entries})))
    counted = COUNTED if injected else NOT_COUNTED
    tries = ", ".join(f"{len(tried[kind]):,} {name}" for kind, name in NAMES.items())
    lines = [
        f"{INTRODUCTION}\n{tries}, {minutes:,.0f} minutes in all, with the seeds {seeds}; on {machine()}. {counted}"
    ]
    lines += [KILLS, *rows(tried["kill"], [command.name for command in COMMANDS]), DAMAGES]
    for target in TARGETS:
        outcomes = Counter(one["outcome"] for one in tried["damage"] if one["name"] == target.name)
        if total := sum(outcomes.values()):
            counts = (outcomes[name] for name in ("refused", "same result", "another result", "fault"))
            lines.append(f"| {target.name} | {total:,} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    lines += [SEARCHES, *rows(tried["search"], WHILE_SEARCHED)]
    lines += [ATTACKED, *rows(tried["attack"], ATTACKS)]
    lines += [LIMITS, *rows(tried["limit"], cases.LIMITS, "how")]
    skipped = Counter((one["how"], one["skipped"]) for one in of["limit"] if "skipped" in one)
    lines += [""] + [f"Skipped: {how}, {count} runs: {reason}." for (how, reason), count in skipped.items()]
    missing = [f"{command.name} ({command.is_missing})" for command in COMMANDS if command.is_missing]
    lines += [f"Not tried: {', '.join(missing)}."] if missing else []
    found: dict[tuple, list] = {}
    for one in chain(*tried.values()):
        for fault in one["faults"]:
            found.setdefault((one["kind"], one["name"], generic(fault)), []).append(one)
    lines += ["", "## Faults", ""]
    if not found:
        return "\n".join([*lines, "None."]) + "\n"
    lines += ["| command or files | fault | times | first of them |", "| --- | --- | ---: | --- |"]
    for (kind, name, fault), those in sorted(found.items(), key=lambda item: (item[0][0], item[0][1], -len(item[1]))):
        first = f"seed {those[0]['seed']}, {kind} {those[0]['number']}: {those[0]['how']}"
        lines.append(f"| {name} | {cell(fault)} | {len(those):,} | {cell(first)} |")
    return "\n".join(lines) + "\n"


def rows(entries, names, key="name"):
    for name in names:
        those = [one for one in entries if one[key] == name]
        if those:
            yield f"| {name} | {len(those):,} | {sum(bool(one['faults']) for one in those):,} |"


def generic(fault: str) -> str:
    """A fault without what differs between its occurrences: numbers, paths and random names."""
    fault = re.sub(r"/\S*/(case|disk|undisturbed|inputs)\b", r"\1", fault)
    fault = re.sub(r"0x[0-9a-f]+|[0-9a-f]{8,}|(?<!line )\b\d[\d.,e+-]*\b", "N", fault)
    return fault[:160]


def cell(text: str) -> str:
    return "`" + " ".join(text.split()).replace("|", "/").replace("`", "'") + "`"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=30, help="time for new cases; 0 only writes the page")
    parser.add_argument("--seed", type=int, default=1, help="seed of the cases")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "campaign", help="folder of inputs and results")
    parser.add_argument("--kinds", nargs="+", choices=SHARES, default=list(SHARES), help="kinds of cases to try")
    parser.add_argument("--only", default="", metavar="REGEX", help="commands and files to try (default: all)")
    parser.add_argument("--page", type=Path, default=PAGE, help="page to write")
    options = parser.parse_args()
    subjects = sorted({name_of(subject) for kind in options.kinds for subject in SUBJECTS[kind]})
    if not any(re.search(options.only, name) for name in subjects):
        parser.error(f"--only {options.only} finds none of: {', '.join(subjects)}")
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    library, results = shim.compiled(folder), folder / "results.jsonl"
    if options.minutes:
        with Children(folder / "children", library) as children:
            campaign = cases.Campaign(children, folder, options.seed)
            kinds = {kind: SHARES[kind] for kind in options.kinds}
            try:
                work(campaign, results, options.minutes * 60, kinds, options.only)
            finally:
                campaign.close()
    options.page.write_text(report(read(results), library is not None))


if __name__ == "__main__":
    main()
