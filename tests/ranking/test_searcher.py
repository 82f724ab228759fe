"""The public searcher: hits as the search command ranks them, from many threads, and what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.search import main as search
from tests import small

TEXTS = [
    "stroke cancer aspirin", "malaria", "the of", "cancer in women", "aspirin for a heart attack", "twins", "",
    "statins and cholesterol", "renal failure", "vaccines protect children", "diabetes type 2", "zzyzx",
]  # fmt: skip
QIDS = [f"q{number}" for number in range(len(TEXTS))]


class ByLength:
    """Scores a document by its number of words: many are equal."""

    name = "by-length"

    def score(self, query, candidates):
        return candidates.lengths.astype(np.float32)


class Noisy:
    """Counts how many threads are in it at once."""

    name = "noisy"

    def __init__(self):
        self.inside, self.most = 0, 0

    def score(self, query, candidates):
        self.inside += 1
        self.most = max(self.most, self.inside)
        scores = np.sort(np.random.default_rng(0).random(200_000))[: len(candidates)].astype(np.float32)
        self.inside -= 1
        return scores


class Newest:
    """The configuration of a first stage, and that itself: the documents that were added last, whatever the query."""

    name = "newest"

    def open(self, index):
        self.forward = index.forward
        return self

    def search(self, query, depth):
        rows = np.arange(len(self.forward))[::-1][:depth]
        return Candidates(self.forward, rows, rows.astype(np.float32))


@pytest.fixture(scope="module")
def queries_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("queries") / "queries.tsv"
    path.write_text("".join(f"{id}\t{text}\n" for id, text in zip(QIDS, TEXTS) if text))
    return path


@pytest.fixture(scope="module")
def delta(index, tmp_path_factory):
    """A checkpoint of Delta with random weights."""
    from rerank_plugin.models.checkpoints import save_checkpoint

    vectors = small.word_vectors(small.KNOWN_WORDS, 8, seed=1)
    model = small.delta(vectors, lexical_features=("first_stage_share", "bm25_text"), document_words=20)
    folder = tmp_path_factory.mktemp("checkpoints") / "delta"
    save_checkpoint(folder, model, vectors, {})
    return str(folder)


def test_hits_tell_what_the_first_stage_said(index, documents):
    with rp.Searcher(index, ByLength(), depth=6) as searcher, rp.Searcher(index, depth=6) as first:
        before = {hit.docid: hit for hit in first.search("cancer stroke", k=6)}
        found = searcher.search("cancer stroke", k=6)
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5, 6]
    assert {hit.docid: (hit.first_stage_score, hit.first_stage_rank) for hit in found} == {
        docid: (hit.score, hit.rank) for docid, hit in before.items()
    }
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    titles = {document.id: document.title for document in documents}
    assert all(hit.title == titles[hit.docid] for hit in found)


def test_equal_scores_go_by_decreasing_id(index):
    class Zero(ByLength):
        def score(self, query, candidates):
            return np.zeros(len(candidates))

    with rp.Searcher(index, Zero()) as searcher:
        ids = [hit.docid.encode() for hit in searcher.search("cancer stroke aspirin malaria", k=100)]
    assert len(ids) > 5 and ids == sorted(ids, reverse=True)


@pytest.mark.parametrize("first_stage", ["bm25", "qld", "bm25+rm3", "all"])
@pytest.mark.parametrize("reranker", [None, "bm25-title", "delta"])
def test_runs_are_those_of_the_search_command(index_folder, queries_file, delta, tmp_path, first_stage, reranker):
    reranker = delta if reranker == "delta" else reranker
    more = ["--reranker", reranker] if reranker else []
    search([
        "--index", str(index_folder), "--queries", str(queries_file), "--first-stage", first_stage, "--depth", "7",
        "--tag", "t", "--output", str(tmp_path / "command.run"), *more,
    ])  # fmt: skip
    run = rp.rank_many(index_folder, queries_file, reranker, first_stage, depth=7)
    rp.write_run(tmp_path / "library.run", run, tag="t")
    assert (tmp_path / "library.run").read_bytes() == (tmp_path / "command.run").read_bytes()

    written = rp.read_run(tmp_path / "command.run")
    assert all(one.doc_ids == written[id].doc_ids for id, one in run.items() if one.doc_ids)
    np.testing.assert_array_equal(run["q0"].scores, written["q0"].scores)
    with rp.Searcher(index_folder, reranker, first_stage, depth=7) as searcher:
        for id, text in zip(QIDS, TEXTS):
            if text:  # the file holds no empty query
                ids = [hit.docid for hit in searcher.search(text, k=7)]
                assert ids == (written[id].doc_ids if id in written else [])
    np.testing.assert_array_equal(rp.rank(index_folder, TEXTS[0], reranker, first_stage, 7).scores, run["q0"].scores)


@pytest.mark.parametrize("first_stage, reranker", [("bm25", "delta"), ("bm25+rm3", "bm25-text"), ("all", "delta")])
def test_threads_that_share_a_searcher_find_what_one_finds(index, delta, first_stage, reranker):
    texts = TEXTS * 20
    with rp.Searcher(index, delta if reranker == "delta" else reranker, first_stage) as searcher:
        alone = [searcher.search(text, k=20) for text in TEXTS] * 20
        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(lambda text: searcher.search(text, k=20), texts)) == alone
            batches = [threads.submit(searcher.batch_search, TEXTS, QIDS, 20, threads=2) for _ in range(8)]
            assert all(list(batch.result().values()) == alone[: len(TEXTS)] for batch in batches)


def test_threads_do_not_score_at_once(index):
    scorer = Noisy()
    with rp.Searcher(index, scorer) as searcher, ThreadPoolExecutor(8) as threads:
        list(threads.map(searcher.search, TEXTS * 4))
    assert scorer.most == 1


def test_threads_that_end_leave_java(index):
    from rerank_plugin.files.java import java_class

    with rp.Searcher(index) as searcher:
        searcher.search("stroke")
        before = java_class("java.lang.Thread").activeCount()
        for _ in range(5):
            searcher.batch_search(["stroke", "cancer"], threads=2)
        assert java_class("java.lang.Thread").activeCount() == before


def test_batches_are_by_id_in_the_order_of_the_queries(index, index_folder):
    with rp.Searcher(index) as searcher, rp.Searcher(str(index_folder)) as other:
        assert searcher.index is index and searcher.search("cancer") == other.search("cancer")
        found = searcher.batch_search(["cancer", "zzyzx", "stroke"], ["c", "nothing", "a"], k=3)
        assert list(found) == ["c", "nothing", "a"] and not found["nothing"] and len(found["c"]) == 3
        assert list(searcher.batch_search(["cancer", "stroke"])) == ["0", "1"]
        assert searcher.batch_search([]) == {}


def test_queries_of_a_run_are_a_spec_texts_by_id_or_records(index_folder, queries_file):
    by_id = {id: text for id, text in zip(QIDS, TEXTS) if text}
    runs = [
        rp.rank_many(index_folder, given, depth=5)
        for given in (str(queries_file), by_id, [rp.Query(*one) for one in by_id.items()])
    ]
    for run in runs:
        assert {id: one.doc_ids for id, one in run.items()} == {id: one.doc_ids for id, one in runs[0].items()}


def test_a_configuration_is_a_first_stage_too(index):
    with rp.Searcher(index, first_stage=Newest()) as searcher:
        assert [hit.docid for hit in searcher.search("aspirin", k=2)] == index.forward.ids.take(
            np.array([len(index) - 1, len(index) - 2])
        )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"index": "nowhere"}, "no index at nowhere; build it with"),
        ({"index": 3}, "an index is the path of its folder or an open Index, not int"),
        ({"reranker": "no-such"}, "unknown reranker 'no-such'; known: "),
        ({"reranker": 3}, "int is no reranker"),
        ({"reranker": "delta:nowhere"}, "nowhere is no checkpoint"),
        ({"first_stage": "bm52"}, "unknown first stage 'bm52'; known: "),
        ({"first_stage": None}, "a first stage is a name, such as 'bm25', or a configuration, not NoneType"),
        ({"depth": 0}, "depth is 0: it must be at least 1"),
        ({"depth": "10"}, "depth is '10': it must be a whole number"),
    ],
)
def test_what_no_searcher_can_be_opened_with(index, arguments, message):
    with pytest.raises(rp.InputError) as error:
        rp.Searcher(**{"index": index, **arguments})
    assert message in str(error.value) and "\n" not in str(error.value) and "--reranker" not in str(error.value)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: s.search(None), "a query is a text, not NoneType"),
        (lambda s: s.search(["cancer"]), "a query is a text, not list"),
        (lambda s: s.search("cancer", k=0), "k is 0: it must be at least 1"),
        (lambda s: s.search("cancer", k=2.5), "k is 2.5: it must be a whole number"),
        (lambda s: s.search("cancer", k=True), "k is True: it must be a whole number"),
        (lambda s: s.search("cancer", k=6), "k is 6, but only 5 candidates are retrieved: open the searcher with de"),
        (lambda s: s.batch_search("cancer"), "takes a list of queries"),
        (lambda s: s.batch_search(["cancer"], ["a", "b"]), "1 queries but 2 query ids"),
        (lambda s: s.batch_search(["cancer", "stroke"], ["a", "a"]), "two queries have the id 'a'"),
        (lambda s: s.batch_search(["cancer"], [1]), "the query id 1 is no text: give '1'"),
        (lambda s: s.batch_search(["cancer"], k=2, threads=0), "threads is 0"),
    ],
)
def test_what_cannot_be_searched(index, call, message):
    with rp.Searcher(index, depth=5) as searcher, pytest.raises(rp.InputError, match=r"^[^\n]*$") as error:
        call(searcher)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "queries, message",
    [
        ("nowhere.tsv", "nowhere.tsv"),
        ({"a": 3}, "a query is a text, not int"),
        (["cancer"], "queries are records of id and text, or texts by id; found str"),
        ([rp.Query("a", "cancer"), rp.Query("a", "stroke")], "two queries have the id 'a'"),
    ],
)
def test_queries_that_make_no_run(index, queries, message):
    with pytest.raises(rp.InputError, match=message):
        rp.rank_many(index, queries)


def test_a_closed_searcher_and_a_reranker_of_another_index(index, tmp_path):
    searcher = rp.Searcher(index)
    searcher.close()
    searcher.close()
    with pytest.raises(rp.InputError, match="this searcher is closed"):
        searcher.search("cancer")
    other = rp.build_index([rp.Document("1", "A title", "An abstract.")], tmp_path / "other")
    with pytest.raises(rp.InputError, match="the reranker is of the index .*other, not of"):
        rp.Searcher(index, rp.Reranker.load("bm25-title", other))


def test_a_first_stage_that_looks_ids_up_is_for_queries_with_ids(index, tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 a 1\nq1 0 MED-1 0\n")
    with rp.Searcher(index, first_stage=f"judged:{qrels}") as searcher:
        assert [hit.docid for hit in searcher.batch_search(["stroke"], ["q1"])["q1"]] == ["a", "MED-1"]
        with pytest.raises(rp.InputError, match="'judged' looks query ids up: use batch_search or rank_many"):
            searcher.search("stroke")
    with pytest.raises(rp.InputError, match="looks query ids up"):
        rp.rank(index, "stroke", first_stage=f"judged:{qrels}")
