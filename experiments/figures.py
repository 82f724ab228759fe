"""Figures of the experiments' pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.files import plots as pictures
from rerank_plugin.training.history_plot import draw_history

ABREAST = 3  # panels in a row, at most


def plot_sweep(filters: Sequence[int], curves: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """[D18] figure 3: by setting, a panel each, the measures at each number of filters, a line a measure."""
    with _panels(path, len(curves)) as panels:
        for axes, (title, points) in zip(panels, curves.items()):
            for measure in points[0]:
                axes.plot(filters, [point[measure] for point in points], marker="o", label=measure)
            axes.set(xscale="log", xlabel="filters", title=title, xticks=filters, xticklabels=filters)
            axes.minorticks_off()


class Curve(NamedTuple):
    """How a hyper-parameter changes a measure."""

    name: str  # of the hyper-parameter
    values: Sequence[int]  # that were tried
    lines: Mapping[str, Sequence[float]]  # by what it was measured on, the measure at each value
    chosen: int | None  # the value that was selected; None where the selected model is not on the curve


def plot_hyper_parameters(curves: Sequence[Curve], measure: str, path: Path) -> None:
    """[P] figure 5: a panel a hyper-parameter, a cross where the selected value stands."""
    with _panels(path, len(curves)) as panels:
        for axes, curve in zip(panels, curves):
            places = range(len(curve.values))
            for label, points in curve.lines.items():
                (line,) = axes.plot(places, points, marker="o", label=label)
                if curve.chosen is not None:
                    place = list(curve.values).index(curve.chosen)
                    axes.plot(place, points[place], marker="x", markersize=14, color=line.get_color())
            axes.set(xlabel=curve.name, ylabel=measure, xticks=places, xticklabels=curve.values)


def plot_trainings(histories: Mapping[str, list[dict]], path: Path) -> None:
    """[P] figure 2 for several models: a panel each, the loss and the validation measures by epoch."""
    with _panels(path, len(histories)) as panels:
        for axes, (title, history) in zip(panels, histories.items()):
            draw_history(axes, history)
            axes.set_title(title)


class Line(NamedTuple):
    """A model in a figure by the number of training queries."""

    title: str
    points: Sequence[float]  # the measure at each number
    stars: Sequence[bool]  # whether each point is marked


def plot_sizes(counts: Sequence[int], lines: Sequence[Line], levels: Mapping[str, float], path: Path) -> None:
    """[K] figure 2: MAP by the number of training queries, and what needs none as horizontal lines."""
    with _panels(path, 1, height=5) as (axes,):
        for line in lines:
            (drawn,) = axes.plot(counts, line.points, marker=".", label=line.title)
            marked = [(count, point) for count, point, star in zip(counts, line.points, line.stars) if star]
            axes.plot(*zip(*marked) if marked else ([], []), "*", markersize=12, color=drawn.get_color())
        for (title, level), style in zip(levels.items(), ("--", ":")):
            axes.axhline(level, color="black", linestyle=style, linewidth=1, label=title)
        axes.set(xlabel="training queries", ylabel="MAP")


@contextmanager
def _panels(path: Path, count: int, height: float = 3.2) -> Iterator[Sequence]:
    """Axes in rows of at most `ABREAST`, with one legend below; written as a PNG at the end."""
    columns = min(ABREAST, count)
    with pictures.panels(path, -(-count // columns), columns, height, overwrite=True) as axes:
        for unused in axes.ravel()[count:]:
            unused.set_axis_off()
        yield axes.ravel()[:count]
        pictures.legend_below(axes.flat[0].figure)
