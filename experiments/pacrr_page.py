"""The page of the PACRR experiments: tables 1 to 3 and figures 2 to 5 of [P], from the runs of :mod:`pacrr`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

import rerank_plugin as rp
from experiments import document_pairs, letters, many_runs, match_counts, overlap
from experiments.figures import Curve, plot_hyper_parameters, plot_pairs, plot_trainings
from experiments.pacrr import FIRST_STAGES, MEASURES, ORDER, SWEPT, Collection, PacrrPlan, PacrrSettings
from experiments.page import Page, image
from experiments.plan import SENTENCES, SENTENCES_TITLE, Step, history
from experiments.trials import Trial, chosen_line, mean_and_range
from rerank_plugin.corpora import judgments, queries_and_judgments
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.files import tables

FIRST_STAGE_TITLES = {"bm25": ("BM25", "B"), "qld": ("QLD", "Q")}
TABLE_1 = (*MEASURES, "AP")
SYMBOLS = {"words": "l_d", "signals": "n_s", "longest": "l_g"}
DOCUMENTS = {"all": "all candidates", "judged": "the judged documents alone"}


class PacrrPage(Page):
    """A part for each collection."""

    name = "PACRR"
    plan: PacrrPlan
    settings: PacrrSettings

    def about(self) -> tuple[str, str]:
        return (
            "Tables 1 to 3 and figures 2 to 5 of Hui et al., 2017.",
            ". NDCG.20 has gain 2^rel - 1, as the paper's nDCG@20; the top of ERR@20's scale is the highest grade of "
            "the collection's test judgments; judged queries without candidates count as 0.",
        )

    def parts(self) -> Iterator[str]:
        for collection in self.settings.collections:
            yield from CollectionPart(self, collection).parts()


class CollectionPart:
    """The tables and figures of one collection."""

    def __init__(self, page: PacrrPage, collection: Collection):
        self.page, self.plan, self.settings, self.collection = page, page.plan, page.settings, collection
        self.titles = page.plan.rows()
        self.letters = {model.title: model.letter for model in self.settings.baselines.values()}
        self.letters |= {SENTENCES_TITLE: "S"} if self.settings.encoder else {}
        self.queries, self.judgments = queries_and_judgments(collection.test)

    def parts(self) -> Iterator[str]:
        collection = self.collection
        sizes = ", ".join(f"{SYMBOLS[name]} {value}" for name, value in self.plan.best(collection)._asdict().items())
        yield f"## {collection.name}"
        yield (
            f"`{collection.corpus}`: trained on `{collection.train}`, chosen on `{collection.validation}`, measured on "
            f"`{collection.test}` "
            f"({len(self.judgments):,} judged queries). The best PACRR-kwindow of figure 5 has {sizes}; the row of "
            "PACRR-firstk beside it has the same n_s and l_g, and l_d 768, as all of firstk."
        )
        yield from self._candidates()
        yield from self._chosen()
        yield from self._table_1()
        yield from self._seeds()
        yield from self._by_overlap()
        yield from self._table_2()
        yield from self._table_3()
        if collection.name in self.settings.sweep:
            yield from self._hyper_parameters()
        yield from self._trainings()

    def _figure(self, name: str):
        return self.page.figure(f"{self.collection.name}-{name}")

    def _read(self, setting: str, name: str, seed: int | None = None):
        return rp.read_run(self.plan.run(self.collection, setting, name, seed).output)

    def _candidates(self) -> Iterator[str]:
        """The matches in the candidates of the test queries."""
        index = rp.Index(self.plan.index(self.collection).output).forward
        judged = [query for query in self.queries if self.judgments.get(query.id)]
        yield "### The candidates of BM25"
        yield match_counts.markdown(judged, self._read("bm25", ORDER), self.judgments, index)

    def _chosen(self) -> Iterator[str]:
        """The hyper-parameters that the trials chose."""
        settings, plan, measure = self.settings, self.plan, MEASURES[0]
        if not settings.trials:
            return

        def line(name: str) -> list[str]:
            def reached(trial: Trial) -> float:
                return plan.reached(plan.trial_training(self.collection, name, trial))[measure]

            return chosen_line(self.titles[name], settings.drawn(name), plan.trial(self.collection, name), reached)

        yield "### What the validation queries chose"
        yield (
            f"Of each model's own grid, in trainings of at most {settings.trial_epochs} epochs. PACRR's grid is the "
            "paper's, with learning rates."
        )
        yield tables.markdown(
            [["", "chosen", "of", f"validation {measure}"], *(line(name) for name in settings.tuned)], texts=2
        )

    def _table_1(self) -> Iterator[str]:
        for stage in FIRST_STAGES:
            runs, against = self._reranked(stage)
            yield f"### Table 1: re-ranking the top {self.settings.depth} of {FIRST_STAGE_TITLES[stage][0]}"
            yield from self.page.departures()
            yield letters.markdown(evaluate(self.judgments, runs, TABLE_1), against)

    def _reranked(self, stage: str) -> tuple[dict, dict[str, str]]:
        """The runs of a first stage and of the rows that re-rank it, and letters; both by title."""
        title, letter = FIRST_STAGE_TITLES[stage]
        runs = {label: self._read(stage, name) for name, label in {ORDER: title, **self.titles}.items()}
        return runs, {**self.letters, title: letter}

    def _seeds(self) -> Iterator[str]:
        """Table 1 over several trainings of each model: means, ranges, and tests with each query's mean."""
        seeds = self.settings.training_seeds
        if len(seeds) == 1:
            return
        yield f"### Table 1 with {len(seeds)} seeds"
        yield from self.page.departures()
        yield (
            f"The models trained with the seeds {', '.join(map(str, seeds))}: the mean, and the lowest and highest "
            "mean of one training. Tests take each query's mean over the seeds."
        )
        for stage in FIRST_STAGES:
            title, letter = FIRST_STAGE_TITLES[stage]
            of_seeds = self.of_seeds[stage]
            against = {**self.letters, title: letter}
            notes = {
                measure: letters.letters({row: array.mean(axis=0) for row, array in of_measure.items()}, against)
                for measure, of_measure in of_seeds.items()
            }
            lines = [["", *TABLE_1]]
            for row in of_seeds[TABLE_1[0]]:
                cells = [f"{mean_and_range(of_seeds[measure][row])} {notes[measure][row]}" for measure in TABLE_1]
                lines.append([row, *(cell.strip() for cell in cells)])
            yield f"The top {self.settings.depth} of {title}:"
            yield tables.markdown(lines)
            yield letters.legend(against, f"{len(self.judgments)} queries")

    @cached_property
    def of_seeds(self) -> dict[str, dict[str, dict[str, np.ndarray]]]:
        """By first stage, measure and title, its values and those of rows that re-rank it, float64 [trainings, Q]."""
        found: dict = {stage: {measure: {} for measure in TABLE_1} for stage in FIRST_STAGES}
        for stage, by_measure in found.items():
            once = {ORDER: FIRST_STAGE_TITLES[stage][0]}
            once |= {SENTENCES: SENTENCES_TITLE} if self.settings.encoder else {}
            runs = {title: [self._read(stage, name)] for name, title in once.items()}
            for name, model in self.settings.tuned.items():
                runs[model.title] = [self._read(stage, name, seed) for seed in self.settings.training_seeds]
            for title, each in runs.items():
                values = evaluate(self.judgments, {str(place): run for place, run in enumerate(each)}, TABLE_1).values
                for measure, of_measure in by_measure.items():
                    of_measure[title] = np.stack([of_run[measure] for of_run in values.values()])
        return found

    def _by_overlap(self) -> Iterator[str]:
        """nDCG after BM25 by the overlap of a query's relevant documents with those of training queries."""
        strata = overlap.strata(self.judgments, queries_and_judgments(self.collection.train)[1])
        if len(strata) < 2:
            return
        title, letter = FIRST_STAGE_TITLES["bm25"]
        measure = MEASURES[1]
        means = {row: values.mean(axis=0) for row, values in self.of_seeds["bm25"][measure].items()}  # [Q] each
        lines = [["", *(f"{name} ({len(judged):,})" for name, judged in strata.items())], *([row] for row in means)]
        for judged in strata.values():
            inside = np.array([query in judged for query, of_query in self.judgments.items() if of_query])  # bool [Q]
            part = {row: values[inside] for row, values in means.items()}
            notes = letters.letters(part, {title: letter})
            for line, row in zip(lines[1:], means):
                line.append(f"{part[row].mean():.4f} {notes[row]}".strip())
        yield "### By overlap with training queries"
        yield (
            f"{measure} after BM25, each query's mean over the trainings, by the largest Jaccard coefficient of its "
            "relevant documents with those of a training query (in brackets the number of queries). Judgments of "
            "similar queries know the answers of the last columns."
        )
        yield tables.markdown(lines)
        yield letters.legend({title: letter}, "the queries of a column")

    def _table_2(self) -> Iterator[str]:
        yield "### Table 2 and figure 3: re-ranking runs of many first stages"
        yield from self.page.departures()
        for documents in ("all", "judged") if self.collection.judged else ("all",):
            after = {
                title: many_runs.RunFolder(self.plan.run(self.collection, documents, name).output)
                for name, title in self.titles.items()
            }
            bulk = many_runs.evaluate_bulk(
                self._judged() if documents == "judged" else self.judgments,
                many_runs.RunFolder(self.plan.runs_before(self.collection, documents)),
                after,
                MEASURES,
            )
            figure = self._figure(f"runs-{documents}")
            many_runs.plot_scatter(bulk, figure, overwrite=True)
            yield f"Of {len(bulk.runs)} runs, {DOCUMENTS[documents]}:"
            yield many_runs.report(bulk, self.letters).text("markdown")
            yield image("The measures of each run before and after re-ranking", figure)

    def _judged(self) -> dict:
        """The judgments with non-relevant documents, of the queries of the other tables."""
        every = judgments(self.collection.judged)
        return {query: every[query] for query in self.judgments if query in every}

    def _table_3(self) -> Iterator[str]:
        yield "### Table 3 and figure 4: document pairs"
        yield from self.page.departures()
        bars = {}
        if self.collection.judged:
            runs = {title: self._read("pairs", name) for name, title in self.titles.items()}
            yield "All judged documents, retrieved or not:"
            pairs = document_pairs.document_pairs(self._judged(), runs)
            bars["All judged documents"] = document_pairs.pooled_accuracies(pairs)
            yield document_pairs.report(pairs, self.letters).text("markdown")
        runs, against = self._reranked("bm25")
        yield "BM25's candidates, unjudged ones as non-relevant:"
        found = document_pairs.document_pairs(self.judgments, runs, unjudged_as_nonrelevant=True)
        bars["BM25's candidates"] = document_pairs.pooled_accuracies(found)
        yield document_pairs.report(found, against).text("markdown")
        figure = self._figure("pairs")
        plot_pairs(bars, figure)
        yield "Figure 4 shows the shares over the pairs of all queries; the line is an order by chance."
        yield image("Share of document pairs in the right order, by labels", figure)

    def _hyper_parameters(self) -> Iterator[str]:
        """Figure 5, and its numbers."""
        measure, tried = MEASURES[0], self.settings.sizes()
        best, figure = self.plan.best(self.collection), self._figure("hyper-parameters")
        validation = {sizes: self.plan.reached(self._training(sizes.row))[measure] for sizes in tried}
        runs = {sizes.row: self._read("sweep", sizes.row) for sizes in tried}
        summaries = evaluate(self.judgments, runs, [measure]).summaries
        test = {sizes: summaries[sizes.row][measure] for sizes in tried}
        rows = [["", *SYMBOLS.values(), f"validation {measure}", f"test {measure}"]]
        for sizes in tried:
            values = [f"{validation[sizes]:.4f}", f"{test[sizes]:.4f}"]
            rows.append(["chosen" if sizes == best else "", *map(str, sizes), *values])
        curves = []
        for field, symbol in SYMBOLS.items():
            line = self.settings.along(field)
            lines = {"validation": [validation[sizes] for sizes in line], "test": [test[sizes] for sizes in line]}
            chosen = getattr(best, field) if best in line else None
            curves.append(Curve(symbol, [getattr(sizes, field) for sizes in line], lines, chosen))
        plot_hyper_parameters(curves, measure, figure)
        yield "### Figure 5: the hyper-parameters of PACRR-kwindow"
        yield from self.page.departures()
        yield (
            "One hyper-parameter is varied at a time, in one training each; differences are not tested. Validation "
            "queries re-rank BM25's candidates, test queries those of QLD; a cross is the best on the validation "
            "queries."
        )
        yield image(f"{measure} by hyper-parameter", figure)
        yield tables.markdown(rows)

    def _training(self, name: str) -> Step:
        return self.plan.training(self.collection, name)

    def _trainings(self) -> Iterator[str]:
        """Figure 2 for all models, and what each training took."""
        rows = [["training", "parameters", "best epoch", "of", *(f"validation {one}" for one in MEASURES)]]
        rows[0] += ["minutes", "CPU minutes", "CPU minutes of trials"]
        titles = {name: title for name, title in self.titles.items() if name != SENTENCES}
        trainings = {title: self._training(name) for name, title in titles.items()}
        for (name, title), step in zip(titles.items(), trainings.values()):
            reached = self.page.best_epoch(step, MEASURES)
            minutes = [*self.page.journal.minutes([step]), self._trial_minutes(name)]
            rows.append([title, f"{parameters(step):,}", *reached, *minutes])
        figure = self._figure("trainings")
        plot_trainings({title: history(step) for title, step in trainings.items()}, figure)
        yield "### Figure 2: the trainings"
        yield image("Loss and validation measures by epoch", figure)
        yield tables.markdown(rows)
        yield (
            f"The trainings with the seed {self.settings.seed}. Minutes are for whole commands, reading included, with "
            f"{self.settings.at_once} steps at a time. The trials of the best of figure 5 are its trainings."
        )

    def _trial_minutes(self, name: str) -> str:
        """CPU minutes of the trainings that chose a row's hyper-parameters on this collection; "" without any."""
        trainings = []
        if name not in SWEPT:
            trials = self.settings.drawn(name)
            trainings = [self.plan.trial_training(self.collection, name, trial) for trial in trials]
        elif self.collection.name in self.settings.sweep:
            trainings = [self._training(sizes.row) for sizes in self.settings.sizes()]
        return self.page.journal.minutes(trainings)[1] if trainings else ""


def parameters(training: Step) -> int:
    """Number of trained parameters: those of a checkpoint without the word vectors."""
    from safetensors import safe_open

    with safe_open(training.output / "model.safetensors", "numpy") as file:
        names = file.keys()
        return sum(math.prod(file.get_slice(name).get_shape()) for name in names)
