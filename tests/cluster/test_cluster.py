"""An index of shards on two nodes of Ray on this machine against a single index: scores, refusals, and faults."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError, UnavailableError
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Missing, Query
from rerank_plugin.base.stopping import LateError, within
from rerank_plugin.cluster.config import ClusterConfig
from rerank_plugin.cluster.index import RemoteStore
from rerank_plugin.corpora import queries
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.locations import open_index
from rerank_plugin.ranking.cascade import Stage
from rerank_plugin.ranking.hits import ranked_hits
from rerank_plugin.ranking.pipeline import Pipeline, read
from rerank_plugin.ranking.ranked_lists import rank_many
from rerank_plugin.ranking.reranker import Reranker
from rerank_plugin.ranking.searcher import Searcher
from rerank_plugin.retrieval.register import configure
from rerank_plugin.search import main as search
from rerank_plugin.service.config import ServiceConfig
from tests.processes import start
from tests.service.live import serving

RUNS = [
    ("bm25", ()), ("qld", ()), ("dense:ktrel", ()), ("hybrid", ()), ("all", ("bm25-text",)), ("bm25", ("delta",)),
    ("hybrid", ("ktrel@50", "delta@20")),
]  # fmt: skip


def test_the_best_of_all_shards_are_cut_to_the_count():
    """Of shards with rows 0, 2, 4, ... and 1, 3, 5, ...; ties go to the earlier row."""
    store = RemoteStore.__new__(RemoteStore)
    store.index = SimpleNamespace(whole_rows=lambda number, local: 2 * local + number)
    of_shards = {0: [(np.array([3, 1]), np.array([0.9, 0.5]))], 1: [(np.array([0, 2]), np.array([0.5, 0.7]))]}
    for count in (1, 3, 4, 9):
        ((rows, scores),) = store._merged(of_shards, count)
        assert rows.tolist() == [6, 5, 1, 2][:count] and scores.tolist() == [0.9, 0.7, 0.5, 0.5][:count]


def run(index, stage, rerankers, depth=100):
    pipeline = Pipeline(index, configure(stage), depth, tuple(map(Stage.parse, rerankers))).open()
    rankings = list(pipeline.rank_all(queries("sample:test"), together=4))
    return [(ranking.doc_ids, ranking.ranked_scores.tolist()) for ranking in rankings]


@pytest.mark.parametrize(("stage", "rerankers"), RUNS)
def test_runs_are_those_of_a_single_index(twins, remote, stage, rerankers):
    expected = run(twins[0], stage, rerankers)
    assert run(remote, stage, rerankers) == expected and any(ids for ids, _ in expected)


def test_pacrr_ranks_as_on_a_single_index(twins, remote, tmp_path):
    import torch

    from rerank_plugin.benchmark.measured_rerankers import random_vectors
    from rerank_plugin.models.checkpoint import save_checkpoint
    from rerank_plugin.models.pacrr.model import Pacrr, PacrrConfig

    vectors = random_vectors(Index(twins[0]).forward, 42)
    torch.manual_seed(42)
    model = Pacrr(PacrrConfig("kwindow"), torch.from_numpy(vectors.matrix))
    save_checkpoint(tmp_path / "pacrr", model, vectors, {"made_by": "at random"})
    expected, found = (run(index, "bm25", (str(tmp_path / "pacrr"),)) for index in (twins[0], remote))
    assert found == expected and len(set(found[0][1])) > 50


def test_a_searcher_gives_the_same_hits_documents_and_explanations(twins, remote):
    single = Searcher(twins[0], "delta", depth=50)
    with Searcher(remote, "delta", depth=50) as sharded:
        query = "aspirin after a heart attack"
        for options in ({}, {"filter": Filter.of({"year": "2000-"})}):
            found, expected = (searcher.search(query, 20, **options) for searcher in (sharded, single))
            assert [(hit.docid, hit.score, hit.title) for hit in found] == [
                (hit.docid, hit.score, hit.title) for hit in expected
            ]
            assert len(found) > 5
        for hit in found[:3]:
            assert sharded.doc(hit.docid).raw() == single.doc(hit.docid).raw()
            assert sharded.doc(hit.lucene_docid).docid() == hit.docid
            assert sharded.explain(query, hit.docid) == single.explain(query, hit.docid)
            near = [[other.docid for other in searcher.similar(hit.docid)] for searcher in (sharded, single)]
            assert near[0] == near[1]
        notes = [note for note in single.notes("Zweiter Weltkrieg") if not note.startswith("no document has")]
        assert sharded.notes("Zweiter Weltkrieg") == notes != []  # a cluster names no unknown words
    dense = [
        Searcher(index, first_stage="dense:ktrel").search(query, filter=Filter.of({"year": "2000-2005"}))
        for index in (remote, twins[0])
    ]
    assert [hit.docid for hit in dense[0]] == [hit.docid for hit in dense[1]] != []
    ids = [hit.docid for hit in found]
    rankings = [Reranker.load("bm25-text", index).rerank(query, ids) for index in (remote, twins[0])]
    assert [hit.docid for hit in rankings[0]] == [hit.docid for hit in rankings[1]]


def test_what_a_cluster_cannot_compute_is_refused(twins, address, remote):
    for stage in ("bm25+rm3", "hybrid+rm3"):
        with pytest.raises(InputError, match=r"'bm25\+rm3' cannot be computed on a cluster"):
            Searcher(remote, first_stage=stage)
    with pytest.raises(InputError, match="'qld-title' reads more of the collection than its candidates"):
        Reranker.load("qld-title", remote)
    with pytest.raises(InputError, match="unknown reranker 'nowhere'"):
        Reranker.load("nowhere", remote)
    with pytest.raises(InputError, match="is no index of shards: build one with: .* --shards N"):
        open_index(f"ray://{address}{twins[0]}")


def test_shards_work_on_a_search_as_long_as_it_may_take(remote):
    with within(0), pytest.raises(LateError, match="takes longer than"):
        remote.count(Filter.of({"year": "1990-1999"}))
    assert remote.count(Filter.of({"year": "1990-1999"})) and not remote.answering.lost()


def test_the_command_writes_the_same_run(twins, address, one_process, tmp_path):
    options = ["--queries", "sample:test", "--reranker", "delta", "--depth", "60", "--output"]
    search(["--index", str(twins[0]), *options, str(tmp_path / "single")])
    cluster = ["--cluster", address, "--shard-heap", "256m", "--shard-deadline", "60"]
    search(["--index", str(twins[1]), *cluster, *options, str(tmp_path / "sharded")])
    single, sharded = (read_run(tmp_path / name) for name in ("single", "sharded"))
    assert list(single) == list(sharded)
    for query, (ids, scores) in single.items():
        assert sharded[query][0] == ids
        np.testing.assert_array_equal(sharded[query][1], scores)


def processes(remote):
    """The process of each replica of each shard."""
    import ray

    return [
        [ray.get(actor.__ray_call__.remote(lambda _: os.getpid())) for actor in replicas]
        for replicas in remote.answering.actors
    ]


def test_replicas_of_a_shard_are_on_different_machines(remote):
    import ray

    on = [
        [ray.get(actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())) for actor in replicas]
        for replicas in remote.answering.actors
    ]
    assert all(len(set(machines)) == 2 for machines in on)


def test_searches_of_all_openings_go_on_when_a_process_of_each_shard_is_killed(twins, address, remote, monkeypatch):
    before, expected = processes(remote), run(twins[0], "bm25", ("delta",))
    again = open_index(ClusterConfig(address, replicas=2, heap="256m").url(twins[1]))
    assert processes(again) == before and run(again, "bm25", ("delta",)) == expected
    with monkeypatch.context() as patched:
        patched.setattr(again.answering, "config", ClusterConfig(replicas=2, deadline=1e-6))
        assert Reranker.load("ktrel", again).name == "ktrel"  # what a search waits for bounds no loading
        with pytest.raises(UnavailableError, match="did not answer within"):
            Searcher(again).search("heart")
    victims = [replicas[number % 2] for number, replicas in enumerate(before)]
    with ThreadPoolExecutor(1) as executor:
        running = [executor.submit(run, index, "bm25", ("delta",)) for index in (remote, again) * 3]
        running[0].result()
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        assert all(each.result() == expected for each in running)
    for index in (again, remote):
        wait_until_all_answer(index)
    assert not set(victims) & {pid for replicas in processes(remote) for pid in replicas}
    again.close()
    with pytest.raises(InputError, match="is closed: open it again"):
        Searcher(again).search("heart")
    assert run(remote, "hybrid", ("delta",)) == run(twins[0], "hybrid", ("delta",))


def place_of(folder, address):
    """The place of an index whose rankings may lack documents."""
    return ClusterConfig(address, replicas=2, deadline=60, heap="256m", partial=True).url(folder)


@pytest.fixture(scope="module")
def lacking(twins, address):
    """The same index, whose rankings may lack documents; its processes are those of `remote`."""
    index = open_index(place_of(twins[1], address))
    yield index
    index.close()


def test_a_dead_shard_is_named_or_left_out_and_answers_again(twins, address, remote, lacking, monkeypatch):
    place, text, query = lacking.forward, "aspirin after a heart attack", Query("1", "aspirin after a heart attack")
    served = ServiceConfig({"sample": place_of(twins[1], address)}, {"delta": "delta"}, deadline=60)
    pipeline = Pipeline(lacking, configure("hybrid"), 50, tuple(map(Stage.parse, ("ktrel@30", "delta@10")))).open()
    candidates, whole, held = pipeline.candidates(query), Searcher(remote), float(place.shares[1])
    with (
        Searcher(lacking, "delta") as searcher, Searcher(twins[0], "delta") as single, serving(served) as client
    ):  # fmt: skip
        expected, best = single.search(text, 500), run(twins[0], "hybrid", ())
        assert searcher.search("insulin", 1).missing is None and expected.missing is None and len(expected) > 100
        others = [hit for hit in expected if place.shards_of(place.rows([hit.docid]))[0] != 1]
        first, second = processes(lacking)
        for victim in second:
            os.kill(victim, signal.SIGKILL)
        (ranking,) = pipeline.rank_together([query], [candidates])  # it dies between two stages
        found = searcher.search(text, 500)
        answer = client.get("/v1/sample/search", params={"query": text, "reranker": "delta"}).json()
        refused = client.get("/v1/sample/explain", params={"query": text, "docid": found[0].docid})
        for of_all in (lambda: searcher.explain(text, found[0].docid), lambda: rank_many(lacking, {"1": text})):
            with pytest.raises(UnavailableError, match="shard 1 of 2 did not answer"):
                of_all()
        for victim in first:
            os.kill(victim, signal.SIGKILL)
        with pytest.raises(UnavailableError, match="did not answer: try again"):
            pipeline.rank(query)
        monkeypatch.setattr(remote.answering, "config", ClusterConfig(replicas=2, deadline=0.5))
        with pytest.raises(UnavailableError, match=r"shards? (0|0, 1) of 2 did not answer within 0.5 s"):
            whole.search("heart attack")
        monkeypatch.undo()

        assert str(found.missing) == (
            f"shard 1 of 2 did not answer: {100 * held:.1f} % of the documents are missing from this ranking"
        )
        # BM25 has the statistics of all documents; delta compares with the best score of those that are there
        assert {(hit.docid, hit.first_stage_score, hit.title) for hit in found} == {
            (hit.docid, hit.first_stage_score, hit.title) for hit in others
        }
        ids, scores = zip(*((hit.docid, hit.first_stage_score) for hit in others))
        again = Reranker.load("delta", twins[0]).rerank(text, ids, first_stage_scores=scores)
        assert [(hit.docid, hit.score) for hit in found] == [(hit.docid, hit.score) for hit in again]
        assert 10 < len(found) < len(expected)
        assert found.missing == Missing((1,), 2, held)
        assert [hit["docid"] for hit in answer["candidates"]] == [hit.docid for hit in found[:10]]
        assert answer["notes"] == [str(found.missing)] and answer["shards"] == {
            "total": 2, "successful": 1, "failed": 1, "missing": [1], "missing_documents": round(held, 4),
        }  # fmt: skip
        assert "rerank_partial_total 1.0" in client.get("/metrics").text
        assert refused.status_code == 503 and "shard 1 of 2 did not answer" in refused.json()["error"]
        assert ranking.missing.shards == (1,)
        shards = place.shards_of(ranking.candidates.rows)
        assert sorted(ranking.order) == [*range(len(ranking.candidates))] and not (shards == 1).any()
        assert 0 < len(ranking.order) < len(candidates.rows) == 50

        for index in (lacking, remote, client.app.state.service.collections.current.index("sample").index):
            wait_until_all_answer(index)
        titles = read(ranking, lambda ranking: ranked_hits(ranking, 10))
        assert titles.missing.shards == (1,) and [hit.rank for hit in titles] == [*range(1, 11)]
        # the service has not seen that shard 0 died, and has connections to what has gone
        assert client.get("/v1/sample/search", params={"query": text}).json()["shards"] is None
        before = processes(lacking)
        assert client.app.state.service.reloads.ask().result() is None and processes(lacking) == before
    assert pipeline.rank(query).missing is None and run(remote, "hybrid", ()) == best
    found = Searcher(lacking, "delta").search(text, 500)
    assert [(hit.docid, hit.score) for hit in found] == [(hit.docid, hit.score) for hit in expected]
    with pytest.raises(SystemExit):
        search([*"--queries sample:test --output x --partial-answers --cluster".split(), address, "--index", "i"])


COORDINATOR = """if True:
    import json, os, sys
    import ray
    from rerank_plugin import Searcher

    with Searcher(sys.argv[1], "delta") as searcher:
        actors = [actor for replicas in searcher.index.answering.actors for actor in replicas]
        print(json.dumps(ray.get([actor.__ray_call__.remote(lambda _: os.getpid()) for actor in actors])), flush=True)
        while True:
            print(json.dumps([[hit.docid, hit.score] for hit in searcher.search("heart attack aspirin")]), flush=True)
