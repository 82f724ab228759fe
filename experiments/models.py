"""The gain and cost of every bundled model: the page docs/models/README.md, with its plot.

    python -m experiments.models --data data --work runs/models --output docs/models/README.md

The work folder keeps indexes and MiniLM's vectors. ``--only NAME ...`` measures some systems, and takes the rows of the
others from the page that is there; `REMARKS` says then which are older.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.transforms import Bbox

import rerank_plugin as rp
from experiments.overlap import shown
from rerank_plugin.base.terminal import progress
from rerank_plugin.benchmark import machine
from rerank_plugin.corpora import documents, queries_and_judgments
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.evaluation.significance import paired_t_test
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.files.plots import panels
from rerank_plugin.files.tables import markdown
from rerank_plugin.kernels.parallel import available_threads
from rerank_plugin.models.encoder.folder import open_encoder
from rerank_plugin.models.register import packaged_folder
from rerank_plugin.options import run
from rerank_plugin.retrieval.fusion import LINEAR, FusionConfig
from rerank_plugin.retrieval.register import configure

COLLECTIONS = {"NFCorpus": "nfcorpus", "BioASQ snippets": "bioasq-snippets", "PubMedQA": "pubmedqa"}
DEPTH, RERANKED = 1000, 500
MEASURES = ["nDCG@10", "AP"]
TIMED, WARM = 200, 20  # queries
BASELINE = "BM25"
LINE = {"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "shrinkA": 0}  # from a name to its point
MINILM = {"hybrid_encoder": "minilm"}
TITLE = "# The models that come with the package"
PAGE = FileKind("this page", lambda path: beginning(path).startswith(TITLE.encode()))
INTRODUCTION = """\
What each model gains over BM25, and what it costs. No judgment of NFCorpus or BioASQ was trained on, but weights,
features and settings of the bundled models and of the hybrids were chosen on the judged dev queries of both, the later
ones also on four more [dev sets](../../experiments/results/dev-sets.md), one of them of 250 training queries of
NFCorpus: expect less on other collections. The model cards of [the encoder](ktrel.md) and of [Delta](delta.md)
describe their training;
[Is it worth it?](../cookbook.md#is-it-worth-it) shows how to decide with thirty judged queries of your own."""
GOOD_FOR = """\
## What they are good for

| model | language and texts | what it finds |
| --- | --- | --- |
| `delta` | English, biomedical | mostly the query's own words; an answer in other words ranks low |
| `ktrel`, also in `hybrid` | English, biomedical | related words; weak alone, good beside BM25 |
| `minilm` | English of any kind | paraphrases |
| [cross-encoders](../cross-encoders.md) | those of their training | how query and text fit; slow |

A model scores and ranks for any query, even one with few words that it knows. Such a query gets a note: a line of the
command, a warning of the library, `notes` in [the service's answers](../service.md#notes). The rule: at most half of
the query's distinct content words are in the model's vocabulary, and two or more are not (one, if no document has any
word of the query). Content words are plain words of four letters or more, without stop-words, numbers and symbols such
as genes. Models of word pieces, as MiniLM and cross-encoders, give no such note. The note appears for 15 of the 323
test queries of NFCorpus (each one word that no document has), 2 of the 670 of BioASQ with the bundled `ktrel`, and
none of the 500 of PubMedQA. Of medical questions in German, French and Spanish, 27 of 30 get it that the rule was not
made on, and 54 of 60 that it was made on (`tests/data/foreign_questions.tsv`, counted by
`tests/ranking/test_notes.py`). A search prints the number."""
READING = """\
nDCG@10 and AP of the test queries; first stages at depth 1,000, rerankers over the best 500. `+` higher, `-` lower, `=`
no significant difference of nDCG@10 to BM25: two-tailed paired t-test, p < 0.05 after Bonferroni correction for the
runs of a collection. `ms` is the median of 200 single queries, from the text to ten hits, averaged over the
collections. MiniLM is all-MiniLM-L6-v2 itself, the teacher of the bundled models: its time includes the encoding of
the query, but not that of the documents. 'hybrid of MiniLM' is `--first-stage hybrid --hybrid-encoder minilm`, after
`index --encode minilm`: the teacher in place of its student. A MiniLM cross-encoder reads every candidate together
with the query, so it takes at least as long as MiniLM's encoding of 500 documents.

AP of first stages is at depth 1,000, of rerankers at 500: do not compare one with the other. PubMedQA's test half is
also the source of a dev set: its columns are no test of settings that were chosen there.

None of the three collections is a search of all of PubMed. 'BioASQ snippets' is closed and easy: its documents are
only the passages that experts marked, each for some question, without any distractors. PubMedQA's questions are made
from the titles of their abstracts, whose words BM25 finds. NFCorpus has questions of lay people, and two thirds of its
relevant documents are not among BM25's top 500. For claims and known articles, whose words one
document has, `hybrid` is 0.015 and 0.005 below BM25 ([the dev
sets](../../experiments/results/dev-sets.md#the-table))."""
AGAINST = """\
## Tested against each other

p of two-tailed paired t-tests, nDCG@10 / AP, after Bonferroni correction for the pairs of a collection: `+` the first
is higher, `-` lower, `=` no significant difference (p < 0.05)."""
REMARKS = """\
The rows of MiniLM are older, as its encoding of the documents takes most of an hour: BioASQ's were measured before
accents and Greek letters met their plain spellings (0.3.0), the times before vectors were 8-bit codes. The cells that
are not tested need those vectors; the command below makes them and fills the table. So are the tests with MiniLM: they
are of the `hybrid` before it read misspelt words (0.3721 on NFCorpus, 0.9812 on PubMedQA). Before correction, p of the
first cell was 0.72 / 0.57: that MiniLM ranks NFCorpus better than its student in the hybrid is not shown."""
MADE = "Made by `python -m experiments.models --data data --work runs/models --output docs/models/README.md` on "
PAIRS = [("hybrid of MiniLM", "hybrid"), ("hybrid+rm3 of MiniLM", "hybrid+rm3"), ("hybrid", "BM25, then delta")]


PICTURE, CANDIDATES = "models.png", "500 documents through MiniLM"
_HEADER = ["", "ms", *(cell for name in COLLECTIONS for cell in (f"{name}: nDCG@10", "AP"))]


class System(NamedTuple):
    """A system to measure: a first stage, by name or configuration, and a reranker."""

    name: str
    first_stage: object
    reranker: str | None = None


SYSTEMS = [
    System(BASELINE, "bm25"),
    System("BM25+RM3", "bm25+rm3"),
    System("dense:ktrel", "dense:ktrel"),
    System("BM25, then ktrel", "bm25", "ktrel"),
    System("BM25, then delta", "bm25", "delta"),
    System("hybrid", "hybrid"),
    System("hybrid+rm3", "hybrid+rm3"),
    System("hybrid, then delta", "hybrid", "delta"),
    System("hybrid, then delta+0.5", "hybrid", "delta+0.5"),
    System("MiniLM, dense", "dense:minilm"),
    System("BM25 and MiniLM", FusionConfig((configure("bm25"), configure("dense:minilm")), LINEAR, (0.5, 0.5))),
    System("hybrid of MiniLM", configure("hybrid", MINILM)),
    System("hybrid+rm3 of MiniLM", configure("hybrid+rm3", MINILM)),
]


class Row(NamedTuple):
    """The results of a system, by collection: measures, milliseconds of a query from text to hits, values by query."""

    name: str
    ndcg: list[float]
    ap: list[float]
    signs: list[str]
    milliseconds: list[float]
    by_query: list[dict[str, dict[str, float]]]  # by measure


def measure(data: Path, work: Path, systems: list[System]) -> list[Row]:
    """Systems on the test queries of all collections; the first is the baseline."""
    rows: dict[str, Row] = {}
    for folder in COLLECTIONS.values():
        spec, index_folder = f"{data / folder}:test", work / folder
        if not index_folder.is_dir():
            rp.build_index(str(data / folder), index_folder)
        index = rp.Index(index_folder)
        encoders = [IndexEncoder(index.forward, "ktrel").adapted()]
        if "minilm" in repr(systems):
            encoders.append(IndexEncoder(index.forward, "minilm"))
        for encoder in encoders:
            if encoder.store() is None:
                encoder.encode(progress=lambda rows: progress(rows, f"encoding {folder}", "documents", len(index)))
        queries, judgments = queries_and_judgments(spec)
        runs, times = {}, {}
        for system in systems:
            depth = RERANKED if system.reranker else DEPTH
            runs[system.name] = rp.rank_many(index, queries, system.reranker, system.first_stage, depth)
            times[system.name] = latency(index, system, queries)
        measured = rp.evaluate_runs(judgments, runs, MEASURES, per_query=True)
        of_baseline = list(measured["per_query"][BASELINE]["nDCG@10"].values())
        for name, values in measured["runs"].items():
            row = rows.setdefault(name, Row(name, [], [], [], [], []))
            row.by_query.append(measured["per_query"][name])
            row.ndcg.append(values["nDCG@10"])
            row.ap.append(values["AP"])
            row.milliseconds.append(times[name])
            test = paired_t_test(list(measured["per_query"][name]["nDCG@10"].values()), of_baseline)
            test = test._replace(p=min(1.0, test.p * (len(SYSTEMS) - 1)))  # those of the page, if measured or not
            row.signs.append("" if name == BASELINE else test.mark(0.05))
    return list(rows.values())


def latency(index: rp.Index, system: System, queries: list[rp.Query]) -> float:
    """The median milliseconds of one query, from its text to ten hits."""
    depth, times = RERANKED if system.reranker else DEPTH, []
    with rp.Searcher(index, system.reranker, system.first_stage, depth) as searcher:
        for query in queries[: WARM + TIMED]:
            start = time.perf_counter()
            searcher.search(query.text, k=10)
            times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times[WARM:]))


