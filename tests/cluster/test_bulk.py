"""Work that is not a query on a Ray cluster: results are those of the same command in one process."""

import os
import signal
from contextlib import suppress

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.cluster.opening import ClusterLocation
from rerank_plugin.corpora import Document, Problems
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.index import main as index
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.shard_building import build_shards
from rerank_plugin.java.jvm import OPTIONS
from rerank_plugin.models import document_encoder
from tests.cluster.conftest import SHARDS, dated_documents


@pytest.fixture
def config(address):
    return ClusterLocation(address, heap="256m")


def arrays_of(folder):
    """The contents of all arrays of an index by their paths; other files tell one build from another."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npy")}


def test_shards_and_encodings_that_a_cluster_makes_are_the_same_files(twins, config, tmp_path, monkeypatch):
    from rerank_plugin.cluster import encoding

    class Dying(encoding.EncodingProcess):
        """Dies at its first batch, once."""

        def encoded(self, *arguments):
            with suppress(FileExistsError):
                (tmp_path / "died").touch(exist_ok=False)
                os._exit(9)
            return super().encoded(*arguments)

    monkeypatch.setenv(OPTIONS, f"{os.environ[OPTIONS]} -Xmx256m")
    monkeypatch.setattr(encoding, "EncodingProcess", Dying)
    monkeypatch.setattr(document_encoder, "SPILL", 100)
    build_shards(dated_documents(), tmp_path / "index", "sample", Problems(), SHARDS, location=config)
    index(["--encode", "ktrel", "--index", str(tmp_path / "index"), "--cluster", config.address])
    found, expected = arrays_of(tmp_path / "index"), arrays_of(twins[1])
    assert found.keys() == expected.keys() and len(found) > 50 and (tmp_path / "died").exists()
    assert {name for name in found if found[name] != expected[name]} == set()


def test_other_files_and_processes_that_keep_dying_are_told_in_one_line(twins, config, monkeypatch):
    from rerank_plugin.cluster import encoding

    class Lethal(encoding.EncodingProcess):
        def encoded(self, *_):
            os._exit(9)

    encoder, batches = IndexEncoder(Index(twins[0]).forward, "ktrel"), [np.arange(3)]
    monkeypatch.setattr(encoding, "cluster_processors", lambda: 1)
    monkeypatch.setattr(encoder, "key", "other")
    with pytest.raises(InputError, match="^on machine .*: ktrel differs from that of the command's machine"):
        list(encoding.encode_on_cluster(encoder, None, config)(batches))
    monkeypatch.setattr(encoding, "EncodingProcess", Lethal)
    monkeypatch.setattr(encoding, "RETRIES", 1)
    with pytest.raises(InputError, match="^the processes of a batch died on the cluster, the last of 2 with: .*$"):
        list(encoding.encode_on_cluster(encoder, None, config)(batches))


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
        build_shards(documents(), tmp_path / "index", "source", Problems(), 2, location=config)
    assert not list(tmp_path.iterdir())
    folders = (tmp_path / "elsewhere/shards/000" / name for name in ("segments/000001", "lucene"))
    with remote_building.RemoteBuilder(*folders, {"stemmer": None}, config, lag=0) as builder:
        with pytest.raises(InputError, match=r"^machine .* does not see .*/elsewhere: build on a folder that all"):
            builder.add([])
