"""Work split over threads covers every item once, and a workspace belongs to one thread."""

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.kernels import parallel
from rerank_plugin.kernels.intrinsics import spin_until_above
from rerank_plugin.kernels.parallel import (
    Workspace,
    available_threads,
    helper_threads,
    processors,
    run_in_helper,
    split,
)
from tests.processes import run


def parts_of(count, threads, smallest=64):
    """The parts that ``split`` makes, in order; lists are safe to append to from several threads."""
    parts = []
    split(lambda start, stop: parts.append((start, stop)), count, threads, smallest)
    return sorted(parts)


def workers_of(threads):
    """The threads that share work of as many parts, which ends only when each part has a thread of its own."""
    together, workers = threading.Barrier(threads), set()

    def work(start, stop):
        workers.add(threading.get_ident())
        together.wait(timeout=60)

    split(work, threads, threads, smallest=1)
    return workers


def is_caller():
    return threading.current_thread() is threading.main_thread()


class Broken(Exception):
    pass


def fail(*part):
    raise Broken("failed")


# ------------------------------------------------------------------------------------------------------ split


@given(st.integers(0, 3000), st.integers(1, 8), st.integers(1, 200))
def test_every_item_is_covered_once(count, threads, smallest):
    parts = parts_of(count, threads, smallest)
    covered = [item for start, stop in parts for item in range(start, stop)]
    assert covered == list(range(count))
    assert all(stop - start >= smallest for start, stop in parts[:-1])


def test_many_items_become_parts_of_several_threads():
    """Enough parts for every thread, though the calling thread alone may take them all."""
    assert parts_of(1000, 1) == [(0, 1000)]
    assert parts_of(64, 4) == [(0, 64)]
    assert len(parts_of(65, 4)) == 2
    assert len(parts_of(10_000, 4)) >= 4
    assert len(parts_of(3, 4, smallest=1)) == 3


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_as_many_threads_work_as_were_asked_for(threads):
    workers = workers_of(threads)
    assert len(workers) == threads and threading.get_ident() in workers


@pytest.mark.parametrize("error", [None, Broken])
def test_the_caller_goes_on_only_when_nobody_works_any_more(error):
    """Also after an error: the caller's arrays may be gone by then."""
    working, may_end, finished = threading.Event(), threading.Event(), []

    def work(start, stop):
        if is_caller():
            assert working.wait(timeout=60)
            threading.Timer(0.05, may_end.set).start()
            if error:
                raise error
        else:
            working.set()
            assert may_end.wait(timeout=60)
        finished.append(start)

    with pytest.raises(error) if error else nullcontext():
        split(work, 2, 2, smallest=1)
    assert len(finished) == (1 if error else 2)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("broken", [0, 1, 500, 999])
@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
def test_an_error_in_any_part_reaches_the_caller(threads, broken, error):
    def work(start, stop):
        if start <= broken < stop:
            raise error(f"item {broken}")

    for _ in range(5):
        with pytest.raises(error, match=f"item {broken}"):
            split(work, 1000, threads, smallest=1)
        assert (len(parts_of(1000, threads)) > 1) == (threads > 1)  # and the next work is split as ever


@pytest.mark.parametrize("of_caller", [True, False])
def test_no_part_is_begun_once_one_has_failed(of_caller):
    """Two of 8 parts wait for one another, so each has a thread: one fails, the other is slow; six are left out."""
    together, begun = threading.Barrier(2), []

    def work(start, stop):
        begun.append(start)
        if len(begun) <= 2:
            together.wait(timeout=60)
        if is_caller() == of_caller:
            raise Broken
        time.sleep(0.2)

    with pytest.raises(Broken):
        split(work, 8, 2, smallest=1)
    assert 2 <= len(begun) < 8


def test_within_a_part_no_thread_helps():
    """The others have parts of their own: neither what a helper should run nor what is split again leaves it.

    Neither in a helper's part nor in one of the caller, and not after something ran in a helper.
    """
    helped = []

    def work(start, stop):
        workers, calls = set(), []

        def inner(*part):
            workers.add(threading.get_ident())
            calls.append(part)
            time.sleep(0.0002)

        for _ in range(2):
            run_in_helper(inner, 2)()
            split(inner, 64, 2, smallest=1)
        helped.append(workers != {threading.get_ident()} or calls != [(), (0, 64)] * 2)

    for _ in range(5):
        split(work, 4, 2, smallest=1)
    assert helped == [False] * 20


def test_one_part_may_be_split_by_the_work_within_it():
    """A single item is no reason to do without threads inside: the first part of one query's candidates."""
    inner = []
    split(lambda start, stop: inner.extend(parts_of(1000, 4, 1)), 1, 4, smallest=1)
    assert len(inner) > 1


def test_several_callers_at_once():
    """Each gets its own items, whichever threads of the common pool help it."""

    def caller(number):
        for count in range(1, 150):
            found = np.zeros(count, np.int64)

            def work(start, stop):
                found[start:stop] += np.arange(start, stop) * number + 1

            split(work, count, 3, smallest=1)
            np.testing.assert_array_equal(found, np.arange(count) * number + 1)

    with ThreadPoolExecutor(5) as callers:
        list(callers.map(caller, range(5)))


