"""Cross-encoders of a tiny shape, through the same code as the large ones."""

import numpy as np
import pytest

from experiments import cross_encoders
from experiments.cross_encoders import LONGEST, ONNX, TORCH, rows, sequence_lengths
from rerank_plugin.base.errors import InputError
from rerank_plugin.benchmark.measuring import Meter
from tests.benchmark.conftest import collection  # noqa: F401

TINY = dict(num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=16)


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "onnx" else object())
    with pytest.raises(InputError, match="needs onnx: pip install onnx"):
        cross_encoders.check_installed()


def test_sequences_are_as_long_as_query_and_text_together(collection, monkeypatch):
    monkeypatch.setattr(cross_encoders, "PIECES_PER_WORD", 2.0)
    words = 3 + collection.candidates(0, 10).lengths
    assert sequence_lengths(collection, 0, 10).tolist() == (2 * words + 3).tolist()
    monkeypatch.setattr(cross_encoders, "PIECES_PER_WORD", 100.0)
    assert set(sequence_lengths(collection, 0, 10).tolist()) == {LONGEST}


class TestWithLibraries:
    @pytest.fixture(autouse=True)
    def libraries(self, monkeypatch):
        for name in ("transformers", "onnx", "onnxruntime"):
            pytest.importorskip(name)
        monkeypatch.setattr(cross_encoders, "SHAPES", {"tiny": TINY})

    def test_rows_of_both_ways(self, collection, monkeypatch):
        monkeypatch.setattr(cross_encoders, "BATCHES", (4, 64))
        found = list(rows(collection, 10, Meter(10.0, 3), "cpu", 1, 0))
        assert [(row.runtime, row.at_once) for row in found] == [(TORCH, 4), (ONNX, 4), (TORCH, 64), (ONNX, 64)]
        assert all(row.shape == "tiny" and len(row.milliseconds) == 3 and row.timed == 10 for row in found)

    def test_without_time_one_batch_is_timed_and_brought_to_the_depth(self, collection, monkeypatch):
        monkeypatch.setattr(cross_encoders, "BATCHES", (4,))
        for row in rows(collection, 20, Meter(1e-6, 2), "cpu", 1, 0):
            assert row.timed == 4 and row.depth == 20 and "4 of 20" in row.cells()

    def test_the_quantized_model_scores_as_the_float_one_but_for_rounding(self):
        random = np.random.default_rng(0)
        ids = random.integers(1000, 30_000, (6, 37))  # another shape than the export's
        mask = (np.arange(37) < random.integers(5, 38, 6)[:, None]).astype(np.int64)
        shape = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64)
        with cross_encoders._scorers(shape, "cpu", 1, 0) as scorers:
            plain, fast = scorers[TORCH](ids, mask), scorers[ONNX](ids, mask)
            assert plain.shape == fast.shape == (6, 1)
            assert np.abs(plain - fast).max() < 0.2 * np.ptp(plain)
            # Padding is masked in both.
            ids[mask == 0] = 7
            assert np.allclose(scorers[TORCH](ids, mask), plain, atol=1e-6)
            assert np.allclose(scorers[ONNX](ids, mask), fast, atol=0.05 * np.ptp(plain))
