"""The page of the experiments of [K]: table 1 and figure 2 beside what was published, from what :mod:`ktrel` ran."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from rerank_plugin.evaluation.significance import EQUIVALENT
from rerank_plugin.experiments.figures import Line, plot_sizes
from rerank_plugin.experiments.ktrel import KtrelPlan
from rerank_plugin.experiments.ktrel_results import Measured, TestSet, measure, unseen
from rerank_plugin.experiments.ktrel_rows import (
    BM25,
    BY_NAME,
    FEEDBACK,
    FUSED,
    HYBRID,
    MEASURES,
    NOT_RUN,
    PAPER,
    PUBLISHED,
    RERANKED,
    RM3,
    TRAINED,
    VALIDATION_MEASURES,
    KtrelRow,
)
from rerank_plugin.experiments.ktrel_settings import ALL
from rerank_plugin.experiments.steps import PAGE, Runner, Step
from rerank_plugin.files import tables
from rerank_plugin.files.outputs import replacing
from rerank_plugin.files.runs import read_run

ALPHA, FIGURE_ALPHA = 0.01, 0.05  # [K] table 1, figure 2
POOLED = "all test queries"
TITLES = {"AP": "MAP"}


def write_page(plan: KtrelPlan, journal: Runner, output: Path, notes: Path | None, command: str) -> None:
    """Write the Markdown page, and its figures beside it.

    Args:
        journal: of the steps, for the times they took.
        notes: Markdown that is put below the page's head as it is.
        command: that made the page.
    """
    output = Path(output)
    page = Page(plan, journal, output)
    parts = page.head(command)
    if notes is not None:
        parts.append(Path(notes).read_text(encoding="utf-8").strip())
    parts += [*page.table_1(), *page.ingredients(), *page.figure_2(), *page.chosen(), *page.trainings(), *page.steps()]
    with replacing(output, PAGE, overwrite=True) as file:
        file.write(("\n\n".join(part.strip() for part in parts) + "\n").encode())


class Page:
    """The parts of the page."""

    def __init__(self, plan: KtrelPlan, journal: Runner, output: Path):
        self.plan, self.settings, self.journal, self.output = plan, plan.settings, journal.journal, output
        self.sets = [TestSet.read(one) for one in self.settings.tests]
        self.rows = [row for row in plan.rows() if row.kind != NOT_RUN]

    @cached_property
    def measured(self) -> Measured:
        """All rows on all sets."""
        return measure(self.sets, {row.name: self._runs(row) for row in self.rows}, list(MEASURES))

    def _runs(self, row: KtrelRow, size: str = ALL) -> Runs:
        return Runs({test.name: self.plan.run(row, test, size) for test in self.settings.tests})

    def head(self, command: str) -> list[str]:
        from rerank_plugin.benchmark import machine

        settings = self.settings
        tests = ", ".join(
            f"`{test.spec}` ({test.name}, {len(one.judgments):,} judged queries)"
            for test, one in zip(settings.tests, self.sets)
        )
        train = ", ".join(f"`{spec}`" for spec in settings.train)
        return [
            "# The KTRel experiments",
            f"Table 1 and figure 2 of Frej et al., CIRCLE 2020, on `{settings.corpus}`: trained on {train}, chosen on "
            f"`{settings.validation}`, measured on {tests}. Made by",
            f"```sh\n{command}\n```",
            f"on {machine.processor()}, {settings.at_once} steps at a time with a thread each, seed {settings.seed}. "
            "Every figure below comes from that command, but those of the paper, which stand in italics below ours. "
            f"All rows rank the whole collection and are measured on the best {settings.depth:,} documents, re-ranked "
            f"ones on {settings.rerank_depth:,}. MAP, P and R take every grade above 0 as relevant; judged queries "
            "without results count as 0.",
        ]

    # Table 1.

    def table_1(self) -> list[str]:
        """The first set alone and all of them, each also without the texts that training has seen."""
        new = unseen(self.sets, self.plan.training_queries())
        first = self.sets[0].name
        parts = ["## Table 1"]
        groups = [(first, self.measured.of_set(first), len(self.sets) == 1)]
        if len(self.sets) > 1:
            groups.append((f"{POOLED} ({', '.join(one.name for one in self.sets)})", self.measured, True))
        for title, measured, published in groups:
            known = [query for query in measured.queries if query not in new]
            parts += [f"### {title[0].upper()}{title[1:]}: {len(measured.queries):,} queries"]
            if published:
                parts.append("In italics: the paper's table 1, which is of all query fields.")
            parts.append(self._table(measured, published))
            if known and len(known) < len(measured.queries):
                rest = measured.part([query in new for query in measured.queries])
                parts += [
                    f"The same without the {len(known)} whose text is also a training query's "
                    f"({len(rest.queries):,} queries):",
                    self._table(rest, False),
                ]
        return parts + self.against_the_hybrid()

    def against_the_hybrid(self) -> list[str]:
        """What was added to the hybrid, on the first set, compared with it."""
        added = [row for row in self.rows if row.kind in (FUSED, RERANKED) and row.name != HYBRID]
        if HYBRID not in {row.name for row in self.rows} or not added:
            return []
        first = self.sets[0].name
        measured = self.measured.of_set(first)
        lines = [["", *(TITLES.get(name, name) for name in MEASURES)]]
        for row in added:
            cells = []
            for name in MEASURES:
                test = measured.comparison(row.name, HYBRID, name, len(added))
                mark = test.mark(ALPHA).replace(EQUIVALENT, "")
                cells.append(f"{test.difference:+.4f}" + (f"<sup>{mark}</sup>" if mark else ""))
            lines.append([row.title, *cells])
        return [
            f"### Against the hybrid: {first}",
            f"Differences from '{BY_NAME[HYBRID].title}'; + higher, - lower by the same test with Bonferroni "
            f"correction for {len(added)} comparisons a measure.",
            tables.markdown(lines),
        ]

    def _table(self, measured: Measured, published: bool) -> str:
        """Rows by measures; with ``published``, a line below each row that the paper has."""
        means = {row.name: measured.means(row.name) for row in self.rows}
        highest = {name: max(of_row[name] for of_row in means.values()) for name in MEASURES}
        comparisons = len(self.rows) - 1
        lines = [["", *(TITLES.get(name, name) for name in MEASURES)]]
        for row in self.plan.rows():
            if row.kind == NOT_RUN:
                if published:
                    lines.append([row.title, "not run: no weights", *[""] * (len(MEASURES) - 1)])
            else:
                marks = self._marks(measured, row.name, comparisons)
                values = [value_cell(means[row.name][name], highest[name], marks[name]) for name in MEASURES]
                lines.append([row.title, *values])
            if published and row.name in PUBLISHED:
                lines.append(published_line(row.name))
        return tables.markdown(lines) + (
            f"\n+ higher, - lower than BM25-RM3: two-tailed paired t-test over {len(measured.queries):,} queries, "
            f"p < {ALPHA:g} after Bonferroni correction for {comparisons} comparisons a measure. The highest of our "
            "values are in bold.\n"
        )

    def _marks(self, measured: Measured, row: str, comparisons: int) -> dict[str, str]:
        if row == RM3:
            return dict.fromkeys(MEASURES, "")
        return {
            name: measured.comparison(row, RM3, name, comparisons).mark(ALPHA).replace(EQUIVALENT, "")
            for name in MEASURES
        }

    # Ingredients.

    def ingredients(self) -> list[str]:
        ingredients = self.plan.ingredients()
        if not ingredients:
            return []
        reached = {one.name: self.plan.reached(self.plan.ingredient(one)) for one in ingredients}
        titles = [TITLES.get(name, name) for name in VALIDATION_MEASURES]
        lines = [["", *(f"validation {title}" for title in titles), "MAP, less our recipe's"]]
        measure = VALIDATION_MEASURES[0]
        for one in ingredients:
            values = [f"{reached[one.name][name]:.4f}" for name in VALIDATION_MEASURES]
            base = self._base(one, reached)
            lines.append([one.title, *values, "" if base is None else f"{reached[one.name][measure] - base:+.4f}"])
        return [
            "## What each contributed",
            "Trainings that differ from our recipe in one thing, by their best epoch on the validation queries. "
            "Differences are from the same model (KTRel, KTRel-W or KTRel-C) by our recipe.",
            tables.markdown(lines),
        ]

    def _base(self, one, reached: dict) -> float | None:
        """The first measure of the ingredient that is the base as it is; None for that one, or where it was not run."""
        same = [
            other.name
            for other in self.plan.ingredients()
            if other.base == one.base and other == type(one)(other.name, other.title, other.base)
        ]
        return reached[same[0]][VALIDATION_MEASURES[0]] if same and same[0] != one.name else None

    # Figure 2.

    def figure_2(self) -> list[str]:
        rows, sizes = self.plan.figure_rows(), self.settings.sizes
        if not rows:
            return []
        runs = {(row.name, size): self._runs(row, size) for row in rows for size in sizes if size != ALL}
        measured = measure(self.sets, {f"{name}@{size}": found for (name, size), found in runs.items()}, ["AP"])
        values = {**measured.values, **{f"{row.name}@{ALL}": self.measured.values[row.name] for row in rows}}
        values |= {name: self.measured.values[name] for name in (BM25, RM3) if name in self.measured.values}
        together = Measured(self.measured.queries, values)
        parts = [
            "## Figure 2: MAP by the number of training queries",
            f"A star: significantly above BM25-RM3 (two-tailed paired t-test, p < {FIGURE_ALPHA:g} after Bonferroni "
            f"correction for {len(rows)} models). The trainings with fewer queries are the tables' otherwise, with "
            "the parameters that were chosen with all queries.",
        ]
        first = self.sets[0].name
        groups = [(first, together.of_set(first), "first")]
        if len(self.sets) > 1:
            groups.append((POOLED, together, "pooled"))
        for title, of_group, name in groups:
            figure = self.output.with_name(f"{self.output.stem}-sizes-{name}.png")
            parts += [f"### {title[0].upper()}{title[1:]}", *self._curves(of_group, figure)]
        return parts

    def _curves(self, measured: Measured, figure: Path) -> list[str]:
        """The figure, and its numbers."""
        rows, sizes = self.plan.figure_rows(), self.settings.sizes
        counts = [len(self.plan.training_queries()) if size == ALL else int(size) for size in sizes]
        lines, table = [], [["", *(f"{count:,}" for count in counts)]]
        for row in rows:
            names = [f"{row.name}@{size}" for size in sizes]
            points = [measured.means(name)["AP"] for name in names]
            tests = [measured.comparison(name, RM3, "AP", len(rows)) for name in names]
            stars = [test.p < FIGURE_ALPHA and test.difference > 0 for test in tests]
            lines.append(Line(row.title, counts, points, stars))
            table.append([row.title, *(f"{point:.4f}{'*' if star else ''}" for point, star in zip(points, stars))])
        levels = {BY_NAME[name].title: measured.means(name)["AP"] for name in (BM25, RM3) if name in measured.values}
        table += [[title, *[f"{level:.4f}"] * len(sizes)] for title, level in levels.items()]
        plot_sizes(lines, levels, figure)
        return [f"![MAP by the number of training queries]({figure.name})", tables.markdown(table)]

    # What was chosen, and what it took.

    def chosen(self) -> list[str]:
        """What the validation queries decided."""
        plan = self.plan
        lines = [["", "chosen", "of", "validation MAP"]]
        bm25, rm3 = plan.bm25, plan.rm3
        reached = plan.validation_ap(plan.validation_search(f"bm25-{bm25.k1}-{bm25.b}", bm25.options))
        lines.append([BY_NAME[BM25].title, f"k1 {bm25.k1}, b {bm25.b}", str(len(plan.bm25_grid())), f"{reached:.4f}"])
        shown = f"{rm3.terms} terms of {rm3.documents} documents, weight {rm3.weight} of the query, BM25 as above"
        reached = plan.validation_ap(plan.rm3_search(rm3))
        lines.append([BY_NAME[RM3].title, shown, str(len(plan.rm3_grid())), f"{reached:.4f}"])
        if any(row.kind == FEEDBACK for row in plan.needed()):
            reached = plan.validation_ap(plan.feedback_search(plan.feedback))
            shown = f"{plan.feedback.documents} documents, weight {plan.feedback.weight:g}; with {plan.best().title}"
            lines.append(["KTRel's feedback", shown, str(len(plan.feedback_grid())), f"{reached:.4f}"])
        for row in plan.needed():
            if row.kind == PAPER:
                lines.append(self._chosen_shape(row))
            if row.kind == FUSED and row.method == "linear":
                lines.append(self._chosen_weights(row))
        said = f"KTRel's sizes were tried in trainings of at most {self.settings.grid_epochs} epochs."
        by_trial = any(row.kind == PAPER and plan.shapes(row) for row in plan.needed())
        return ["## What the validation queries chose", tables.markdown(lines, texts=2), *([said] if by_trial else [])]

    def _chosen_shape(self, row: KtrelRow) -> list[str]:
        tried, shape = self.plan.shapes(row), self.plan.shape(row)
        if not tried:
            return [row.title, f"{shape} (given)", "1", ""]
        reached = self.plan.reached(self.plan.grid_training(row, shape))["AP"]
        return [row.title, str(shape), str(len(tried)), f"{reached:.4f}"]

    def _chosen_weights(self, row: KtrelRow) -> list[str]:
        found = json.loads(self.plan.fusion_weights(row).output.read_text(encoding="utf-8"))
        best = found["best"]
        weights = ", ".join(
            f"{BY_NAME[name].title} {weight:.2f}" for name, weight in zip(self.plan.stages_of(row), best["weights"])
        )
        return [row.title, weights, str(len(found["tried"])), f"{best['AP']:.4f}"]

    def trainings(self) -> list[str]:
        """What each training of a row reached on the validation queries, and the time it took."""
        titles = [TITLES.get(name, name) for name in VALIDATION_MEASURES]
        lines = [["training", "best epoch", "of", *(f"validation {one}" for one in titles)]]
        lines[0] += ["minutes", "processor minutes"]
        for row in self.plan.needed():
            if row.kind in TRAINED:
                lines.append([row.title, *self._training(self.plan.training(row))])
        if len(lines) == 1:
            return []
        on_few = any(row.kind == RERANKED for row in self.plan.needed())
        some = " Re-rankers are validated on the documents they re-rank." if on_few else ""
        return ["## The trainings", tables.markdown(lines), f"The best epoch by MAP.{some}"]

    def _training(self, step: Step) -> list[str]:
        history = [json.loads(line) for line in (step.output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        top = max(history, key=lambda entry: entry["deciding"] or 0.0)
        measured = [f"{top[name]:.4f}" for name in VALIDATION_MEASURES]
        return [str(top["epoch"]), str(len(history)), *measured, *self._minutes([step])]

    def _minutes(self, steps: Sequence[Step]) -> list[str]:
        taken = [self.journal[step.name] for step in steps]
        return [f"{sum(one[kind] for one in taken) / 60:.1f}" for kind in ("seconds", "processor_seconds")]

    def steps(self) -> list[str]:
        """All steps by what they made."""
        found: dict[str, list[Step]] = {}
        for stage in self.plan.stages():
            for step in stage:
                found.setdefault(step.output.relative_to(self.plan.work).parts[0], []).append(step)
        lines = [["", "steps", "minutes", "processor minutes"]]
        lines += [[kind, f"{len(steps):,}", *self._minutes(steps)] for kind, steps in found.items()]
        everything = [step for steps in found.values() for step in steps]
        lines.append(["together", f"{len(everything):,}", *self._minutes(everything)])
        return [
            "## The steps",
            f"Minutes are of whole commands with {self.settings.at_once} steps at a time; other work makes them more.",
            tables.markdown(lines),
        ]


class Runs(dict):
    """The runs of a row by set, read when they are asked for: all of them at once would not fit in memory."""

    def __getitem__(self, name: str):
        return read_run(super().__getitem__(name).output)


def value_cell(value: float, highest: float, mark: str) -> str:
    shown = f"**{value:.4f}**" if value == highest else f"{value:.4f}"
    return f"{shown}<sup>{mark}</sup>" if mark else shown


def published_line(name: str) -> list[str]:
    """A row of the paper's table 1, in italics."""
    cells = []
    for value in PUBLISHED[name]:
        number = value.rstrip("+-")
        mark = value[len(number) :]
        cells.append(f"*{number}*" + (f"<sup>{mark}</sup>" if mark else ""))
    return ["*in the paper*", *cells]
