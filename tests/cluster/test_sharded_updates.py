"""Updates of an index of shards against a single index given the same, searched as a whole and shard by shard."""

import gc
import json
import shutil
from contextlib import closing

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.cluster.index import RemoteIndex
from rerank_plugin.cluster.shard import Shard
from rerank_plugin.corpora import Problems
from rerank_plugin.encoding.updates import merge_index
from rerank_plugin.files.outputs import OutputLockedError
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.indexes import updating
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.commits import next_commit
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.indexes.shard_building import build_shards
from rerank_plugin.indexes.sharding import Commit, shard_of
from rerank_plugin.indexes.verification import verify
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.retrieval.register import configure
from tests.indexes import encoded
from tests.indexes.updates import (
    QUERIES,
    WORDS,
    InProcess,
    add,
    by_id,
    document,
    journaled,
    only_its_files,
    ranked,
)

SHARDS = 3
STAGES = [
    ("bm25", ()), ("qld", ()), ("bm25", ("bm25-text",)), ("qld", ("delta",)), ("bm25", ("ktrel",)), ("dense:ktrel", ()),
    ("hybrid", ()),
]  # fmt: skip
ALONE = ["bm25+rm3", "hybrid+rm3", "all"]  # what no cluster computes, or what needs no second computation


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A single index and an index of shards of the same twelve documents, both encoded; and an encoder of them."""
    folder, documents = tmp_path_factory.mktemp("started"), list(map(journaled, range(12)))
    with pytest.MonkeyPatch.context() as patch:
        other = encoded.encoders(folder, WORDS, patch).other
        build_single(iter(documents), folder / "single", "tests", Problems())
        build_shards(iter(documents), folder / "sharded", "tests", Problems(), SHARDS)
        for name in ("single", "sharded"):
            index = Index(folder / name)
            encoded.encode(index, other, [one.id for one in documents])
            index.close()
        yield folder, other


@pytest.fixture
def twins(started, tmp_path):
    """Copies of both."""
    for name in ("single", "sharded"):
        shutil.copytree(started[0] / name, tmp_path / name)
    return tmp_path / "single", tmp_path / "sharded"


def check_alike(single, sharded, other):
    """Check that an index of shards has the rows, words, statistics, scores and order of a single index."""
    with closing(Index(single)) as single, closing(Index(sharded)) as sharded:
        _check_alike(single, sharded, other)


def _check_alike(single, sharded, other):
    assert verify(sharded) and len(sharded) == len(single)
    for name in ("documents", "terms", "fields", "number", "left_out"):
        assert sharded.description[name] == single.description[name], name
    assert sharded.description["lucene"]["metadata"] == single.description["lucene"]["metadata"]
    assert by_id(sharded) == by_id(single)
    forward, expected = sharded.forward, single.forward
    for name in ("ids", "terms"):
        count = len(getattr(expected, name))
        assert getattr(forward, name).take(np.arange(count)) == getattr(expected, name).take(np.arange(count))
        assert len(getattr(forward, name)) == count
    np.testing.assert_array_equal(forward.deleted, expected.deleted)
    np.testing.assert_array_equal(forward.title_lengths, expected.title_lengths)
    for field in FIELDS:
        np.testing.assert_array_equal(forward.document_frequency[field], expected.document_frequency[field])
        np.testing.assert_array_equal(forward.unique_terms[field], expected.unique_terms[field])
    fitting = [
        one.forward.ids.take(np.flatnonzero(one.fitting(Filter.of({"journal": "J1"})))) for one in (single, sharded)
    ]
    assert fitting[0] == fitting[1]
    encoded.equal_arrays(sharded, single)
    for stage in ALONE:
        assert ranked(sharded, stage) == ranked(single, stage)
    with closing(RemoteIndex(sharded.folder, InProcess)) as remote:
        for stage, rerankers in [*STAGES, (f"dense:{other}", ()), (f"neighbours:{other}", ())]:
            assert ranked(remote, stage, rerankers) == ranked(single, stage, rerankers), stage


def test_updates_give_what_a_single_index_gives(started, twins):
    """Documents are replaced and deleted, one shard gets none of those that are added, and segments stay unmerged."""
    shards = shard_of(hash_strings([document(number).id for number in range(12, 60)]), SHARDS)
    new = [number for number, shard in zip(range(12, 60), shards.tolist()) if shard != shards[0]][:4]
    for update in (
        lambda one: add(one, *map(journaled, new), journaled(3, version=1)),
        lambda one: updating.delete(one, [document(number).id for number in (3, 5, new[0])]),
    ):
        assert update(twins[0]) == update(twins[1])
    check_alike(*twins, started[1])


def test_searches_with_other_settings_share_the_readers_of_a_shard(twins):
    single = Index(twins[0])
    with closing(RemoteIndex(twins[1], InProcess)) as index:
        for stage, options in (("bm25", {"k1": 0.3, "b": 0.9}), ("qld", {"mu": 50.0}), ("bm25", {"field": "title"})):
            stages = [configure(stage).open(each).configured(**options) for each in (single, index)]
            for number, text in enumerate(QUERIES):
                expected, found = (each.search(Query(str(number), text), 20) for each in stages)
                assert found.ids == expected.ids
                assert found.first_stage_scores.tolist() == expected.first_stage_scores.tolist()
        for shard in index.answering.shards:
            readers = {id(shard.stage(LuceneConfig(k1=k1)).reader) for k1 in (0.1, 0.9, 2.0)}
            assert len(readers) == 1


def test_an_update_leaves_the_files_of_other_shards_as_they_are(twins):
    """A shard without a document of an update only gets the numbers of the others' in `rest`."""
    number, shards = 12, twins[1] / "shards"
    mine = int(shard_of(hash_strings([document(number).id]), SHARDS)[0])
    before = {path: path.stat() for path in shards.rglob("*") if path.is_file()}
    add(twins[1], journaled(number))
    kept = [path for path in before if path.exists() and path.name != "write.lock"]
    assert all(path.stat().st_mtime_ns == before[path].st_mtime_ns for path in kept)
    new = {path.relative_to(shards).parts[:2] for path in shards.rglob("*") if path.is_file() and path not in before}
    expected = {(f"{mine:03d}", "segments"), *((f"{n:03d}", "rest") for n in range(SHARDS) if n != mine)}
    assert {pair for pair in new if pair[1] != "lucene"} == expected


