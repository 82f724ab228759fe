"""All runs of a folder re-ranked at once: each as re-ranking it alone gives it, with every document scored once."""

import gzip
import os
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query
from rerank_plugin.files.run_writer import RunWriter
from rerank_plugin.files.runs import RankedList, run_files, write_run
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking import bulk
from rerank_plugin.ranking.pipeline import rank
from rerank_plugin.rerankers import Scorer
from rerank_plugin.search import main

QUERIES = {"q1": "stroke", "q2": "heart failure", "q3": "malaria", "q4": "zyzzyva", "q5": "aspirin cancer", "q6": "of"}
SCORED = Counter()  # (query, document) by how often ByTitle has scored it


class ByTitle:
    """Scores a document by the length of its title, so that many tie; q4 keeps its first-stage scores."""

    name = "by-title"

    def __init__(self, index):
        self.index = index

    def score(self, query, candidates):
        if query.id == "q4":
            return candidates.first_stage_scores.copy()
        SCORED.update((query.id, id) for id in candidates.ids)
        return (candidates.title_lengths + 0.1 * len(query.text)).astype(np.float32)


class Stopping(ByTitle):
    """Is killed at q5."""

    name = "by-title"

    def score(self, query, candidates):
        if query.id == "q5":
            raise KeyboardInterrupt
        return super().score(query, candidates)


class Listwise(Scorer):
    """Scores a document by its share of the list's title words."""

    name, listwise = "listwise", True

    def __init__(self, index):
        self.index = index

    def score(self, query, candidates):
        return (candidates.title_lengths / max(candidates.title_lengths.sum(), 1)).astype(np.float32)


HERE = f"{__name__}:"


@pytest.fixture
def workspace(tmp_path, monkeypatch, documents):
    """A folder with queries, judgments and four runs, one of them packed, that share documents and lack queries."""
    monkeypatch.chdir(tmp_path)
    SCORED.clear()
    (tmp_path / "q.tsv").write_text("".join(f"{id}\t{text}\n" for id, text in QUERIES.items()))
    generator = np.random.default_rng(7)
    ids = [document.id for document in documents]
    (tmp_path / "qrels").write_text("".join(f"{query} 0 {id} 1\n" for query in QUERIES for id in ids[::2]))
    for name, lacking in (("input.A", "q2"), ("input.B", "q6"), ("c.run", None), ("d.run.gz", "q1")):
        run = {}
        for query in ("q0", *QUERIES):  # q0 is not among the queries
            chosen = generator.permutation(ids)[:15].tolist()
            run[query] = RankedList(chosen, np.round(generator.random(15) * 9).astype(np.float32))
        run.pop(lacking, None)
        write_run(tmp_path / "runs" / name, run, "theirs")
    return tmp_path


def search(index_folder, run, output, *options):
    main(["--index", str(index_folder), "--queries", "q.tsv", "--run", str(run), "--output", str(output), *options])


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def alone(index_folder, *options):
    """What a search for each run alone writes."""
    for path in run_files("runs"):
        search(index_folder, path, f"alone/{path.name}", *options)


@pytest.mark.parametrize("judged", [[], ["--judged-only", "qrels"]], ids=["all", "judged"])
@pytest.mark.parametrize("reranker", ["bm25-title", "qld-title", "docid", "delta", HERE + "ByTitle", HERE + "Listwise"])
@pytest.mark.parametrize("depth", ["7", "500"])
def test_every_file_equals_its_own_search(workspace, index_folder, judged, reranker, depth):
    options = ["--reranker", reranker, "--depth", depth, *judged]
    search(index_folder, "runs", "out", *options)
    alone(index_folder, *options)
    files = contents(workspace / "out")
    assert files == contents(workspace / "alone") and len(files) == 4
    assert gzip.decompress(files["d.run.gz"]) and files["input.A"].count(b"\n") > 8
    assert b"q2 " not in files["input.A"] and b"q0 " not in files["c.run"]  # a query that is not there stays away


