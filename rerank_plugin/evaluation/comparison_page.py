"""The comparison of two runs as a page of its own: a file of HTML with a picture, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from rerank_plugin.evaluation.run_comparison import Change, RunComparison, grade_of, ranks_of, shown
from rerank_plugin.files.outputs import FileKind, beginning

GENERATOR = '<meta name="generator" content="rerank_plugin comparison of runs">'
WIDTH, HEIGHT, MARGIN = 900, 260, 44  # of the picture
STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  background: light-dark(#faf9f7, #14171a); color: light-dark(#1c2126, #e7eaed); font-variant-numeric: tabular-nums; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } h3 { font-size: 1rem; margin: 1rem 0 0; }
.table { overflow-x: auto; } table { border-collapse: collapse; } th, td { padding: 0.2rem 0.8rem; text-align: end; }
tr > :first-child { text-align: start; } tr { border-bottom: 1px solid light-dark(#d9d8d3, #353b42); }
.up { color: light-dark(#1a6b3c, #6fd093); } .down { color: light-dark(#a2331f, #f19a86); }
.muted { color: light-dark(#586069, #a3adb8); } p, ul { margin: 0.2rem 0; }
svg { width: 100%; height: auto; } rect, text { fill: currentcolor; } text { font-size: 13px; }
line { stroke: currentcolor; }
"""


def page(comparison: RunComparison) -> str:
    """The page: the measures, the difference of every query, the largest gains and losses."""
    before, after = map(escape, comparison.names)
    measure = escape(next(iter(comparison.rows)))
    header = ["measure", before, after, "difference", "p", "wins", "ties", "losses"]
    cells = [map(escape, (name, *shown(row))) for name, row in comparison.rows.items()]
    head = "".join(f"<th>{name}</th>" for name in header)
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{GENERATOR}',
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{after} against {before}</title>',
        f"<style>{STYLE}</style></head><body><h1>{after} against {before}</h1>",
        f"<p>{comparison.queries} judged queries; p of a two-tailed paired t-test.</p>",
        f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>',
        f"<tbody>{rows}</tbody></table></div><h2>Difference of {measure} by query</h2>{_picture(comparison, measure)}",
    ]
    for name, changes in (("gains", comparison.gains), ("losses", comparison.losses)):
        parts.append(f"<h2>Largest {name}</h2>" if changes else f"<h2>No {name}</h2>")
        parts += [part for change in changes for part in _change(change)]
    return "\n".join([*parts, "</body></html>", ""])


def _picture(comparison: RunComparison, measure: str) -> str:
    """Bars of the differences of all queries, the largest gain on the left."""
    values = [difference for _, difference in comparison.differences]
    largest = max(map(abs, values), default=0) or 1
    middle, scale = HEIGHT / 2, (HEIGHT / 2 - 12) / largest
    step = (WIDTH - MARGIN) / max(len(values), 1)
    bars = []
    for place, (query, value) in enumerate(comparison.differences):
        top, height = middle - max(value, 0) * scale, abs(value) * scale
        box = f'x="{MARGIN + place * step:.2f}" y="{top:.2f}" width="{max(step * 0.85, 0.5):.2f}" height="{height:.2f}"'
        bars.append(
            f'<rect class="{"up" if value > 0 else "down"}" {box}><title>{escape(query)}: {value:+.4f}</title></rect>'
        )
    _, _, difference, _, wins, ties, losses = next(iter(comparison.rows.values()))
    told = f"{wins} queries gain, {ties} are equal, {losses} lose; mean difference {difference:+.4f}"
    labels = "".join(
        f'<text x="{MARGIN - 6}" y="{middle - value * scale + 4:.1f}" text-anchor="end" class="muted">{text}</text>'
        for value, text in ((largest, f"+{largest:.2f}"), (0, "0"), (-largest, f"−{largest:.2f}"))
    )
    axis = f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{middle}" y2="{middle}"/>'
    return (
        f'<figure style="margin:0"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{measure}: {told}">'
        f"{''.join(bars)}{axis}{labels}</svg><figcaption>{told}</figcaption></figure>"
    )


def _change(change: Change) -> Iterator[str]:
    difference = change.after - change.before
    sign = "up" if difference > 0 else "down"
    text = f": {escape(change.text)}" if change.text else ""
    yield f"<h3>{escape(change.query)}{text}</h3>"
    values = f"{change.before:.4f} to {change.after:.4f}"
    yield f'<p class="muted">{values} <strong class="{sign}">{difference:+.4f}</strong></p><ul>'
    for move in change.moved:
        named = escape(f"{move.docid} {move.title}".strip())
        yield f'<li>{ranks_of(move)}, {grade_of(move)}: <span dir="auto">{named}</span></li>'
    yield "</ul>"


def _is_page(path: Path) -> bool:
    return GENERATOR in beginning(path).decode(errors="replace")


COMPARISON_PAGE = FileKind("a page of compared runs", _is_page)
