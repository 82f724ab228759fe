"""Some cases of the campaign with the seed 0: cheap commands are killed at a step, and what they read is damaged."""

import json
import math

import pytest

from tests.campaign import __main__ as campaign
from tests.campaign import shim
from tests.campaign.cases import Campaign, trouble
from tests.campaign.children import Children
from tests.campaign.commands import COMMANDS
from tests.campaign.damages import TARGETS

# One for each way to write: a run with its journal, a folder and a packed file that are replaced, several files, a log.
KILLED = [
    one
    for one in COMMANDS
    if one.name in ("search", "search of a folder --overwrite", "fuse to .gz --overwrite", "clicks --log", "click log")
]
CASES = {"kill": len(KILLED), "damage": 4}  # of damages, batches
DAMAGED = ("part of a search", "run", "click log", "queries")  # whatever is damaged in them is found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("campaign")


@pytest.fixture(scope="module")
def children(folder):
    with Children(folder / "children", shim.compiled(folder)) as made:
        yield made


@pytest.fixture(scope="module")
def small(children, folder):
    return Campaign(children, folder, 0, trained=False)


def test_seeded_cases(small, folder, monkeypatch):
    targets = [target for target in TARGETS if target.name in DAMAGED]
    monkeypatch.setattr(campaign.cases, "COMMANDS", KILLED)
    monkeypatch.setattr(campaign.cases, "TARGETS", targets)
    for kind, most in CASES.items():  # by their number: how many fit into a time depends on the machine
        campaign.work(small, folder / "results.jsonl", math.inf, {kind: 1}, most=most)
    found = campaign.read(folder / "results.jsonl")
    assert sum(one["kind"] == "kill" for one in found) == CASES["kill"]
    assert {one["name"] for one in found if one["kind"] == "damage"} == {*DAMAGED}
    faults = [one for one in found if one["faults"]]
    assert not faults, json.dumps(faults, indent=1)
    page = campaign.report(found, True)
    assert "None." in page and f"{sum(one['kind'] == 'kill' for one in found):,} kills" in page


def test_a_kill_at_a_step_is_one(children, tmp_path, small):
    """The campaign itself: the third write of a command is its last, and is done by half."""
    line = f"fuse {small.inputs}/runs/a.run {small.inputs}/runs/b.run --output made.run"
    whole = children.ask(folder=tmp_path, argv=line.split())
    assert whole["status"] == 0 and whole["steps"] > 2 and not trouble(whole)
    (tmp_path / "made.run").unlink()
    done = children.ask(folder=tmp_path, argv=line.split(), step=whole["steps"])
    assert done["status"] == -9 and done["steps"] == whole["steps"] and not (tmp_path / "made.run").exists()
    assert trouble(done) and not trouble(done, may_be_killed=True)
    assert children.ask(folder=tmp_path, argv=line.split())["status"] == 0


def test_faults_are_seen(children, tmp_path):
    done = children.ask(folder=tmp_path, argv=["no-such-command"])
    assert trouble(done)[0].startswith("traceback")
    hung = children.ask(folder=tmp_path, argv=["fuse", "/dev/stdin", "/dev/stdin"], signals=[[0, 19]], longest=0.1)
    assert hung["status"] is None and trouble(hung) == ["hangs for a minute"]
    refused = {"status": 2, "err": "error: no run\n", "sent": []}
    assert not trouble(refused) and trouble({**refused, "err": ""}) and trouble({**refused, "status": 1})
