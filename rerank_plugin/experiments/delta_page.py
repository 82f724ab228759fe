"""The page of the Delta experiments: tables 1 to 7 and figure 3 of [D18], from the runs that :mod:`delta` made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rerank_plugin.corpora import judgments, queries_and_judgments
from rerank_plugin.evaluation import subsets
from rerank_plugin.evaluation.evaluation import Evaluation, evaluate
from rerank_plugin.evaluation.marks import marked_table
from rerank_plugin.experiments.delta import CANDIDATES, JUDGED, ORDER, SELECTED, TUNED, WEAK, DeltaPlan, sweep
from rerank_plugin.experiments.figures import plot_sweep
from rerank_plugin.experiments.steps import PAGE
from rerank_plugin.files.outputs import replacing
from rerank_plugin.files.runs import RankedList, read_run
from rerank_plugin.indexes.index_folder import Index

HARD = (20, 10, 5, 2)  # non-relevant documents with all query words in their titles; the paper's is the first
MEASURES = ("NDCG.20", "MAP", "Prec.5")

# Row to the rows it is compared with, as in [D18], and with the candidates' own order, which a re-ranker must beat.
AGAINST = {
    "bm25-title": (ORDER,),
    "bm25-abstract": (ORDER, "bm25-title"),
    "bm25-text": (ORDER, "bm25-title"),
    "qld-title": (ORDER, "bm25-title"),
    "wmd-title": (ORDER, "bm25-title"),
    "wmd-title-nostop": (ORDER, "wmd-title"),
    "drmm": (ORDER, "bm25-title", "wmd-title"),
    "sevmos-c1": (ORDER, "bm25-title", "wmd-title"),
    "sevmos-c3": (ORDER, "wmd-title", "sevmos-c1"),
    "delta-classifier": (ORDER, "wmd-title", "sevmos-c3"),
    "delta-classifier-w": (ORDER, "delta-classifier"),
    "delta32": (ORDER, "sevmos-c1", "sevmos-c3"),
    "delta32-lex3": (ORDER, "sevmos-c3", "delta32"),
    SELECTED: (ORDER, "delta32-lex3"),
    WEAK: (ORDER, "delta32-lex3"),
    TUNED: (ORDER, "delta32-lex3"),
    "delta32-lex3-first": (ORDER, "delta32-lex3"),
    "delta32-lex3-share": (ORDER, "delta32-lex3"),
}
MAIN = (ORDER, "docid", *AGAINST)  # the rows of tables 2 to 5, in their order
ABLATION = ("delta32-no-differences", "delta32-no-features", "delta32", "delta32-lex3")
SETTINGS_TITLES = {
    CANDIDATES: "The first stage's candidates, re-ranked",
    JUDGED: "The judged documents alone",
}


def write_page(plan: DeltaPlan, output: Path, notes: Path | None, command: str) -> None:
    """Write the Markdown page, and its figure beside it.

    Args:
        notes: Markdown that is put below the page's head as it is.
        command: that made the page.
    """
    from rerank_plugin.benchmark import machine

    output = Path(output)
    settings = plan.settings
    results = Results(plan)
    figure = output.with_name(f"{output.stem}-filters.png")
    parts = [
        "# The Delta experiments",
        f"Tables 1 to 7 and figure 3 of Mohan et al., WWW 2018, on `{settings.corpus}`: trained on `{settings.train}`, "
        f"chosen on `{settings.validation}`, measured on `{settings.test}`. Made by",
        f"```sh\n{command}\n```",
        f"on {machine.processor()}, {settings.at_once} steps at a time with a thread each, seed {settings.seed}. "
        "Every figure below comes from that command. NDCG.20 has gain 2^rel - 1; MAP and Prec.5 take every grade above "
        "0 as relevant; judged queries without candidates count as 0.",
    ]
    if notes is not None:
        parts.append(Path(notes).read_text(encoding="utf-8").strip())
    for setting in results.settings:
        parts += _tables(results, setting)
    parts += _ablation(results)
    parts += _sweep(plan, results, figure)
    parts += _top_table(results)
    if SELECTED in results.titles:
        parts += _selection(plan)
    parts += _trainings(plan)
    with replacing(output, PAGE, overwrite=True) as file:
        file.write(("\n\n".join(part.strip() for part in parts) + "\n").encode())


class Results:
    """The runs of all rows, measured once a setting; subsets are parts of that."""

    def __init__(self, plan: DeltaPlan):
        self.plan, self.index = plan, Index(plan.index).forward
        self.titles = {row.name: row.title for row in plan.rows()}
        self.queries, found = queries_and_judgments(plan.settings.test)
        self.judgments = {CANDIDATES: found}
        if plan.settings.judged:
            ids = {query.id for query in self.queries}
            every = judgments(plan.settings.judged)
            self.judgments[JUDGED] = {query: judged for query, judged in every.items() if query in ids}
        self.settings = tuple(self.judgments)
        self.runs = {setting: self._read(setting) for setting in self.settings}
        self.subsets = {setting: self._subsets(setting) for setting in self.settings}

    def _read(self, setting: str) -> dict[str, dict[str, RankedList]]:
        runs = {}
        if setting == CANDIDATES:
            runs[ORDER] = read_run(self.plan.work / "runs" / "test.run")
        for row in self.plan.rows():
            if row.name != ORDER:
                runs[row.name] = read_run(self.plan.runs(setting) / f"{row.name}.run")
        return runs

    def _subsets(self, setting: str) -> dict[str, list[str]]:
        """Query ids by the subset's name in the paper; all judged queries first."""
        judged = subsets.judged_queries(self.queries, self.judgments[setting])
        seen = self.seen_words()
        of_queries = self.samples(setting, judged)
        at_least = self.at_least(of_queries)
        return {
            "all queries": [query.id for query in judged],
            f"Neg{at_least}+": subsets.hard_queries(of_queries, at_least),
            "OneNewWord": subsets.one_new_word(judged, seen),
            "AllNewWords": subsets.all_new_words(judged, seen),
        }

    @staticmethod
    def at_least(of_queries: dict) -> int:
        """The 20 of Neg20+, or less where there is no such query."""
        return next((count for count in HARD if subsets.hard_queries(of_queries, count)), HARD[0])

    def seen_words(self) -> set[str]:
        settings = self.plan.settings
        return subsets.words_of(
            query for spec in (settings.train, settings.validation) for query in queries_and_judgments(spec)[0]
        )

    def samples(self, setting: str, judged) -> dict:
        run = self.runs[setting].get(ORDER)  # the candidates count, or the judged documents
        return subsets.samples(judged, self.judgments[setting], self.index, run)

    def evaluation(self, setting: str, subset: str, names: Sequence[str], measures=MEASURES) -> Evaluation | None:
        """The measures of some rows on a subset; None where it holds no query."""
        ids = self.subsets[setting][subset]
        if not ids:
            return None
        judged = subsets.restricted(self.judgments[setting], ids, subset)
        runs = {
            name: subsets.without_others(self.runs[setting][name], self.judgments[setting], judged)
            for name in names
            if name in self.runs[setting]
        }
        return evaluate(judged, runs, measures)


