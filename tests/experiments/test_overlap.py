"""Overlaps of judgments and tests by stratum, by hand, and the command over files."""

import numpy as np
from scipy.stats import ttest_rel

import rerank_plugin as rp
from experiments import overlap

SEEN = {"s": {"a": 1, "b": 1, "z": 0}}
JUDGED = {
    "same": {"a": 2, "b": 1},
    "quarter": {"a": 1, "c": 1, "z": 1},  # one document of four
    "third": {"b": 1, "c": 1},
    "new": {"d": 1, "e": 0},
}
PLACES = {"base": (1, 2, 1, 1), "other": (1, 4, 1, 2)}  # of the one hit of each query


def test_counts_of_what_was_judged_before():
    assert overlap.described(JUDGED, {"train": SEEN})[1:] == [["train", "8", "50.0%", "4", "1"]]


def test_differences_are_tested_by_stratum(tmp_path, capsys):
    """Reciprocal ranks; the two queries of the stratum below 0.3 are 'quarter' and 'new'."""
    for name, places in PLACES.items():
        run = {}
        for (query, judged), place in zip(JUDGED.items(), places):
            ids = [*map(str, range(place - 1)), next(iter(judged))]  # others first
            run[query] = rp.RankedList(ids, np.arange(place, 0, -1, np.float32))
        rp.write_run(tmp_path / name, run, tag=name)
    for name, judgments in {"test": JUDGED, "seen": SEEN}.items():
        pairs = [(query, *pair) for query, judged in judgments.items() for pair in judged.items()]
        (tmp_path / name).write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in pairs))
    base, other, test, seen = (str(tmp_path / name) for name in ("base", "other", "test", "seen"))
    overlap.main(["--qrels", test, "--seen", seen, "--measures", "RR", "--baseline", base, "--", other])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()]
    of_all, of_stratum = ttest_rel([1, 0.25, 1, 0.5], [1, 0.5, 1, 1]).pvalue, ttest_rel([0.25, 0.5], [0.5, 1]).pvalue
    assert [row[1:] for row in rows[2:]] == [
        ["all", "4", "0.6875", "0.8750", f"{of_all:.2g}"],
        ["0 to 0.3", "2", "0.3750", "0.7500", f"{min(1, 3 * of_stratum):.2g}"],
        ["0.3 to 0.5", "1", "1.0000", "1.0000", "1"],
        ["0.9 to 1", "1", "1.0000", "1.0000", "1"],
    ]