def against_each_other(rows: list[Row]) -> dict[tuple[str, str], list[str]]:
    """p by collection of those of `PAIRS` of which both are there."""
    named = {row.name: row for row in rows}
    table: dict[tuple[str, str], list[str]] = {}
    for pair in PAIRS:
        if not named.keys() >= set(pair):
            continue
        cells = []
        for first, second in zip(*(named[name].by_query for name in pair)):
            tests = [paired_t_test(*(list(each[measure].values()) for each in (first, second))) for measure in MEASURES]
            tests = [test._replace(p=min(1.0, test.p * len(PAIRS))) for test in tests]
            cells.append(" / ".join(f"{shown(test.p)} {test.mark(0.05)}" for test in tests))
        table[pair] = cells
    return table


def cells(row: Row) -> list[str]:
    """The cells of the row of the table, behind its name."""
    measures = [(f"{ndcg:.4f} {sign}".strip(), f"{ap:.4f}") for ndcg, sign, ap in zip(row.ndcg, row.signs, row.ap)]
    return [f"{np.mean(row.milliseconds):.1f}", *(cell for pair in measures for cell in pair)]


class Page(NamedTuple):
    """What was measured: cells of the table by system, p by pair of systems, the last lines."""

    rows: dict[str, list[str]]
    tests: dict[tuple[str, str], list[str]]
    made: str
    remarks: str = ""

    @classmethod
    def read(cls, text: str) -> Page:
        """What a page has, in Markdown."""
        lines = text.splitlines()
        tables = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
        rows = {row[0]: row[1:] for row in tables if len(row) == len(_HEADER)}
        tests = {(row[0], row[1]): row[2:] for row in tables if len(row) == 2 + len(COLLECTIONS)}
        named = [*(system.name for system in SYSTEMS), CANDIDATES]
        made = next(line for line in lines if line.startswith(MADE))
        remarks = REMARKS if REMARKS in text else ""
        return cls({name: rows[name] for name in named}, {pair: tests[pair] for pair in PAIRS}, made, remarks)

    def text(self) -> str:
        """The page in Markdown."""
        table = markdown([_HEADER, *([name, *cells] for name, cells in self.rows.items())]).strip()
        tests = [["first", "second", *COLLECTIONS], *([*pair, *p] for pair, p in self.tests.items())]
        image = f"![Mean nDCG@10 against milliseconds a query]({PICTURE})"
        gains = ["## What they gain", image, table, READING, AGAINST, markdown(tests, 2).strip()]
        return "\n\n".join(filter(None, [TITLE, INTRODUCTION, GOOD_FOR, *gains, self.remarks, self.made])) + "\n"


