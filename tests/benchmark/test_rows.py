import json
from dataclasses import replace

import pytest

from rerank_plugin.benchmark.latency_plot import plot
from rerank_plugin.benchmark.rows import (
    FAST,
    PLAIN,
    WHOLE,
    Measurement,
    markdown,
    number,
    write_json,
)

PLAIN_ROW = Measurement(
    reranker="delta", path=PLAIN, device="cpu", threads=2, depth=500, batch=1, median_ms=48.0, p95_ms=50.0, p99_ms=52.5,
    queries_per_second=20.5, ratio_to_plain=1.0, peak_memory_mb=512.25, stage="scoring", mean_ms=48.5, repetitions=100,
    collection="sample, 10,000 documents", documents=10_000, candidates=500.0, candidate_source="a scan",
    machine="some machine", largest_difference=3.4e-7,
)  # fmt: skip
FAST_ROW = replace(PLAIN_ROW, path=FAST, median_ms=4.0, p95_ms=4.5, p99_ms=5.25, mean_ms=4.1, ratio_to_plain=12.0)
WHOLE_ROW = replace(FAST_ROW, stage=WHOLE, candidates=443.2, stages={"first stage": 3.0, "model": 1.0})
ROWS = [PLAIN_ROW, FAST_ROW, WHOLE_ROW]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_for_each_stage_that_was_measured():
    output = markdown(ROWS, "python -m rerank_plugin.bench")
    assert "some machine" in output and "`python -m rerank_plugin.bench`" in output
    assert output.count("### ") == 2
    tables = [line for line in output.splitlines() if line.startswith("|")]
    names = cells(tables[0])
    fast = dict(zip(names, cells(tables[3])))
    assert fast["reranker"] == "delta" and fast["path"] == "fast" and fast["documents"] == "10,000"
    assert fast["median ms"] == "4.00" and fast["times plain"] == "12.0" and fast["difference"] == "3e-07"
    assert {line.count("|") for line in tables[:4]} == {len(names) + 1}
    assert "first stage 75%, model 25%" in output
    assert "500 (443 found)" in output
    assert "part of a batch" not in output
    assert markdown([FAST_ROW], "bench").count("### ") == 1


@pytest.mark.parametrize(
    "value, shown", [(0.12345, "0.123"), (1.5, "1.50"), (12.34, "12.3"), (1234.5, "1,234"), (99.96, "100.0")]
)
def test_numbers_have_the_precision_of_a_clock(value, shown):
    assert number(value) == shown


def test_json_has_the_keys_of_known_values(tmp_path):
    write_json(ROWS, tmp_path / "new" / "rows.json")
    rows = json.loads((tmp_path / "new" / "rows.json").read_text())
    assert [row["path"] for row in rows] == ["plain", "fast", "fast"]
    assert rows[1]["median_ms"] == 4.0 and rows[1]["peak_memory_mb"] == 512.25
    assert "stages" not in rows[0] and rows[2]["stages"] == {"first stage": 3.0, "model": 1.0}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rows.json"]


def test_plot_of_one_depth_and_of_growth(tmp_path):
    from PIL import Image

    plot([PLAIN_ROW], tmp_path / "one.png")
    deeper = [replace(row, depth=1000, median_ms=2 * row.median_ms) for row in ROWS[:3]]
    larger = [replace(row, documents=100_000) for row in ROWS[:3]]
    batch = replace(FAST_ROW, batch=64)
    plot([*ROWS, batch, *deeper, *larger], tmp_path / "all.png")
    single, several = (Image.open(tmp_path / name).size for name in ("one.png", "all.png"))
    assert several[0] == single[0] and several[1] == 3 * single[1]  # panels below one another
