"""The page of [K]'s experiments: table 1 and figure 2 beside the published values, from the runs of :mod:`ktrel`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from experiments import overlap
from experiments.figures import Line, plot_sizes
from experiments.ktrel import KtrelPlan, read
from experiments.ktrel_measures import Measured, measure, once, unseen
from experiments.ktrel_rows import (
    BM25,
    BY_NAME,
    HYBRID,
    MEASURES,
    PUBLISHED,
    RM3,
    TRAINED,
    TUNED,
    VALIDATION_MEASURES,
    Ingredient,
    Kind,
    KtrelRow,
)
from experiments.ktrel_settings import ALL, KtrelSettings
from experiments.marks import superscript
from experiments.page import Page, image
from experiments.plan import Runner, Step
from experiments.trials import chosen_line, mean_and_range
from rerank_plugin.files import tables

ALPHA, FIGURE_ALPHA = 0.01, 0.05  # [K] table 1, figure 2
POOLED = "all test queries"
TITLES = {"AP": "MAP"}
HEADER = ["", *(TITLES.get(name, name) for name in MEASURES)]
VALIDATION_TITLES = [f"validation {TITLES.get(name, name)}" for name in VALIDATION_MEASURES]


class KtrelPage(Page):
    """Measures all runs once; a set of test queries is a part of the measures."""

    name = "KTRel"
    plan: KtrelPlan
    settings: KtrelSettings

    def __init__(self, plan: KtrelPlan, journal: Runner, command: str):
        super().__init__(plan, journal, command)
        self.queries, self.judgments = {}, {}
        for test in self.settings.tests:
            self.queries[test.name], self.judgments[test.name] = read(test)
        self.first, self.several = self.settings.tests[0].name, len(self.judgments) > 1
        self.once = once(self.queries)
        self.rows = [row for row in plan.rows() if row.kind != Kind.NOT_RUN]

    @cached_property
    def measured(self) -> Measured:
        """All rows on all sets."""
        return measure(self.judgments, {row.name: self._runs(row) for row in self.rows}, list(MEASURES))

    def _runs(self, row: KtrelRow, size: str = ALL) -> dict[str, Path]:
        """The files of a row's runs by set."""
        return {test.name: self.plan.run(row, test, size).output for test in self.settings.tests}

    def about(self) -> tuple[str, str]:
        settings = self.settings
        tests = ", ".join(
            f"`{test.spec}` ({test.name}, {len(self.judgments[test.name]):,} judged queries)" for test in settings.tests
        )
        train = ", ".join(f"`{spec}`" for spec in settings.train)
        kinds, parts = {row.kind for row in self.rows}, "Table 1 and figure 2" if self.plan.figure_rows() else "Table 1"
        shorter = [
            text
            for kind, text in (
                (Kind.RERANKED, f"; those re-ranked by Delta are the hybrid's best {settings.rerank_depth:,}"),
                (Kind.CROSS, f"; cross-encoders re-rank BM25-RM3's best {settings.cross_depth:,}, and have no others"),
            )
            if kind in kinds
        ]
        return (
            f"{parts} of Frej et al., CIRCLE 2020, on `{settings.corpus}`: trained on {train}, chosen on "
            f"`{settings.validation}`, measured on {tests}.",
            ", except the paper's values, in italics below ours. Rows rank the whole collection and are "
            f"measured on the best {settings.depth:,} documents{''.join(shorter)}. MAP, P and R take every grade above "
            "0 as relevant; judged queries without results count as 0.",
        )

    def parts(self) -> Iterator[str]:
        yield from self._table_1()
        yield from self._by_overlap()
        yield from self._seeds()
        yield from self._against_the_hybrid()
        yield from self._ingredients()
        yield from self._figure_2()
        yield from self._chosen()
        yield from self._trainings()
        yield from self._steps()

    # Table 1.

    def _table_1(self) -> Iterator[str]:
        """The first set alone and all sets pooled, each also without texts of training and validation queries."""
        new = unseen(self.queries, self.plan.known_queries())
        yield "## Table 1"
        groups = [(self.first, self.measured.of_set(self.first), not self.several)]
        if self.several:
            groups.append((f"{POOLED} ({', '.join(self.judgments)})", self.measured, True))
        for title, measured, published in groups:
            yield f"### {_capital(title)}: {len(measured.queries):,} queries"
            yield from self.departures()
            if published:
                yield "In italics: the paper's table 1, over all query fields."
            yield self._table(measured, published)
            rest = measured.part([query in new for query in measured.queries])
            if 0 < len(rest.queries) < len(measured.queries):
                yield (
                    f"The same without the {len(measured.queries) - len(rest.queries)} whose text is also a training "
                    f"or validation query's ({len(rest.queries):,} queries):"
                )
                yield self._table(rest, False)

    def _by_overlap(self) -> Iterator[str]:
        """MAP by the overlap of a query's relevant documents with those of training queries, which repeat answers."""
        strata = overlap.strata(self.judgments[self.first], self.plan.training_judgments())
        if len(strata) < 2:
            return
        measured = self.measured.of_set(self.first)
        parts = [measured.part([id in judged for _, id in measured.queries]) for judged in strata.values()]
        lines = [["", *(f"{name} ({len(part.queries):,})" for name, part in zip(strata, parts))]]
        comparisons = (len(self.rows) - 1) * len(parts)
        for row in self.rows:
            cells = [f"{part.means(row.name)['AP']:.4f}" for part in parts]
            if row.name != RM3:
                marks = (part.mark(row.name, RM3, "AP", comparisons, ALPHA) for part in parts)
                cells = [cell + mark for cell, mark in zip(cells, marks)]
            lines.append([row.title, *cells])
        yield f"### {_capital(self.first)} by overlap with training queries"
        yield (
            "MAP by the largest Jaccard coefficient of a query's relevant documents with those of a training query (in "
            "brackets the number of queries); marks as above, after Bonferroni correction for "
            f"{comparisons} comparisons. Judgments of similar queries know the answers of the last columns."
        )
        yield tables.markdown(lines)

    def _table(self, measured: Measured, published: bool) -> str:
        """Rows by measures; with ``published``, a line below each row that the paper has."""
        means = {row.name: measured.means(row.name) for row in self.rows}
        highest = {name: max(of_row[name] for of_row in means.values()) for name in MEASURES}
        comparisons, tested = len(self.rows) - 1, self._tested(measured)
        lines = [HEADER]
        for row in self.plan.rows():
            if row.kind != Kind.NOT_RUN:
                cells = [value_cell(means[row.name][name], highest[name]) for name in MEASURES]
                if row.name != RM3:
                    marks = (tested.mark(row.name, RM3, name, comparisons, ALPHA) for name in MEASURES)
                    cells = [cell + mark for cell, mark in zip(cells, marks)]
                lines.append([row.title, *cells])
            elif published:
                lines.append([row.title, "not run", *[""] * (len(MEASURES) - 1)])
            if published and row.name in PUBLISHED:
                lines.append(published_line(row.name))
        repeated = " (those in several sets once)" if len(tested.queries) < len(measured.queries) else ""
        return tables.markdown(lines) + (
            f"\n+ higher, - lower than BM25-RM3: two-tailed paired t-test over {len(tested.queries):,} queries"
            f"{repeated}, p < {ALPHA:g} after Bonferroni correction for {comparisons} comparisons a measure. The "
            "highest of our values are in bold.\n"
        )

    def _tested(self, measured: Measured) -> Measured:
        """The measures for tests, with queries of several sets once."""
        return measured.part([query in self.once for query in measured.queries])

    def _seeds(self) -> Iterator[str]:
        """Means and ranges over the seeds, and tests between the models of the paper, with each query's mean."""
        plan, rows, seeds = self.plan, self.plan.seeded_rows(), self.settings.training_seeds
        if not rows:
            return
        runs = {
            f"{row.name} {seed}": {test.name: plan.run(row, test, seed=seed).output for test in self.settings.tests}
            for row in rows
            for seed in seeds
        }
        found = self._tested(measure(self.judgments, runs, list(MEASURES)))
        values = {row.name: {} for row in rows}
        lines = [HEADER]
        for row in rows:
            cells = []
            for name in MEASURES:
                of_seeds = np.stack([found.values[f"{row.name} {seed}"][name] for seed in seeds])  # [seeds, Q]
                values[row.name][name] = of_seeds.mean(axis=0)
                cells.append(mean_and_range(of_seeds))
            lines.append([row.title, *cells])
        yield f"## {len(seeds)} seeds"
        yield (
            f"The models of the paper, trained with the seeds {', '.join(map(str, seeds))}: the mean over "
            f"{len(found.queries):,} different queries of all sets, and the lowest and highest of one training."
        )
        yield tables.markdown(lines)
        pairs = [(row, other) for place, row in enumerate(rows) for other in rows[place + 1 :]]
        pairs = [pair for pair in pairs if all(row.kind == Kind.PAPER for row in pair)]
        if not pairs:
            return
        averages, lines = Measured(found.queries, values), [HEADER]
        for row, other in pairs:
            tests = [averages.comparison(row.name, other.name, name, len(pairs)) for name in MEASURES]
            cells = [f"{test.difference:+.4f} (p {test.p:.2g})" for test in tests]
            lines.append([f"{row.title} less {other.title}", *cells])
        yield (
            f"Between KTRel's variants: differences of each query's mean over the seeds; two-tailed paired t-test, p "
            f"after Bonferroni correction for {len(pairs)} comparisons a measure."
        )
        yield tables.markdown(lines)

    def _against_the_hybrid(self) -> Iterator[str]:
        """Extensions of the hybrid, compared with it on the first set."""
        added = [row for row in self.rows if row.kind in (Kind.FUSED, Kind.RERANKED) and row.name != HYBRID]
        if HYBRID not in {row.name for row in self.rows} or not added:
            return
        measured, lines = self.measured.of_set(self.first), [HEADER]
        for row in added:
            cells = []
            for name in MEASURES:
                difference = measured.comparison(row.name, HYBRID, name, len(added)).difference
                cells.append(f"{difference:+.4f}{measured.mark(row.name, HYBRID, name, len(added), ALPHA)}")
            lines.append([row.title, *cells])
        yield f"### Against the hybrid: {self.first}"
        yield (
            f"Differences from '{BY_NAME[HYBRID].title}'; + higher, - lower by the same test with Bonferroni "
            f"correction for {len(added)} comparisons a measure."
        )
        yield tables.markdown(lines)

    # Ingredients.

    def _ingredients(self) -> Iterator[str]:
        ingredients, measure = self.plan.ingredients(), VALIDATION_MEASURES[0]
        if not ingredients:
            return
        reached = {each.name: self.plan.reached(self.plan.ingredient(each)) for each in ingredients}
        bases = {each.base: each.name for each in ingredients if each == Ingredient(each.name, each.title, each.base)}
        lines = [["", *VALIDATION_TITLES, "MAP, less our recipe's"]]
        for ingredient in ingredients:
            values = [f"{reached[ingredient.name][name]:.4f}" for name in VALIDATION_MEASURES]
            base, difference = bases.get(ingredient.base, ingredient.name), ""
            if base != ingredient.name:
                difference = f"{reached[ingredient.name][measure] - reached[base][measure]:+.4f}"
            lines.append([ingredient.title, *values, difference])
        yield "## What each contributed"
        yield (
            "Trainings that differ from our recipe in one setting, by their best epoch on the validation queries: one "
            "training each, not tested. Differences are from the same model (KTRel, KTRel-W or KTRel-C) by our recipe."
        )
        yield tables.markdown(lines)

    # Figure 2.

    def _figure_2(self) -> Iterator[str]:
        rows, sizes = self.plan.figure_rows(), self.settings.sizes
        if not rows:
            return
        runs = {f"{row.name}@{size}": self._runs(row, size) for row in rows for size in sizes if size != ALL}
        values = dict(measure(self.judgments, runs, ["AP"]).values)
        values |= {f"{row.name}@{ALL}": self.measured.values[row.name] for row in rows}
        values |= {name: self.measured.values[name] for name in (BM25, RM3) if name in self.measured.values}
        together = Measured(self.measured.queries, values)
        yield "## Figure 2: MAP by the number of training queries"
        yield (
            f"A star: significantly above BM25-RM3 (two-tailed paired t-test, p < {FIGURE_ALPHA:g} after Bonferroni "
            f"correction for {len(rows)} models). The trainings with fewer queries otherwise equal those of the "
            "tables, with the parameters chosen with all queries."
        )
        yield from self.departures()
        groups = [(self.first, together.of_set(self.first), "first")]
        if self.several:
            groups.append((POOLED, together, "pooled"))
        for title, measured, name in groups:
            yield f"### {_capital(title)}"
            yield from self._curves(measured, self.figure(f"sizes-{name}"))

    def _curves(self, measured: Measured, figure: Path) -> Iterator[str]:
        """The figure, and its numbers."""
        rows, sizes = self.plan.figure_rows(), self.settings.sizes
        counts = [len(self.plan.training_queries()) if size == ALL else int(size) for size in sizes]
        lines, table, tested = [], [["", *(f"{count:,}" for count in counts)]], self._tested(measured)
        for row in rows:
            names = [f"{row.name}@{size}" for size in sizes]
            points = [measured.means(name)["AP"] for name in names]
            tests = [tested.comparison(name, RM3, "AP", len(rows)) for name in names]
            stars = [test.p < FIGURE_ALPHA and test.difference > 0 for test in tests]
            lines.append(Line(row.title, points, stars))
            table.append([row.title, *(f"{point:.4f}{'*' if star else ''}" for point, star in zip(points, stars))])
        levels = {BY_NAME[name].title: measured.means(name)["AP"] for name in (BM25, RM3) if name in measured.values}
        table += [[title, *[f"{level:.4f}"] * len(sizes)] for title, level in levels.items()]
        plot_sizes(counts, lines, levels, figure)
        yield image("MAP by the number of training queries", figure)
        yield tables.markdown(table)

    # The choices, and the times.

    def _chosen(self) -> Iterator[str]:
        """The choices on the validation queries."""
        plan, settings, needed = self.plan, self.settings, self.plan.needed()
        choices = [
            (BY_NAME[BM25].title, plan.bm25, plan.bm25.shown, settings.bm25(), plan.validation_search),
            (BY_NAME[RM3].title, plan.rm3, plan.rm3.shown, settings.rm3(plan.bm25), plan.validation_search),
        ]
        if any(row.kind == Kind.FEEDBACK for row in needed):
            shown = f"{plan.feedback.shown}; with {plan.best().title}"
            choices.append(("KTRel's feedback", plan.feedback, shown, settings.feedback(), plan.feedback_search))
        lines = [["", "chosen", "of", "validation MAP"]]
        for title, chosen, shown, tried, search in choices:
            lines.append([title, shown, str(len(tried)), f"{plan.validation_ap(search(chosen)):.4f}"])
        for row in needed:
            if row.kind in TUNED:
                lines.append(self._chosen_trial(row))
            if row.kind == Kind.FUSED and row.method == "linear":
                lines.append(self._chosen_weights(row))
        yield "## What the validation queries chose"
        yield tables.markdown(lines, texts=2)
        if settings.trials:
            yield f"Hyper-parameters were tried in trainings of at most {settings.trial_epochs} epochs."

    def _chosen_trial(self, row: KtrelRow) -> list[str]:
        measure = VALIDATION_MEASURES[0]
        return chosen_line(
            row.title,
            self.plan.trials(row),
            self.plan.trial(row),
            lambda trial: self.plan.reached(self.plan.trial_training(row, trial))[measure],
        )

    def _chosen_weights(self, row: KtrelRow) -> list[str]:
        tuning = json.loads(self.plan.fusion_weights(row).output.read_text(encoding="utf-8"))
        stages, best = self.plan.stages_of(row), tuning["best"]
        weights = ", ".join(f"{stage.title} {weight:.2f}" for stage, weight in zip(stages, best["weights"]))
        return [row.title, weights, str(len(tuning["tried"])), f"{best['AP']:.4f}"]

    def _trainings(self) -> Iterator[str]:
        """What each training of a row reached on the validation queries, and the time it took."""
        heading = [
            "training",
            "best epoch",
            "of",
            *VALIDATION_TITLES,
            "minutes",
            "CPU minutes",
            "CPU minutes of trials",
        ]
        lines = [heading]
        for row in self.plan.needed():
            if row.kind in TRAINED:
                step, trials = self.plan.training(row), []
                if row.kind in TUNED:
                    trials = [self.plan.trial_training(row, trial) for trial in self.plan.trials(row)]
                minutes = [*self.journal.minutes([step]), self.journal.minutes(trials)[1] if trials else ""]
                lines.append([row.title, *self.best_epoch(step, VALIDATION_MEASURES), *minutes])
        if len(lines) == 1:
            return
        on_few = any(row.kind == Kind.RERANKED for row in self.plan.needed())
        note = " Rerankers are validated on the documents that they re-rank." if on_few else ""
        yield "## The trainings"
        yield tables.markdown(lines)
        yield f"The best epoch by MAP.{note}"

    def _steps(self) -> Iterator[str]:
        """All steps by kind of output."""
        by_kind: dict[str, list[Step]] = {}
        for stage in self.plan.stages():
            for step in stage:
                by_kind.setdefault(step.output.relative_to(self.plan.work).parts[0], []).append(step)
        by_kind["together"] = [step for steps in by_kind.values() for step in steps]
        lines = [["", "steps", "minutes", "CPU minutes"]]
        lines += [[kind, f"{len(steps):,}", *self.journal.minutes(steps)] for kind, steps in by_kind.items()]
        yield "## The steps"
        at_once = self.settings.at_once
        yield f"Minutes are for whole commands, with {at_once} steps at a time, and higher beside other work."
        yield tables.markdown(lines)


def value_cell(value: float, highest: float) -> str:
    return f"**{value:.4f}**" if value == highest else f"{value:.4f}"


def published_line(name: str) -> list[str]:
    """A row of the paper's table 1, in italics."""
    numbers = [(value, value.rstrip("+-")) for value in PUBLISHED[name]]
    return ["*in the paper*", *(f"*{number}*{superscript(value[len(number) :])}" for value, number in numbers)]


def _capital(title: str) -> str:
    return f"{title[0].upper()}{title[1:]}"
