"""The simulation of a cluster against queueing theory and numbers worked out by hand."""

import numpy as np
import pytest

from experiments.cluster_parts import MeasuredIndex, Parts, Round, Search, Transport
from experiments.cluster_simulation import Cluster, Laws, Size, simulate
from rerank_plugin.base.errors import InputError

FREE = Transport(0.0, 0.0, 0.0, 100.0, "256m")


def measured(searches, shards=1, documents=1000, lists=0, probes=0):
    return MeasuredIndex("index", documents, shards, lists, probes, 10_000, {"bm25": searches})


def parts(searches, transport=FREE, **index):
    return Parts("a machine", transport, [measured(searches, **index)])


def one_round(*seconds):
    return Search([Round(0.0, "best_matches", list(seconds), [], 0.0, 0.0)], 0.0)


def test_a_query_takes_the_slowest_shard_of_each_round_and_the_work_between():
    searches = [
        Search(
            [
                Round(0.001, "best_matches", [0.010, 0.010], [], 1000.0, 4000.0),
                Round(0.002, "score", [0.003, 0.003], [5, 5], 500.0, 100.0),
            ],
            0.004,
        )
    ]
    transport = Transport(0.0001, 0.0002, 0.0005, 100.0, "256m")
    cluster = Cluster(Size(1000, 2, 0, 0), 1, 4, round_trip=0.001, bandwidth=1e6)
    found = simulate(parts(searches, transport, shards=2), "bm25", cluster, 0.0, 10, 1).seconds
    asking = 0.0001 + 2 * 0.0002  # both shards are asked in the first round
    first = 0.001 + asking + 0.0005 + 0.010 + 0.001 + (1000 + 2 * 4000) / 1e6
    # Ten documents fall on both shards, or all on one of them.
    second = 0.002 + 0.0005 + 0.001 + 600 / 1e6 + 0.004
    assert ((found > first + second) & (found < first + second + asking + 0.003 + 0.007)).all()


@pytest.mark.parametrize(("cores", "load"), [(1, 0.7)])
def test_a_shared_core_answers_as_fast_as_theory_says(cores, load):
    """M/G/1 with processor sharing: the mean is s / (1 - load), whatever the distribution of the times."""
    searches = [one_round(0.001), one_round(0.003)]  # 2 ms in the mean
    cluster = Cluster(Size(1000, 1, 0, 0), 1, cores)
    found = simulate(parts(searches), "bm25", cluster, load / 0.002, 30_000, 3)
    assert found.busy[0] == pytest.approx(load, rel=0.03)
    assert found.seconds.mean() == pytest.approx(0.002 / (1 - load), rel=0.08)


def test_shards_on_two_cores_take_as_long_as_their_work_on_both():
    searches = [one_round(*[0.010] * 8)]
    size = Size(1000, 8, 0, 0)
    for cores, expected in ((8, 0.010), (2, 0.040), (1, 0.080)):
        found = simulate(parts(searches, shards=8), "bm25", Cluster(size, 8, cores), 0.0, 5, 1).seconds
        np.testing.assert_allclose(found, expected)


def test_queries_that_are_slow_are_slow_on_all_shards():
    searches = [one_round(0.001, 0.001), one_round(0.100, 0.100)]
    found = simulate(parts(searches, shards=2), "bm25", Cluster(Size(1000, 2, 0, 0), 1, 1), 0.0, 2000, 1).seconds
    assert np.mean(found > 0.05) == pytest.approx(0.5, abs=0.05)  # of independent times, 3 of 4 queries were slow


