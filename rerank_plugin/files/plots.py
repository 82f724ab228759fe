"""Pictures: panels that matplotlib draws, as wide as a page, written as a PNG file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rerank_plugin.base.extras import naming_extras
from rerank_plugin.files.outputs import PICTURE, PICTURE_METADATA, replacing

WIDTH = 9.0  # inches; at 120 dots an inch letters are as large as a page's when it is shown at a page's width


@contextmanager
def panels(
    path: Path, rows: int, columns: int, height: float = 3.2, overwrite: bool = False, **subplots
) -> Iterator[Sequence[Sequence]]:
    """Axes by row and column, to be drawn on; the picture is written when the block ends.

    Args:
        height: of a row, in inches.
        overwrite: whether a picture that is there already is replaced.
        subplots: what else matplotlib's ``Figure.subplots`` takes.
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
    """One legend of the lines on all axes of a picture, below them, where it covers nothing; none without names."""
    named = {line.get_label(): line for axes in figure.axes for line in axes.get_lines() if line.get_label()[0] != "_"}
    if not named:
        return
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=min(columns, len(named)), frameon=False
    )
