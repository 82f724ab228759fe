"""Greedy forward selection of lexical features by a validation measure ([D18] 5.1)."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import tables
from rerank_plugin.files.artifact import read_object
from rerank_plugin.files.outputs import FolderKind, remove_folder, replacing_folder
from rerank_plugin.training.saving import TRAINED, TRAINING, check_interrupted, check_settings, link_all
from rerank_plugin.training.session import Session
from rerank_plugin.training.trainer import START_OVER, write

log = logging.getLogger(__name__)

SELECTION_FILE = "selection.json"
SELECTION = FolderKind(
    "an interrupted selection",
    SELECTION_FILE,
    ("settings", "measured"),
    (*TRAINED.inside("*"), *TRAINING.inside("*.training")),
)


class Step(NamedTuple):
    """One step of the selection."""

    kept: tuple[str, ...]  # the features of the steps before
    tried: dict[str, float]  # the measure by added feature
    chosen: str  # the added feature with the highest measure; ties are won by the first


def train_selected(session: Session, count: int, output: Path) -> tuple[tuple[str, ...], str]:
    """Select ``count`` lexical features of a session's model; the output is the model trained with them.

    Returns:
        The selected features, and the selection path as a table.

    Raises:
        InputError: there is an interrupted selection that may not be resumed, or has other settings.
    """
    task, names = session.task, session.model_config.lexical_features
    folder = output.with_name(output.name + ".selection")
    if check_interrupted(folder, SELECTION, task.resume, task.overwrite) and not task.resume:
        remove_folder(folder)

    def measure(features: tuple[str, ...]) -> float:
        checkpoint = folder / "+".join(features)
        config, pools = session.config_with(features)
        outcome = session.train(checkpoint, pools, config=config, overwrite=True)
        if len(features) < count:
            shutil.rmtree(checkpoint)
        return outcome.measures[task.measures[0]]

    model = {name: value for name, value in task.values.items() if name != "lexical_features"}
    settings = {"data": session.data, "training": asdict(task.training), "model": model}
    path = select(names, count, measure, folder, settings)
    chosen, table = (*path[-1].kept, path[-1].chosen), as_markdown(path, task.measures[0])
    (folder / "+".join(chosen) / "selection.md").write_text(table, encoding="utf-8")
    with replacing_folder(output, TRAINED, task.overwrite) as writing:
        link_all(folder / "+".join(chosen), writing)
    remove_folder(folder)
    return chosen, table


def select(
    names: Sequence[str], count: int, measure: Callable[[tuple[str, ...]], float], folder: Path, settings: dict
) -> list[Step]:
    """Greedily add ``count`` features, at each step the feature with the highest ``measure``.

    Each measurement is written to ``selection.json`` in ``folder``, so that an interrupted selection can be resumed.

    Args:
        measure: trains with some features and returns the best validation measure.
        settings: JSON values that a resumed selection must share.

    Raises:
        InputError: ``count`` exceeds the number of features, or the folder holds another selection.
    """
    if not 1 <= count <= len(names):
        raise InputError(f"cannot select {count} of {len(names)} lexical features")
    settings = json.loads(json.dumps({**settings, "names": list(names)}))
    measured = _read(folder / SELECTION_FILE, settings)
    _write(folder / SELECTION_FILE, settings, measured)  # first: marks the folder as a selection
    path: list[Step] = []
    kept: tuple[str, ...] = ()
    while len(kept) < count:
        tried = {}
        for name in names:
            if name in kept:
                continue
            features = (*kept, name)
            key = " ".join(features)
            if key not in measured:
                measured[key] = measure(features)
                _write(folder / SELECTION_FILE, settings, measured)
            tried[name] = measured[key]
            log.info("%s: %.4f", " + ".join(features), measured[key])
        chosen = max(tried, key=tried.__getitem__)
        path.append(Step(kept, tried, chosen))
        kept = (*kept, chosen)
    return path


def _read(path: Path, settings: dict) -> dict[str, float]:
    if not path.exists():
        return {}
    state = read_object(path, START_OVER, {"settings": dict[str, Any], "measured": dict[str, float]})
    check_settings(path, "a selection", state["settings"], settings)
    return state["measured"]


def _write(path: Path, settings: dict, measured: dict[str, float]) -> None:
    write(path, json.dumps({"settings": settings, "measured": measured}, indent=1))


def as_markdown(path: Sequence[Step], measure: str) -> str:
    """The path as a table: a row per feature, a column per step, chosen features in bold."""
    rows = [["feature", *(f"step {number}" for number in range(1, len(path) + 1))]]
    for name in path[0].tried:
        cells = [f"{step.tried[name]:.4f}" if name in step.tried else "" for step in path]
        rows.append([name, *(f"**{cell}**" if step.chosen == name else cell for cell, step in zip(cells, path))])
    return tables.markdown(rows) + f"\nValidation {measure}.\n"
