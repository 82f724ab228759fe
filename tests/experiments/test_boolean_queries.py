"""Times of strategies: each strategy is a row with its exact number of documents."""

import json

import rerank_plugin as rp
from experiments.boolean_queries import main


def test_titles_and_times(tmp_path, capsys):
    titles = tmp_path / "titles.jsonl"
    main(["--write-titles", str(titles), "--documents", "200"])
    humans = sum("Humans" in json.loads(line)["mesh"] for line in titles.read_text().splitlines())
    rp.build_index(titles, tmp_path / "index")
    (tmp_path / "strategies.txt").write_text("Humans[mh]\n\nword0 OR word1[ti]\n")
    (tmp_path / "queries.tsv").write_text("1\tword0 word2\n")
    main(["--index", str(tmp_path / "index"), "--queries", str(tmp_path / "queries.tsv"), "--repetitions", "1",
          "--strategies", str(tmp_path / "strategies.txt"), "--field", "type", "year"])  # fmt: skip
    first, *table = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    assert first.startswith("BM25, 500 documents, 1 queries: ")
    assert rows[0] == ["strategy", "documents", "set, ms", "again, ms", "BM25 of its words, ms", "type, ms", "year, ms"]
    assert rows[2][:2] == ["`Humans[mh]`", str(humans)] and all(
        float(cell) >= 0 for row in rows[2:] for cell in row[2:]
    )
    assert len(rows) == 4
