"""The train command on the learnable problem, with candidates from runs, so without Java; whole and interrupted."""

from contextlib import contextmanager

import pytest

from rerank_plugin import train
from rerank_plugin.training.validation import Validation


def always(inputs, output, train, *more):
    """The options of every training; what is given twice counts as it is given last.

    Of --train, which may be repeated, what is given replaces the usual.
    """
    folder, _ = inputs
    return [
        "--index", str(folder / "index"), "--words", str(folder / "words"),
        *([] if "--train" in more else ["--train", f"{folder / train}.tsv,{folder / train}.qrels"]),
        "--train-run", str(folder / f"{train}.run"),
        "--filters", "6", "--document-words", "12", "--batch-size", "16", "--epochs", "3", "--measures", "AP", "P@3",
        "--output", str(output), *more,
    ]  # fmt: skip


def run(inputs, output, *more, validation="dev", validation_run="dev.run", training="train"):
    folder, _ = inputs
    held_out = [
        "--validation", f"{folder / validation}.tsv,{folder / validation}.qrels",
        "--validation-run", str(folder / validation_run),
    ]  # fmt: skip
    train.main(always(inputs, output, training, *held_out, *more))


def cross_validate(inputs, output, *more, folds="3"):
    train.main(always(inputs, output, "all", "--folds", str(folds), "--epochs", "2", *more))


@contextmanager
def validation_killed(monkeypatch, number=2):
    """A training in here is interrupted in its validation of this number."""
    calls, validate = [], Validation.__call__

    def killed(self):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return validate(self)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Validation, "__call__", killed)
        yield
