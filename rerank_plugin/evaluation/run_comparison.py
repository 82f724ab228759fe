"""Two runs query by query: wins, ties and losses, the largest gains and losses, and the documents that moved.

The page of a comparison is a file of HTML with a picture, without scripts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.evaluation import Evaluation
from rerank_plugin.files.outputs import FileKind, beginning
from rerank_plugin.files.runs import RankedList
from rerank_plugin.files.tables import Report, Table

SHOWN, MOVED, TOP = 10, 5, 10  # queries of each side, documents of a query, ranks at which any document counts
SAME = 1e-9  # smaller differences are ties


class Move(NamedTuple):
    """A document that moved: its grade (None: not judged), and its ranks, None where a run lacks it."""

    docid: str
    title: str
    grade: float | None
    before: int | None
    after: int | None


class Change(NamedTuple):
    """A query whose value changed, and the documents that moved most."""

    query: str
    text: str
    before: float
    after: float
    moved: list[Move]


class RunComparison(NamedTuple):
    """The comparison of run B with run A by a measure.

    Attributes:
        names: of A and B.
        rows: of each measure the means of A and B, the difference, p of the paired t-test, wins, ties and losses of B.
        differences: of the first measure by query, the largest first.
        gains, losses: the largest by the first measure.
    """

    names: tuple[str, str]
    queries: int
    rows: dict[str, tuple[float, ...]]
    differences: list[tuple[str, float]]
    gains: list[Change]
    losses: list[Change]


def compare_runs(
    evaluation: Evaluation,
    judgments: Judgments,
    runs: Mapping[str, Mapping[str, RankedList]],
    texts: Mapping[str, str],
    titles: Callable[[Sequence[str]], Sequence[str]],
) -> RunComparison:
    """Compare the second run of an evaluation with its baseline, the first.

    Args:
        texts: of queries, by id. titles: gives the titles of documents, by their ids.
    """
    before, after = evaluation.summaries
    rows: dict[str, tuple[float, ...]] = {}
    for measure in evaluation.measures:
        differences = evaluation.values[after][measure] - evaluation.values[before][measure]
        signs = [int(count) for count in ((differences > SAME).sum(), 0, (differences < -SAME).sum())]
        signs[1] = len(differences) - sum(signs)
        tested = evaluation.comparisons[after][measure]
        means = (evaluation.summaries[run][measure] for run in (before, after))
        rows[measure] = (*means, tested.difference, tested.p, *signs)
    values = [evaluation.values[run][evaluation.measures[0]] for run in (before, after)]
    differences = values[1] - values[0]
    order = sorted(range(len(differences)), key=lambda place: (-differences[place], evaluation.queries[place]))

    def change(place: int) -> Change:
        query = evaluation.queries[place]
        moved = _moved(judgments[query], *(runs[name].get(query) for name in (before, after)))
        named = titles([move.docid for move in moved])
        moved = [move._replace(title=title) for move, title in zip(moved, named)]
        return Change(query, texts.get(query, ""), float(values[0][place]), float(values[1][place]), moved)

    return RunComparison(
        (before, after),
        len(differences),
        rows,
        [(evaluation.queries[place], float(differences[place])) for place in order],
        [change(place) for place in order[:SHOWN] if differences[place] > SAME],
        [change(place) for place in order[::-1][:SHOWN] if differences[place] < -SAME],
    )


def _moved(judged: Mapping[str, float], before: RankedList | None, after: RankedList | None) -> list[Move]:
    """The documents that moved most: relevant ones, and others at the top; by grade and by discounted rank."""
    ranks = [{} if run is None else {id: rank for rank, id in enumerate(run.doc_ids, 1)} for run in (before, after)]
    weighted = []
    for id in dict.fromkeys((*judged, *(id for of_run in ranks for id in list(of_run)[:TOP]))):
        places = [of_run.get(id) for of_run in ranks]
        discounts = [0.0 if rank is None else 1 / math.log2(rank + 1) for rank in places]
        weight = max(judged.get(id, 0), 0.5) * abs(discounts[1] - discounts[0])
        relevant_or_top = judged.get(id, 0) > 0 or min(rank or TOP + 1 for rank in places) <= TOP
        if weight and relevant_or_top:
            weighted.append((-weight, id, Move(id, "", judged.get(id), *places)))
    return [move for *_, move in sorted(weighted)[:MOVED]]


def shown(row: Sequence[float]) -> list[str]:
    """The cells of a measure: both means, their difference, p, and the numbers of queries."""
    *means, p = row[:4]
    cells = [*(f"{mean:.4f}" for mean in means), "<0.0001" if p < 0.00005 else f"{p:.4f}"]
    return [*cells, *(f"{count:.0f}" for count in row[4:])]


def report(comparison: RunComparison) -> Report:
    """The comparison as tables."""
    (before, after), rows = comparison.names, comparison.rows
    header = ["measure", before, after, "difference", "p", "wins", "ties", "losses"]
    parts: list[Table | str] = [Table([header, *([name, *shown(row)] for name, row in rows.items())])]
    for name, changes in (("gains", comparison.gains), ("losses", comparison.losses)):
        parts.append(f"Largest {name} of {after}, by {next(iter(rows))}:\n" if changes else f"No {name}.\n")
        parts += [_paragraph(change) for change in changes]
    records = [["query", "difference"], *comparison.differences]
    return Report(parts, as_dictionary(comparison), records)


def as_dictionary(comparison: RunComparison) -> dict[str, Any]:
    """The comparison for programs."""
    names = ("before", "after", "difference", "p", "wins", "ties", "losses")
    return {
        "queries": comparison.queries,
        "compared": list(comparison.names),
        "measures": {measure: dict(zip(names, row)) for measure, row in comparison.rows.items()},
        "differences": dict(comparison.differences),
        **{
            name: [change._asdict() | {"moved": [move._asdict() for move in change.moved]} for change in changes]
            for name, changes in (("gains", comparison.gains), ("losses", comparison.losses))
        },
    }


def ranks_of(move: Move) -> str:
    """``rank 7 to 1``, ``new at 3`` or ``gone from 2``."""
    if move.before is None:
        return f"new at {move.after}"
    return f"gone from {move.before}" if move.after is None else f"rank {move.before} to {move.after}"


def grade_of(move: Move) -> str:
    """The grade of a document that moved, in words."""
    return "not judged" if move.grade is None else f"grade {move.grade:g}"


def _paragraph(change: Change) -> str:
    change_of = f"{change.before:.4f} to {change.after:.4f} ({change.after - change.before:+.4f})"
    lines = [f"{change.query}: {change_of}{f'  {change.text}' if change.text else ''}"]
    for move in change.moved:
        lines.append(f"    {ranks_of(move)}, {grade_of(move)}: {move.docid} {move.title}".rstrip())
    return "".join(f"{line}\n" for line in lines)


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
