"""The output of a training: the best checkpoint, and on request the checkpoint of each epoch.

A running training keeps its files in the work folder ``OUTPUT.training``: the trainer's state, ``best``, ``epochs/01``,
``epochs/02``, ..., and ``words``, the word vectors, to whose files all checkpoints link. At the end the output appears
atomically.
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
from rerank_plugin.models.checkpoint import CHECKPOINT, CONFIG_FILE, Checkpoint, save_checkpoint, write_statistics
from rerank_plugin.models.ranking_model import RankingModel
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
    (  # killed trainings of earlier versions left .writing-*
        STATE_FILE, f"*.{TENSORS_FILE}", LOG_FILE, PLOT_FILE, ".writing-*", *CHECKPOINT.inside(BEST),
        *CHECKPOINT.inside(f"{EPOCHS}/*"), *WORD_VECTORS.inside(WORDS),
    ),
)  # fmt: skip


def work_folder(output: Path) -> Path:
    """The work folder of an output until the training is finished."""
    return output.with_name(output.name + ".training")


def check_interrupted(folder: Path, kind: FolderKind, resume: bool, overwrite: bool) -> bool:
    """Whether a work folder holds an interrupted training, selection or cross-validation.

    Raises:
        InputError: it may be neither resumed nor overwritten, or the folder holds other files.
    """
    check_free(folder, kind, overwrite=True)
    interrupted = folder.is_dir() and any(folder.iterdir())
    if interrupted and not (resume or overwrite):
        raise InputError(f"{folder} holds {kind.name}: resume or overwrite it")
    return interrupted


def check_settings(path: Path, kind: str, interrupted: dict, settings: dict) -> None:
    """Check that an interrupted selection or cross-validation, described in the file ``path``, has the same settings.

    Raises:
        InputError: the settings differ.
    """
    if differing := [name for name in settings if interrupted.get(name) != settings[name]]:
        raise InputError(
            f"{path} is of {kind} with other settings ({', '.join(differing)}): repeat them to resume it, or delete "
            "its folder to start over"
        )


@contextmanager
def locked_work_folder(folder: Path, resume: bool, overwrite: bool) -> Iterator[None]:
    """Lock the work folder of a training for the duration of the block.

    Raises:
        InputError: as `check_interrupted`, or another process uses the folder.
    """
    check_interrupted(folder, TRAINING, resume, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            yield
    finally:
        with suppress(OSError):  # not empty: to be resumed; missing: the training is finished
            folder.rmdir()


class Saver:
    """Writes the checkpoints of a training.

    Args:
        folder: the work folder; the first epoch of a new training removes the files of an older one.
        validation: validation of the training; it fits the relevance of scores.
        training: data, settings and seed of the training, for the description in each checkpoint.
        every: whether to keep the checkpoint of every epoch.
        index: index of the collection, whose statistics the finished checkpoints keep.
        words: folder of word vectors that several trainings share; by default a folder of this training's own.
    """

    def __init__(
        self,
        folder: Path,
        model: RankingModel,
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
        self.epochs = 0  # finished epochs

    def resume(self, epochs: int) -> None:
        """Keep the files of the folder: the training is resumed after ``epochs`` epochs."""
        self.epochs = epochs
        missing = [epoch for epoch in range(1, epochs + 1) if not (self._checkpoint(epoch) / CONFIG_FILE).exists()]
        if self.every and missing:
            raise InputError(
                f"{self.folder} was started without keeping every epoch: epoch {missing[0]} is missing; resume without "
                "keeping every epoch, or delete the folder to start over"
            )

    def save(self, measures: dict, best: bool) -> None:
        """Save the epoch, before the trainer writes its state; ``best`` is whether it is the best so far."""
        if not self.epochs:
            self._empty()
        self.epochs = measures["epoch"]
        if self.vectors is not None and not self.words.exists():
            word_vectors.save(self.vectors, self.words, {})
        if self.every:
            self._save(self._checkpoint(self.epochs), measures)
        if best and self.every:
            with replacing_folder(self.folder / BEST, CHECKPOINT, overwrite=True) as writing:
                link_all(self._checkpoint(self.epochs), writing)
        elif best:
            self._save(self.folder / BEST, measures)

    def _empty(self) -> None:
        """Remove the files of an older training and write the marker of the new one."""
        for path in self.folder.iterdir():
            if path.name != MARKER_FILE:  # replaced last: without it the rest would pass for the user's files
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        write(self.folder / MARKER_FILE, json.dumps({"training": self.training}))

    def finish(self, deciding: str, output: Path, overwrite: bool = False) -> Outcome:
        """Move the best checkpoint, the log and the plot to the output, and remove the work folder.

        Raises:
            InputError: no epoch had a finite deciding measure.
        """
        if not (self.folder / BEST).exists():
            raise InputError(f"no epoch gave a finite {deciding}: nothing to save; see {self.folder / LOG_FILE}")
        with replacing_folder(output, TRAINED, overwrite) as writing:
            link_all(self.folder / BEST, writing)
            statistics = write_statistics(writing, self.index)
            for name in (LOG_FILE, PLOT_FILE):
                link_or_copy(self.folder / name, writing / name)
            if self.every:
                for epoch in range(1, self.epochs + 1):
                    kept = writing / EPOCHS / self._checkpoint(epoch).name
                    link_all(self._checkpoint(epoch), kept)
                    link_or_copy(statistics, kept / statistics.name)
        remove_folder(self.folder)
        return read_outcome(output)

    def _checkpoint(self, epoch: int) -> Path:
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
    best = Checkpoint.open(checkpoint).description["measures"]
    measures = {
        name: math.nan if value is None else value for name, value in best.items() if name not in ("epoch", "loss")
    }
    lines = (checkpoint / LOG_FILE).read_text(encoding="utf-8").splitlines()
    return Outcome(best["epoch"], measures, len(lines))


def link_all(source: Path, target: Path) -> None:
    """Copy a folder with hard links, which take no space, if the file system has them."""

    def copy(source: str, target: str) -> None:
        link_or_copy(Path(source), Path(target))

    shutil.copytree(source, target, copy_function=copy, dirs_exist_ok=True)
