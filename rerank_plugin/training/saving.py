"""The output of a training: the best checkpoint, and on request that of each epoch.

While it runs, everything lies in a folder beside the output, ``OUTPUT.training``: the trainer's state, ``best``,
``epochs/01``, ``epochs/02``, ..., and ``words``, the word vectors, to whose files all checkpoints link. The output
appears whole when the training is done.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import FolderKind, check_free, link_or_copy, locked, remove_folder, replacing_folder
from rerank_plugin.models.checkpoints import CHECKPOINT, CONFIG_FILE, read_config, save_checkpoint
from rerank_plugin.text import word_vectors
from rerank_plugin.text.word_vectors import WORD_VECTORS, WordVectors
from rerank_plugin.training.trainer import LOG_FILE, PLOT_FILE, STATE_FILE, TENSORS_FILE, replace

BEST, EPOCHS, WORDS, MARKER_FILE = "best", "epochs", "words", "training.json"

TRAINED = FolderKind(
    "a trained checkpoint",
    CONFIG_FILE,
    CHECKPOINT.keys,
    (*CHECKPOINT.files, LOG_FILE, PLOT_FILE, "selection.md", *CHECKPOINT.inside(f"{EPOCHS}/*")),
)
TRAINING = FolderKind(
    "an interrupted training",
    MARKER_FILE,
    ("training",),
    (
        STATE_FILE, f"*.{TENSORS_FILE}", LOG_FILE, PLOT_FILE, ".writing-*", *CHECKPOINT.inside(BEST),
        *CHECKPOINT.inside(f"{EPOCHS}/*"), *WORD_VECTORS.inside(WORDS),
    ),
)  # fmt: skip


def work_folder(output: Path) -> Path:
    """The work folder of an output until the training is finished."""
    return output.with_name(output.name + ".training")


@contextmanager
def work_folder_held(folder: Path, resume: bool, overwrite: bool) -> Iterator[None]:
    """Lock the work folder of a training for the duration of the block.

    Raises:
        InputError: another process trains there, other files are there, or there is an interrupted training and
            neither ``resume`` nor ``overwrite`` is set.
    """
    check_free(folder, TRAINING, overwrite=True)
    if folder.is_dir() and any(folder.iterdir()) and not (resume or overwrite):
        raise InputError(f"{folder} holds a training that was interrupted: resume or overwrite it")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            yield
    finally:
        with suppress(OSError):  # there is something to go on with, or all is done
            folder.rmdir()


def empty_work_folder(folder: Path, training: dict) -> None:
    """Remove the files of an older training and write the marker of the new one."""
    for one in folder.iterdir():
        if one.name != MARKER_FILE:  # it stays to the last: without it the rest would be taken for the user's
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    replace(folder / MARKER_FILE, lambda path: path.write_text(json.dumps({"training": training}), encoding="utf-8"))


class Saver:
    """Writes the checkpoints of a training.

    Args:
        folder: the work folder; files of an older training are removed after the first epoch of a new one.
        training: data, settings and seed of the training, for the description in each checkpoint.
        every: whether to keep the checkpoint of every epoch.
        words: folder of word vectors that several trainings share; by default the training has its own.
    """

    def __init__(
        self, folder: Path, model, vectors: WordVectors | None, training: dict, every: bool, words: Path | None = None
    ):
        self.folder, self.model, self.vectors, self.training = folder, model, vectors, training
        self.every, self.words = every, words or folder / WORDS
        self.fresh, self.epochs = True, 0

    def go_on(self, epochs: int) -> None:
        """Keep the files of the folder, because the training was resumed after ``epochs`` epochs.

        Raises:
            InputError: every epoch is to be kept, but a checkpoint is missing.
        """
        self.fresh, self.epochs = False, epochs
        if not self.every:
            return
        missing = [epoch for epoch in range(1, epochs + 1) if not (self._of(epoch) / CONFIG_FILE).exists()]
        if missing:
            raise InputError(
                f"{self.folder} was begun without keeping every epoch: epoch {missing[0]} is missing; resume without it, "
                "or delete the folder to start over"
            )

    def keep(self, measures: dict) -> None:
        """Called after every epoch, before it counts as done."""
        if self.fresh:
            empty_work_folder(self.folder, self.training)
            self.fresh = False
        self.epochs = measures["epoch"]
        if self.vectors is not None and not self.words.exists():
            word_vectors.save(self.vectors, self.words, {})
        if self.every:
            self._save(self._of(measures["epoch"]), measures)

    def save(self, measures: dict) -> None:
        """Called after that, when the epoch is the best so far."""
        if self.every:
            with replacing_folder(self.folder / BEST, CHECKPOINT, overwrite=True) as writing:
                link_all(self._of(measures["epoch"]), writing)
        else:
            self._save(self.folder / BEST, measures)

    def finish(self, deciding: str, output: Path, overwrite: bool = False) -> Outcome:
        """Move the best checkpoint, the log and the plot to the output, and remove the work folder.

        Args:
            deciding: name of the measure that selects the best epoch, for the message.
            overwrite: whether an existing trained checkpoint is replaced.

        Raises:
            InputError: no epoch had a finite deciding measure.
        """
        if not (self.folder / BEST).exists():
            raise InputError(f"no epoch gave a finite {deciding}: nothing to keep; see {self.folder / LOG_FILE}")
        with replacing_folder(output, TRAINED, overwrite) as writing:
            link_all(self.folder / BEST, writing)
            for name in (LOG_FILE, PLOT_FILE):
                link_or_copy(self.folder / name, writing / name)
            if self.every:
                for epoch in range(1, self.epochs + 1):
                    link_all(self._of(epoch), writing / EPOCHS / self._of(epoch).name)
        remove_folder(self.folder)
        return read_outcome(output)

    def _of(self, epoch: int) -> Path:
        return self.folder / EPOCHS / f"{epoch:02d}"

    def _save(self, folder: Path, measures: dict) -> None:
        description = {"training": self.training, "measures": measures, "seed": self.training["seed"]}
        save_checkpoint(folder, self.model, self.vectors, description, self.words)


class Outcome(NamedTuple):
    """The result of a training: the best epoch, its measures, and the number of epochs trained."""

    epoch: int
    measures: dict[str, float]
    epochs: int


def read_outcome(checkpoint: Path) -> Outcome:
    """The outcome of the training that made a checkpoint."""
    reached = read_config(checkpoint)["measures"]
    measures = {
        name: math.nan if value is None else value for name, value in reached.items() if name not in ("epoch", "loss")
    }
    lines = (checkpoint / LOG_FILE).read_text(encoding="utf-8").splitlines()
    return Outcome(reached["epoch"], measures, len(lines))


def link_all(source: Path, target: Path) -> None:
    """Copy a folder with hard links, which take no space, if the file system has them."""
    shutil.copytree(source, target, copy_function=link_or_copy, dirs_exist_ok=True)
