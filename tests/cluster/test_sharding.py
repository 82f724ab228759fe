"""An index of shards against a single index of the same corpus: the same rows, words, statistics, scores and order."""

import json
import os
import pickle
import shutil
import signal
import time
from io import StringIO
from itertools import product

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.cluster.shard import Shard
from rerank_plugin.corpora import Document, Problems, queries
from rerank_plugin.files.string_table import hash_strings
from rerank_plugin.index import main as index_command
from rerank_plugin.indexes import shard_worker, vector_store
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.segment import FIELDS
from rerank_plugin.indexes.shard_building import build_shards
from rerank_plugin.indexes.sharding import Commit, shard_of
from rerank_plugin.indexes.vector_store import open_store
from rerank_plugin.indexes.verification import verify
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.ranking.cascade import Stage
from rerank_plugin.ranking.pipeline import Pipeline
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.retrieval.register import configure
from tests.cluster.conftest import SHARDS
from tests.processes import start

STAGES = [
    ("bm25", ()), ("qld", ()), ("bm25+rm3", ()), ("dense:ktrel", ()), ("hybrid", ()), ("hybrid+rm3", ()), ("all", ()),
    ("bm25", ("delta",)), ("bm25", ("bm25-text",)), ("bm25", ("qld-title",)), ("hybrid", ("ktrel@50", "delta@20")),
]  # fmt: skip


def test_rows_words_and_statistics_are_those_of_a_single_index(twins):
    single, sharded = (Index(folder).forward for folder in twins)
    rows = np.arange(len(single))
    assert len(sharded) == len(single) == sharded.documents and sharded.mean_lengths == single.mean_lengths
    for table in ("ids", "titles", "published"):
        assert getattr(sharded, table).take(rows) == getattr(single, table).take(rows)
    assert sharded.terms.take(np.arange(len(sharded.terms))) == single.terms.take(np.arange(len(single.terms)))
    np.testing.assert_array_equal(sharded.title_lengths, single.title_lengths)
    for field in FIELDS:
        np.testing.assert_array_equal(sharded.document_frequency[field], single.document_frequency[field])
        np.testing.assert_array_equal(sharded.unique_terms[field], single.unique_terms[field])
    some = np.random.default_rng(3).permutation(rows)[:200]
    for found, row in zip(zip(*sharded.words(some)[1:]), some):
        words = sharded.words(some).tokens[found[0] : found[0] + found[1]]
        np.testing.assert_array_equal(words, single.document_tokens(row))
        np.testing.assert_array_equal(sharded.document_tokens(row), single.document_tokens(row))
    held = [len(Index(twins[1], shard=number)) for number in range(SHARDS)]
    assert len(held) == SHARDS and sum(held) == len(single) and min(held) > len(single) / SHARDS / 2


def test_the_shard_of_a_document_is_the_same_for_ever():
    """A format on disk: BLAKE2b with a digest of 8 bytes (``b2sum --length=64``), little-endian, modulo the shards."""
    ids = ["31000001", "PMC42", "β"]
    assert shard_of(hash_strings(ids), 7).tolist() == [3, 5, 6]
    assert shard_of(hash_strings(ids), 64).tolist() == [9, 2, 28]


def test_a_shard_alone_has_the_statistics_of_the_collection(twins):
    single, shard = Index(twins[0]), Index(twins[1], shard=1)
    assert shard.forward.documents == len(single) > len(shard) == len(shard.forward)
    query = "heart attack and aspirin"
    np.testing.assert_array_equal(shard.forward.query(query).ids, single.forward.query(query).ids)
    np.testing.assert_array_equal(shard.forward.term_weights, single.forward.term_weights)


@pytest.mark.parametrize(("stage", "rerankers"), STAGES)
def test_runs_are_those_of_a_single_index(twins, stage, rerankers):
    runs = []
    for folder in twins:
        pipeline = Pipeline(folder, configure(stage), 100, tuple(map(Stage.parse, rerankers))).open()
        runs.append(list(pipeline.rank_all(queries("sample:test"), together=4)))
        pipeline.close()
    for found, expected in zip(runs[1], runs[0], strict=True):
        assert found.doc_ids == expected.doc_ids
        np.testing.assert_array_equal(found.ranked_scores, expected.ranked_scores)
    assert any(len(ranking.order) for ranking in runs[0])


def test_a_searcher_gives_the_same_hits_documents_and_explanations(twins):
    single, sharded = (Searcher(folder, "delta", depth=50) for folder in twins)
    query, filter = "aspirin after a heart attack", Filter.of({"year": "2000-"})
    for options in ({}, {"filter": filter}):
        found, expected = (searcher.search(query, 20, **options) for searcher in (sharded, single))
        numbered = [(hit.docid, hit.score, hit.rank, hit.title, hit.first_stage_rank) for hit in found]
        assert numbered == [(hit.docid, hit.score, hit.rank, hit.title, hit.first_stage_rank) for hit in expected]
        assert len(found) > 5
    for hit in found[:5]:
        assert sharded.doc(hit.docid).raw() == single.doc(hit.docid).raw()
        assert sharded.doc(hit.lucene_docid).docid() == hit.docid
        assert sharded.explain(query, hit.docid) == single.explain(query, hit.docid)
        assert [near.docid for near in sharded.similar(hit.docid)] == [near.docid for near in single.similar(hit.docid)]
    sharded.close()
    single.close()


