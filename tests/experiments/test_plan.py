"""The engine: steps run once, the journal, errors, settings of a command line, and imports."""

import ast
import json
import os
import signal
import threading
from pathlib import Path

import pytest

import experiments
import rerank_plugin as rp
from experiments.__main__ import main
from experiments.page import DEPARTURES, PAGE
from experiments.plan import Plan, Runner, Step
from experiments.settings import Settings
from rerank_plugin import options as commandline
from tests.processes import ROOT


def weak(tmp_path, name, *more):
    """A real command that takes half a second."""
    command = ("weak", "--corpus", "sample", "--queries", "20", "--held-out", "5", *more)
    return Step(name, (*command, "--output", str(tmp_path / name)), tmp_path / name)


def test_a_step_runs_once(tmp_path):
    steps = [weak(tmp_path, "a"), weak(tmp_path, "b", "--seed", "1")]
    runner = Runner(tmp_path / "work")
    runner.run([steps], at_once=2)
    made = [step.output.stat().st_mtime_ns for step in steps]
    assert all((step.output / "queries.jsonl").exists() for step in steps)
    journal = json.loads((tmp_path / "work" / "journal.json").read_text())
    assert journal == runner.journal and set(journal) == {"a", "b"}
    assert journal["a"]["command"] == list(steps[0].command)
    assert journal["a"]["processor_seconds"] > 0 and journal["a"]["seconds"] > 0
    assert "documents" in (tmp_path / "work" / "logs" / "a.log").read_text()
    again = Runner(tmp_path / "work")
    again.run([steps])
    assert [step.output.stat().st_mtime_ns for step in steps] == made
    steps[1].output.rename(tmp_path / "moved")
    again.run([steps])  # a missing output is made again
    assert (steps[1].output / "queries.jsonl").read_bytes() == (tmp_path / "moved" / "queries.jsonl").read_bytes()
    assert steps[0].output.stat().st_mtime_ns == made[0]
    changed = weak(tmp_path, "a", "--overwrite", "--seed", "3")
    again.run([[changed]])
    assert changed.output.stat().st_mtime_ns > made[0]


def test_a_failure_is_reported_and_other_steps_are_kept(tmp_path):
    good, bad = weak(tmp_path, "good"), weak(tmp_path, "bad", "--corpus", "no-such-corpus")
    runner = Runner(tmp_path / "work")
    with pytest.raises(rp.InputError, match=r"step bad failed \(.*no-such-corpus.*bad\.log"):
        runner.run([[bad, good]], at_once=2)
    assert set(runner.journal) == {"good"} and good.output.exists() and not bad.output.exists()


def test_who_interrupts_waits_for_no_other_step(tmp_path):
    steps = [Step(name, ("search", "--list-rerankers"), tmp_path / name, prints=True) for name in "abc"]
    runner, before = Runner(tmp_path / "work"), signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            runner.run([steps])
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(runner.journal) <= {"a"}


def test_a_damaged_journal(tmp_path):
    (tmp_path / "journal.json").write_text("{")
    with pytest.raises(rp.InputError, match="journal.json.*delete it"):
        Runner(tmp_path)


def test_the_shell_command(tmp_path):
    step = Step("x", ("search", "--query", "heart attack"), tmp_path)
    assert step.shown == "python -m rerank_plugin.search --query 'heart attack'"


def test_a_step_whose_output_is_its_standard_output(tmp_path):
    output = tmp_path / "deep" / "known names.txt"
    step = Step("names", ("search", "--list-rerankers", "--verbose"), output, prints=True)
    runner = Runner(tmp_path / "work")
    runner.run([[step]])
    assert "delta" in output.read_text().splitlines() and list(output.parent.iterdir()) == [output]
    assert (tmp_path / "work" / "logs" / "names.log").exists()
    assert step.shown.endswith(f"--list-rerankers --verbose > '{output}'")
    bad = Step("bad", ("search", "--no-such-option"), tmp_path / "bad.txt", prints=True)
    with pytest.raises(rp.InputError, match="step bad failed"):
        runner.run([[bad]])
    assert not bad.output.exists()


def test_a_stage_begins_when_the_one_before_is_done(tmp_path):
    """Stages may read the outputs of earlier stages."""
    first = weak(tmp_path, "a")

    def stages():
        yield [first]
        yield [weak(tmp_path, f"b{len((first.output / 'queries.jsonl').read_text().splitlines())}")]

    runner = Runner(tmp_path / "work")
    runner.run(stages())
    assert len(runner.journal) == 2 and "b0" not in runner.journal


