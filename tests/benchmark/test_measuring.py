"""The meter, with a clock of our own: nothing here depends on how fast the machine is."""

import gc
import sys

import numpy as np
import pytest

from rerank_plugin.benchmark import measuring
from rerank_plugin.benchmark.machine import PeakMemory, describe
from rerank_plugin.benchmark.measuring import FEWEST, LONG, ROUNDS, Meter, Timings
from rerank_plugin.benchmark.rows import latencies


class Clock:
    """Stands for the module time: its seconds pass when somebody sleeps."""

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
    """Makes cases that note their name, the number of the call, and whether garbage collection was on."""

    def make(name, seconds=0.001):
        def case(number):
            clock.sleep(7.0)  # preparing takes long, and must not count

            def work():
                case.calls.append((name, number, gc.isenabled()))
                clock.sleep(seconds)
                return number

            return work

        case.calls = make.calls
        return case

    make.calls = []
    return make


def test_every_repetition_is_timed_and_returns_its_value(recorder):
    measured = Meter(5.0, 23).measure({"a": recorder("a", 0.5**10), "b": recorder("b", 0.5**12)})
    for name, seconds in (("a", 0.5**10), ("b", 0.5**12)):
        assert measured[name].seconds.tolist() == pytest.approx([seconds] * 23)
        assert len(set(measured[name].returned)) == 23
        assert measured[name].peak_memory_mb > 1


def test_a_case_is_called_before_it_is_timed(recorder):
    Meter(5.0, 10).measure({"a": recorder("a")})
    assert [number for _, number, _ in recorder.calls] == [-1, -2, *range(10)]


def test_a_long_call_is_estimated_once(recorder):
    assert Meter(5.0, 10).estimate(recorder("a", LONG + 1)) == pytest.approx(LONG + 1)
    assert len(recorder.calls) == 1


def test_cases_take_turns_and_each_turn_starts_with_a_call_that_is_not_timed(recorder):
    measured = Meter(5.0, 40).measure({"a": recorder("a"), "b": recorder("b")})
    calls = [(name, number) for name, number, _ in recorder.calls if number >= 0]
    first = [calls[place] for place in range(len(calls)) if not place or calls[place][0] != calls[place - 1][0]]
    assert [name for name, _ in first] == ["a", "b"] * ROUNDS
    assert len(calls) == 2 * (40 + ROUNDS)
    assert not any(number in measured[name].returned for name, number in first)


def test_a_case_alone_and_a_long_one_need_no_call_to_warm_up(recorder):
    assert Meter(5.0, 40).measure({"a": recorder("a")})["a"].returned == list(range(40))
    both = Meter(5.0, 40).measure({"a": recorder("a"), "long": recorder("long", LONG + 1)})
    assert both["long"].returned == list(range(FEWEST))


def test_slow_cases_are_timed_at_least_a_few_times_and_fast_ones_no_more_than_asked(recorder):
    measured = Meter(1.0, 12).measure({"slow": recorder("slow", 10.0), "fast": recorder("fast", 0.01)})
    assert len(measured["slow"].seconds) == FEWEST
    assert len(measured["fast"].seconds) == 12
    assert len(Meter(1.0, 12).measure({"medium": recorder("medium", 0.125)})["medium"].seconds) == 8
    assert len(Meter(1.0, 2).measure({"slow": recorder("slow", 10.0)})["slow"].seconds) == 2


def test_the_garbage_collector_rests_and_is_on_again_even_after_an_error(recorder):
    Meter(5.0, 10).measure({"a": recorder("a")})
    assert gc.isenabled()
    assert not any(enabled for _, number, enabled in recorder.calls if number >= 0)

    def fails(number):
        return lambda: 1 / (number - 3)

    with pytest.raises(ZeroDivisionError):
        Meter(5.0, 10).measure({"fails": fails})
    assert gc.isenabled()


def test_columns_follow_from_the_times():
    plain, fast = (Timings(seconds, [], 12.5) for seconds in (np.linspace(0.04, 0.06, 9), np.linspace(0.001, 0.02, 30)))
    columns = latencies(fast.scaled(2), plain, 8)
    milliseconds = fast.seconds * 2000
    assert columns["median_ms"] == pytest.approx(21.0)
    assert columns["p95_ms"] == pytest.approx(np.percentile(milliseconds, 95))
    assert columns["p99_ms"] == pytest.approx(np.percentile(milliseconds, 99))
    assert columns["queries_per_second"] == pytest.approx(8 * 1000 / milliseconds.mean())
    assert columns["ratio_to_plain"] == pytest.approx(50 / 21)
    assert columns["repetitions"] == 30 and columns["peak_memory_mb"] == 12.5


def test_the_ratio_is_one_of_medians():
    plain, fast = Timings(np.array([4.0, 4.0, 100.0]), [], 1.0), Timings(np.array([1.0, 2.0, 2.0]), [], 1.0)
    assert latencies(fast, plain, 1)["ratio_to_plain"] == 2


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