# ------------------------------------------------------------------------------------------- helper threads


@pytest.mark.parametrize("pause", [0, 0.05])
@pytest.mark.parametrize("threads", [2, 3])
def test_helper_threads_stay_for_one_job_after_another(threads, pause):
    """Also when it has fallen asleep between two of them, or work has failed; its threads are the same all the time.

    A block within it shares its helpers.
    """
    teams = []
    with helper_threads(threads):
        for _ in range(4):
            with helper_threads(threads):
                teams.append(workers_of(threads))
            time.sleep(pause)
            with pytest.raises(Broken):
                split(fail, 100, threads, smallest=1)
    assert threading.get_ident() in teams[0] and len(teams[0]) == threads
    assert all(workers == teams[0] for workers in teams)


def test_helper_threads_are_dismissed():
    """After its work, after an error and when there was none, its threads help others."""
    for error in (Broken, KeyboardInterrupt):
        with pytest.raises(error), helper_threads(2):
            parts_of(100, 2, 1)
            raise error
    with helper_threads(2):
        parts_of(100, 2, 1)
    with helper_threads(2):
        pass
    with ThreadPoolExecutor(1) as other:
        assert len(other.submit(workers_of, 2).result(timeout=60)) == 2


def test_a_thread_without_helpers_works_alone():
    """One thread holds the only helper; another thread's work is done all the same."""

    def another():
        with helper_threads(2):
            return parts_of(100, 2, 1), run_in_helper(lambda: "alone", 2)()

    with helper_threads(2), ThreadPoolExecutor(1) as other:
        workers_of(2)
        parts, result = other.submit(another).result(timeout=60)
    assert sum(stop - start for start, stop in parts) == 100 and result == "alone"


# -------------------------------------------------------------------------------------------------- run_in_helper


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_work_alongside_gives_its_result_or_its_error(threads):
    assert run_in_helper(threading.get_ident, threads)() == threading.get_ident()  # without helper threads
    with helper_threads(threads):
        for number in range(50):
            assert run_in_helper(lambda: number * 2, threads)() == number * 2
        with pytest.raises(Broken, match="failed"):
            run_in_helper(fail, threads)()
        first, second = (run_in_helper(lambda: parts_of(1000, threads), threads) for _ in range(2))
        assert second() == first()
        assert sum(stop - start for start, stop in parts_of(1000, threads)) == 1000


def test_work_alongside_goes_on_while_the_caller_works():
    """It meets the caller before its result is asked for."""
    together = threading.Barrier(2)

    def work():
        together.wait(timeout=60)
        return threading.get_ident()

    with helper_threads(2):
        result = run_in_helper(work, 2)
        together.wait(timeout=60)
        assert result() != threading.get_ident()


def test_the_caller_does_what_no_thread_has_begun():
    """The only helper is held up, by work that nobody asks for, so that the block can end before it."""
    held_up, done, where = threading.Event(), threading.Event(), []

    def hold_up():
        held_up.set()
        assert done.wait(timeout=60)

    with helper_threads(2):
        run_in_helper(hold_up, 2)
        assert held_up.wait(timeout=60)
        run_in_helper(lambda: where.append(threading.get_ident()), 2)()
        assert where == [threading.get_ident()]
    done.set()
    workers_of(2)  # so the helper is done with its old block
    assert len(where) == 1  # what was done by the caller is not done again


def test_waiting_beyond_a_number():
    counter = np.array([5], np.int64)
    assert spin_until_above(counter, 4, 10) == 5
    assert spin_until_above(counter, 5, 10) == 5
    assert spin_until_above(counter, 5, 0) == 5
    threading.Timer(0.05, lambda: counter.__setitem__(0, 9)).start()
    assert spin_until_above(counter, 5, 10**12) == 9  # seen while it waits, or this would take an hour


