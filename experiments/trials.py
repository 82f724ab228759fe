"""Trials: equally many short trainings of each model, with hyper-parameters drawn at random from its own grid.

All models of an experiment have the same number of trials and of epochs, and the same validation queries choose. The
best hyper-parameters are then trained at length, with several seeds.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from experiments.settings import Settings, check_known, size
from rerank_plugin import InputError

OF_TRAINING = ("batch_size", "learning_rate")  # have options of their own

_KTREL: dict[str, tuple] = {
    "heads": (1, 2, 5, 10), "feed_forward": (50, 100, 200, 500), "batch_size": (10, 20, 50),
    "dropout": (0.1, 0.2, 0.3, 0.4, 0.5),
}  # fmt: skip
_PACRR: dict[str, tuple] = {"signals": (1, 2, 3, 4), "longest_ngram": (2, 3, 4), "learning_rate": (0.001, 0.003, 0.01)}

# By row, the values to try. KTRel's and PACRR's are their papers' ([K] 4.2; [P] 3.1, where firstk's l_d is always 768),
# PACRR's with learning rates; [K] took those of MatchZoo's tuner for the others, 10 at random, and [P] gives none.
GRIDS: dict[str, dict[str, tuple]] = {
    "ktrel": _KTREL,
    "ktrel-w": _KTREL,
    "ktrel-c": _KTREL,
    "pacrr-firstk": _PACRR,
    "pacrr-kwindow": {"distilled_words": (256, 384, 512, 640, 768), **_PACRR},
    "duet": {
        "learning_rate": (0.0003, 0.001, 0.003), "batch_size": (32, 128), "filters": (50, 150, 300),
        "dropout": (0.1, 0.2, 0.5),
    },
    "knrm": {
        "learning_rate": (0.0003, 0.001, 0.003, 0.01), "batch_size": (32, 64, 128), "trained_words": ("true", "false"),
    },
    "drmm": {
        "learning_rate": (0.001, 0.003, 0.01, 0.03), "batch_size": (32, 64, 128), "bins": (11, 30),
        "hidden": ("[5]", "[14]", "[10,5]"),
    },
    "conv-knrm": {
        "learning_rate": (0.0003, 0.001, 0.003), "batch_size": (32, 64, 128), "filters": (64, 128),
        "trained_words": ("true", "false"),
    },
    "matchpyramid": {
        "learning_rate": (0.0003, 0.001, 0.003, 0.01), "batch_size": (32, 64, 128), "pool_rows": (3, 5),
        "pool_columns": (10, 20), "filters": ("[8]", "[16]", "[8,16]"),
    },
}  # fmt: skip
GRIDS["duet-local"] = GRIDS["duet"]


class Trial(NamedTuple):
    """Hyper-parameters of a model, which a short training tries: (name, value) each."""

    values: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The values, for the name of a training."""
        return re.sub(r"[^\w.]+", "-", "-".join(value for _, value in self.values))

    @property
    def options(self) -> tuple[str, ...]:
        """The options of its training."""
        of_training = [(f"--{name.replace('_', '-')}", value) for name, value in self.values if name in OF_TRAINING]
        of_model = [f"{name}={value}" for name, value in self.values if name not in OF_TRAINING]
        return (*(word for option in of_training for word in option), *(("--set", *of_model) if of_model else ()))

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.values) or "the defaults"


@dataclass(frozen=True, kw_only=True)
class TrialSettings(Settings):
    """The settings of experiments with trials."""

    trials: int = size(
        "hyper-parameters to try for each model of the paper; 0: fixed ones", 6, least=0, flags=("--grid",)
    )
    trial_epochs: int = size("largest number of epochs of a trial", 4, flags=("--grid-epochs",))
    seeds: int = size("trainings of each model of the paper with the chosen hyper-parameters, by seed", 1)

    row_epochs: tuple[tuple[str, str], ...] = size(
        "row and its largest number of epochs, where one takes more CPU minutes than others have for a whole training; "
        "may be repeated",
        (),
        nargs=2,
        action="append",
        metavar=("ROW", "N"),
    )

    def check_row_epochs(self, rows: Iterable[str]) -> None:
        """An `InputError` if epochs are given for another row, or are no number of them."""
        check_known("rows", (row for row, _ in self.row_epochs), rows)
        if bad := [number for _, number in self.row_epochs if not (number.isdecimal() and int(number) > 0)]:
            raise InputError(f"'{bad[0]}' is not a number of epochs: expected 1, 2, ...")

    def fewer_epochs(self, row: str) -> list[tuple[str, str]]:
        """The option with the row's own largest number of epochs, if it has one."""
        return [("--epochs", number) for name, number in self.row_epochs if name == row]

    def drawn(self, row: str) -> list[Trial]:
        """The trials of a row."""
        return drawn(row, self.trials, self.seed)

    @property
    def training_seeds(self) -> list[int]:
        """The seeds of the trainings with the chosen hyper-parameters."""
        return list(range(self.seed, self.seed + self.seeds))


def grid(row: str) -> list[Trial]:
    """All combinations of a row's values."""
    values = GRIDS[row]
    return [Trial(tuple(zip(values, map(str, chosen)))) for chosen in product(*values.values())]


def drawn(row: str, count: int, seed: int) -> list[Trial]:
    """A random sample of ``count`` trials of a row's grid; larger samples begin with smaller ones."""
    trials = grid(row)
    return random.Random(f"{row} {seed}").sample(trials, len(trials))[:count]


def trains_words(options: Sequence[str]) -> bool:
    """Whether a training changes the word vectors, so that every word of the index needs one of its own."""
    return "trained_words=true" in options


def chosen_line(title: str, tried: Sequence[Trial], chosen: Trial, reached: Callable[[Trial], float]) -> list[str]:
    """A line of the page: a model, its chosen hyper-parameters, the number of trials, and the chosen one's measure."""
    if not tried:
        return [title, f"{chosen} (given)", "1", ""]
    return [title, str(chosen), str(len(tried)), f"{reached(chosen):.4f}"]


def mean_and_range(values: np.ndarray) -> str:
    """The mean over seeds, and the lowest and highest mean of one seed; values are float64 [seeds, queries]."""
    means = values.mean(axis=1)
    return f"{means.mean():.4f} ({means.min():.3f} to {means.max():.3f})"