def test_what_the_depth_cuts_is_counted(workspace, index_folder, capsys):
    """Each of the four runs ranks 15 documents for each of the six queries, but for the three that one lacks."""
    cut = "documents are below rank 10, the depth: left out"
    for depth, warnings in (("10", [f"the runs: 105 of 315 {cut}"]), ("15", [])):
        search(index_folder, "runs", f"out{depth}", "--reranker", "docid", "--depth", depth)
        assert [line for line in capsys.readouterr().err.splitlines() if "the depth" in line] == warnings
    search(index_folder, "runs/c.run", "one.run", "--reranker", "docid", "--depth", "10")
    assert f"runs/c.run: 30 of 90 {cut}" in capsys.readouterr().err


def test_judged_only_keeps_the_runs_own_order(workspace, index_folder):
    search(index_folder, "runs", "out", "--judged-only", "qrels")
    alone(index_folder, "--judged-only", "qrels")
    assert contents(workspace / "out") == contents(workspace / "alone")
    assert {line.split()[-1] for line in (workspace / "out" / "c.run").read_text().splitlines()} == {"judged-only"}


@pytest.mark.parametrize("chunk", [1, 3, 512])
def test_every_document_is_scored_once(workspace, index_folder, monkeypatch, chunk):
    monkeypatch.setattr(bulk, "CHUNK", chunk)
    search(index_folder, "runs", "out", "--reranker", HERE + "ByTitle", "--depth", "10")
    assert set(SCORED.values()) == {1}
    scored = set(SCORED)
    alone(index_folder, "--reranker", HERE + "ByTitle", "--depth", "10")
    assert contents(workspace / "out") == contents(workspace / "alone")
    assert SCORED.keys() == scored and SCORED.total() > 1.5 * len(scored)


def test_lists_of_a_query_rank_as_alone(index):
    """Against rank, with empty lists and lists that share nothing, whatever is scored together."""
    generator = np.random.default_rng(3)
    tasks = [
        (Query(id, text), [some(index.forward, generator, size) for size in (5, 0, 12, 30)])
        for id, text in QUERIES.items()
    ]
    tasks.append((Query("q7", "nothing"), [some(index.forward, generator, 0)]))
    for together in (1, 2, 100):
        rankings_by_query = list(bulk.rank_lists(tasks, ByTitle(index), together))
        assert [len(rankings) for rankings in rankings_by_query] == [4] * len(QUERIES) + [1]
        for (query, lists), rankings in zip(tasks, rankings_by_query):
            for candidates, ranking in zip(lists, rankings):
                expected = rank(query, candidates, ByTitle(index))
                assert ranking.doc_ids == expected.doc_ids
                np.testing.assert_array_equal(ranking.ranked_scores, expected.ranked_scores)


def some(index, generator, size):
    rows = generator.permutation(len(index))[:size]
    return Candidates(index, rows, generator.random(size).astype(np.float32))


@pytest.mark.parametrize("together", ["1", "8"])
def test_an_interrupted_search_goes_on(workspace, index_folder, together, capsys):
    options = ["--reranker", HERE + "ByTitle", "--queries-at-once", together]
    search(index_folder, "runs", "whole", *options)
    SCORED.clear()
    with pytest.raises(KeyboardInterrupt):
        search(index_folder, "runs", "out", "--reranker", HERE + "Stopping", "--queries-at-once", together)
    assert not [path for path in (workspace / "out").iterdir() if path.suffix not in (".part", ".journal")]
    for journal in (workspace / "out").glob("*.journal"):  # as if the same class had been interrupted
        journal.write_text(journal.read_text().replace("Stopping", "ByTitle"))
    done = Counter(query for query, _ in SCORED)
    if together == "1":  # and as if killed between the lines of two runs
        journal = workspace / "out" / "c.run.part.journal"
        journal.write_text("\n".join(journal.read_text().splitlines()[:-1]) + "\n")
    SCORED.clear()
    search(index_folder, "runs", "out", *options, "--resume")
    assert contents(workspace / "out") == contents(workspace / "whole")
    assert {"q5", "q6"} <= {query for query, _ in SCORED}
    if together == "1":
        assert set(done) == {"q1", "q2", "q3"} and not {"q1", "q2", "q3"} & {query for query, _ in SCORED}
    with pytest.raises(KeyboardInterrupt):
        search(index_folder, "runs", "out", "--reranker", HERE + "Stopping", "--overwrite")
    assert contents(workspace / "out")["c.run"] == contents(workspace / "whole")["c.run"]  # until it is done
    with pytest.raises(InputError, match="was begun with other settings: .*reranker was"):
        search(index_folder, "runs", "out", *options, "--resume", "--overwrite")


