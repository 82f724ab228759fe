"""The page of the PACRR experiments: tables 1 to 3 and figures 2, 3 and 5 of [P], from what :mod:`pacrr` ran."""

from __future__ import annotations

import json
import math
from pathlib import Path

from rerank_plugin.corpora import judgments, queries_and_judgments
from rerank_plugin.evaluation import document_pairs, letters, many_runs, scatter
from rerank_plugin.evaluation.evaluation import evaluate
from rerank_plugin.experiments import match_counts
from rerank_plugin.experiments.figures import Curve, plot_hyper_parameters, plot_trainings
from rerank_plugin.experiments.pacrr import FIRST_STAGES, MEASURES, PacrrCollection, PacrrPlan
from rerank_plugin.experiments.steps import PAGE, Runner
from rerank_plugin.files import tables
from rerank_plugin.files.outputs import replacing
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.index_folder import Index

ORDER = "order"  # the runs before re-ranking
FIRST_STAGE_TITLES = {"bm25": ("BM25", "B"), "qld": ("QLD", "Q")}
TABLE_1 = (*MEASURES, "AP")
SYMBOLS = {"words": "l_d", "signals": "n_s", "longest": "l_g"}
DOCUMENTS = {"all": "all candidates", "judged": "the judged documents alone"}


def write_page(plan: PacrrPlan, journal: Runner, output: Path, notes: Path | None, command: str) -> None:
    """Write the Markdown page, and its figures beside it.

    Args:
        journal: of the steps, for the times they took.
        notes: Markdown that is put below the page's head as it is.
        command: that made the page.
    """
    from rerank_plugin.benchmark import machine

    output, settings = Path(output), plan.settings
    parts = [
        "# The PACRR experiments",
        "Tables 1 to 3 and figures 2, 3 and 5 of Hui et al., 2017. Made by",
        f"```sh\n{command}\n```",
        f"on {machine.processor()}, {settings.at_once} steps at a time with a thread each, seed {settings.seed}. Every "
        "figure below comes from that command. NDCG.20 has gain 2^rel - 1, as the paper's nDCG@20; the top of ERR@20's "
        "scale is the highest grade of the collection's test judgments; judged queries without candidates count as 0.",
    ]
    if notes is not None:
        parts.append(Path(notes).read_text(encoding="utf-8").strip())
    for collection in settings.collections:
        parts += CollectionPage(plan, journal, collection, output).parts()
    with replacing(output, PAGE, overwrite=True) as file:
        file.write(("\n\n".join(part.strip() for part in parts) + "\n").encode())


