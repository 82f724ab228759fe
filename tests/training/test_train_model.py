"""The public function that trains: the same task as the train command's, and its errors."""

from pathlib import Path

import pytest

import rerank_plugin as rp
from rerank_plugin import train
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.register import checkpoint_folder
from rerank_plugin.training import session

BUNDLED = str(checkpoint_folder("delta"))


class Recorded(Exception):
    pass


@pytest.fixture
def task_of(monkeypatch, tmp_path):
    """The task that some code would train, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)

    def record(task):
        raise Recorded(task)

    monkeypatch.setattr(session, "Session", record)

    def made(call):
        with pytest.raises(Recorded) as recorded:
            call()
        return recorded.value.args[0]

    return made


def command(*more):
    always = ["--index", "index", "--train", "sample:train", "--validation", "sample:dev", "--output", "ck"]
    return lambda: train.main([*always, *more])


def library(model, **more):
    return lambda: rp.train_model(model, "index", "sample:train", "sample:dev", "ck", **more)


@pytest.mark.parametrize("model", ["delta", "delta-classifier", "pacrr", "knrm", "sevmos", "ktrel-w"])
def test_a_model_is_trained_as_by_the_command(task_of, model):
    by_command = task_of(command("--model", model, "--words", "words"))
    assert task_of(library(model, words="words")) == by_command


def test_arguments_become_the_options_of_the_command(task_of):
    by_command = task_of(command(
        "--words", "words", "--epochs", "3", "--seed", "7", "--set", "filters=8", "--lexical-features", "lex3",
        "--first-stage", "qld", "--depth", "40", "--measures", "AP", "--overwrite",
    ))  # fmt: skip
    assert by_command == task_of(library(
        "delta", words="words", training={"epochs": 3, "seed": 7}, first_stage="qld", depth=40, measures=["AP"],
        hyper_parameters={"filters": 8, "lexical_features": "lex3"}, overwrite=True,
    ))  # fmt: skip


def test_a_checkpoint_to_start_from_gives_its_words_and_hyper_parameters(task_of):
    by_command = task_of(command("--start-from", BUNDLED, "--words", BUNDLED))
    values = Checkpoint.open(checkpoint_folder("delta")).description["config"]
    assert by_command.values == values and by_command.words == by_command.start_from == Path(BUNDLED)
    for named in (
        command("--start-from", "delta"), command("--start-from", "delta", "--words", "delta"),
        library("delta", start_from="delta"), library("delta", start_from=BUNDLED, words="delta"),
    ):  # fmt: skip
        assert task_of(named) == by_command
    Path("delta").mkdir()
    assert task_of(command("--words", "delta")).words == Path("delta")  # an existing folder wins
    Path("delta").rmdir()
    tuned = task_of(library("delta", start_from="delta", words="mine", hyper_parameters={"dropout": 0.1}))
    assert tuned.words == Path("mine") and tuned.values == values | {"dropout": 0.1}


@pytest.mark.parametrize(
    "model, more, message",
    [
        ("no-such", {}, "unknown model 'no-such'; known: "),
        ("delta", {"training": {"epoch": 3}}, "unknown fields of the training: epoch; known: epochs, "),
        ("delta", {"training": {"epochs": 0}}, "must be at least 1"),
        ("delta", {"hyper_parameters": {"filter": 3}}, "hyper_parameters: unknown hyper-parameters filter; known: "),
        ("delta", {"hyper_parameters": {"filters": "x"}}, "hyper_parameters: the hyper-parameter filters is 'x'"),
        ("delta", {"start_from": "nowhere"}, "nowhere is not a checkpoint"),
        ("delta", {"first_stage": "bm52"}, "unknown first stage 'bm52'"),
        ("delta", {"measures": ["nDGC"]}, "measure 'nDGC': no such measure"),
        ("delta", {"words": "words"}, "no index at nowhere"),
        ("delta", {"output": __file__}, "is left as it is"),
    ],
)
def test_invalid_arguments(tmp_path, monkeypatch, model, more, message):
    monkeypatch.chdir(tmp_path)
    arguments = {"index": "nowhere", "train": "sample:train", "validation": "sample:dev", "output": "ck", **more}
    with pytest.raises(rp.InputError) as error:
        rp.train_model(model, **arguments)
    assert message in str(error.value) and "\n" not in str(error.value)