@pytest.mark.parametrize("killed", range(1, 13))
def test_a_folder_that_is_overwritten_is_resumed_from_any_step(workspace, index_folder, monkeypatch, killed):
    """Killed at one of its renames and removals, or before a run is begun: no old run is taken for a new one."""
    search(index_folder, "runs", "whole", "--reranker", "docid", "--tag", "t")
    search(index_folder, "runs", "out", "--depth", "3", "--reranker", "docid", "--tag", "t")
    steps = count(1)

    def step(call):
        def counted(*arguments, **options):
            if next(steps) == killed:
                raise KeyboardInterrupt
            return call(*arguments, **options)

        return counted

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        for owner, name in ((RunWriter, "_open"), (os, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, step(getattr(owner, name)))
        search(index_folder, "runs", "out", "--reranker", "docid", "--tag", "t", "--overwrite")
        raise AssertionError("it was not interrupted")
    if killed > 1:  # otherwise nothing was begun
        search(index_folder, "runs", "out", "--reranker", "docid", "--tag", "t", "--resume")
        assert contents(workspace / "out") == contents(workspace / "whole")


def test_what_is_no_run_is_left_out_and_said(workspace, index_folder, capsys):
    runs = workspace / "runs"
    (runs / "README.md").write_text("# Runs\n\nsubmitted to a track\n")
    (runs / ".hidden").write_text("q1 Q0 a 1 1 t\n")
    (runs / "old").mkdir()
    (runs / "x.run.part").write_text("q1 Q0 a 1 1 t\n")
    (runs / "empty").write_text("")
    (runs / "plot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    search(index_folder, "runs", "out", "--reranker", "docid")
    assert sorted(contents(workspace / "out")) == ["c.run", "d.run.gz", "input.A", "input.B"]
    out, err = capsys.readouterr()
    warning = next(line for line in err.splitlines() if "left out" in line)
    for name in (".hidden (hidden)", "README.md (its first line", "empty (empty)", "old (not a file)", "plot.png (its"):
        assert name in warning
    assert "x.run.part (unfinished)" in warning and "input" not in warning
    assert "runs/input.A: 1 queries found no document: q2" in err.splitlines()
    assert out.startswith("out: 4 runs of 6 queries in ")


def test_folders_that_are_refused(workspace, index_folder):
    before = contents(workspace / "runs")
    (workspace / "link").symlink_to("runs")
    for output in ("runs", "./runs/", "link"):
        with pytest.raises(InputError, match="is the folder of --run"):
            search(index_folder, "runs", output, "--reranker", "docid")
    with pytest.raises(InputError, match="--output q.tsv is a file"):
        search(index_folder, "runs", "q.tsv", "--reranker", "docid")
    (workspace / "none").mkdir()
    with pytest.raises(InputError, match="none: there is no run in this folder"):
        search(index_folder, "none", "out", "--reranker", "docid")
    assert contents(workspace / "runs") == before
    (workspace / "runs" / "d.run").write_text("q1 Q0 a 1 1 t\n")
    with pytest.raises(InputError, match=r"d\.run and d\.run\.gz differ only in .gz"):
        search(index_folder, "runs", "out", "--reranker", "docid")
    assert not (workspace / "out").exists()


@pytest.mark.parametrize(
    "name, text, culprit",
    [
        ("bad", b"q1 Q0 a 1 1 t\nq1 Q0 b 2\n", "runs/bad:2: expected 6 columns"),
        ("bad", b"q1 Q0 nobody 1 1 t\n", "runs/bad: query q1 ranks 1 documents that are not in the index"),
        ("bad.gz", gzip.compress(b"q1 Q0 a 1 1 t\n" * 99, mtime=0)[:12], r"runs/bad\.gz:1: damaged gzip file"),
    ],
)
def test_a_faulty_run_is_named_before_anything_is_written(workspace, index_folder, name, text, culprit):
    (workspace / "runs" / name).write_bytes(text)
    with pytest.raises(InputError, match=culprit):
        search(index_folder, "runs", "out", "--reranker", "docid")
    assert not (workspace / "out").exists()