def _tables(results: Results, setting: str) -> list[str]:
    """Tables 1 to 5 in one setting."""
    parts = [f"## {SETTINGS_TITLES[setting]}", "### Table 1: the test data and its subsets"]
    judged = subsets.judged_queries(results.queries, results.judgments[setting])
    described = subsets.describe(
        results.queries,
        results.judgments[setting],
        results.index,
        results.seen_words(),
        results.runs[setting].get(ORDER),
        results.at_least(results.samples(setting, judged)),
    )
    parts.append(subsets.markdown(described))
    for number, subset in enumerate(results.subsets[setting], 2):
        evaluation = results.evaluation(setting, subset, MAIN)
        parts.append(f"### Table {number}: {subset} ({len(results.subsets[setting][subset])} queries)")
        parts.append(
            "No query of the test data is in this subset." if evaluation is None else _marked(results, evaluation)
        )
    return parts


def _marked(results: Results, evaluation: Evaluation, against=None) -> str:
    against = AGAINST if against is None else against
    there = {
        name: tuple(one for one in baselines if one in evaluation.summaries)
        for name, baselines in against.items()
        if name in evaluation.summaries
    }
    return marked_table(evaluation, there, titles=results.titles)


def _ablation(results: Results) -> list[str]:
    names = [name for name in ABLATION if name in results.titles]
    if "delta32" not in names:
        return []
    parts = ["## Table 6: difference vectors, Delta features and lexical features"]
    for setting in results.settings:
        evaluation = results.evaluation(setting, "all queries", names, MEASURES[:2])
        against = {name: ("delta32",) for name in names if name != "delta32"}
        parts += [f"{SETTINGS_TITLES[setting]}:", _marked(results, evaluation, against)]
    return parts