class CollectionPage:
    """The tables and figures of one collection."""

    def __init__(self, plan: PacrrPlan, journal: Runner, collection: PacrrCollection, output: Path):
        self.plan, self.journal, self.collection, self.output = plan, journal, collection, output
        self.titles = plan.titles()
        self.letters = {model.name: model.letter for model in plan.settings.baselines}
        self.queries, self.judgments = queries_and_judgments(collection.test)

    def parts(self) -> list[str]:
        chosen = self.plan.chosen(self.collection)
        sizes = ", ".join(f"{SYMBOLS[name]} {value}" for name, value in chosen._asdict().items())
        head = [
            f"## {self.collection.name}",
            f"`{self.collection.corpus}`: trained on `{self.collection.train}`, chosen on "
            f"`{self.collection.validation}`, measured on `{self.collection.test}` ({len(self.judgments):,} judged "
            f"queries). PACRR-kwindow has {sizes}, PACRR-firstk the same n_s and l_g and l_d 768.",
        ]
        swept = self._hyper_parameters() if self.collection.name in self.plan.settings.sweep else []
        return [
            *head,
            *self._candidates(),
            *self._table_1(),
            *self._table_2(),
            *self._table_3(),
            *swept,
            *self._trainings(),
        ]

    def _figure(self, name: str) -> Path:
        return self.output.with_name(f"{self.output.stem}-{self.collection.name}-{name}.png")

    def _runs(self, folder: str, with_order: bool = True) -> dict:
        names = [*([ORDER] if with_order else []), *self.titles]
        return {name: read_run(self.plan.run(self.collection, f"{folder}/{name}.run")) for name in names}

    def _candidates(self) -> list[str]:
        """What there is to match in the candidates of the test queries."""
        index = Index(self.plan.index(self.collection)).forward
        run = read_run(self.plan.run(self.collection, f"bm25/{ORDER}.run"))
        judged = [query for query in self.queries if self.judgments.get(query.id)]
        return ["### The candidates of BM25", match_counts.markdown(judged, run, self.judgments, index)]

    def _table_1(self) -> list[str]:
        depth = self.plan.settings.depth
        parts = []
        for stage in FIRST_STAGES:
            title, letter = FIRST_STAGE_TITLES[stage]
            evaluation = evaluate(self.judgments, self._runs(stage), TABLE_1)
            table = letters.markdown(evaluation, {**self.letters, ORDER: letter}, {ORDER: title, **self.titles})
            parts += [f"### Table 1: re-ranking the top {depth} of {title}", table]
        return parts

    def _table_2(self) -> list[str]:
        parts = ["### Table 2 and figure 3: re-ranking runs of many first stages"]
        for documents in self.plan.documents_of_runs(self.collection):
            before = many_runs.RunFolder(self.plan.run(self.collection, f"{documents}/{ORDER}"))
            after = {
                name: many_runs.RunFolder(self.plan.run(self.collection, f"{documents}/{name}")) for name in self.titles
            }
            judged = self._judged() if documents == "judged" else self.judgments
            found = many_runs.evaluate_bulk(judged, before, after, MEASURES)
            figure = self._figure(f"runs-{documents}")
            scatter.plot_scatter(found, figure, self.titles, overwrite=True)
            parts += [
                f"Of {len(found.runs)} runs, {DOCUMENTS[documents]}:",
                many_runs.markdown(found, self.letters, self.titles),
                f"![The measures of each run before and after re-ranking]({figure.name})",
            ]
        return parts

    def _judged(self) -> dict:
        """The judgments with documents that are not relevant, of the queries that count everywhere."""
        every = judgments(self.collection.judged)
        return {query: every[query] for query in self.judgments if query in every}

    def _table_3(self) -> list[str]:
        parts = ["### Table 3: document pairs"]
        if self.collection.judged:
            found = document_pairs.document_pairs(self._judged(), self._runs("pairs", with_order=False))
            table = document_pairs.markdown(found, self.letters, self.titles)
            parts += ["All judged documents, retrieved or not:", table]
        found = document_pairs.document_pairs(self.judgments, self._runs("bm25"), unjudged_as_nonrelevant=True)
        against = {**self.letters, ORDER: FIRST_STAGE_TITLES["bm25"][1]}
        table = document_pairs.markdown(found, against, {ORDER: "BM25", **self.titles})
        return [*parts, "BM25's candidates, those without a judgment as not relevant:", table]

    def _hyper_parameters(self) -> list[str]:
        """Figure 5, and its numbers."""
        measure, name = MEASURES[0], self.collection.name
        settings = self.plan.settings
        tried = settings.sizes()
        runs = {one.row: read_run(self.plan.run(self.collection, f"sweep/{one.row}.run")) for one in tried}
        test = evaluate(self.judgments, runs, [measure]).summaries
        chosen, curves = self.plan.chosen(self.collection), []
        rows = [["", *SYMBOLS.values(), f"validation {measure}", f"test {measure}"]]
        for one in tried:
            values = [f"{self.plan.reached(name, one.row)[measure]:.4f}", f"{test[one.row][measure]:.4f}"]
            rows.append(["chosen" if one == chosen else "", *map(str, one), *values])
        for field, symbol in SYMBOLS.items():
            line = settings.along(field)
            lines = {
                "validation": [self.plan.reached(name, one.row)[measure] for one in line],
                "test": [test[one.row][measure] for one in line],
            }
            values = [getattr(one, field) for one in line]
            curves.append(Curve(symbol, values, lines, getattr(chosen, field) if chosen in line else None))
        figure = self._figure("hyper-parameters")
        plot_hyper_parameters(curves, measure, figure)
        return [
            "### Figure 5: the hyper-parameters of PACRR-kwindow",
            "One is varied at a time. Validation queries re-rank BM25's candidates, test queries those of QLD; a cross "
            "is the model in the tables above, which the validation queries chose.",
            f"![{measure} by hyper-parameter]({figure.name})",
            tables.markdown(rows),
        ]

    def _trainings(self) -> list[str]:
        """Figure 2 for all models, and what each training took."""
        rows = [["training", "parameters", "best epoch", "of", *(f"validation {one}" for one in MEASURES)]]
        rows[0] += ["minutes", "processor minutes"]
        histories = {}
        for name, title in self.titles.items():
            row = self.plan.row(self.collection, name)
            folder = self.plan.checkpoint(self.collection.name, row)
            history = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
            best = max(history, key=lambda entry: entry["deciding"] or 0.0)
            took = self.journal.journal[f"{self.collection.name}-train-{row}"]
            times = [f"{took[kind] / 60:.1f}" for kind in ("seconds", "processor_seconds")]
            measured = [f"{best[measure]:.4f}" for measure in MEASURES]
            rows.append([title, f"{parameters(folder):,}", str(best["epoch"]), str(len(history)), *measured, *times])
            histories[title] = history
        figure = self._figure("trainings")
        plot_trainings(histories, figure)
        return [
            "### Figure 2: the trainings",
            f"![Loss and validation measures by epoch]({figure.name})",
            tables.markdown(rows),
            f"Minutes are of the whole command with {self.plan.settings.at_once} steps at a time, reading included.",
        ]


def parameters(checkpoint: Path) -> int:
    """How many numbers are trained: what a checkpoint holds beside the word vectors."""
    from safetensors import safe_open

    with safe_open(checkpoint / "model.safetensors", "numpy") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]
    return sum(map(math.prod, shapes))