def test_shards_read_the_inverted_lists_that_the_whole_reads(twins, tmp_path, monkeypatch):
    folder = shutil.copytree(twins[1], tmp_path / "copy")
    index_command(["--encode", "ktrel", "--index", str(folder), "--nlist", "12", "--nprobe", "10", "--overwrite"])
    forward, shards = Index(folder).forward, [Index(folder, shard=number).forward for number in range(SHARDS)]
    rows_of = [forward.row_map.of_shard(number) for number in range(SHARDS)]
    key = next(path.name for path in (folder / "encodings/000001").iterdir())
    described = json.loads((folder / "encodings/000001" / key / "encodings.json").read_text())
    spaces = Spaces(described["spaces"])
    whole, parts = open_store(forward, key, spaces), [open_store(shard, key, spaces) for shard in shards]
    asked = whole.decode(np.arange(0, len(forward), 50))
    monkeypatch.setattr(vector_store, "FLAT", 0)  # with a filter more are searched by lists
    fits = np.random.default_rng(5).random(len(forward)) < 0.3
    fitting = [part.fitting(fits[rows]) for part, rows in zip(parts, rows_of)]
    held = sum(each.held for each in fitting)
    filters = [[None] * (SHARDS + 1), [fits, *(each.in_whole(held) for each in fitting)]]
    for (count, probes), of_stores in product(((20, 2), (300, 1), (600, None), (len(forward), 12)), filters):
        searched = zip((whole, *parts), of_stores)
        for expected, *found in zip(*(store.search_many(asked, count, of, probes) for store, of in searched)):
            rows = np.concatenate([of[local] for of, (local, _) in zip(rows_of, found)])
            scores = np.concatenate([some for _, some in found])
            order = np.lexsort((rows, -scores))[:count]
            np.testing.assert_array_equal(rows[order], expected[0])
            np.testing.assert_array_equal(scores[order], expected[1])
    assert whole.recall(42) < 1


def test_all_files_are_verified(twins, tmp_path):
    folder = shutil.copytree(twins[1], tmp_path / "copy")
    assert verify(Index(folder)) > 3 * SHARDS
    tokens = folder / "shards/001/segments/000001/tokens.npy"
    content = bytearray(tokens.read_bytes())
    content[len(content) // 2] ^= 1
    tokens.write_bytes(content)
    with pytest.raises(InputError, match="shards/001/segments/000001/tokens.npy has changed"):
        verify(Index(folder))
    (folder / "shards/000/segments/000001/ids.rows.npy").unlink()
    with pytest.raises(InputError, match="shards/000/segments/000001/ids.rows.npy is missing"):
        Index(folder)


def test_a_shard_is_opened_by_the_commit_of_its_index(twins):
    index = Index(twins[1], shard=1)
    assert index.rebuild == Index(twins[1]).rebuild and index.rebuild.endswith(f"--overwrite --shards {SHARDS}")
    copy = pickle.loads(pickle.dumps(index))
    assert (copy.commit, len(copy)) == (index.commit, len(index))
    with pytest.raises(InputError, match=f"it is a shard; open the index {twins[1]}$"):
        Index(twins[1] / "shards/001")
    with pytest.raises(InputError, match="holds no commits/000002.json"):
        Shard(twins[1] / "shards/001", Commit(2, index.commit))
    with pytest.raises(InputError, match="has the commit .*, not another: copy the index again"):
        Shard(twins[1] / "shards/001", Commit(1, "another"))


def test_bad_numbers_of_shards_are_refused(tmp_path, documents):
    with pytest.raises(InputError, match=r"shards would hold none of the 2 documents: take fewer shards"):
        build_shards(documents[:2], tmp_path / "i", "two", Problems(), 3)
    with pytest.raises(InputError, match="257 shards: take 1 to 256"):
        build_shards(documents, tmp_path / "i", "some", Problems(), 257)
    with pytest.raises(InputError, match="no document to index in none"):
        build_shards([], tmp_path / "i", "none", Problems(), 2)
    assert not list(tmp_path.iterdir())


def test_the_command_replaces_an_index_of_shards_only(tmp_path, refused):
    folder = tmp_path / "i"
    build = ["--corpus", "sample", "--index", str(folder)]
    index_command([*build, "--shards", "2"])
    (folder / "shards/001/mine.txt").write_text("a note")
    said = refused(f"index --corpus sample --index {folder} --overwrite")
    assert "holds shards/001/mine.txt, which does not belong to it" in said
    (folder / "shards/001/mine.txt").unlink()
    index_command([*build, "--overwrite"])
    assert not (folder / "shards").exists()
    said = refused(f"index --encode ktrel --shards 2 --index {folder}")
    assert "--shards is for building an index of a corpus" in said


def test_a_builder_ends_where_the_line_of_a_dead_process_ends():
    batches = shard_worker._batches(StringIO('[["1", "t", "a", null]]\n[["2", "t'))
    assert next(batches) == ([Document("1", "t", "a")], None)
    with pytest.raises(SystemExit):
        next(batches)


@pytest.mark.parametrize("victim", ["worker", "coordinator"])
def test_a_process_killed_during_a_build_leaves_nothing(tmp_path, victim):
    lines = (json.dumps({"_id": f"N{number}", "title": "t", "text": f"word{number} " * 50}) for number in range(15_000))
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    process = start(tmp_path, "-m", "rerank_plugin.index", "--corpus", "corpus.jsonl", "--index", "i", "--shards", "2")
    workers = _wait_for(lambda: _children(process.pid), 2)
    os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    _wait_for(lambda: [True] * all(not os.path.exists(f"/proc/{worker}") for worker in workers), 1)
    assert not (tmp_path / "i").exists()
    if victim == "worker":
        assert process.returncode == 2 and "ended with status -9: nothing was written" in said
        assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def _children(pid):
    """The children of a process that run a shard's builder."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _wait_for(found, count):
    deadline = time.monotonic() + 60
    while len(result := found()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result
