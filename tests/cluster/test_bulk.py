"""Work that is not a query on a Ray cluster: results are those of the same command in one process."""

import os
import signal
from functools import partial

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.cluster.building import build_shards
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.index import main as index
from rerank_plugin.search import main as search
from tests.cluster.conftest import SHARDS, dated_documents


@pytest.fixture
def config(address):
    return ClusterConfig(address, heap="256m")


def squares(folder, lethal=None, deaths=0):
    """Opens work that squares numbers, notes the process, and kills it at a number until it has died often enough."""

    def opened():
        (folder / f"opened-{os.getpid()}").touch()

        def work(number):
            if number == lethal and len(list(folder.glob("died-*"))) < deaths:
                (folder / f"died-{os.getpid()}").touch()
                os._exit(9)
            if number < 0:
                raise InputError(f"{number} is negative")
            return number * number

        return work

    return opened


def test_results_come_in_order_and_work_is_opened_once_in_a_process(config, tmp_path):
    from rerank_plugin.cluster.mapping import cluster_map

    assert list(cluster_map(squares(tmp_path), range(50), config)) == [number * number for number in range(50)]
    assert 1 <= len(list(tmp_path.glob("opened-*"))) <= 2  # the cluster has two processors
    assert list(cluster_map(squares(tmp_path), [], config)) == []


def test_the_work_of_a_process_that_dies_is_repeated_and_errors_are_one_line(config, tmp_path):
    from rerank_plugin.cluster.mapping import cluster_map

    found = list(cluster_map(squares(tmp_path, lethal=7, deaths=1), range(12), config))
    assert found == [number * number for number in range(12)] and len(list(tmp_path.glob("died-*"))) == 1
    results = cluster_map(squares(tmp_path), [2, -3, 4], config)
    assert next(results) == 4
    with pytest.raises(InputError, match="^on machine .*: -3 is negative$"):
        next(results)
    with pytest.raises(InputError, match="the processes of a part of the work died on the cluster, the last of 4"):
        list(cluster_map(squares(tmp_path, lethal=1, deaths=99), [1], config))


@pytest.mark.parametrize("given", [False, True])
def test_a_run_of_divided_queries_is_the_same_file(twins, address, tmp_path, given):
    paths = {name: tmp_path / name for name in ("candidates", "local", "cluster")}
    shared = ["--index", str(twins[0]), "--queries", "sample:test", "--depth", "60", "--queries-at-once", "2"]
    if given:
        search([*shared, "--first-stage", "qld", "--output", str(paths["candidates"])])
        shared += ["--run", str(paths["candidates"])]
    shared += ["--reranker", "ktrel@40", "--reranker", "delta@20", "--output"]
    search([*shared, str(paths["local"])])
    if given:  # by processes that each read all shards
        shared = [*shared[:1], str(twins[1]), "--by-queries", *shared[2:]]
    search([*shared, str(paths["cluster"]), "--cluster", address, "--shard-heap", "256m"])
    assert paths["cluster"].read_bytes() == paths["local"].read_bytes() != b""


def test_a_machine_with_other_files_is_refused(twins, tmp_path):
    from rerank_plugin.ranking.on_cluster import open_ranking
    from rerank_plugin.ranking.pipeline import Pipeline

    opening = partial(open_ranking, Pipeline(twins[0]), threads=1, together=1)
    with pytest.raises(InputError, match="is of the generation .*, not of other: copy it"):
        opening(build="other", contents={})
    with pytest.raises(InputError, match=r"a\.run is missing or differs: copy it to the same path, with its times"):
        opening(build="", contents={str(tmp_path / "a.run"): "0"})


def arrays_of(folder):
    """The contents of all arrays of an index by their paths; other files tell one build from another."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npy")}


def test_shards_and_encodings_that_a_cluster_makes_are_the_same_files(twins, config, tmp_path, monkeypatch):
    monkeypatch.setenv("RERANK_PLUGIN_JVM_OPTIONS", "-Xmx256m")
    build_shards(dated_documents(), tmp_path / "index", "sample", Problems(), SHARDS, config=config)
    index(["--encode", "ktrel", "--index", str(tmp_path / "index"), "--cluster", config.address])
    found, expected = arrays_of(tmp_path / "index"), arrays_of(twins[1])
    assert found.keys() == expected.keys() and len(found) > 50
    assert {name for name in found if found[name] != expected[name]} == set()


def test_a_builder_that_dies_or_sees_no_folder_is_named_and_nothing_is_left(config, tmp_path, monkeypatch):
    import ray

    from rerank_plugin.cluster import remote_building

    builders = []

    class Builder(remote_building.RemoteBuilder):
        def __enter__(self):
            builders.append(self)
            return self

    def documents():
        for number in range(9000):
            if number == 4000:
                victim = ray.get(builders[1].actor.__ray_call__.remote(lambda _: os.getpid()))
                os.kill(victim, signal.SIGKILL)
            yield Document(str(number), "title", "text")

    monkeypatch.setattr(remote_building, "RemoteBuilder", Builder)
    with pytest.raises(InputError, match=r"the process that builds 001 of the shards ended \(.*nothing was written"):
        build_shards(documents(), tmp_path / "index", "source", Problems(), 2, config=config)
    assert not list(tmp_path.iterdir())
    with remote_building.RemoteBuilder(tmp_path / "elsewhere/shards/000", {}, config, lag=0) as builder:
        with pytest.raises(InputError, match=r"^machine .* does not see .*/elsewhere: build on a folder that all"):
            builder.add([])