PROCESS = """
import os, signal, threading, time
from rerank_plugin.kernels.parallel import run_in_helper, helper_threads, split

signal.alarm(120)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts with it ignored
begun, finished, together = threading.Event(), [], threading.Barrier(3)

def work(start, stop):
    if threading.current_thread() is threading.main_thread():
        assert begun.wait(60)
        return
    begun.set()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)
    finished.append(start)

try:
    split(work, 2, 2, smallest=1)
except KeyboardInterrupt:
    print("interrupted", len(finished), flush=True)
split(lambda start, stop: together.wait(timeout=60), 3, 3, smallest=1)  # all threads of the pool have begun
child = os.fork()
if child == 0:
    signal.alarm(60)
    found = []
    split(lambda start, stop: found.append(stop - start), 1000, 3, smallest=1)
    with helper_threads(3):
        os._exit(0 if sum(found) == 1000 and run_in_helper(lambda: 5, 3)() == 5 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals and fork")
def test_an_interrupt_and_a_fork():
    """Control-C while the caller waits for a helper: its arrays are the next query's, so they must be at rest.

    In a forked process its parent's threads do not exist: the caller takes all parts itself instead of waiting.
    """
    assert run("-c", PROCESS) == "interrupted 1\n0\n"


@pytest.mark.parametrize(
    ("value", "threads"), [("1", 1), ("3", 3), ("12,4", 12), ("", None), ("0", None), ("many", None), ("-2", None)]
)
def test_available_threads(monkeypatch, value, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert available_threads() == (threads or processors())
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert available_threads() == processors()


CGROUPS = {  # what /proc/self/cgroup and mountinfo say, and the files below the mount
    "version 2, in a container": ("0::/", "/", "cgroup2 cgroup2 rw", {"cpu.max": "250000 100000"}, 2.5),
    "version 2, below a limited group": (
        "0::/a/b", "/", "cgroup2 cgroup2 rw", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5,
    ),
    "version 2, no limit": ("0::/", "/", "cgroup2 cgroup2 rw", {"cpu.max": "max 100000"}, math.inf),
    "version 1, in a container": (
        "4:cpu,cpuacct:/docker/1", "/docker/1", "cgroup cgroup rw,cpu,cpuacct",
        {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, 1.5,
    ),
    "version 1, of another container": (
        "4:cpu:/docker/2", "/docker/1", "cgroup cgroup rw,cpu",
        {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}, 3,
    ),
    "version 1, no limit": (
        "4:cpu:/", "/", "cgroup cgroup rw,cpu", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, math.inf,
    ),
    "version 1, another controller": (
        "4:memory:/", "/", "cgroup cgroup rw,memory", {"cpu.cfs_quota_us": "1", "cpu.cfs_period_us": "1"}, math.inf,
    ),
}  # fmt: skip


@pytest.mark.parametrize("groups, root, system, files, quota", CGROUPS.values(), ids=CGROUPS)
def test_the_cpu_quota_of_a_container(tmp_path, monkeypatch, groups, root, system, files, quota):
    mount = tmp_path / "sys fs"
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(text + "\n")
    (tmp_path / "cgroup").write_text(f"9:pids:/\n{groups}\n")
    point = str(mount).replace(" ", "\\040")
    (tmp_path / "mountinfo").write_text(f"30 23 0:26 {root} {point} rw,relatime - {system}\n")
    assert parallel.cpu_quota(tmp_path) == quota
    monkeypatch.setattr(parallel, "cpu_quota", lambda: quota)
    assert 1 <= processors() <= max(1, math.ceil(min(quota, 10**6)))


def test_without_proc_there_is_no_quota(tmp_path):
    assert parallel.cpu_quota(tmp_path / "nowhere") == math.inf


shapes = st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple)
arrays = st.tuples(st.sampled_from("ab"), shapes, st.sampled_from([np.float32, np.int32, np.int64]))


@given(st.lists(arrays, min_size=1, max_size=12))
def test_arrays_have_the_shape_and_type_asked_for(wanted):
    """Larger and smaller ones by turns, of several names and types: all elements are there, and no two are shared."""
    workspace, latest = Workspace(), {}
    for number, (name, shape, dtype) in enumerate(wanted):
        array = workspace.array(name, shape, dtype)
        assert array.shape == shape and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable
        array[...] = number
        latest[name] = (number, array)
        assert all((kept == value).all() for value, kept in latest.values())


def test_memory_is_kept_for_the_next_array_of_a_name():
    workspace = Workspace()
    first = workspace.array("a", (10, 10), np.float32)
    assert np.shares_memory(first, workspace.array("a", (100,), np.float32))
    assert np.shares_memory(first, workspace.array("a", (3, 2), np.float32))
    assert not np.shares_memory(first, workspace.array("b", (3, 2), np.float32))
    assert not np.shares_memory(first, Workspace().array("a", (3, 2), np.float32))
    grown = workspace.array("a", (1000,), np.float32)
    assert not np.shares_memory(first, grown)
    assert np.shares_memory(grown, workspace.array("a", (1000,), np.float32))


def test_zeros_grow_and_stay_zero():
    workspace = Workspace()
    for size in (0, 5, 3, 400, 7, 400, 401):
        zeros = workspace.zeros("marks", size, np.int32)
        assert zeros.shape == (size,) and zeros.dtype == np.int32 and not zeros.any()
        zeros[:] = 1
        zeros[:] = 0  # as whoever uses them promises
    assert not workspace.zeros("marks", 9, np.int64).any()


def test_a_thread_has_arrays_of_its_own():
    workspace, together = Workspace(), threading.Barrier(3)

    def work(number):
        together.wait(timeout=60)
        array, zeros = workspace.array("a", (50,), np.int64), workspace.zeros("z", 50, np.int64)
        array[:] = number
        zeros[:] += number
        together.wait(timeout=60)
        assert (array == number).all() and (zeros == number).all()

    workspace.array("a", (50,), np.int64)[:] = -1
    with ThreadPoolExecutor(3) as workers:
        list(workers.map(work, range(3)))
    assert (workspace.array("a", (50,), np.int64) == -1).all()
