"""Greedy selection of features, on invented measures."""

import json

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.training.selection import SELECTION_FILE, Step, as_markdown, select

VALUES = {
    "a": 0.3, "b": 0.5, "c": 0.5,
    "b a": 0.7, "b c": 0.6,
    "b a c": 0.65,
}  # fmt: skip


def counted(calls):
    def measure(features):
        calls.append(" ".join(features))
        return VALUES[" ".join(features)]

    return measure


def test_the_path(tmp_path):
    """Of b and c, which are equal, the first is kept; the last step is taken though it is worse than the one before."""
    calls = []
    path = select(["a", "b", "c"], 3, counted(calls), tmp_path, {})
    assert path == [
        Step((), {"a": 0.3, "b": 0.5, "c": 0.5}, "b"),
        Step(("b",), {"a": 0.7, "c": 0.6}, "a"),
        Step(("b", "a"), {"c": 0.65}, "c"),
    ]
    assert calls == list(VALUES)
    assert json.loads((tmp_path / SELECTION_FILE).read_text())["measured"] == VALUES
    assert as_markdown(path, "nDCG@20").splitlines()[2:5] == [
        "| a | 0.3000 | **0.7000** |  |",
        "| b | **0.5000** |  |  |",
        "| c | 0.5000 | 0.6000 | **0.6500** |",
    ]


def test_an_interrupted_selection_is_resumed(tmp_path):
    calls = []

    def interrupted(features):
        if len(calls) == 4:
            raise KeyboardInterrupt
        return counted(calls)(features)

    with pytest.raises(KeyboardInterrupt):
        select(["a", "b", "c"], 2, interrupted, tmp_path, {"seed": 1})
    rest = []
    assert select(["a", "b", "c"], 2, counted(rest), tmp_path, {"seed": 1})[-1].chosen == "a"
    assert rest == ["b c"]
    with pytest.raises(InputError, match="other settings"):
        select(["a", "b", "c"], 2, counted([]), tmp_path, {"seed": 2})
    (tmp_path / SELECTION_FILE).write_text("[]")
    with pytest.raises(InputError, match=SELECTION_FILE):
        select(["a", "b", "c"], 2, counted([]), tmp_path, {"seed": 1})


@pytest.mark.parametrize("count", [0, 4])
def test_invalid_numbers_of_features(tmp_path, count):
    with pytest.raises(InputError, match=f"cannot select {count} of 3"):
        select(["a", "b", "c"], count, counted([]), tmp_path, {})
