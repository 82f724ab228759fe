"""One collection as a single index and as an index of shards, both encoded by the bundled encoder."""

import os

import pytest

from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.corpora import Problems, documents
from rerank_plugin.index import main as index
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.indexes.shard_building import build_shards

SHARDS = 2


def dated_documents():
    """The documents of the sample, with dates to filter by."""
    for number, document in enumerate(documents("sample")):
        yield document._replace(metadata={"date": str(1990 + number % 30)})


@pytest.fixture(scope="session")
def twins(tmp_path_factory):
    """The folders of a single index and of an index of shards of the sample."""
    folder = tmp_path_factory.mktemp("twins")
    build_single(dated_documents(), folder / "single", "sample", Problems())
    build_shards(dated_documents(), folder / "sharded", "sample", Problems(), SHARDS)
    for name in ("single", "sharded"):
        index(["--encode", "ktrel", "--index", str(folder / name)])
    return folder / "single", folder / "sharded"


@pytest.fixture(scope="package")
def address():
    """The address of a Ray cluster of two nodes on this machine, for the tests of this folder: it is never idle."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    from rerank_plugin.cluster.connection import disconnect

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # a token would be written into the user's home
    # Else 15: its processes would wait for all tests beside them.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    head = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield nodes.address
    disconnect()
    nodes.shutdown()


@pytest.fixture(scope="package")
def remote(twins, address):
    """The index of shards on the cluster, with two processes for each shard."""
    yield from opened(ClusterConfig(address, replicas=2, deadline=60, heap="256m"), twins[1])


@pytest.fixture(scope="package")
def one_process(twins, address):
    """The same with one process for each shard, which commands share that open it on the cluster."""
    yield from opened(ClusterConfig(address, heap="256m"), twins[1])


def opened(config, folder):
    index = open_index(config.url(folder))
    yield index
    index.close()
