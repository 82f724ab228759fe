"""Overlaps of judgments and tests by stratum, by hand, and the command over files."""

from scipy.stats import ttest_rel

import rerank_plugin as rp
from experiments import overlap

SEEN = {"s": {"a": 1, "b": 1, "z": 0}}
JUDGED = {
    "same": {"a": 2, "b": 1},
    "half": {"a": 1, "c": 1, "z": 1},  # one document of four
    "half too": {"b": 1, "c": 1},  # one of three
    "new": {"d": 1, "e": 0},
}


def test_counts_of_what_was_judged_before():
    assert overlap.described(JUDGED, {"train": SEEN})[1:] == [["train", "8", "50.0%", "4", "1"]]


def run_of(places):
    """A run that has a query's only hit at the given place, or elsewhere."""
    return {
        query: rp.RankedList([*map(str, range(place - 1)), max(JUDGED[query], key=JUDGED[query].get)], [*range(place)])
        for query, place in places.items()
    }


def test_differences_are_tested_by_stratum(tmp_path, capsys):
    """RR of the four queries; the two of the stratum below 0.3 are 'half' and 'new'."""
    places = {"base": dict(zip(JUDGED, (1, 2, 1, 1))), "other": dict(zip(JUDGED, (1, 4, 1, 2)))}
    for name, of_run in places.items():
        lines = [f"{query.replace(' ', '-')} Q0 {document} {rank} {9 - rank} x"
                 for query, found in run_of(of_run).items() for rank, document in enumerate(found.doc_ids, 1)]  # fmt: skip
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for name, of_queries in {"test": JUDGED, "seen": SEEN}.items():
        lines = [f"{query.replace(' ', '-')} 0 {document} {grade}"
                 for query, judged in of_queries.items() for document, grade in judged.items()]  # fmt: skip
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    base, other, test, seen = (str(tmp_path / name) for name in ("base", "other", "test", "seen"))
    overlap.main(["--qrels", test, "--seen", seen, "--measures", "RR", "--baseline", base, "--", other])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()]
    of_all, of_stratum = (ttest_rel([1, 0.25, 1, 0.5], [1, 0.5, 1, 1]).pvalue, ttest_rel([0.25, 0.5], [0.5, 1]).pvalue)
    assert [row[1:] for row in rows[2:]] == [
        ["all", "4", "0.6875", "0.8750", f"{of_all:.2g}"],
        ["0 to 0.3", "2", "0.3750", "0.7500", f"{min(1, 3 * of_stratum):.2g}"],
        ["0.3 to 0.5", "1", "1.0000", "1.0000", "1"],
        ["0.9 to 1", "1", "1.0000", "1.0000", "1"],
    ]
