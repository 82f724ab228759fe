"""[P], figure 3: every run before and after re-ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rerank_plugin.evaluation.many_runs import BulkEvaluation
from rerank_plugin.files.outputs import PICTURE, PICTURE_METADATA, replacing


def plot_scatter(
    bulk: BulkEvaluation, path: Path, titles: Mapping[str, str] | None = None, overwrite: bool = False
) -> None:
    """Write a PNG: a row of panels a measure, a panel a method, a point a run, x before and y after re-ranking.

    Points above the dashed line y = x are runs that improved; panels of a measure have the same scale. The paper puts
    all methods of a year into one panel; on one collection a panel each keeps many runs apart.

    Args:
        titles: of methods; others stand with their names.
        overwrite: whether a picture that is there already is replaced.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.2 * len(bulk.after) + 0.8, 2.8 * len(bulk.before) + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(bulk.before), len(bulk.after), squeeze=False, sharex="row", sharey="row")
    for row, (measure, before) in zip(panels, bulk.before.items()):
        limits = _limits([before, *(of_method[measure] for of_method in bulk.after.values())])
        for axes, (method, of_method) in zip(row, bulk.after.items()):
            axes.plot(limits, limits, "k--", linewidth=0.8)
            axes.scatter(before, of_method[measure], s=12, alpha=0.6)
            axes.set(xlim=limits, ylim=limits, aspect="equal")
            axes.set_title(f"{bulk.improved(method, measure)} of {len(bulk.runs)} improved", fontsize="small")
        row[0].set_ylabel(f"{measure} after")
        for axes in row:
            axes.set_xlabel("before")
    for axes, method in zip(panels[0], bulk.after):
        axes.set_title(f"{(titles or {}).get(method, method)}\n{axes.get_title()}", fontsize="small")
    with replacing(path, PICTURE, overwrite) as file:
        figure.savefig(file, format="png", dpi=120, metadata=PICTURE_METADATA)


def _limits(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Of both axes, with some room around the values."""
    lowest, highest = min(one.min() for one in values), max(one.max() for one in values)
    room = 0.05 * (highest - lowest) or 0.05
    return float(lowest - room), float(highest + room)
