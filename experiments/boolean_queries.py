"""``python -m experiments.boolean_queries``: what a strategy in PubMed's language costs, without ranking, beside BM25.

Each strategy is read, its set found and counted anew, after warming up; BM25 ranks the queries, and each strategy's own
words. Filter counts are those of the page: the commonest values of a field among the documents of the strategy.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import rerank_plugin as rp
from rerank_plugin import options as commandline
from rerank_plugin.corpora import QUERIES, accepted, queries
from rerank_plugin.files.tables import markdown
from rerank_plugin.indexes.filter_values import FilterValues

STRATEGIES = Path(__file__).with_name("strategies.txt")
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
    table = [["strategy", "documents", "set, ms", "BM25 of its words, ms", *(f"{field}, ms" for field in fields)]]
    index = searcher.index

    def read(strategy: str) -> Any:
        index.matches.cache_clear()
        return searcher.read(strategy)

    with closing(FilterValues(index)) as values:
        for strategy in strategies:
            reading = read(strategy)
            words, filter = reading.query.text, reading.query.filter
            times = [
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


def main(argv: list[str] | None = None) -> None:
    parser = commandline.parser("boolean_queries", __doc__.split("\n\n", 1)[1])
    parser.prog = "python -m experiments.boolean_queries"
    add = parser.add_argument
    add("--index", required=True, help="index of a large collection")
    add("--queries", required=True, metavar="SPEC", help=f"queries that BM25 ranks: {accepted(QUERIES)}")
    add("--strategies", default=str(STRATEGIES), help=f"strategies, with a line between (default: {STRATEGIES.name})")
    add("--most", type=int, default=100, help="queries (default: 100)")
    add("--repetitions", type=int, default=20, help="measurements of each time (default: 20)")
    add("--field", nargs="*", default=[], help="filters whose values are counted, such as type")
    options = commandline.parse(parser, argv)
    parser.check_counts(options, "most", "repetitions")
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
