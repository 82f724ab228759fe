"""``experiments.shards`` on the sample, and the differences that it would tell."""

import numpy as np

from experiments.shards import Differences, main
from rerank_plugin import RankedList


def ranked(*pairs):
    ids, scores = zip(*pairs)
    return RankedList(list(ids), np.array(scores, np.float32))


def test_differences_are_counted():
    found = Differences()
    found.add(ranked(("a", 3), ("b", 2), ("c", 1)), ranked(("a", 3), ("b", 2), ("c", 1)))
    assert (found.documents, found.missing, found.score, found.exchanged, found.apart) == (3, 0, 0.0, 0, 0.0)
    found.add(ranked(("a", 3), ("b", 2), ("c", 1)), ranked(("b", 2.5), ("a", 2.25), ("d", 1)))
    assert (found.documents, found.missing, found.score, found.exchanged, found.apart) == (6, 1, 0.75, 3, 0.5)


def test_rankings_of_the_sample_are_the_same(twins, address, one_process, capsys):
    single, sharded = map(str, twins)
    options = ["--cluster", address, "--heap", "256m", "--queries", "sample:test", "--sample", "4"]
    main(["--single", single, "--sharded", sharded, *options, "--pipelines", "bm25,delta", "dense:ktrel"])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[4:]]
    assert [row[:2] for row in rows] == [
        [search, index]
        for search in ("bm25,delta", "dense:ktrel")
        for index in ("single index", "shards, one process", "shards on Ray")
    ]
    for row in rows:
        assert int(row[2].replace(",", "")) > 100 and row[3:7] == ["0", "0", "0", "0"] and float(row[7]) > 0
