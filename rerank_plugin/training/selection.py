"""Greedy forward selection of lexical features by a validation measure ([D18] 5.1)."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import tables
from rerank_plugin.files.outputs import FolderKind, remove_folder, replacing_folder
from rerank_plugin.training.saving import TRAINED, TRAINING, check_interrupted, check_settings, link_all
from rerank_plugin.training.session import Session
from rerank_plugin.training.trainer import write

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

    kept: tuple[str, ...]  # the features before it
    tried: dict[str, float]  # the measure reached with each further feature
    chosen: str  # the feature with the highest measure; the first of equal ones


def train_selected(session: Session, count: int, output: Path) -> tuple[tuple[str, ...], str]:
    """Select ``count`` lexical features of a session's model; the output is the model trained with them.

    Returns:
        the selected features, and the selection path as a table.

    Raises:
        InputError: there is an interrupted selection that must not be resumed, or that has other settings.
    """
    task, names = session.task, session.model_config.lexical_features
    folder = output.with_name(output.name + ".selection")
    if check_interrupted(folder, SELECTION, task.resume, task.overwrite) and not task.resume:
        remove_folder(folder)

    def measure(features: tuple[str, ...]) -> float:
        place = folder / "+".join(features)
        config, pools = session.config_with(features)
        outcome = session.train(place, pools, config=config, overwrite=True)
        if len(features) < count:
            shutil.rmtree(place)
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
    """Greedily add ``count`` features, each time the one with the highest ``measure``.

    Each measurement is written to ``selection.json`` in ``folder``, so that an interrupted selection can be resumed.

    Args:
        measure: trains with the given features and returns the best validation measure.
        settings: JSON values that must be equal to resume a selection.

    Raises:
        InputError: more features are asked for than there are, or the folder holds another selection.
    """
    if not 1 <= count <= len(names):
        raise InputError(f"cannot select {count} of {len(names)} lexical features")
    settings = json.loads(json.dumps({**settings, "names": list(names)}))
    measured = _read(folder / SELECTION_FILE, settings)
    _write(folder / SELECTION_FILE, settings, measured)  # first: it tells that what else will lie there is ours
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
        chosen = max(tried, key=tried.get)
        path.append(Step(kept, tried, chosen))
        kept = (*kept, chosen)
    return path


def _read(path: Path, settings: dict) -> dict[str, float]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        before, measured = dict(found["settings"]), found["measured"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot go on from {path}: {error!r}; delete it to start over") from None
    check_settings(path, "a selection", before, settings)
    return measured


def _write(path: Path, settings: dict, measured: dict[str, float]) -> None:
    write(path, json.dumps({"settings": settings, "measured": measured}, indent=1))


def as_markdown(path: Sequence[Step], measure: str) -> str:
    """The path as a table: a row a feature, a column a step, the chosen one in bold."""
    rows = [["feature", *(f"step {number}" for number in range(1, len(path) + 1))]]
    for name in path[0].tried:
        cells = [f"{step.tried[name]:.4f}" if name in step.tried else "" for step in path]
        rows.append([name, *(f"**{cell}**" if step.chosen == name else cell for cell, step in zip(cells, path))])
    return tables.markdown(rows) + f"\nValidation {measure}.\n"