def _sweep(plan: DeltaPlan, results: Results, figure: Path) -> list[str]:
    chosen = [(count, row.name) for count, row in zip(plan.settings.filters, sweep(plan.settings))]
    chosen = [(count, name) for count, name in chosen if name in results.titles]
    if not chosen:
        return []
    filters, names = zip(*chosen)
    parts = [
        "## Figure 3: the number of filters",
        f"Delta without lexical features, trained on {plan.settings.sweep_pairs} pairs a query and epoch, so its 32 "
        "filters are not the row above.",
    ]
    curves = {}
    for setting in results.settings:
        evaluation = results.evaluation(setting, "all queries", names, MEASURES[:2])
        curves[SETTINGS_TITLES[setting]] = [evaluation.summaries[name] for name in names]
        parts += [f"{SETTINGS_TITLES[setting]}:", _marked(results, evaluation, {})]
    plot_sweep(filters, curves, figure)
    return [*parts, f"![NDCG.20 and MAP by the number of filters]({figure.name})"]


def _top_table(results: Results) -> list[str]:
    """All rows but the sweep's, sorted by NDCG.20, as in table 7."""
    names = [name for name in results.runs[CANDIDATES] if not name.startswith("sweep-")]
    evaluation = results.evaluation(CANDIDATES, "all queries", names, MEASURES[:2])
    ranked = sorted(evaluation.summaries, key=lambda name: evaluation.summaries[name]["NDCG.20"])
    against = {name: (ORDER,) for name in ranked if name != ORDER}
    evaluation = results.evaluation(CANDIDATES, "all queries", ranked, MEASURES[:2])
    depth = results.plan.settings.depth
    return [f"## Table 7: re-ranking the first stage's top {depth}, by NDCG.20", _marked(results, evaluation, against)]


def _selection(plan: DeltaPlan) -> list[str]:
    settings = plan.settings
    return [
        "## The selection of lexical features",
        f"Greedy, from the 18 of [D18] 4.2.2, with a training of {settings.selection_epochs} epochs and "
        f"{settings.selection_pairs} pairs a query for each set that is tried.",
        (plan.checkpoints / "selection" / "selection.md").read_text(encoding="utf-8"),
        f'Chosen: {", ".join(plan.selected_features())}. The row "our own" is trained with them as long as the others.',
    ]


def _trainings(plan: DeltaPlan) -> list[str]:
    """What each training reached on the validation queries, and the time of its epochs."""
    rows = [["training", "best epoch", "of", "validation nDCG@20", "AP", "minutes"]]
    rows.append(["---"] + ["---:"] * 5)
    for row in plan.rows():
        path = plan.checkpoints / row.name / "log.jsonl"
        if not path.exists():
            continue
        log = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        best = max(log, key=lambda entry: entry["deciding"] or 0.0)
        seconds = sum(entry["training_seconds"] + entry["validation_seconds"] for entry in log)
        measured = [f"{best['nDCG@20']:.4f}", f"{best['AP']:.4f}", f"{seconds / 60:.1f}"]
        rows.append([row.title, str(best["epoch"]), str(len(log)), *measured])
    return [
        "## The trainings",
        "The best epoch by nDCG@20 on the validation queries. Those of the classifiers and of figure 3 re-rank "
        f"{plan.settings.quick_depth} candidates, the weak labels' are held-out titles: neither compares to the rest. "
        f"The minutes are of all epochs, with {plan.settings.at_once} steps at a time; other work makes them more.",
        "".join(f"| {' | '.join(row)} |\n" for row in rows),
    ]
