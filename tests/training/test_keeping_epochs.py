"""Checkpoints of every epoch: whole, usable, of little space, and the same after an interruption."""

import json
import os

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.rerankers.neural import NeuralReranker
from tests.training import learnable
from tests.training.commanded import resumed, run, validation_killed, weights_of

CHECKPOINT = (
    "config.json", "model.safetensors", "vocab.txt", "embeddings.safetensors", "words.json", "statistics.safetensors"
)  # fmt: skip
SEED = "--seed 18"  # the first epoch is the best of the three


PARTS = (".", "epochs/01", "epochs/02", "epochs/03")


def contents(folder, parts=PARTS[:1]):
    """The files of the checkpoints in these folders of an output."""
    return {(part, name): (folder / part / name).read_bytes() for part in parts for name in CHECKPOINT}


@pytest.fixture(scope="module")
def made(inputs, tmp_path_factory):
    """The output of a training of three epochs."""
    made = tmp_path_factory.mktemp("kept") / "made"
    run(inputs, made, SEED, "--keep-epochs")
    assert [path.name for path in made.parent.iterdir()] == ["made"]
    return made


def test_every_epoch_is_a_checkpoint_of_its_own(inputs, corpus, made):
    """Each reaches the measure that was logged for it, and the best one is the output."""
    assert sorted(path.name for path in (made / "epochs").iterdir()) == ["01", "02", "03"]
    log = [json.loads(line) for line in (made / "log.jsonl").read_text().splitlines()]
    for entry in log:
        folder = made / "epochs" / f"{entry['epoch']:02d}"
        assert {path.name for path in folder.iterdir()} == set(CHECKPOINT)
        measures = Checkpoint.open(folder).description["measures"]
        assert measures == {name: entry[name] for name in ("epoch", "loss", "AP", "P@3")}
        model, vocabulary = (opened := Checkpoint.open(folder)).module(), opened.vocabulary
        reranker = NeuralReranker(model, vocabulary, corpus)
        reached = learnable.mean_average_precision(corpus, reranker, learnable.TOPICS[learnable.TRAINED :])
        assert reached == pytest.approx(entry["AP"], abs=1e-6)
    assert max(log, key=lambda entry: entry["AP"])["epoch"] == 1
    assert contents(made) == contents(made / "epochs" / "01")
    assert len({weights_of(made / part) for part in PARTS}) == 3
    for name in ("vocab.txt", "embeddings.safetensors", "statistics.safetensors"):  # take space once
        assert len({(made / part / name).stat().st_ino for part in PARTS}) == 1


def test_it_changes_nothing_else(inputs, made, tmp_path):
    run(inputs, tmp_path / "plain", SEED)
    assert contents(made) == contents(tmp_path / "plain")
    assert not (tmp_path / "plain" / "epochs").exists()


def test_without_hard_links_files_are_copied(inputs, made, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("this file system has no links")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        run(inputs, tmp_path / "copied", SEED, "--keep-epochs")
    assert contents(made, PARTS) == contents(tmp_path / "copied", PARTS)
    assert (tmp_path / "copied" / "vocab.txt").stat().st_nlink == 1


@pytest.mark.parametrize("killed", [1, 3])
def test_resuming(inputs, made, tmp_path, monkeypatch, killed):
    how = (SEED, "--keep-epochs")
    resumed(monkeypatch, lambda *given: run(inputs, *given), tmp_path / "parts", *how, killed=killed)
    assert contents(made, PARTS) == contents(tmp_path / "parts", PARTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts"]
    assert (tmp_path / "parts" / "vocab.txt").stat().st_nlink == 4


def test_a_training_without_kept_epochs_is_not_resumed_with_them(inputs, tmp_path, monkeypatch):
    with validation_killed(monkeypatch, 3):
        run(inputs, tmp_path / "made")
    with pytest.raises(InputError, match="without keeping every epoch: epoch 1 is missing"):
        run(inputs, tmp_path / "made", "--keep-epochs", "--resume")
    run(inputs, tmp_path / "made", "--resume")
    assert not (tmp_path / "made" / "epochs").exists()


def test_nothing_of_an_older_training_is_left(inputs, tmp_path, monkeypatch):
    """A training is begun anew, with fewer epochs: those of the interrupted one are none of its."""
    with validation_killed(monkeypatch, 3):
        run(inputs, tmp_path / "made", "--keep-epochs")
    again = "--keep-epochs --epochs 1 --seed 9"
    with pytest.raises(InputError, match="holds an interrupted training: resume or overwrite it"):
        run(inputs, tmp_path / "made", again)
    run(inputs, tmp_path / "made", again, "--overwrite")
    assert [path.name for path in (tmp_path / "made" / "epochs").iterdir()] == ["01"]
    assert contents(tmp_path / "made") == contents(tmp_path / "made" / "epochs" / "01")
    assert Checkpoint.open(tmp_path / "made").description["seed"] == 9
