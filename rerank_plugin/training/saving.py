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

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.outputs import FolderKind, check_free, link_or_copy, locked, remove_folder, replacing_folder
from rerank_plugin.indexes.forward import ForwardIndex
from rerank_plugin.models.checkpoints import CHECKPOINT, CONFIG_FILE, read_config, save_checkpoint, write_statistics
from rerank_plugin.models.relevance import RELEVANCE
from rerank_plugin.text import word_vectors
from rerank_plugin.text.word_vectors import WORD_VECTORS, WordVectors
from rerank_plugin.training.trainer import LOG_FILE, PLOT_FILE, STATE_FILE, TENSORS_FILE, write
from rerank_plugin.training.validation import Validation

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
    (  # .writing-* is what trainings of earlier versions left when they were killed
        STATE_FILE, f"*.{TENSORS_FILE}", LOG_FILE, PLOT_FILE, ".writing-*", *CHECKPOINT.inside(BEST),
        *CHECKPOINT.inside(f"{EPOCHS}/*"), *WORD_VECTORS.inside(WORDS),
    ),
)  # fmt: skip


def work_folder(output: Path) -> Path:
    """The work folder of an output until the training is finished."""
    return output.with_name(output.name + ".training")


def check_interrupted(folder: Path, kind: FolderKind, resume: bool, overwrite: bool) -> bool:
    """Whether something was interrupted in a work folder.

    Raises:
        InputError: it may neither go on nor be replaced, or other files are there.
    """
    check_free(folder, kind, overwrite=True)
    begun = folder.is_dir() and any(folder.iterdir())
    if begun and not (resume or overwrite):
        what = kind.name.replace("an interrupted", "a")
        raise InputError(f"{folder} holds {what} that was interrupted: resume or overwrite it")
    return begun


def check_settings(path: Path, what: str, before: dict, settings: dict) -> None:
    """
    Raises:
        InputError: what was interrupted, described in the file ``path``, had other settings.
    """
    if differing := [name for name in settings if before.get(name) != settings[name]]:
        raise InputError(
            f"{path} is of {what} with other settings ({', '.join(differing)}): repeat them to go on, or delete its "
            "folder to start over"
        )


@contextmanager
def held(folder: Path, resume: bool, overwrite: bool) -> Iterator[None]:
    """Lock the work folder of a training for the duration of the block.

    Raises:
        InputError: as `check_interrupted`, or another process trains there.
    """
    check_interrupted(folder, TRAINING, resume, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            yield
    finally:
        with suppress(OSError):  # there is something to go on with, or all is done
            folder.rmdir()


class Saver:
    """Writes the checkpoints of a training.

    Args:
        folder: the work folder; files of an older training are removed after the first epoch of a new one.
        validation: of the training, which fits the relevance of scores.
        training: data, settings and seed of the training, for the description in each checkpoint.
        every: whether to keep the checkpoint of every epoch.
        index: of the collection, whose statistics the finished checkpoints keep.
        words: folder of word vectors that several trainings share; by default the training has its own.
    """

    def __init__(
        self,
        folder: Path,
        model,
        vectors: WordVectors | None,
        validation: Validation,
        training: dict,
        every: bool,
        index: ForwardIndex,
        words: Path | None = None,
    ):
        self.folder, self.model, self.vectors, self.training = folder, model, vectors, training
        self.index, self.validation = index, validation
        self.every, self.words = every, words or folder / WORDS
        self.epochs = 0  # that are done

    def go_on(self, epochs: int) -> None:
        """Keep the files of the folder, because the training was resumed after ``epochs`` epochs."""
        self.epochs = epochs
        missing = [epoch for epoch in range(1, epochs + 1) if not (self._of(epoch) / CONFIG_FILE).exists()]
        if self.every and missing:
            raise InputError(
                f"{self.folder} was begun without keeping every epoch: epoch {missing[0]} is missing; resume without "
                "it, or delete the folder to start over"
            )

    def save(self, measures: dict, best: bool) -> None:
        """Called after every epoch, before it counts as done, and told whether it is the best so far."""
        if not self.epochs:
            self._empty()
        self.epochs = measures["epoch"]
        if self.vectors is not None and not self.words.exists():
            word_vectors.save(self.vectors, self.words, {})
        if self.every:
            self._save(self._of(self.epochs), measures)
        if best and self.every:
            with replacing_folder(self.folder / BEST, CHECKPOINT, overwrite=True) as writing:
                link_all(self._of(self.epochs), writing)
        elif best:
            self._save(self.folder / BEST, measures)

    def _empty(self) -> None:
        """Remove the files of an older training and write the marker of the new one."""
        for one in self.folder.iterdir():
            if one.name != MARKER_FILE:  # it stays to the last: without it the rest would be taken for the user's
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        write(self.folder / MARKER_FILE, json.dumps({"training": self.training}))

    def finish(self, deciding: str, output: Path, overwrite: bool = False) -> Outcome:
        """Move the best checkpoint, the log and the plot to the output, and remove the work folder.

        Raises:
            InputError: no epoch had a finite deciding measure.
        """
        if not (self.folder / BEST).exists():
            raise InputError(f"no epoch gave a finite {deciding}: nothing to keep; see {self.folder / LOG_FILE}")
        with replacing_folder(output, TRAINED, overwrite) as writing:
            link_all(self.folder / BEST, writing)
            statistics = write_statistics(writing, self.index)
            for name in (LOG_FILE, PLOT_FILE):
                link_or_copy(self.folder / name, writing / name)
            if self.every:
                for epoch in range(1, self.epochs + 1):
                    kept = writing / EPOCHS / self._of(epoch).name
                    link_all(self._of(epoch), kept)
                    link_or_copy(statistics, kept / statistics.name)
        remove_folder(self.folder)
        return read_outcome(output)

    def _of(self, epoch: int) -> Path:
        return self.folder / EPOCHS / f"{epoch:02d}"

    def _save(self, folder: Path, measures: dict) -> None:
        relevance = {RELEVANCE: self.validation.relevance._asdict()}
        description = {"training": self.training, "measures": measures, "seed": self.training["seed"], **relevance}
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