def test_a_second_replica_is_asked_after_the_time_of_hedging():
    size, found = Size(1000, 4, 0, 0), {}
    for slowness in (1.0, 50.0):
        cluster = Cluster(size, 1, 1, replicas=2, hedge=0.02, slow=1, slowness=slowness)
        found[slowness] = simulate(parts([one_round(*[0.010] * 4)], shards=4), "bm25", cluster, 0.0, 400, 1).seconds
    np.testing.assert_allclose(found[1.0], 0.010)
    assert set(np.unique(found[50.0].round(6))) == {0.010, 0.030}
    dead = Cluster(size, 1, 1, replicas=2, dead=1)
    found = simulate(parts([one_round(*[0.010] * 4)], shards=4), "bm25", dead, 0.0, 9, 1)
    np.testing.assert_allclose(found.seconds, 0.010)
    alone = simulate(parts([one_round(0.010)]), "bm25", Cluster(Size(1000, 1, 0, 0), 1, 1, dead=1), 1.0, 9, 1)
    assert len(alone.seconds) == 0 and alone.failed == "a shard has no process that answers"


def test_too_many_queries_pile_up_and_are_reported():
    found = simulate(parts([one_round(0.010)]), "bm25", Cluster(Size(1000, 1, 0, 0), 1, 1), 200.0, 5000, 1)
    assert len(found.seconds) == 0 and found.failed == "queries come faster than they are answered"
    assert found.busy[0] == pytest.approx(1.0, abs=0.01)


def test_the_same_seed_gives_the_same_latencies():
    searches = [one_round(0.001), one_round(0.003)]
    cluster = Cluster(Size(1000, 1, 0, 0), 1, 1)
    first, second, other = (simulate(parts(searches), "bm25", cluster, 200.0, 500, seed).seconds for seed in (1, 1, 2))
    assert (first == second).all() and (first[:100] != other[:100]).any()


def test_times_grow_by_the_law_that_fits_the_measured_sizes():
    searches = {
        documents: [one_round(*[0.001 + 1e-5 * np.sqrt(documents / 4)] * 4)] for documents in (4_000, 40_000, 400_000)
    }
    indexes = [measured(found, 4, documents) for documents, found in searches.items()]
    law = Laws(indexes, "bm25").of_shard["best_matches"]
    assert law(Size(4_000_000, 4, 0, 0), 0) == pytest.approx(0.011)
    many = Parts("a machine", FREE, indexes)
    found = simulate(many, "bm25", Cluster(Size(40_000_000, 40, 0, 0), 1, 1), 0.0, 5, 1).seconds
    np.testing.assert_allclose(found, 0.011)
    with pytest.raises(InputError, match="'qld' was not measured: take bm25"):
        simulate(many, "qld", Cluster(Size(4_000, 4, 0, 0), 1, 1), 0.0, 5, 1)


def test_a_search_of_vectors_compares_centroids_and_the_vectors_of_the_lists_that_it_reads():
    indexes = []
    for documents, lists, probes in ((200_000, 3_000, 900), (1_000_000, 8_000, 500), (4_000_000, 16_000, 500)):
        seconds = 1e-4 + 5e-8 * (lists + documents / 4 * probes / lists) + 4e-7 * probes
        searches = [Search([Round(0.0, "nearest", [seconds] * 4, [], 0.0, 0.0)], 0.0)]
        indexes.append(measured(searches, 4, documents, lists, probes))
    law = Laws(indexes, "bm25").of_shard["nearest"]
    expected = 1e-4 + 5e-8 * (160_000 + 40_000_000 * 500 / 160_000) + 4e-7 * 500
    assert law(Size(400_000_000, 10, 160_000, 500), 0) == pytest.approx(expected)


def test_documents_asked_about_are_divided_among_shards():
    """A shard takes a millisecond for a document. Of 100 documents, one of 100 shards has hardly ever 10 and more."""
    searches = [
        Search([Round(0.0, "score", [rows / 1000] * 2, [rows] * 2, 0.0, 0.0)], 0.0) for rows in (50, 50, 10, 10)
    ]
    cluster = Cluster(Size(1000, 100, 0, 0), 1, 1)
    found = 1000 * simulate(parts(searches, shards=2), "bm25", cluster, 0.0, 500, 1).seconds
    assert set(np.unique(found.round(6))) <= set(range(1, 10)) and 2 <= np.median(found) <= 5
