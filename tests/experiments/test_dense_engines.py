"""Steps over the sample, whose documents are fewer than the depth: every engine finds all that one can."""

import json
import shutil

import pytest

from experiments import dense_engines
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes.index_folder import Index

pytest.importorskip("faiss")


def test_steps_of_some_engines_and_that_none_is_repeated(sample_index, tmp_path, capsys):
    folder, work = shutil.copytree(sample_index, tmp_path / "index"), tmp_path / "work"
    IndexEncoder(Index(folder).forward, "ktrel").encode()
    command = ["--index", str(folder), "--queries", "sample:test", "--work", str(work), "--most", "4"]
    dense_engines.main([*command, "--steps", "build", "tune", "time", "--engines", "our store", "HNSW,SQ8"])
    dense_engines.main([*command, "--steps", "update", "--engines", "HNSW,SQ8"])
    measured = json.loads((work / "engines.json").read_text())
    assert set(measured) == {"encoding", "our store", "HNSW,SQ8"}
    assert all(measured[engine]["tune"]["recall"] > 0.9 for engine in ("our store", "HNSW,SQ8"))
    assert measured["HNSW,SQ8"]["update"]["delete"] is None
    capsys.readouterr()
    dense_engines.main([*command, "--steps", "build", "tune", "time", "--engines", "HNSW,SQ8"])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(dense_engines.ENGINES)
    assert json.loads((work / "engines.json").read_text()) == measured
