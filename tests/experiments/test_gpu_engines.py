"""The rows of engines on the CPU: Faiss finds what torch finds, and CAGRA says what it needs."""

import pytest

from experiments import gpu_engines

pytest.importorskip("faiss")
pytest.importorskip("torch")


def test_engines_side_by_side(monkeypatch):
    monkeypatch.setattr(gpu_engines, "milliseconds", lambda work, *_: work() and 1.0)
    monkeypatch.setattr(gpu_engines, "DEPTHS", (10,))
    rows = list(gpu_engines.engine_rows("cpu:0", gpu_engines.clustered(300, 32)))
    assert [row[:3] for row in rows[:3]] == [[name, "300", "10"] for name in ("torch", "faiss", "faiss, float16")]
    assert [row[5] for row in rows[:3]] == ["1.0000"] * 3 and "cagra needs a GPU" in rows[3][2]
