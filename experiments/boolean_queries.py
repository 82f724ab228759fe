"""``python -m experiments.boolean_queries``: what a strategy in PubMed's language costs, without ranking, beside BM25.

Each strategy is read, its set found and counted anew, after warming up: as if it were new, and again, when Lucene's
cache of queries has parts of it. BM25 ranks the queries, and each strategy's own words. Filter counts are those of the
page: the commonest values of a field among the documents of the strategy. ``--write-titles FILE`` writes invented
titles with metadata, distributed about as PubMed's, for which ``strategies-titles.txt`` is.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import rerank_plugin as rp
from rerank_plugin import options as commandline
from rerank_plugin.corpora import QUERIES, accepted, queries
from rerank_plugin.files.outputs import FileKind, beginning, replacing
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.filter_values import FilterValues
from rerank_plugin.java.jvm import java_class

STRATEGIES = Path(__file__).with_name("strategies.txt")
LANGUAGES = "eng fre ger jpn spa chi rus ita por pol".split()
TITLES = FileKind("invented titles", lambda path: beginning(path).startswith(b'{"id": "t0"'))
DEPTH = 500
VALUES = 100


def milliseconds(call: Callable[[], Any], repetitions: int) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000


def rows(searcher: rp.Searcher, strategies: list[str], fields: list[str], repetitions: int) -> list[list[str]]:
    """A row for each strategy."""
    table = [
        [
            "strategy",
            "documents",
            "set, ms",
            "again, ms",
            "BM25 of its words, ms",
            *(f"{field}, ms" for field in fields),
        ]
    ]
    index, lucene = searcher.index, java_class("org.apache.lucene.search.IndexSearcher")
    cache = lucene.getDefaultQueryCache()

    def read(strategy: str) -> Any:
        index.matches.cache_clear()
        return searcher.read(strategy, newest_first=True)

    with closing(FilterValues(index)) as values:
        for strategy in strategies:
            reading, words = read(strategy), searcher.read(strategy).query.text
            filter = reading.query.filter
            lucene.setDefaultQueryCache(None)
            new = milliseconds(lambda: read(strategy), repetitions)
            lucene.setDefaultQueryCache(cache)
            times = [
                new,
                milliseconds(lambda: read(strategy), repetitions),
                milliseconds(lambda: searcher.search(words, k=DEPTH), repetitions),
                *(
                    milliseconds(lambda: values.values(field, filter=filter, limit=VALUES), repetitions)
                    for field in fields
                ),
            ]
            shown = " ".join(strategy.split())
            table.append([f"`{shown[:60]}`", f"{reading.matches:,}", *(f"{each:.1f}" for each in times)])
    return table


def write_titles(path: Path, documents: int, seed: int) -> None:
    """Invented titles of eight words, with types, languages, headings, journals, authors and dates, as JSONL."""
    rng = np.random.default_rng(seed)

    def zipf(number: int, shape: tuple[int, ...], exponent: float) -> np.ndarray:
        shares = np.cumsum(np.arange(1.0, number + 1) ** -exponent)
        return np.searchsorted(shares / shares[-1], rng.random(shape)).clip(max=number - 1)

    of_all = {"Humans": 0.65, "Male": 0.35, "Female": 0.38, "Animals": 0.25, "Adult": 0.25, "Middle Aged": 0.2}
    of_all |= {"Aged": 0.15, "Mice": 0.08}
    words, authors = zipf(20_000, (documents, 8), 1.0), zipf(30_000, (documents, 2), 0.6)
    headings, common = zipf(25_000, (documents, 5), 0.8), rng.random((documents, len(of_all))) < [*of_all.values()]
    types, journals, languages = zipf(52, (documents,), 1.3), zipf(8000, (documents,), 0.8), zipf(10, (documents,), 3)
    years, months = rng.integers(1975, 2026, documents), rng.integers(1, 13, documents)
    with replacing(path, TITLES) as file:
        for n in range(documents):
            mesh = [heading for heading, has in zip(of_all, common[n]) if has]
            record = {
                "id": f"t{n}",
                "title": " ".join(f"word{word}" for word in words[n].tolist()),
                "date": f"{years[n]}-{months[n]:02d}",
                "journal": f"J Test {journals[n]}",
                "types": list(dict.fromkeys(["Journal Article", f"Type {types[n]}"])),
                "languages": [LANGUAGES[languages[n]]],
                "mesh": [*mesh, *(f"Heading {heading}" for heading in dict.fromkeys(headings[n].tolist()))],
                "authors": [f"Name{author} A" for author in dict.fromkeys(authors[n].tolist())],
            }
            file.write(f"{json.dumps(record)}\n".encode())


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("boolean_queries", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.boolean_queries"
    add = parser.add_argument
    add("--index", help="index of a large collection")
    add("--write-titles", metavar="FILE", help="write invented titles instead, and measure nothing")
    add("--documents", type=int, default=1_000_000, help="titles to write (default: 1,000,000)")
    add("--queries", metavar="SPEC", help=f"queries that BM25 ranks: {accepted(QUERIES)}")
    add("--strategies", default=str(STRATEGIES), help=f"strategies, with a line between (default: {STRATEGIES.name})")
    add("--most", type=int, default=100, help="queries (default: 100)")
    add("--repetitions", type=int, default=20, help="measurements of each time (default: 20)")
    add("--field", nargs="*", default=[], help="filters whose values are counted, such as type")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "most", "repetitions", "documents")
    if options.write_titles:
        write_titles(Path(options.write_titles), options.documents, options.seed)
        return
    if not (options.index and options.queries):
        parser.error("--index and --queries are needed")
    strategies = [text.strip() for text in Path(options.strategies).read_text(encoding="utf-8").split("\n\n")]
    with rp.Searcher(options.index) as searcher:
        texts = [query.text for query in queries(options.queries)][: options.most]
        for repetitions in (1, 3):  # the first warms up
            times = [milliseconds(lambda: searcher.search(text, k=DEPTH), repetitions) for text in texts]
        rows(searcher, strategies, options.field, options.repetitions)  # warms up
        table = rows(searcher, strategies, options.field, options.repetitions)
    print(f"BM25, {DEPTH} documents, {len(texts)} queries: {statistics.median(times):.1f} ms in the median\n")
    print(markdown(table), end="")


if __name__ == "__main__":
    commandline.run(main)
