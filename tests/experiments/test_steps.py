"""Steps: run once, remembered, and said when they fail."""

import json

import pytest

from rerank_plugin.experiments.steps import Runner, Step
from rerank_plugin.files.errors import InputError


def weak(tmp_path, name, *more):
    """A real command that takes half a second."""
    output = tmp_path / name
    return Step(
        name,
        ("weak", "--corpus", "sample", "--queries", "20", "--held-out", "5", *more, "--output", str(output)),
        output,
    )


def test_a_step_runs_once(tmp_path):
    steps = [weak(tmp_path, "a"), weak(tmp_path, "b", "--seed", "1")]
    runner = Runner(tmp_path / "work")
    runner.run(steps, at_once=2)
    made = [step.output.stat().st_mtime_ns for step in steps]
    assert all((step.output / "queries.jsonl").exists() for step in steps)
    journal = json.loads((tmp_path / "work" / "journal.json").read_text())
    assert journal == runner.journal and set(journal) == {"a", "b"}
    assert journal["a"]["command"] == list(steps[0].command)
    assert journal["a"]["processor_seconds"] > 0 and journal["a"]["seconds"] > 0
    assert "documents" in (tmp_path / "work" / "logs" / "a.log").read_text()
    again = Runner(tmp_path / "work")
    again.run(steps)
    assert [step.output.stat().st_mtime_ns for step in steps] == made
    changed = weak(tmp_path, "a", "--overwrite", "--seed", "3")
    again.run([changed])
    assert changed.output.stat().st_mtime_ns > made[0]


def test_a_missing_output_is_made_again(tmp_path):
    step = weak(tmp_path, "a")
    runner = Runner(tmp_path / "work")
    runner.run([step])
    (step.output / "queries.jsonl").rename(tmp_path / "moved")
    step.output.rename(tmp_path / "aside")
    runner.run([step])
    assert (step.output / "queries.jsonl").read_bytes() == (tmp_path / "moved").read_bytes()


def test_a_failure_is_said_and_the_others_are_kept(tmp_path):
    good, bad = weak(tmp_path, "good"), weak(tmp_path, "bad", "--corpus", "no-such-corpus")
    runner = Runner(tmp_path / "work")
    with pytest.raises(InputError, match=r"step bad failed \(.*no-such-corpus.*bad\.log"):
        runner.run([bad, good], at_once=2)
    assert set(runner.journal) == {"good"} and good.output.exists() and not bad.output.exists()


def test_a_damaged_journal(tmp_path):
    (tmp_path / "journal.json").write_text("{")
    with pytest.raises(InputError, match="journal.json.*delete it"):
        Runner(tmp_path)


def test_shown_as_it_would_be_typed(tmp_path):
    step = Step("x", ("search", "--query", "heart attack"), tmp_path)
    assert step.shown == "python -m rerank_plugin.search --query 'heart attack'"


def test_a_step_whose_output_is_what_it_prints(tmp_path):
    output = tmp_path / "deep" / "known names.txt"
    step = Step("names", ("search", "--list-rerankers", "--verbose"), output, prints=True)
    runner = Runner(tmp_path / "work")
    runner.run([step])
    assert "delta" in output.read_text().splitlines() and list(output.parent.iterdir()) == [output]
    assert (tmp_path / "work" / "logs" / "names.log").exists()
    assert step.shown.endswith(f"--list-rerankers --verbose > '{output}'")
    bad = Step("bad", ("search", "--no-such-option"), tmp_path / "bad.txt", prints=True)
    with pytest.raises(InputError, match="step bad failed"):
        runner.run([bad])
    assert not bad.output.exists()
