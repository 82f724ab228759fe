"""The commands as a user runs them, on the bundled sample, and what they say when something is wrong."""

import gzip
import json
import shutil
import signal
import time

import numpy as np
import pytest

from rerank_plugin.corpora import judgments, queries
from rerank_plugin.files.runs import read_run
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.rerankers import known_names
from rerank_plugin.retrieval.register import known_forms
from tests.processes import Commands, attempt, run, start

TRAIN = (
    "train --model delta --lexical-features lex3 --index index --words words --train sample:train "
    "--validation sample:dev --epochs 3 --pairs-per-query 20"
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def commands(workspace):
    """A process over an index of the sample, word vectors and a trained Delta-32-Lex3."""
    with Commands(workspace) as process:
        output = process.line("index --corpus sample --index index")
        assert "1,500 documents" in output and "documents per second" in output
        process.line("embed words --corpus sample --min-count 3 --dimension 50 --epochs 5 --output words")
        assert "best epoch" in process.line(f"{TRAIN} --output delta")
        process.line("search --index index --queries sample:test --output bm25.run")
        process.line("search --index index --queries sample:test --reranker delta:delta --output delta.run")
        yield process


@pytest.fixture
def command(commands):
    """Runs command lines in this process."""
    return commands.line


def test_a_trained_delta_is_better_than_bm25_on_held_out_queries(command):
    output = command(
        "evaluate --qrels sample:test bm25.run delta.run --baseline bm25.run --measures nDCG@10 AP --format json"
    )
    report = json.loads(output)
    assert report["queries"] == len(judgments("sample:test"))
    bm25, delta = report["runs"]["bm25.run"], report["runs"]["delta.run"]
    assert delta["nDCG@10"] > bm25["nDCG@10"] + 0.05
    assert report["tests"]["runs"]["delta.run"]["nDCG@10"]["p"] < 0.05


def test_reranking_keeps_the_candidates(workspace, command):
    bm25, delta = read_run(workspace / "bm25.run"), read_run(workspace / "delta.run")
    assert list(bm25) == list(delta) == [query.id for query in queries("sample:test")]
    for query in bm25:
        assert sorted(bm25[query].doc_ids) == sorted(delta[query].doc_ids)
        assert (np.diff(delta[query].scores) < 0).all()
    assert max(len(ranking.doc_ids) for ranking in bm25.values()) == 500


def test_reranking_a_run_equals_searching(workspace, command):
    command("search --index index --queries sample:test --run bm25.run --reranker ./delta --output again.run")
    assert (workspace / "again.run").read_text() == (workspace / "delta.run").read_text()


def test_a_run_is_not_replaced_by_what_is_made_of_it(workspace, command, refused, monkeypatch):
    monkeypatch.chdir(workspace)
    before = (workspace / "bm25.run").read_bytes()
    search = "search --index index --queries sample:test --overwrite --output"
    for line in (
        f"{search} ./bm25.run --run bm25.run --reranker bm25-title",
        f"{search} bm25.run --fuse run:bm25.run",
        "fuse bm25.run delta.run --output bm25.run --overwrite",
    ):
        assert "bm25.run is also an input" in refused(line), line
    assert (workspace / "bm25.run").read_bytes() == before


def test_one_query_prints_a_readable_list(workspace, command):
    query = ["--index", "index", "--query", "heart attack aspirin", "--reranker", "./delta", "--show", "3"]
    lines = run("-m", "rerank_plugin.search", *query, folder=workspace).splitlines()
    assert lines[0].split() == ["rank", "score", "first", "stage", "document", "title"]
    assert len(lines) == 4
    rank, score, first_stage, document = lines[1].split()[:4]
    assert rank == "1" and float(score) and 1 <= int(first_stage) <= 500 and document.startswith("S")
    assert command(["search", "--index", "index", "--query", '( " xyzzy /']) == "no document matches the query\n"


@pytest.mark.parametrize("stage", ["qld", "bm25+rm3"])
def test_other_first_stages_and_fields(workspace, command, stage):
    search = f"search --index index --queries sample:test --first-stage {stage}"
    command(f"{search} --output {stage}.run --depth 20")
    assert read_run(workspace / f"{stage}.run").keys() == read_run(workspace / "bm25.run").keys()
    command(f"{search} --field title --output {stage}-title.run")
    assert read_run(workspace / f"{stage}-title.run")


def test_training_from_runs_needs_no_java_is_deterministic_and_survives_a_kill(workspace, command):
    """Killed and resumed without Java, it writes what one training with searches of its own has written."""
    for split in ("train", "dev"):
        command(f"search --index index --queries sample:{split} --output {split}.run")
    line = f"{TRAIN} --train-run train.run --validation-run dev.run --output resumed"
    no_java = {"JAVA_HOME": str(workspace), "RERANK_PLUGIN_JVM_OPTIONS": "-not-an-option"}
    process = start(workspace, "-m", *f"rerank_plugin.{line}".split(), **no_java)
    state = workspace / "resumed.training" / "state.json"
    deadline = time.monotonic() + 120
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert state.exists() and not (workspace / "resumed").exists()
    status, _, err = attempt(workspace, f"{line} --resume", **no_java)
    assert status == 0, err
    for name in ("model.safetensors", "vocab.txt", "embeddings.safetensors"):
        assert (workspace / "resumed" / name).read_bytes() == (workspace / "delta" / name).read_bytes(), name
    log = [json.loads(line) for line in (workspace / "resumed" / "log.jsonl").read_text().splitlines()]
    assert [entry["epoch"] for entry in log] == [1, 2, 3] and all("nDCG@20" in entry for entry in log)
    assert (workspace / "resumed" / "log.png").read_bytes().startswith(b"\x89PNG")
    assert not (workspace / "resumed.training").exists()


RERANKER = """
import numpy as np

class Reranker:
    name = "mine"
    def __init__(self, index):
        self.seen = 0
    def score(self, query, candidates):
        self.seen += 1
        if self.seen == {stop}:
            raise KeyboardInterrupt
        return candidates.first_stage_scores[::-1] * np.float32({factor})
"""


def test_an_interrupted_search_is_resumed(workspace, commands, command):
    search = "search --index index --queries sample:test --reranker my_rerankers.interrupting:Reranker --output my.run"
    package = workspace / "my_rerankers"
    package.mkdir()
    (package / "interrupting.py").write_text(RERANKER.format(stop=6, factor=1))
    status, _, err = attempt(workspace, search)
    assert status == 130 and "Traceback" not in err
    assert not (workspace / "my.run").exists()
    (package / "interrupting.py").write_text(RERANKER.format(stop=1000, factor=1))  # the size shows the change
    assert "depth was 500 and is 9" in command(f"{search} --resume --depth 9", status=2)
    status, _, err = commands.attempt(f"{search} --resume")
    assert status == 0 and "5 of 40 queries were finished before" in err
    resumed = (workspace / "my.run").read_text()
    command(f"{search} --overwrite")
    assert (workspace / "my.run").read_text() == resumed


def test_an_index_is_not_overwritten_by_chance(workspace, command):
    before = (workspace / "index" / "index.json").read_text()
    assert "exists already" in command("index --corpus sample --index index", status=2)
    assert (workspace / "index" / "index.json").read_text() == before
    assert "match their checksums" in command("index --index index --verify")


def test_bad_input_gets_one_line(workspace, command, refused, monkeypatch):
    monkeypatch.chdir(workspace)
    monkeypatch.syspath_prepend(workspace)
    (workspace / "half").mkdir()
    (workspace / "empty.tsv").write_text("")
    (workspace / "twice.tsv").write_text("q1\tone\nq1\ttwo\n")
    (workspace / "other.run").write_text(f"{queries('sample:test')[0].id} Q0 NOWHERE 1 2.5 tag\n")
    (workspace / "nan_reranker").mkdir()
    (workspace / "nan_reranker" / "module.py").write_text(RERANKER.format(stop=0, factor="'nan'"))
    shutil.copytree(workspace / "index", workspace / "other-version")
    description = json.loads((workspace / "index" / "index.json").read_text())
    (workspace / "other-version" / "index.json").write_text(json.dumps({**description, "format_version": 99}))
    shutil.copytree(workspace / "delta", workspace / "broken")
    with open(workspace / "broken" / "vocab.txt", "a") as file:
        file.write("onewordmore\n")
    search = "search --queries sample:test --output x.run --index"
    for line, message in [
        (f"{search} nowhere", "no index at nowhere"),
        (f"{search} half", "half is not an index: it holds no index.json"),
        (f"{search} other-version", "of format 99"),
        (f"{search} index --reranker nothing", f"known: {', '.join(known_names())}"),
        (f"{search} index --reranker pacrr", "needs a trained checkpoint"),
        (f"{search} index --reranker broken", "vocab.txt has"),  # a checkpoint whose parts do not fit
        (f"{search} index --reranker nan_reranker.module:Reranker", "NaN"),  # never reaches a run
        (f"{search} index --first-stage splade", f"known: {', '.join(known_forms())}"),
        (f"{search} index --run other.run --reranker ./delta", "NOWHERE"),
        ("search --index index --queries empty.tsv --output x.run", "empty.tsv"),
        ("search --index index --queries twice.tsv --output x.run", "q1"),
    ]:
        assert message in refused(line), line
    assert not (workspace / "x.run").exists()


PUBMED = """<?xml version="1.0"?>
<PubmedArticleSet>
<PubmedArticle><MedlineCitation><PMID Version="1">1</PMID><Article><ArticleTitle>WORD <i>BRCA1</i> in
H<sub>2</sub>O.</ArticleTitle><Abstract><AbstractText Label="RESULTS">At 10<sup>-6</sup> M.</AbstractText></Abstract>
</Article></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="1">2</PMID><Article><ArticleTitle>[Aspirin translated].</ArticleTitle>
</Article></MedlineCitation></PubmedArticle>
END</PubmedArticleSet>
"""


def test_pubmed_files_are_indexed_and_the_last_version_is_found(workspace, commands, command):
    (workspace / "pubmed").mkdir()
    for name, word, end in (("a", "First", ""), ("b", "Second", ""), ("c", "Third", "<broken>")):
        with gzip.open(workspace / "pubmed" / f"{name}.xml.gz", "wt") as file:
            file.write(PUBMED.replace("WORD", word).replace("END", end))
    status, out, err = commands.attempt("index --corpus pubmed --index pubmed-index")
    assert status == 0 and "2 documents" in out
    assert "malformed XML" in err and "c.xml.gz" in err
    output = command(["search", "--index", "pubmed-index", "--query", "BRCA1 10(-6)"])
    assert output.splitlines()[1].split()[3:] == "1 Third BRCA1 in H2O.".split()
    assert "Aspirin translated" in command("search --index pubmed-index --query aspirin")
    assert "malformed XML" in command("index --corpus pubmed --index strict-pubmed --strict", status=2)


@pytest.fixture(scope="module")
def long_corpus(workspace):
    """A corpus that takes a while to index."""
    with open(workspace / "long.jsonl", "w") as file:
        for number in range(100_000):
            file.write(
                json.dumps({"_id": str(number), "title": f"title {number}", "text": "heart attack " * 50}) + "\n"
            )


def test_a_signal_leaves_no_half_index(workspace, long_corpus):
    """A real signal: Java must not take it, or nothing is tidied up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = start_index(workspace, "long")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number and err.strip().splitlines()[-1] == "interrupted", err
        assert not (workspace / "long").exists() and not list(workspace.glob(".long*"))
        assert not list(workspace.glob("hs_err*"))


def test_what_a_killed_build_leaves_goes_with_the_next_one(workspace, command, long_corpus):
    (workspace / "short.jsonl").write_text(json.dumps({"_id": "1", "title": "aspirin", "text": "heart"}) + "\n")
    killed, living = start_index(workspace, "killed"), start_index(workspace, "living")
    killed.kill()
    killed.wait()
    assert list(workspace.glob(".killed.rerank_plugin-*")) and list(workspace.glob(".living.rerank_plugin-*"))
    command("index --corpus short.jsonl --index next")
    assert not list(workspace.glob(".killed.*")) and list(workspace.glob(".living.rerank_plugin-*"))
    living.terminate()
    living.communicate(timeout=60)  # what it still says would fill the pipe


def start_index(workspace, name):
    """A build of long.jsonl that has begun to write. Signals act as on a terminal, whatever this process was told."""
    begin = (
        "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); sys.argv = sys.argv[0:1] + sys.argv[2:]; "
        "runpy.run_module('rerank_plugin.index', run_name='__main__')"
    )
    process = start(workspace, "-c", begin, "-", "--corpus", "long.jsonl", "--index", name)
    deadline = time.monotonic() + 60
    while not list(workspace.glob(f".{name}.rerank_plugin-*/segments/*/tokens.npy")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


def test_a_query_of_unknown_words_is_ranked_by_the_first_stage(workspace, commands, command):
    """Each of these words stands in one document only, so Lucene finds it and the model has no vector for it."""
    index = Index(workspace / "index")
    rare = np.flatnonzero(np.asarray(index.forward.document_frequency["text"]) == 1)
    words = [word for word in index.forward.terms.take(rare) if word.isascii() and word.isalpha() and len(word) > 6]
    (workspace / "rare.tsv").write_text(f"q1\t{' '.join(words[:3])}\n")
    command("search --index index --queries rare.tsv --output rare-bm25.run --tag t")
    line = "search --index index --queries rare.tsv --output rare.run --tag t --reranker ./delta"
    status, _, err = commands.attempt(line)
    assert status == 0 and "knows none of its words" in err
    assert (workspace / "rare.run").read_text() == (workspace / "rare-bm25.run").read_text()


def test_notes_on_queries_are_one_line_a_run(workspace, commands):
    (workspace / "noted.tsv").write_text("q1\taspirin AND stroke\nq2\taspirin\nq3\tstroke[ti]\n")
    note = "AND, OR, NOT, quotes, wildcards and field tags are read as words"
    _, _, err = commands.attempt("search --index index --query stroke[ti]")
    assert err.startswith("read as stroke[ti]: ") and err.count("\n") == 1
    _, out, err = commands.attempt("search --index index --query stroke[ti] --query-syntax plain")
    assert err.splitlines() == [f"'stroke[ti]': {note}"] and note not in out
    _, _, err = commands.attempt("search --index index --queries noted.tsv --output noted.run")
    assert f"2 of 3 queries, as 'aspirin AND stroke': {note}" in err.splitlines()


def test_problems_are_counted_and_strict_stops(workspace, commands):
    good = json.dumps({"_id": "d1", "title": "Aspirin", "text": "in trials"})
    empty = json.dumps({"_id": "d2", "title": "", "text": ""})
    (workspace / "corpus.jsonl").write_text(f"{good}\n{good}\n{empty}\n{{broken\n")
    status, out, err = commands.attempt("index --corpus corpus.jsonl --index small")
    assert status == 0 and "1 documents" in out
    assert "duplicate id" in err and "empty document" in err and "bad JSON line" in err and "corpus.jsonl:4" in err
    commands.line("index --corpus corpus.jsonl --index strict --strict", status=2)
    assert not (workspace / "strict").exists() and not list(workspace.glob(".strict*"))
