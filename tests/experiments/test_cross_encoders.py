"""Cross-encoders of a tiny shape, through the same code as the large ones."""

import numpy as np
import pytest

from experiments import cross_encoders
from experiments.cross_encoders import HALF, LONGEST, ONNX, TORCH, rows, sequence_lengths
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

    def test_rows_of_all_runtimes(self, collection, monkeypatch):
        monkeypatch.setattr(cross_encoders, "BATCHES", (4, 64))
        found = list(rows(collection, 10, Meter(10.0, 3), "cpu", 1, 0))
        runtimes = [TORCH, HALF, ONNX]
        assert [(row.runtime, row.at_once) for row in found] == [(name, size) for size in (4, 64) for name in runtimes]
        assert all(row.shape == "tiny" and len(row.milliseconds) == 3 and row.timed == 10 for row in found)

    def test_without_time_one_batch_is_timed_and_brought_to_the_depth(self, collection, monkeypatch):
        monkeypatch.setattr(cross_encoders, "BATCHES", (4,))
        for row in rows(collection, 20, Meter(1e-6, 2), "cpu", 1, 0):
            assert row.timed == 4 and row.depth == 20 and "4 of 20" in row.cells()

    def test_all_runtimes_score_alike_but_for_rounding(self):
        random = np.random.default_rng(0)
        ids = random.integers(1000, 30_000, (6, 37))  # another shape than the export's
        mask = (np.arange(37) < random.integers(5, 38, 6)[:, None]).astype(np.int64)
        shape = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=64)
        with cross_encoders._scorers(shape, "cpu", 1, 0) as scorers:
            scores = {name: scorer(ids, mask) for name, scorer in scorers.items()}
            ids[mask == 0] = 7  # padding is masked in all
            for name, allowed in {
                TORCH: 1e-6,
                HALF: 0.2 * np.ptp(scores[TORCH]),
                ONNX: 0.2 * np.ptp(scores[TORCH]),
            }.items():
                assert scores[name].shape == (6, 1) and scores[name].dtype == np.float32
                assert np.abs(scores[name] - scores[TORCH]).max() < allowed
                assert np.allclose(scorers[name](ids, mask), scores[name], atol=allowed / 4)
