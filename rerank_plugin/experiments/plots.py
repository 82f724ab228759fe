"""Figures of the experiments' pages."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence

from rerank_plugin.runs import replacing


def plot_sweep(filters: Sequence[int], curves: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Measures by the number of filters, as [D18] figure 3: a panel a setting, a line a measure.

    Args:
        curves: by setting, the measures at each number of filters.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(curves), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, points) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items()):
        for measure in points[0]:
            axes.plot(filters, [point[measure] for point in points], marker="o", label=measure)
        axes.set(xscale="log", xlabel="filters", title=title, xticks=filters, xticklabels=filters)
        axes.minorticks_off()
        axes.legend()
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=120)
