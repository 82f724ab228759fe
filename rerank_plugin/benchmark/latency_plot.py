"""The picture of a run: latency of the rerankers, and how it grows with depth and collection size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rerank_plugin.benchmark.rows import CROSS_ENCODER, FAST, PLAIN, SCORING, Measurement
from rerank_plugin.files.outputs import PICTURE, PICTURE_METADATA, replacing

BUDGET_MS = 100.0  # what [D18] allows for a query
COLOURS = {PLAIN: "tab:gray", FAST: "tab:blue"}


def plot(rows: Sequence[Measurement], path: Path, overwrite: bool = False) -> None:
    """Draw the rows as a PNG: bars of the first depth and collection, and curves where there were several."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    single = [row for row in rows if row.batch == 1]
    first = single[0]
    panels: list[Callable] = [lambda axes: _bars(axes, [row for row in single if _same(row, first)])]
    by_depth = [row for row in single if row.documents == first.documents and row.stage != CROSS_ENCODER]
    if len({row.depth for row in by_depth}) > 1:
        panels.append(lambda axes: _curves(axes, by_depth, "depth", "candidates a query"))
    by_size = [row for row in single if row.depth == first.depth and row.stage != CROSS_ENCODER]
    if len({row.documents for row in by_size}) > 1:
        panels.append(lambda axes: _curves(axes, by_size, "documents", "documents in the collection"))

    figure = Figure(figsize=(7 * len(panels), 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        draw(axes)
    with replacing(path, PICTURE, overwrite) as file:
        figure.savefig(file, format="png", dpi=120, metadata=PICTURE_METADATA)


def _same(row: Measurement, first: Measurement) -> bool:
    return (row.depth, row.documents) == (first.depth, first.documents)


def _bars(axes, rows: Sequence[Measurement]) -> None:
    """Median latency as bars, up to p99 as a line."""
    names = list(dict.fromkeys(_name(row) for row in rows))
    for row in rows:
        place = names.index(_name(row)) + (0.2 if row.path == FAST else -0.2)
        axes.barh(place, row.median_ms, 0.38, color=COLOURS[row.path])
        axes.plot([row.median_ms, row.p99_ms], [place, place], color="black", linewidth=1)
    axes.axvline(BUDGET_MS, color="tab:red", linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="milliseconds a query: median, and up to p99", yticks=range(len(names)))
    axes.set_yticklabels(names)
    axes.invert_yaxis()
    axes.set_title(f"{rows[0].depth:,} candidates, {rows[0].documents:,} documents (gray plain, blue fast)")


def _name(row: Measurement) -> str:
    if row.stage == CROSS_ENCODER:
        return f"{row.reranker} ({row.document_batch} at once)"
    return row.reranker if row.stage == SCORING else f"{row.reranker}, {row.stage}"


def _curves(axes, rows: Sequence[Measurement], along: str, label: str) -> None:
    """Median latency of the fast paths over depth or size; plain ones where there is no other."""
    fast = {(row.reranker, row.stage) for row in rows if row.path == FAST}
    for name, stage in dict.fromkeys((row.reranker, row.stage) for row in rows):
        path = FAST if (name, stage) in fast else PLAIN
        chosen = [row for row in rows if (row.reranker, row.stage, row.path) == (name, stage, path)]
        points = sorted((getattr(row, along), row.median_ms) for row in chosen)
        style = "-" if stage == SCORING else "--"
        axes.plot(*zip(*points), style, marker="o", label=name if stage == SCORING else f"{name}, {stage}")
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="median milliseconds a query")
    axes.legend(fontsize="small")