def test_an_open_index_keeps_its_commit_of_every_shard_until_it_is_closed(twins):
    """Also where only the coordinator has it open, as when the processes of all shards are started anew."""
    folder = twins[1]
    remote, alone = RemoteIndex(folder, InProcess), Index(folder)
    before = ranked(remote, "hybrid", ("ktrel",))
    remote.answering.close()
    add(folder, journaled(2, version=1), journaled(30), journaled(31))
    updating.delete(folder, [document(5).id])
    merge_index(folder)
    remote.answering.restart()
    assert ranked(remote, "hybrid", ("ktrel",)) == before == ranked(alone, "hybrid", ("ktrel",))
    with closing(Index(folder)) as current:
        assert ranked(current, "hybrid", ("ktrel",)) != before
    with pytest.raises(InputError, match="holds no commits/000002.json"):
        Shard(folder / "shards/000", Commit(2, "any"))  # nobody has it open
    for index in (remote, alone):
        index.close()
    gc.collect()
    updating.delete(folder, [document(30).id])
    only_its_files(folder)
    with pytest.raises(InputError, match="holds no commits/000001.json"):
        remote.answering.restart()


def test_bad_updates_leave_the_commit(twins):
    folder = twins[1]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    ids = [document(number).id for number in range(12)]
    for update, said in (
        (lambda: updating.delete(folder, [ids[0], "nobody"]), "1 of 2 ids to delete are not in .*first 'nobody'"),
        (lambda: updating.delete(folder, ids), "no document would be left"),
        (lambda: add(folder), "no document to index in tests"),
        (lambda: updating.delete(folder / "shards/000", ids[:1]), f"it is a shard; open the index {folder}"),
    ):
        with pytest.raises(InputError, match=said) as raised:
            update()
        assert "\n" not in str(raised.value)
    with next_commit(folder), pytest.raises(OutputLockedError, match="is being written by another process"):
        add(folder, document(6))
    gc.collect()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_the_command_updates_shards(twins, put, index_command):
    corpus = put("x.jsonl", json.dumps({"_id": "x", "title": "aspirin", "text": "a new one"}))
    ids = put("ids.txt", f"{document(1).id}\n")
    status, out, err = index_command("--index", twins[1], "--merge", "--delete", ids, "--add", corpus)
    assert status == 0, err
    assert [line.split("; ")[1] for line in out.splitlines()] == ["11 documents", "12 documents", "12 documents"]
    with rp.Searcher(twins[1]) as searcher:
        assert searcher.doc("x").get("title") == "aspirin" and searcher.doc(document(1).id) is None
    assert index_command("--index", twins[1], "--verify")[0] == 0
