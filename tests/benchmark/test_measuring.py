"""The meter with a fake clock, independent of the machine's speed."""

import gc
import sys

import numpy as np
import pytest

from rerank_plugin.base.memory import PeakMemory
from rerank_plugin.benchmark import measuring
from rerank_plugin.benchmark.machine import describe
from rerank_plugin.benchmark.measuring import FEWEST, LONG, ROUNDS, Meter, Timings
from rerank_plugin.benchmark.rows import latencies


class Clock:
    """A fake of the module time, whose seconds pass only in sleep."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(measuring, "time", fake)
    return fake


@pytest.fixture
def recorder(clock):
    """Makes cases that record their name, the number of the call, and whether garbage collection was on."""
    calls = []

    def make(name, seconds=0.001):
        def case(number):
            clock.sleep(7.0)  # preparing takes long, and must not count

            def work():
                calls.append((name, number, gc.isenabled()))
                clock.sleep(seconds)
                return number

            return work

        return case

    make.calls = calls
    return make


def test_every_repetition_is_timed_and_returns_its_value(recorder):
    measured = Meter(5.0, 23).measure({"a": recorder("a", 0.5**10), "b": recorder("b", 0.5**12)})
    for name, seconds in (("a", 0.5**10), ("b", 0.5**12)):
        assert measured[name].seconds.tolist() == pytest.approx([seconds] * 23)
        assert len(set(measured[name].returned)) == 23
        assert measured[name].peak_memory_mb > 1


def test_a_case_is_called_before_it_is_timed_and_then_the_garbage_collector_rests(recorder):
    Meter(5.0, 10).measure({"a": recorder("a")})
    assert recorder.calls == [("a", -1, True), ("a", -2, True), *(("a", number, False) for number in range(10))]
    assert gc.isenabled()


def test_the_garbage_collector_is_on_again_after_an_error():
    with pytest.raises(ZeroDivisionError):
        Meter(5.0, 10).measure({"fails": lambda number: lambda: 1 / (number - 3)})
    assert gc.isenabled()


def test_cases_take_turns_and_each_turn_starts_with_a_call_that_is_not_timed(recorder):
    measured = Meter(5.0, 40).measure({"a": recorder("a"), "b": recorder("b")})
    calls = [(name, number) for name, number, _ in recorder.calls if number >= 0]
    first = [calls[place] for place in range(len(calls)) if not place or calls[place][0] != calls[place - 1][0]]
    assert [name for name, _ in first] == ["a", "b"] * ROUNDS
    assert len(calls) == 2 * (40 + ROUNDS)
    assert not any(number in measured[name].returned for name, number in first)


def test_a_long_case_is_called_once_before_it_is_timed_and_takes_its_turns_at_once(recorder):
    measured = Meter(5.0, 40).measure({"a": recorder("a"), "long": recorder("long", LONG + 1)})
    assert measured["long"].returned == list(range(FEWEST))
    assert [number for name, number, _ in recorder.calls if name == "long"] == [-1, *range(FEWEST)]


@pytest.mark.parametrize(
    "most, seconds, timed",
    [(12, 10.0, FEWEST), (2, 10.0, 2), (12, 0.125, 8), (12, 0.01, 12)],
    ids=["slow", "slow and few", "medium", "fast"],
)
def test_a_case_is_timed_as_often_as_its_second_allows_but_a_few_times_at_least(recorder, most, seconds, timed):
    measured = Meter(1.0, most).measure({"case": recorder("case", seconds)})
    assert measured["case"].returned == list(range(timed))


def test_columns_follow_from_the_times():
    """The ratio is of medians, which differ from the means."""
    plain, fast = (Timings(np.array(seconds), [], 12.5) for seconds in ([4.0, 5.0, 90.0], [1.0, 0.25, 0.5, 0.25, 0.5]))
    columns = latencies(fast.scaled(2), plain, 8)
    assert columns["median_ms"] == 1000
    assert columns["p95_ms"] == pytest.approx(np.percentile([500, 500, 1000, 1000, 2000], 95))
    assert columns["p99_ms"] == pytest.approx(np.percentile([500, 500, 1000, 1000, 2000], 99))
    assert columns["queries_per_second"] == pytest.approx(8)
    assert columns["ratio_to_plain"] == 5
    assert columns["repetitions"] == 5 and columns["peak_memory_mb"] == 12.5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets an old peak")
def test_peak_memory_is_that_since_the_restart():
    memory = PeakMemory()
    memory.restart()
    before = memory.read()
    block = np.ones(25_000_000)  # 200 MB
    assert memory.read() > before + 150
    del block
    memory.restart()
    assert memory.read() < before + 50


def test_the_machine_in_one_line():
    line = describe(2, "cpu")
    assert "\n" not in line
    assert "2 of" in line and "GiB memory" in line and "torch" in line and "numba" in line
