"""``experiments.cluster_plan`` on an index of shards of the sample."""

import pytest

from experiments import cluster_plan
from experiments.cluster_parts import Parts
from experiments.cluster_plan import main
from rerank_plugin import options as commandline


def plan(capsys, *words):
    main([*map(str, words)])
    return [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]


def test_parts_are_measured_checked_and_planned_with(twins, address, one_process, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster_plan, "SIMULATED", 1000)
    parts = tmp_path / "parts.json"
    measuring = ["--measure", "--check", "--cluster", address, "--index", twins[1], "--queries", "sample:test"]
    measuring += ["--sample", 5, "--rounds", 2, "--check-seconds", 0.2, "--shard-heap", "256m"]
    rows = plan(capsys, "--parts", parts, *measuring, "--pipeline", "bm25,delta", "hybrid", "--rate", 0)
    assert [row[1:3] for row in rows[2:]] == [["bm25,delta", "one by one"], ["hybrid", "one by one"]]
    assert all(float(cell) > 0 for row in rows[2:] for cell in (row[3], row[4], row[6], row[7]))

    loaded = Parts.load(parts)
    (index,), transport = loaded.indexes, loaded.transport
    assert (index.shards, index.lists) == (2, 1) and transport.answer_seconds > 0 and transport.memory_mb > 50
    searches = index.pipelines["bm25,delta"]
    assert len(searches) == 10
    for search in searches:
        matched, scored = search.rounds  # the words' frequencies were asked for before; titles are in the folder
        assert (matched.method, scored.method) == ("best_matches", "score") and matched.rows == []
        assert 0 < sum(scored.rows) <= 500
        assert min(*matched.seconds, *scored.seconds) > 0
        found = 12 * sum(scored.rows) / index.shards  # bytes of rows and scores, in the mean of the shards
        assert found < matched.received < found + 100

    plan(capsys, "--parts", parts, "--documents", 1000, "--simulated", 500)
    shared = ["--parts", parts, "--simulated", 500, "--pipeline", "hybrid", "--shard-documents", 500_000, "--rate", 5]
    for cores, replicas, machines in ((1, 1, 3), (1, 2, 5), (4, 1, 2)):  # one of them for the coordinator
        options = "--documents", 1_000_000, "--cores", cores, "--replicas", replicas, "--price", 2
        _, _, row = plan(capsys, *shared, *options)
        assert row[:3] == ["hybrid", "1,000,000", "2"] and int(row[5]) == machines
        assert float(row[7]) <= float(row[8]) <= float(row[9])
        assert float(row[13].replace(",", "")) == pytest.approx(machines * 2 * 1e6 / 5 / 3600, rel=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--measure"], "--measure and --check need --index and --queries"),
        ([], "give --measure, --check, or the number of --documents to simulate"),
        (["--documents", "9", "--replicas", "0"], "--replicas: must be at least 1"),
        (["--documents", "9"], "is no file of measured parts"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(tmp_path, capsys, words, message):
    with pytest.raises(SystemExit):
        commandline.run(main, ["--parts", str(tmp_path / "parts.json"), *words])
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
