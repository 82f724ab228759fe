"""Figures of the experiments' pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rerank_plugin.files import plots as pictures
from rerank_plugin.training.history_plot import draw_history

COLUMNS = 3  # most panels in a row


def plot_sweep(filters: Sequence[int], curves: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """[D18] figure 3: a panel per setting, with a line per measure over the number of filters."""
    with _panels(path, len(curves)) as panels:
        for axes, (title, points) in zip(panels, curves.items()):
            for measure in points[0]:
                axes.plot(filters, [point[measure] for point in points], marker="o", label=measure)
            axes.set(xscale="log", xlabel="filters", title=title, xticks=filters, xticklabels=filters)
            axes.minorticks_off()


class Curve(NamedTuple):
    """A measure by the value of a hyper-parameter."""

    name: str  # of the hyper-parameter
    values: Sequence[int]  # values tried
    lines: Mapping[str, Sequence[float]]  # by set of queries, the measure at each value
    chosen: int | None  # the selected value; None if the selected model is not on the curve


def plot_hyper_parameters(curves: Sequence[Curve], measure: str, path: Path) -> None:
    """[P] figure 5: a panel per hyper-parameter, with a cross at the selected value."""
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
    """[P] figure 2, a panel per model: loss and validation measures by epoch."""
    with _panels(path, len(histories)) as panels:
        for axes, (title, history) in zip(panels, histories.items()):
            draw_history(axes, history)
            axes.set_title(title)


def plot_pairs(accuracies: Mapping[str, Mapping[str, Mapping[str, float]]], path: Path) -> None:
    """[P] figure 4: for each set of documents a panel, with a bar per pair of labels and model, from 0 to 1."""
    every = dict.fromkeys(
        model for of_pairs in accuracies.values() for of_pair in of_pairs.values() for model in of_pair
    )
    colors = {model: f"C{number}" for number, model in enumerate(every)}
    with pictures.panels(path, len(accuracies), 1, overwrite=True) as panels:
        for (axes,), (title, of_pairs) in zip(panels, accuracies.items()):
            models = list(next(iter(of_pairs.values())))
            width = 0.85 / len(models)
            for place, model in enumerate(models):
                at = [pair + (place - (len(models) - 1) / 2) * width for pair in range(len(of_pairs))]
                axes.bar(at, [of_pair[model] for of_pair in of_pairs.values()], width, color=colors[model], label=model)
            axes.axhline(0.5, color="gray", linestyle=":", linewidth=1)  # an order by chance
            axes.set(title=title, ylabel="pairs in the right order", ylim=(0, 1))
            axes.set_xticks(range(len(of_pairs)), list(of_pairs))
        pictures.legend_below(panels[0][0].figure)


class Line(NamedTuple):
    """A model's measure by the number of training queries."""

    title: str
    points: Sequence[float]  # the measure at each number
    stars: Sequence[bool]  # whether each point is marked


def plot_sizes(counts: Sequence[int], lines: Sequence[Line], levels: Mapping[str, float], path: Path) -> None:
    """[K] figure 2: MAP by the number of training queries, with untrained rankings as horizontal lines."""
    with _panels(path, 1, height=5) as (axes,):
        for line in lines:
            (curve,) = axes.plot(counts, line.points, marker=".", label=line.title)
            marked = [(count, point) for count, point, star in zip(counts, line.points, line.stars) if star]
            axes.plot(*zip(*marked) if marked else ([], []), "*", markersize=12, color=curve.get_color())
        for (title, level), style in zip(levels.items(), ("--", ":")):
            axes.axhline(level, color="black", linestyle=style, linewidth=1, label=title)
        axes.set(xlabel="training queries", ylabel="MAP")


@contextmanager
def _panels(path: Path, count: int, height: float = 3.2) -> Iterator[Sequence]:
    """Axes in rows of at most `COLUMNS`, with one legend below; written as a PNG at the end."""
    columns = min(COLUMNS, count)
    with pictures.panels(path, -(-count // columns), columns, height, overwrite=True) as axes:
        for unused in axes.ravel()[count:]:
            unused.set_axis_off()
        yield axes.ravel()[:count]
        pictures.legend_below(axes.flat[0].figure)