def draw(rows: dict[str, list[str]], path: Path) -> None:
    """Plot mean nDCG@10 over the collections against milliseconds per query, with names beside the points.

    Full marks are significantly above BM25 on the first two collections; the third is at its ceiling.
    """
    with panels(path, 1, 1, height=5.6, overwrite=True) as axes:
        (axis,) = axes[0]
        axis.set_xscale("log")
        measured = {name: [float(cell.split()[0]) for cell in row] for name, row in rows.items() if name != CANDIDATES}
        points = [(name, row[0], np.mean(row[1::2])) for name, row in measured.items()]
        for kind, shape, size, color in (("with MiniLM", "s", 9, "tab:red"), ("bundled", "o", 6, "tab:blue")):
            for filled in (True, False):
                marks = [
                    (x, y)
                    for name, x, y in points
                    if ("MiniLM" in name) == (kind == "with MiniLM")
                    and (rows[name][1].endswith("+") and rows[name][3].endswith("+")) == filled
                ]
                label = f"{kind}, {'' if filled else 'not '}significantly above BM25 on NFCorpus and BioASQ"
                style = {"color": color, "markersize": size, "linestyle": "", "fillstyle": "full" if filled else "none"}
                axis.plot([x for x, _ in marks], [y for _, y in marks], shape, label=label, **style)
        axis.legend(loc="lower right", fontsize=8)
        axis.set_xticks([0.5, 1, 2, 5, 10, 20, 50], labels=["0.5", "1", "2", "5", "10", "20", "50"])
        axis.minorticks_off()
        axis.margins(x=0.2, y=0.12)
        axis.set_xlim(right=100)  # room for the names of the slowest
        axis.set_xlabel("milliseconds a query, from text to ten hits")
        axis.set_ylabel("nDCG@10, mean over three collections")
        axis.grid(alpha=0.3)
        _name_points(axis, points)


