"""The page of the Delta experiments: tables 1 to 7 and figure 3 of [D18], from the runs that :mod:`delta` made."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np

import rerank_plugin as rp
from experiments import subsets
from experiments.delta import CANDIDATES, JUDGED, ORDER, SELECTED, TUNED, WEAK, DeltaPlan, DeltaSettings, sweep_row
from experiments.figures import plot_sweep
from experiments.marks import marked_table
from experiments.page import Page, image
from experiments.plan import SENTENCES, Runner, history
from rerank_plugin.corpora import judged_queries, judgments, queries_and_judgments
from rerank_plugin.evaluation.evaluation import Evaluation, evaluate
from rerank_plugin.files import tables
from rerank_plugin.indexes.candidates import Candidates

HARD = (20, 10, 5, 2)  # non-relevant documents with all query words in their titles; the paper has the first
MEASURES = ("NDCG.20", "MAP", "Prec.5")

# Row to its baselines, as in [D18], besides the first-stage order, which a reranker must beat.
AGAINST = {
    "bm25-title": (),
    "bm25-abstract": ("bm25-title",),
    "bm25-text": ("bm25-title",),
    "qld-title": ("bm25-title",),
    "wmd-title": ("bm25-title",),
    "wmd-title-nostop": ("wmd-title",),
    SENTENCES: ("bm25-title", "wmd-title"),
    "drmm": ("bm25-title", "wmd-title"),
    "sevmos-c1": ("bm25-title", "wmd-title"),
    "sevmos-c3": ("wmd-title", "sevmos-c1"),
    "delta-classifier": ("wmd-title", "sevmos-c3"),
    "delta-classifier-accuracy": ("delta-classifier",),
    "delta-classifier-w": ("delta-classifier",),
    "delta32": ("bm25-text", "sevmos-c1", "sevmos-c3"),
    "delta32-lex3": ("bm25-text", "wmd-title", "sevmos-c3", "delta32"),
    SELECTED: ("delta32-lex3",),
    WEAK: ("delta32-lex3",),
    TUNED: ("delta32-lex3",),
    "delta32-lex3-first": ("delta32-lex3",),
    "delta32-lex3-share": ("delta32-lex3",),
    "drmm-d18": ("bm25-title", "wmd-title", "drmm"),
    "delta32-lex3-stems": ("delta32-lex3",),
    "delta32-lex3-share-stems": ("delta32-lex3-share",),
}
MAIN = (ORDER, "docid", *AGAINST)  # the rows of tables 2 to 5, in order
ABLATION = ("delta32-no-differences", "delta32-no-features", "delta32", "delta32-lex3")
SETTINGS_TITLES = {
    CANDIDATES: "The first stage's candidates, re-ranked",
    JUDGED: "The judged documents alone",
}
COUNTERPARTS = {
    CANDIDATES: "The paper has only table 7 in this setting, on all queries; tables 1 to 6 are on judged documents.",
    JUDGED: "This is the setting of the paper's tables 1 to 6.",
}
ALL_QUERIES = "all queries"


def _kept(ranking: rp.RankedList, documents: Container[str]) -> rp.RankedList:
    """The places of some documents."""
    places = [place for place, document in enumerate(ranking.doc_ids) if document in documents]
    return rp.RankedList([ranking.doc_ids[place] for place in places], ranking.scores[places])


class DeltaPage(Page):
    """Reads the runs of each setting once; subsets of the queries are parts of them."""

    name = "Delta"
    plan: DeltaPlan
    settings: DeltaSettings

    def __init__(self, plan: DeltaPlan, journal: Runner, command: str):
        super().__init__(plan, journal, command)
        self.forward = rp.Index(plan.index().output).forward
        self.titles = {row.name: row.title for row in plan.rows()}
        self.queries, test_judgments = queries_and_judgments(self.settings.test)
        self.judgments = {CANDIDATES: test_judgments}
        if self.settings.judged:
            ids = {query.id for query in self.queries}
            every = judgments(self.settings.judged)
            self.judgments[JUDGED] = {query: judged for query, judged in every.items() if query in ids}
        self.runs = {setting: self._read(setting) for setting in self.judgments}
        self.seen = subsets.words_of(
            query
            for spec in (self.settings.train, self.settings.validation)
            for query in queries_and_judgments(spec)[0]
        )
        self.at_least: dict[str, int] = {}  # by setting: the 20 of Neg20+, or less if that is empty
        self.subsets = {setting: self._subsets(setting) for setting in self.judgments}

    def _read(self, setting: str) -> dict[str, Mapping[str, rp.RankedList]]:
        rows = [row for row in self.plan.rows() if setting == CANDIDATES or row.name != ORDER]
        return {row.name: rp.read_run(self.plan.run(row, setting).output) for row in rows}

    def _subsets(self, setting: str) -> dict[str, list[str]]:
        """Query ids by the subset's name in the paper; all judged queries first."""
        judged = judged_queries(self.queries, self.judgments[setting], setting)
        run = self.runs[setting].get(ORDER)  # uses the candidates, or the judged documents
        samples = subsets.samples(judged, self.judgments[setting], self.forward, run)
        at_least = next((count for count in HARD if subsets.hard_queries(samples, count)), HARD[0])
        self.at_least[setting] = at_least
        return {
            ALL_QUERIES: [query.id for query in judged],
            f"Neg{at_least}+": subsets.hard_queries(samples, at_least),
            "OneNewWord": subsets.one_new_word(judged, self.seen),
            "AllNewWords": subsets.all_new_words(judged, self.seen),
        }

    def about(self) -> tuple[str, str]:
        settings = self.settings
        return (
            f"Tables 1 to 7 and figure 3 of Mohan et al., WWW 2018, on `{settings.corpus}`: trained on "
            f"`{settings.train}`, chosen on `{settings.validation}`, measured on `{settings.test}`.",
            ". NDCG.20 has gain 2^rel - 1; MAP and Prec.5 take every grade above 0 as relevant; judged queries without "
            "candidates count as 0.",
        )

    def parts(self) -> Iterator[str]:
        for setting in self.judgments:
            yield from self._tables(setting)
        yield from self._ablation()
        yield from self._sweep()
        yield from self._top_table()
        if SELECTED in self.titles:
            yield from self._selection()
        yield from self._trainings()

    def evaluation(self, setting: str, subset: str, names: Sequence[str], measures=MEASURES) -> Evaluation:
        """The measures of some rows, by title, on a subset that is not empty."""
        of_setting, runs = self.judgments[setting], self.runs[setting]
        judged = subsets.restricted(of_setting, self.subsets[setting][subset], subset)
        parts = {
            self.titles[name]: subsets.without_others(runs[name], of_setting, judged) for name in names if name in runs
        }
        return evaluate(judged, parts, measures)

    def _marked(self, evaluation: Evaluation, against: Mapping[str, Sequence[str]]) -> str:
        titles = {name: title for name, title in self.titles.items() if title in evaluation.summaries}
        compared = {
            titles[name]: [titles[baseline] for baseline in baselines if baseline in titles]
            for name, baselines in against.items()
            if name in titles
        }
        return marked_table(evaluation, compared)

    def _tables(self, setting: str) -> Iterator[str]:
        """Tables 1 to 5 in one setting."""
        yield f"## {SETTINGS_TITLES[setting]}"
        yield COUNTERPARTS[setting]
        yield from self.departures()
        yield "### Table 1: the test data and its subsets"
        run, at_least = self.runs[setting].get(ORDER), self.at_least[setting]
        yield subsets.markdown(
            subsets.describe(self.queries, self.judgments[setting], self.forward, self.seen, run, at_least)
        )
        against = {name: (ORDER, *others) for name, others in AGAINST.items()}
        for number, (subset, ids) in enumerate(self.subsets[setting].items(), 2):
            yield f"### Table {number}: {subset} ({len(ids)} queries)"
            if subset == f"Neg{at_least}+" and at_least < HARD[0]:
                yield f"The paper's table is of Neg{HARD[0]}+, which has no query here."
            if ids:
                yield self._marked(self.evaluation(setting, subset, MAIN), against)
            else:
                yield "No query of the test data is in this subset."

    def _ablation(self) -> Iterator[str]:
        names = [name for name in ABLATION if name in self.titles]
        if "delta32" not in names:
            return
        yield "## Table 6: difference vectors, Delta features and lexical features"
        yield from self.departures()
        for setting in self.judgments:
            yield f"{SETTINGS_TITLES[setting]}:"
            evaluation = self.evaluation(setting, ALL_QUERIES, names, MEASURES[:2])
            yield self._marked(evaluation, {name: ("delta32",) for name in names if name != "delta32"})
        if JUDGED in self.judgments:
            yield from self._by_words(names)

    def _by_words(self, names: Sequence[str]) -> Iterator[str]:
        """The judged documents that hold a word of their query, and those that hold none, each ranked alone."""
        judged, runs = self.judgments[JUDGED], self.runs[JUDGED]
        holding = {query.id: self._holding(query) for query in self.queries}
        lines = [["", "queries", *(self.titles[name] for name in names)]]
        for title, some in (("some word of the query", True), ("none", False)):
            parts = {
                query: {document: grade for document, grade in of_query.items() if (document in holding[query]) is some}
                for query, of_query in judged.items()
            }
            parts = {query: part for query, part in parts.items() if len({grade > 0 for grade in part.values()}) == 2}
            ranked = {name: {query: _kept(runs[name][query], part) for query, part in parts.items()} for name in names}
            values = evaluate(parts, ranked, MEASURES[:1]).summaries
            lines.append([title, f"{len(parts):,}", *(f"{values[name][MEASURES[0]]:.3f}" for name in names)])
        yield (
            f"{MEASURES[0]} of the judged documents that hold a word of their query, and of those that hold none, each "
            "ranked alone, for the queries with relevant and other documents there; not tested:"
        )
        yield tables.markdown(lines)

    def _holding(self, query: rp.Query) -> set[str]:
        """The judged documents of a query that hold one of its words."""
        rows = self.forward.rows(list(self.judgments[JUDGED].get(query.id, ())))
        judged = Candidates(self.forward, rows[rows >= 0], np.zeros((rows >= 0).sum()))
        return {*self.forward.ids.take(judged.rows[subsets.some_word(query.text, judged)])}

    def _sweep(self) -> Iterator[str]:
        filters = [count for count in self.settings.filters if sweep_row(count) in self.titles]
        if not filters:
            return
        yield "## Figure 3: the number of filters"
        yield (
            f"Delta without lexical features, trained on {self.settings.sweep_pairs} pairs a query and epoch, so its "
            "32 filters are not the row above. Differences are not tested."
        )
        yield from self.departures()
        curves, names = {}, [sweep_row(count) for count in filters]
        for setting in self.judgments:
            evaluation = self.evaluation(setting, ALL_QUERIES, names, MEASURES[:2])
            curves[SETTINGS_TITLES[setting]] = list(evaluation.summaries.values())
            yield f"{SETTINGS_TITLES[setting]}:"
            yield self._marked(evaluation, {})
        figure = self.figure("filters")
        plot_sweep(filters, curves, figure)
        yield image("NDCG.20 and MAP by the number of filters", figure)

    def _top_table(self) -> Iterator[str]:
        """All rows except the sweep's, sorted by NDCG.20, as in table 7."""
        names = [name for name in self.runs[CANDIDATES] if not name.startswith("sweep-")]
        values = self.evaluation(CANDIDATES, ALL_QUERIES, names, MEASURES[:1]).summaries
        ranked = sorted(names, key=lambda name: values[self.titles[name]]["NDCG.20"])
        evaluation = self.evaluation(CANDIDATES, ALL_QUERIES, ranked, MEASURES[:2])
        yield f"## Table 7: re-ranking the first stage's top {self.settings.depth}, by NDCG.20"
        yield from self.departures()
        yield self._marked(evaluation, {name: (ORDER,) for name in ranked if name != ORDER})

    def _selection(self) -> Iterator[str]:
        settings = self.settings
        yield "## The selection of lexical features"
        yield (
            f"Greedy, from the 18 of [D18] 4.2.2, with a training of {settings.selection_epochs} epochs and "
            f"{settings.selection_pairs} pairs per query for each set tried."
        )
        yield (self.plan.selection().output / "selection.md").read_text(encoding="utf-8")
        chosen = ", ".join(self.plan.selected_features())
        yield f'Chosen: {chosen}. The row "our own" is trained with them, as long as the other rows.'

    def _trainings(self) -> Iterator[str]:
        """The best epoch of each training on the validation queries, and the time of its epochs."""
        rows = [["training", "best epoch", "of", "validation nDCG@20", "AP", "minutes"]]
        for row in self.plan.rows():
            if row.train:
                training = self.plan.training(row.name)
                seconds = sum(entry["training_seconds"] + entry["validation_seconds"] for entry in history(training))
                rows.append([row.title, *self.best_epoch(training, ("nDCG@20", "AP")), f"{seconds / 60:.1f}"])
        yield "## The trainings"
        yield (
            "The best epoch by nDCG@20 on the validation queries, if a title says nothing else. The classifiers and "
            f"figure 3 re-rank {self.settings.quick_depth} candidates there, and the weak labels have held-out titles "
            "as queries: their values do not compare with the others. Minutes are for all epochs, with "
            f"{self.settings.at_once} steps at a time, and are higher beside other work."
        )
        yield tables.markdown(rows)
