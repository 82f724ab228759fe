"""Two runs query by query: wins, ties and losses, the largest gains and losses, and the documents that moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rerank_plugin.base.records import Judgments
from rerank_plugin.evaluation.evaluation import Evaluation
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