def _name_points(axis, points: list[tuple[str, float, float]]) -> None:
    """Write each name, with a line to its point, where it fits into the axes without covering another."""
    axis.figure.draw_without_rendering()  # places the axes
    near = {name: Bbox.from_bounds(*(axis.transData.transform((x, y)) - 5), 10, 10) for name, x, y in points}
    names: list[Bbox] = []
    for name, x, y in sorted(points, key=lambda point: -point[1]):  # names run to the right
        taken = [*names, *(box for other, box in near.items() if other != name)]
        text = axis.annotate(name, (x, y), (0, 0), textcoords="offset points", fontsize=8)
        for down, right in product((4, -12, 14, -22), (9, -9)):
            text.xyann = right, down
            text.set_ha("left" if right > 0 else "right")
            box = text.get_window_extent()
            if axis.bbox.x0 < box.x0 and box.x1 < axis.bbox.x1 and not box.count_overlaps(taken):
                break
        names.append(box)
        axis.annotate("", (x, y), text.xyann, textcoords="offset points", arrowprops=LINE)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.models", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the collections (experiments/README.md)")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps indexes and vectors")
    parser.add_argument("--output", type=Path, required=True, help="page to write, with its plot beside it")
    by_name = {system.name: system for system in SYSTEMS}
    parser.add_argument(
        "--only", nargs="+", choices=list(by_name)[1:], help="measure these systems; the page has the others"
    )
    options = parser.parse_args(argv)
    systems = [SYSTEMS[0], *(by_name[name] for name in options.only)] if options.only else SYSTEMS
    rows = measure(options.data, options.work, systems)
    measured, tests = {row.name: cells(row) for row in rows}, against_each_other(rows)
    if options.only:
        before = Page.read(options.output.read_text())
        page = Page(before.rows | measured, before.tests | tests, before.made, REMARKS)
    else:
        blanks = [""] * (2 * len(COLLECTIONS))
        measured[CANDIDATES] = [f"{1000 * _seconds_of_candidates(options):,.0f}", *blanks]
        page = Page(measured, tests, f"{MADE}{machine.cpu_model()}, {available_threads()} threads.")
    with replacing(options.output, PAGE, overwrite=True) as file:
        file.write(page.text().encode())
    draw(page.rows, options.output.with_name(PICTURE))


def _seconds_of_candidates(options) -> float:
    """Seconds of MiniLM's encoding of 500 abstracts."""
    corpus = documents(str(options.data / COLLECTIONS["NFCorpus"]))
    texts = [f"{document.title} {document.abstract}" for document in corpus][:RERANKED]
    model = open_encoder(packaged_folder("minilm"), "cpu")
    start = time.perf_counter()
    model.encode(texts, batch_size=32, show_progress_bar=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    run(main)
