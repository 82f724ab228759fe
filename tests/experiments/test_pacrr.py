"""The PACRR experiments: their plan, and a small one on the sample from the command to the page."""

import re

from experiments.pacrr import BASELINES, FIRSTK, KWINDOW, PacrrPlan, PacrrSettings, Sizes
from tests.experiments.conftest import built

ONE, TWO = ("one", "C", "T", "V", "E"), ("two", "C2", "T2", "V2", "E2")


def settings(tmp_path, **more):
    always = dict(work=tmp_path, output=tmp_path / "page.md", collection=(ONE, TWO), judged=(("one", "J"),), words="W")
    return PacrrSettings(**{**always, **more})


def dry(tmp_path, **more):
    return [step for stage in PacrrPlan(settings(tmp_path, **more), dry=True).stages() for step in stage]


def test_one_hyper_parameter_varies_at_a_time(tmp_path):
    sizes = settings(tmp_path, distilled=(8, 256), signals=(1, 2), longest=(2,)).sizes()
    assert sizes == [Sizes(256, 8, 3), Sizes(8, 8, 3), Sizes(256, 1, 3), Sizes(256, 2, 3), Sizes(256, 8, 2)]
    assert [sizes.words for sizes in settings(tmp_path, distilled=(512, 8)).along("words")] == [8, 256, 512]
    assert len({sizes.row for sizes in settings(tmp_path).sizes()}) == 5 + 5 + 3 - 2
    grid = settings(tmp_path, base=Sizes(256, 2, 3), distilled=(256, 384, 512, 640, 768), signals=(1, 2, 3, 4)).sizes()
    assert {sizes.signals for sizes in grid} == {1, 2, 3, 4} and {sizes.longest for sizes in grid} == {
        2,
        3,
        4,
    }  # the paper's


def test_steps_name_their_outputs_and_nothing_twice(tmp_path):
    steps = dry(tmp_path, stem="krovetz")
    assert len({step.name for step in steps}) == len({step.output for step in steps}) == len(steps)
    assert all(str(step.output) in step.command for step in steps)
    trained = [step.name for step in steps if step.command[0] == "train"]
    assert sum(name.startswith("one-checkpoints-kwindow") for name in trained) == 11
    assert sum(name.startswith("two-checkpoints-kwindow") for name in trained) == 1  # what the first one chose
    assert all(any(name.startswith(f"two-checkpoints-{model}-") for name in trained) for model in BASELINES)
    assert "--stem krovetz" in " ".join(steps[0].command)
    runs = [step for step in steps if step.output.parent.name.startswith("many-") and step.name.startswith("one")]
    assert len(runs) >= 25 and len({step.command[2:-2] for step in runs}) == len(runs)
    assert len({step.output.parent for step in runs}) == 1
    fewer = dry(tmp_path, runs=2)
    assert {step.output.parent for step in runs}.isdisjoint(step.output.parent for step in fewer)  # no stale runs
    judged = [step for step in steps if "J" in step.command or "judged:J" in step.command]
    assert len(judged) == 1 + 2 * (2 + len(BASELINES)) and all("--judged-only" in step.command for step in judged[:1])


def test_training_options_are_accepted_by_the_command(tmp_path):
    """Every row's options are parsed, and its model is built from them."""
    for step in dry(tmp_path, train_option=("--patience=4",)):
        if step.command[0] == "train":
            _, training, config = built(step)
            assert training.patience == 4
            if "kwindow-32-" in step.name:
                assert (config.distillation, config.distilled_words, config.signals) == ("kwindow", 32, 8)
            if FIRSTK in step.name:
                assert (config.distillation, config.signals, config.longest_ngram) == ("firstk", 8, 3)
            if "duet" in step.name:
                assert config.parts == "local"


def test_the_best_on_the_validation_queries_stands_in_the_tables(tmp_path, monkeypatch):
    plan = PacrrPlan(settings(tmp_path, signals=(1,), longest=(3,), distilled=(256,)))
    monkeypatch.setattr(PacrrPlan, "reached", lambda self, step: {"ERR@20": "kwindow-256-1-3" in step.name})
    for collection in plan.settings.collections:  # the second one takes what the first one chose
        assert plan.best(collection) == Sizes(256, 1, 3)
        assert plan.training(collection, KWINDOW).name.startswith(f"{collection.name}-checkpoints-kwindow-256-1-3")
        assert "signals=1" in plan.training(collection, FIRSTK).command


def test_from_the_command_to_the_page(page_of, judged):
    """Three models on the sample with very small trainings: every table and figure."""
    page, figures = page_of(
        f"pacrr --collection one sample sample:train sample:dev sample:test --judged one {judged} --models drmm "
        "--pairs 1 --depth 15 --runs 2 --distilled 256 --signals 1 --longest 3"
    )
    headings = "Table 1: re-ranking the top 15 of BM25;of QLD;Table 2;Table 3;Figure 2;Figure 5;candidates of BM25"
    assert all(heading in page for heading in headings.split(";"))
    for title in ("PACRR-firstk", "PACRR-kwindow", "DRMM"):
        assert len(re.findall(rf"^\| {title} \|", page, re.MULTILINE)) == 5  # tables 1 and 2 twice, the trainings
    assert "the judged documents alone" in page and "KNRM" not in page
    assert len(figures) == len(set(figures)) == 4  # runs of all and of judged documents, hyper-parameters, trainings
    assert "| DRMM | 162 |" in page