def test_outputs_are_named_after_their_commands(tmp_path):
    """Equal commands have one output; another seed, option or earlier step gives another."""
    plan, other = (Plan(Settings(words="W", work=tmp_path, output=tmp_path / "p.md", seed=seed)) for seed in (1, 2))
    step, same, seeded = (each.indexing("indexes", "index", "C") for each in (plan, plan, other))
    assert step == same and str(step.output) == step.command[-1]
    assert step.output.parent == tmp_path / "indexes" and step.command[-2] == "--index"
    assert len({step.output, seeded.output, plan.indexing("indexes", "index", "D").output}) == 3
    assert len({plan.search("runs/a", "x", index, "Q").output for index in (step, seeded)}) == 2


def command_of(folder, paper, options):
    """A command line with all that a paper's experiments need."""
    needed = {
        "delta": "--corpus C --train T --validation V --test E",
        "pacrr": "--collection a C T V E",
        "ktrel": "--corpus C --train T --validation V --test a E --knowledge K --concepts E2",
    }[paper]
    return f"{paper} {needed} --words W --work {folder}/x --output {folder}/x.md {options}".split()


@pytest.mark.parametrize(
    "paper, options, message",
    [
        ("delta", "--epochs 0", "--epochs: must be at least 1"),
        ("delta", "--weak-queries 1", "--weak-queries: must be at least 2"),
        ("delta", "--notes no-such-file", "--notes no-such-file"),
        ("delta", "--only delta33", "unknown rows delta33; known: order"),
        ("pacrr", "--longest 1 0", "--longest: must be at least 1"),
        ("pacrr", "--collection a C T V E", "its own name"),
        ("pacrr", "--models bert", "unknown models bert; known: duet-local, drmm"),
        ("pacrr", "--sweep b", "--sweep: unknown collection b; known: a"),
        ("pacrr", "--collection c C T V E --judged b J", "--judged: unknown collection b; known: a, c"),
        ("ktrel", "--trials -1", "--trials/--grid: must be at least 0"),
        ("ktrel", "--rm3-terms 10 0", "--rm3-terms: must be at least 1"),
        ("ktrel", "--test a F", "its own name"),
        ("ktrel", "--test validation E", "not 'validation'"),
        ("ktrel", "--test a/b E", "'a/b' cannot name"),
        ("ktrel", "--only gpt", "unknown rows gpt; known: bm25, bm25-rm3"),
        ("ktrel", "--figure-models bm25", "unknown models of the figure bm25; known: drmm"),
        ("ktrel", "--ingredients salt", "unknown ingredients salt; known: recipe"),
        ("ktrel", "--sizes 100 many", "'many' is not a number"),
        ("ktrel", "--sizes 0", "'0' is not a number"),
    ],
)
def test_wrong_options(tmp_path, capsys, paper, options, message):
    with pytest.raises(SystemExit) as caught:
        commandline.run(main, command_of(tmp_path, paper, options))
    assert caught.value.code == 2 and message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_dry_run_prints_all_steps_and_makes_nothing(tmp_path, capsys):
    main(command_of(tmp_path, "ktrel", "--dry-run --only bm25"))
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert all(line.startswith("python -m rerank_plugin.") for line in commands)
    assert sum(" --rm3-terms " in line for line in commands) == 36 + 1 and not any(tmp_path.iterdir())


def test_pages_are_recognized(tmp_path):
    """Nothing else is replaced."""
    page = tmp_path / "page.md"
    page.write_text(
        "# The Delta experiments\n\nTables. Made by\n\n```sh\npython -m experiments delta --corpus C\n```\n"
    )
    assert PAGE.fault(page) is None
    page.write_text("# The Delta experiments\n\nMy own notes.\n")
    assert "is not a page" in PAGE.fault(page)


def test_public_names_are_imported_from_the_package():
    """Other modules are only for names that are not public."""
    for path in Path(experiments.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("rerank_plugin."):
                assert not {alias.name for alias in node.names} & set(rp.__all__), path


def test_the_experiments_are_not_in_the_package():
    from setuptools import find_packages

    from tests.test_layers import ROOT, ConfigParser

    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    included = config["options.packages.find"]["include"].split()
    packages = find_packages(str(ROOT), include=included)
    assert "rerank_plugin.evaluation" in packages
    assert all(name.split(".")[0] == "rerank_plugin" for name in packages)


@pytest.mark.parametrize("paper", ["delta", "ktrel", "pacrr"])
def test_a_page_holds_its_notes_and_leads_from_its_tables_to_what_departs(paper):
    notes = (ROOT / "experiments" / "notes" / f"{paper}.md").read_text("utf-8").strip()
    page = (ROOT / "experiments" / "results" / f"{paper}.md").read_text("utf-8")
    head, tables = page.split(notes)
    assert f"--notes experiments/notes/{paper}.md" in head and f"## {DEPARTURES}\n" in notes
    assert tables.count(f"[{DEPARTURES}](#") >= 3
