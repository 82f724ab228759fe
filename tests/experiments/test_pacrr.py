"""The PACRR experiments: their plan, and a small one on the sample from the command to the page."""

import re

import numpy as np
import pytest

from experiments.pacrr import BASELINES, FIRSTK, KWINDOW, OURS, SWEPT, PacrrPlan, PacrrSettings, Sizes
from experiments.trials import grid
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


def test_the_grid_is_the_paper_s_with_learning_rates():
    for row, tried in ((FIRSTK, 4 * 3), (KWINDOW, 5 * 4 * 3)):
        assert len({trial.values[:-1] for trial in grid(row)}) == tried
        assert len(grid(row)) == 3 * tried and {trial.values[-1][0] for trial in grid(row)} == {"learning_rate"}


def test_steps_name_their_outputs_and_nothing_twice(tmp_path):
    steps = dry(tmp_path, stem="krovetz", trials=5, seeds=3)
    assert len({step.name for step in steps}) == len({step.output for step in steps}) == len(steps)
    assert all(str(step.output) in step.command for step in steps)
    trained = [re.sub(r"-\w{8}$", "", step.name) for step in steps if step.command[0] == "train"]
    assert sum(name.startswith("one-checkpoints-kwindow") for name in trained) == 11
    assert sum(name.startswith("two-checkpoints-kwindow") for name in trained) == 1  # what the first one chose
    for collection in ("one", "two"):
        assert trained.count(f"{collection}-checkpoints-pacrr-firstk-swept") == 1
        for model in (*OURS, *BASELINES):
            assert trained.count(f"{collection}-checkpoints-{model}") == 3
            assert sum(name.startswith(f"{collection}-trials-{model}-") for name in trained) == 5
    assert "--stem krovetz" in " ".join(steps[0].command)
    runs = [step for step in steps if step.output.parent.name.startswith("many-") and step.name.startswith("one")]
    assert len(runs) >= 25 and len({step.command[2:-2] for step in runs}) == len(runs)
    assert len({step.output.parent for step in runs}) == 1
    fewer = dry(tmp_path, runs=2)
    assert {step.output.parent for step in runs}.isdisjoint(step.output.parent for step in fewer)  # no stale runs
    judged = [step for step in steps if "J" in step.command or "judged:J" in step.command]
    assert len(judged) == 1 + 2 * (len(OURS) + len(SWEPT) + len(BASELINES)) and all(
        "--judged-only" in step.command for step in judged[:1]
    )


def test_training_options_are_accepted_by_the_command(tmp_path):
    """Every row's options are parsed, and its model is built from them."""
    for step in dry(tmp_path, train_option=("--patience=4",)):
        if step.command[0] == "train":
            options, training, config = built(step)
            assert training.patience == 4
            if "kwindow-32-" in step.name:
                assert (config.distillation, config.distilled_words, config.signals) == ("kwindow", 32, 8)
            if f"{FIRSTK}-swept" in step.name:
                assert (config.distillation, config.signals, config.longest_ngram) == ("firstk", 8, 3)
            if "-trials-" in step.name:
                assert training.epochs == 4
            words = re.search("words/extended|W$", str(options.words)).group()
            assert (words == "words/extended") == getattr(config, "trained_words", False)
            if "duet" in step.name:
                assert config.parts == "local"


def test_the_best_of_figure_5_has_rows_of_its_own(tmp_path, monkeypatch):
    plan = PacrrPlan(settings(tmp_path, signals=(1,), longest=(3,), distilled=(256,)))
    monkeypatch.setattr(PacrrPlan, "reached", lambda self, step: {"ERR@20": "kwindow-256-1-3" in step.name})
    firstk, kwindow = SWEPT
    for collection in plan.settings.collections:  # the second one takes what the first one chose
        assert plan.best(collection) == Sizes(256, 1, 3)
        assert plan.training(collection, kwindow).name.startswith(f"{collection.name}-checkpoints-kwindow-256-1-3")
        assert "signals=1" in plan.training(collection, firstk).command


@pytest.mark.parametrize("name", [KWINDOW, "knrm"])
def test_trials_choose_on_the_collection_s_own_validation_queries(tmp_path, monkeypatch, name):
    plan = PacrrPlan(settings(tmp_path, trials=3, seeds=2, epochs=9, row_epochs=(("knrm", "7"),)))
    one, two = plan.settings.collections
    tried = plan.settings.drawn(name)
    best = {plan.trial_training(one, name, tried[1]).name, plan.trial_training(two, name, tried[2]).name}
    monkeypatch.setattr(PacrrPlan, "reached", lambda self, step: {"ERR@20": step.name in best})
    assert [plan.trial(each, name) for each in (one, two)] == tried[1:]
    for seed in plan.settings.training_seeds:
        command = plan.training(two, name, seed).command
        assert set(tried[2].options) <= set(command) and str(seed) == command[command.index("--seed") + 1]
        assert command[command.index("--epochs") + 1] == ("7" if name == "knrm" else "9")


def test_from_the_command_to_the_page(page_of, judged, encoder):
    """Three models on the sample with very small trainings: every table and figure."""
    page, figures = page_of(
        f"pacrr --collection one sample sample:train sample:dev sample:test --judged one {judged} --models drmm "
        f"--encoder {encoder} "
        "--pairs 1 --depth 15 --runs 2 --distilled 256 --signals 1 --longest 3 --trials 1 --trial-epochs 1 --seeds 2"
    )
    headings = (
        "Table 1: re-ranking the top 15 of BM25;of QLD;Table 1 with 2 seeds;By overlap;Table 2;Table 3 and figure 4"
    )
    for heading in f"{headings};Figure 2;Figure 5;candidates of BM25;What the validation queries chose".split(";"):
        assert re.search(rf"^###? .*{heading}", page, re.MULTILINE), heading
    swept = ("PACRR-firstk, best of figure 5", "PACRR-kwindow, best of figure 5")
    # tables 1 and 2 twice, the trainings, trials, seeds twice, overlap
    for title in ("PACRR-firstk", "PACRR-kwindow", "DRMM"):
        assert len(re.findall(rf"^\| {title} \|", page, re.MULTILINE)) == 5 + 1 + 2 + 1
    assert all(len(re.findall(rf"^\| {title} \|", page, re.MULTILINE)) == 5 for title in swept)
    assert len(re.findall(r"^\| Sentence encoder, not trained \|", page, re.MULTILINE)) == 4 + 2 + 1
    seeds, overlap = (page.partition(f"### {heading}")[2] for heading in ("Table 1 with 2 seeds", "By overlap"))
    of_drmm = [re.search(r"^\| DRMM \|.*", part, re.MULTILINE)[0] for part in (seeds, overlap)]
    (_, mean, _), of_strata = (re.findall(r"\d\.\d{4}", line) for line in of_drmm)
    sizes = [int(size) for size in re.findall(r"\((\d+)\)", re.search(r"^\|.*", overlap, re.MULTILINE)[0])]
    assert np.average([*map(float, of_strata)], weights=sizes) == pytest.approx(float(mean), abs=1e-4)
    assert "the judged documents alone" in page and "KNRM" not in page
    assert (
        len(figures) == len(set(figures)) == 5
    )  # runs of all and of judged documents, pairs, hyper-parameters, trainings
    assert re.search(r"^\| DRMM \| [\d,]+ \|", page, re.MULTILINE)
