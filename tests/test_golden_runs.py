"""Runs that no change of how an index is kept on disk may change: their checksums, and comparisons of equal indexes.

``GOLDEN_RUNS=write pytest tests/test_golden_runs.py`` writes the checksums anew, into ``golden_runs.json``: where a
change of scores is meant. Scores of Java are the same everywhere; those that read vectors are recorded by processor.
"""

import json
import os
import platform
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import Problems, documents, queries
from rerank_plugin.index import main as index_command
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.shard_building import build_shards
from tests.conftest import REAL_DATA

GOLDEN = Path(__file__).with_name("golden_runs.json")
SHARDS, DEPTH, QUERIES = 4, 30, 6
FIRST, GONE = 1300, 9  # documents of the sample that are indexed first; every ninth of them is deleted
BY_JAVA = ("bm25", "qld", "bm25+rm3", "bm25 year:1995-2005")
PIPELINES = (*BY_JAVA, "bm25 > delta", "hybrid", "hybrid+rm3", "dense:ktrel", "hybrid > ktrel@20 > delta@10")
NFCORPUS = ("bm25", "qld", "bm25+rm3", "bm25 > delta", "hybrid", "hybrid+rm3", "dense:ktrel")


def processor():
    """The name of this machine's processor, on which the order of sums in vectors depends."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def run(index, pipeline, texts):
    """The ranked lists of queries by a first stage, perhaps with a filter, and rerankers behind it."""
    first_stage, *rerankers = pipeline.split(" > ")
    name, _, years = first_stage.partition(" year:")
    with rp.Searcher(index, rerankers or None, name, DEPTH) as searcher:
        hits = searcher.batch_search(texts, k=DEPTH, filter={"year": years} if years else None)
    return {query: ([hit.docid for hit in found], [hit.score for hit in found]) for query, found in hits.items()}


def checksum(ranked):
    lines = [
        f"{query} {id} {np.float32(score).tobytes().hex()}\n"
        for query, (ids, scores) in ranked.items()
        for id, score in zip(ids, scores, strict=True)
    ]
    assert len(lines) > QUERIES
    return sha256("".join(lines).encode()).hexdigest()


def dated():
    """The documents of the sample, with dates to filter by."""
    return [
        document._replace(metadata={"date": str(1990 + number % 30)})
        for number, document in enumerate(documents("sample"))
    ]


def changes():
    """The ids to delete of the first documents, and the documents to add, some of which replace older ones."""
    all_documents = dated()
    replacing = [all_documents[row]._replace(abstract=all_documents[row + 1].abstract) for row in range(5, FIRST, 40)]
    return [document.id for document in all_documents[:FIRST:GONE]], [*replacing, *all_documents[FIRST:]]


def survivors():
    gone, added = changes()
    left = {document.id: document for document in dated()[:FIRST]}
    for id in (*gone, *(document.id for document in added)):
        left.pop(id, None)
    return [*left.values(), *added]


def states(folder, pipelines=PIPELINES):
    """The runs of an index that is built, changed and merged, by (state, pipeline); it is encoded when it is built."""
    texts, runs = [query.text for query in queries("sample:test")][:QUERIES], {}
    index_command(["--encode", "ktrel", "--index", str(folder)])
    gone, added = changes()
    for state in ("built", "added to and deleted from", "merged"):
        if state == "merged":
            rp.update_index(folder, merge=True)
        elif state != "built":
            rp.update_index(folder, delete=gone, add=added)
        runs |= {f"sample, {state}: {pipeline}": run(folder, pipeline, texts) for pipeline in pipelines}
    return runs


def sample_runs(folder):
    build_single(iter(dated()[:FIRST]), folder, "sample", Problems())
    return states(folder)


def nfcorpus_runs(folder):
    build_single(documents(str(REAL_DATA / "nfcorpus")), folder, "nfcorpus", Problems())
    index_command(["--encode", "ktrel", "--index", str(folder)])
    texts = [query.text for query in queries(f"{REAL_DATA / 'nfcorpus'}:test")][:QUERIES]
    return {f"nfcorpus: {pipeline}": run(folder, pipeline, texts) for pipeline in NFCORPUS}


def by_java(name):
    return name.partition(": ")[2] in BY_JAVA


def check(runs):
    golden, here = json.loads(GOLDEN.read_text()), processor()
    checksums = {name: checksum(ranked) for name, ranked in runs.items()}
    if os.environ.get("GOLDEN_RUNS") == "write":
        for name, value in checksums.items():
            golden.setdefault("any" if by_java(name) else here, {})[name] = value
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
    known = {**golden["any"], **golden.get(here, {})}
    assert [name for name, value in checksums.items() if known.get(name, value) != value] == []
    if here not in golden:
        pytest.skip(f"the runs by Java are equal; those by vectors are not recorded for {here}")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return sample_runs(tmp_path_factory.mktemp("golden") / "single")


def test_runs_of_the_sample_stay_the_same(sample):
    check(sample)


def test_a_merged_index_ranks_as_a_new_one_of_its_documents(sample, tmp_path):
    build_single(iter(survivors()), tmp_path / "fresh", "sample", Problems())
    texts = [query.text for query in queries("sample:test")][:QUERIES]
    for pipeline in (*BY_JAVA, "bm25 > delta"):
        assert run(tmp_path / "fresh", pipeline, texts) == sample[f"sample, merged: {pipeline}"], pipeline


def test_four_shards_rank_as_one_index(sample, tmp_path):
    build_shards(iter(dated()[:FIRST]), tmp_path / "sharded", "sample", Problems(), SHARDS)
    found = states(tmp_path / "sharded")
    assert [name for name, ranked in found.items() if ranked != sample[name]] == []


@pytest.mark.real_data
def test_runs_of_nfcorpus_stay_the_same(tmp_path):
    check(nfcorpus_runs(tmp_path / "index"))
