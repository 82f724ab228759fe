"""Checksums that detect changed files and folders."""

import os

from rerank_plugin.files import fingerprints as module
from rerank_plugin.files.fingerprints import fingerprint, fingerprints


def test_files_that_settings_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text("one")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "config.json").write_text("{}")
    settings = {
        "run": "a.run", "reranker": "delta:d", "queries": "d:test", "stages": [{"checkpoint": "d"}], "name": "bm25",
        "depth": 5, "none": None, "seed": 42, "unknown": "delta:nowhere",
    }  # fmt: skip
    before = fingerprints(settings)
    assert before.keys() == {"a.run", "delta:d", "d:test", "d"}
    assert fingerprints(settings) == before
    (tmp_path / "d" / "config.json").write_text("[]")
    after = fingerprints(settings)
    assert after["a.run"] == before["a.run"] and all(after[name] != before[name] for name in ("delta:d", "d:test", "d"))


def test_names_and_bounds_count(tmp_path):
    made = []
    for number, files in enumerate([{"a": "xy", "b": ""}, {"a": "x", "b": "y"}, {"a": "x", "c": "y"}, {"a": "xy"}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        made.append(fingerprint(folder))
    assert len(set(made)) == 4


def test_a_large_file_is_compared_by_size_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 3)
    path = tmp_path / "large"
    path.write_text("1234")
    before = fingerprint(path)
    assert fingerprint(path) == before
    os.utime(path, (1, 1))
    assert fingerprint(path) != before
