"""Pictures: a grid of matplotlib panels, as wide as a page, written as a PNG file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.outputs import PICTURE, PICTURE_METADATA, replacing

WIDTH = 9.0  # inches; at 120 dots per inch and page width, letters have the size of the page's text


@contextmanager
def panels(
    path: Path, rows: int, columns: int, height: float = 3.2, overwrite: bool = False, **subplots
) -> Iterator[Sequence[Sequence]]:
    """Axes by row and column to draw on; the picture is written when the block ends.

    Args:
        height: of a row, in inches.
        overwrite: replace an existing picture.
        subplots: further arguments of matplotlib's ``Figure.subplots``.
    """
    with naming_extras("a picture"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure.subplots(rows, columns, squeeze=False, **subplots)
    with replacing(path, PICTURE, overwrite) as file:
        figure.savefig(file, format="png", dpi=120, metadata=PICTURE_METADATA)


def legend_below(figure, columns: int = 4) -> None:
    """One legend for all that is named on the axes, below them, in as many columns as fit; none without names."""
    handles = [axes.get_legend_handles_labels() for axes in figure.axes]
    named = {name: handle for of_axes in handles for handle, name in zip(*of_axes)}
    if not named:
        return
    for count in range(min(columns, len(named)), 0, -1):
        legend = figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=count, frameon=False)
        if count == 1 or legend.get_window_extent(figure.canvas.get_renderer()).width <= figure.bbox.width:
            return
        legend.remove()
