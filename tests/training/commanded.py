"""The train command on the learnable problem, with candidates from runs, so without Java; whole and interrupted."""

from contextlib import contextmanager

import pytest

from rerank_plugin import train
from rerank_plugin.training.validation import Validation


def split(options):
    """Options one by one; a text that begins with an option is split at spaces."""
    return [word for text in options for word in (text.split() if text.startswith("--") else [text])]


def last_of_each(words):
    """The words of a command line without options that a later one replaces; --train and --set may be repeated."""
    starts = [at for at, word in enumerate(words) if word.startswith("--")]
    options = [words[at:end] for at, end in zip(starts, [*starts[1:], None])]
    last = {option[0]: option for option in options}
    kept = [option for option in options if option[0] in ("--train", "--set") or last[option[0]] is option]
    return [word for option in kept for word in option]


def always(inputs, output, train, *more):
    """The options of every training, overridden by later ones.

    --train, which may be repeated, replaces the usual one; the usual run has the candidates of a single --train.
    """
    more = split(more)
    usual = f"--index {inputs}/index --words {inputs}/words --document-words 12 --batch-size 16 --epochs 3"
    if "--model" not in more:
        usual += " --set filters=6"  # other models have none
    if "--train" not in more:
        usual += f" --train {inputs}/{train}.tsv,{inputs}/{train}.qrels"
    if more.count("--train") < 2:
        usual += f" --train-run {inputs}/{train}.run"
    return last_of_each([*usual.split(), "--measures", "AP", "P@3", "--output", str(output), *more])


def held_out(inputs, name="dev", candidates="dev.run"):
    return f"--validation {inputs}/{name}.tsv,{inputs}/{name}.qrels --validation-run {inputs}/{candidates}"


def run(inputs, output, *more, validation="dev", validation_run="dev.run", training="train"):
    train.main(always(inputs, output, training, held_out(inputs, validation, validation_run), *more))


def cross_validate(inputs, output, *more, folds="3"):
    train.main(always(inputs, output, "all", f"--folds {folds} --epochs 2", *more))


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


def resumed(monkeypatch, training, output, *more, killed=2):
    """Kill a training in its validation of this number, and resume it."""
    with validation_killed(monkeypatch, killed):
        training(output, *more)
    assert not output.exists()
    training(output, *more, "--resume")


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
