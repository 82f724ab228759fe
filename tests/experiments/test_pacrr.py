"""The PACRR experiments: their plan, and a small one on the sample from the command to the page."""

import re

import pytest

from rerank_plugin import embed, experiment, train
from rerank_plugin.experiments.pacrr import BASELINES, FIRSTK, PacrrCollection, PacrrPlan, PacrrSettings, Sizes
from rerank_plugin.files.errors import InputError

ONE = PacrrCollection("one", "C", "T", "V", "E", judged="J")
TWO = PacrrCollection("two", "C2", "T2", "V2", "E2")


def settings(tmp_path, **more):
    return PacrrSettings(tmp_path, (ONE, TWO), "W", **more)


def test_one_hyper_parameter_varies_at_a_time(tmp_path):
    sizes = settings(tmp_path, distilled=(8, 256), signals=(1, 2), longest=(2,)).sizes()
    assert sizes == [Sizes(256, 8, 3), Sizes(8, 8, 3), Sizes(256, 1, 3), Sizes(256, 2, 3), Sizes(256, 8, 2)]
    assert [one.words for one in settings(tmp_path, distilled=(512, 8)).along("words")] == [8, 256, 512]
    assert len({one.row for one in settings(tmp_path).sizes()}) == 5 + 5 + 3 - 2


def test_the_grid_of_the_paper_is_reachable(tmp_path):
    grid = settings(tmp_path, base=Sizes(256, 2, 3), distilled=(256, 384, 512, 640, 768), signals=(1, 2, 3, 4)).sizes()
    assert {one.signals for one in grid} == {1, 2, 3, 4} and {one.longest for one in grid} == {2, 3, 4}


@pytest.mark.parametrize(
    "more, message",
    [
        ({"collections": ()}, "at least one collection"),
        ({"collections": (ONE, ONE)}, "name of its own"),
        ({"models": ("bert",)}, "unknown models bert; known: duet-local, drmm"),
        ({"sweep": ("three",)}, "no collection three to sweep; there are: one, two"),
    ],
)
def test_settings_that_cannot_be(tmp_path, more, message):
    with pytest.raises(InputError, match=message):
        PacrrSettings(**{"work": tmp_path, "collections": (ONE, TWO), "words": "W", **more})


def test_steps_name_their_outputs_and_nothing_twice(tmp_path):
    """The stages up to the trainings, which need nothing that ran before."""
    stages = PacrrPlan(settings(tmp_path, stem="krovetz")).stages()
    steps = [step for _ in range(3) for step in next(stages)]
    assert len({step.name for step in steps}) == len({step.output for step in steps}) == len(steps)
    assert all(str(step.output) in step.command for step in steps)
    trained = [step.name for step in steps if step.command[0] == "train"]
    assert sum(name.startswith("one-train-kwindow") for name in trained) == 11
    assert not any(name.startswith("two-train-kwindow") for name in trained)  # it takes what the first one chose
    assert {f"two-train-{name}" for name, *_ in BASELINES} < set(trained)
    assert "--stem krovetz" in " ".join(steps[0].command)
    runs = [step for step in steps if "runs/all/order" in str(step.output) and step.name.startswith("one")]
    assert len(runs) >= 25 and len({step.command[2:] for step in runs}) == len(runs)


def test_training_options_are_accepted_by_the_command(tmp_path):
    """Every row's options are parsed, and its model is built from them."""
    from rerank_plugin.models.checkpoints import build_config, model_classes

    stages = PacrrPlan(settings(tmp_path)).stages()
    for step in [step for _ in range(3) for step in next(stages)]:
        if step.command[0] == "train":
            options = train.arguments().parse_args(step.command[1:])
            values = train._model_values(options)
            config = build_config(model_classes(options.model)[1], values, step.name)
            if "kwindow-32-" in step.name:
                assert (config.distillation, config.distilled_words, config.signals) == ("kwindow", 32, 8)
            if "duet" in step.name:
                assert config.parts == "local"


def test_from_the_command_to_the_page(tmp_path):
    """Three models on the sample with very small trainings: every table and figure, and nothing is run again."""
    words, judged = tmp_path / "words", tmp_path / "judged.qrels"
    options = "--min-count 5 --dimension 12 --epochs 1 --output".split()
    embed.main(["words", "--corpus", "sample", *options, str(words)])
    from rerank_plugin.corpora import judgments

    sample = judgments("sample:test")
    everything = sorted({document for of_query in sample.values() for document in of_query})[:60]
    judged.write_text(
        "".join(f"{q} 0 {d} {of_query.get(d, 0)}\n" for q, of_query in sample.items() for d in {*everything, *of_query})
    )
    command = [
        "pacrr", "--collection", "one", "sample", "sample:train", "sample:dev", "sample:test", "--judged", "one",
        str(judged), "--words", str(words), "--work", str(tmp_path / "work"), "--output", str(tmp_path / "page.md"),
        "--models", "drmm", "--epochs", "1", "--pairs", "1", "--depth", "15", "--runs", "2", "--distilled", "256",
        "--signals", "1", "--longest", "3",
    ]  # fmt: skip
    experiment.main(command)
    page = (tmp_path / "page.md").read_text()
    for heading in (
        "Table 1: re-ranking the top 15 of BM25",
        "of QLD",
        "Table 2",
        "Table 3",
        "Figure 2",
        "Figure 5",
        "candidates of BM25",
    ):
        assert heading in page
    for title in ("PACRR-firstk", "PACRR-kwindow", "DRMM"):
        rows = re.findall(rf"^\| {title} \|", page, re.MULTILINE)
        assert len(rows) == 5  # table 1 twice, table 2 twice, the trainings
    assert "the judged documents alone" in page and "KNRM" not in page
    figures = re.findall(r"\]\((page-[\w-]+\.png)\)", page)
    assert len(figures) == len(set(figures)) == 4  # runs of all and of judged documents, hyper-parameters, trainings
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    assert not re.search(r"\bnan\b", page)
    assert "| DRMM | 162 |" in page
    before = (tmp_path / "work" / "journal.json").stat().st_mtime_ns
    experiment.main(command)
    assert (tmp_path / "work" / "journal.json").stat().st_mtime_ns == before
    assert (tmp_path / "page.md").read_text() == page
    assert (tmp_path / "work" / "one" / "checkpoints" / FIRSTK / "config.json").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--epochs", "0"], "--epochs must be at least 1"),
        (["--notes", "no-such-file"], "--notes no-such-file"),
        (["--judged", "b", "J"], "--judged b: no such collection; there are: a"),
        (["--longest", "1", "0"], "--longest"),
    ],
)
def test_wrong_options(tmp_path, options, message, capsys):
    always = [f"--{name}" for name in ("words", "work", "output")]
    always = ["pacrr", "--collection", *"abcde", *(part for name in always for part in (name, str(tmp_path / "x")))]
    try:
        experiment.main([*always, *options])
    except InputError as error:
        assert message in str(error)
    except SystemExit as raised:
        assert raised.code == 2 and message in capsys.readouterr().err
    else:
        raise AssertionError("taken as it is")
    assert not (tmp_path / "x").exists()
