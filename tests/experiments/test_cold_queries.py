"""Times of pipelines in processes of their own: a row each, with two rounds of queries."""

from experiments import cold_queries


def test_a_row_for_each_pipeline_and_index(index_folder, tmp_path, capsys, monkeypatch):
    emptied = []
    monkeypatch.setattr(cold_queries, "CACHES", tmp_path / "caches")
    monkeypatch.setattr(cold_queries.os, "sync", lambda: emptied.append("synced"))
    (tmp_path / "queries.tsv").write_text("1\taspirin\n2\tcancer\n3\theart\n")
    (tmp_path / "strategies.txt").write_text("#1 aspirin[tiab]\n#2 #1 OR heart\n\ncancer NOT heart\n")
    line = [
        "--index",
        str(index_folder),
        f"{index_folder}/",
        "--queries",
        str(tmp_path / "queries.tsv"),
        "--most",
        "2",
        "--cold",
    ]
    cold_queries.main([*line, "--pipelines", "bm25", "--strategies", str(tmp_path / "strategies.txt")])
    first, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    assert first[2:4] == ["first, ms: median / p95 / p99", "again"]
    names = [f"{name}, {index}" for name in ("bm25", "strategies, by BM25") for index in line[1:3]]
    assert [row[:2] for row in rows] == [[name, "2"] for name in names]
    for row in rows:
        for shares in row[2:4]:
            median, p95, p99 = map(float, shares.split(" / "))
            assert 0 < median <= p95 <= p99
    assert emptied == ["synced"] * 2 and (tmp_path / "caches").read_text() == "3"