"""


def test_a_killed_coordinator_takes_its_processes_with_it_and_leaves_the_index_as_it_was(twins, address, tmp_path):
    files = {path: path.stat().st_mtime_ns for path in twins[1].rglob("*")}
    place = ClusterConfig(address, heap="256m").url(twins[1])
    process = start(tmp_path, "-c", COORDINATOR, place)
    started = json.loads(process.stdout.readline())
    answers = [process.stdout.readline() for _ in range(20)]
    process.kill()
    answers += process.communicate(timeout=60)[0].splitlines(keepends=True)
    expected = [[hit.docid, hit.score] for hit in Searcher(twins[0], "delta").search("heart attack aspirin")]
    assert all(json.loads(answer) == expected for answer in answers if answer.endswith("\n"))  # the last may be cut off
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert {path: path.stat().st_mtime_ns for path in twins[1].rglob("*")} == files


def wait_until_all_answer(remote):
    deadline = time.monotonic() + 120
    while remote.answering.away:
        assert time.monotonic() < deadline, remote.answering.away
        time.sleep(0.1)


def test_a_place_on_a_cluster_is_read_as_it_is_written(tmp_path):
    config = ClusterConfig("host:6379", replicas=2, deadline=0.5, partial=True)
    assert ClusterConfig.parse(config.url(tmp_path / "an index?")) == (tmp_path / "an index?", config)
    assert ClusterConfig.parse("ray://auto/a/b") == (Path("/a/b"), ClusterConfig())
    for place, said in (
        ("ray://auto", "is no location on a cluster"), ("ray:///a", "is no location on a cluster"),
        ("ray://auto/a?depth=3", "unknown setting depth"), ("ray://auto/a?replicas=x", "no number"),
        ("ray://auto/a?replicas=9", "replicas is 9: it must be at least 1 and at most 8"),
        ("ray://auto/a?partial=1", "write partial=True or partial=False"),
        ("ray://auto/a?deadline=0", "deadline is 0.0: it must be above 0"),
        ("ray://auto/a?heap=many", "Java's heap 'many'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            open_index(place)
