"""The plot of a run: latency of the rerankers, also by depth and collection size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rerank_plugin.benchmark.rows import FAST, PLAIN, SCORING, Measurement
from rerank_plugin.files.plots import legend_below, panels

BUDGET_MS = 100.0  # for a query in [D18]
COLOURS = {PLAIN: "tab:gray", FAST: "tab:blue"}


def plot(rows: Sequence[Measurement], path: Path, overwrite: bool = False) -> None:
    """Plot the rows as a PNG: bars of the first depth and collection; below, curves over several depths and sizes."""
    single = [row for row in rows if row.batch == 1]
    first = single[0]
    bars = [row for row in single if (row.depth, row.documents) == (first.depth, first.documents)]
    curves = {
        ("depth", "candidates a query"): [row for row in single if row.documents == first.documents],
        ("documents", "documents in the collection"): [row for row in single if row.depth == first.depth],
    }
    varied = {key: of_key for key, of_key in curves.items() if len({getattr(row, key[0]) for row in of_key}) > 1}
    with panels(path, 1 + len(varied), 1, 4.5, overwrite) as axes:
        _bars(axes[0][0], bars)
        for (panel,), ((field, label), of_key) in zip(axes[1:], varied.items()):
            _curves(panel, of_key, field, label)
        legend_below(axes[0][0].figure)


def _bars(axes, rows: Sequence[Measurement]) -> None:
    """Median latency as bars, with lines up to p99."""
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
    return row.reranker if row.stage == SCORING else f"{row.reranker}, {row.stage}"


def _curves(axes, rows: Sequence[Measurement], field: str, label: str) -> None:
    """Median latency over depth or size, on the fast path where there is one."""
    fast = {(row.reranker, row.stage) for row in rows if row.path == FAST}
    for name, stage in dict.fromkeys((row.reranker, row.stage) for row in rows):
        path = FAST if (name, stage) in fast else PLAIN
        chosen = [row for row in rows if (row.reranker, row.stage, row.path) == (name, stage, path)]
        points = sorted((getattr(row, field), row.median_ms) for row in chosen)
        style = "-" if stage == SCORING else "--"
        axes.plot(*zip(*points), style, marker="o", label=_name(chosen[0]))
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="median milliseconds a query")
