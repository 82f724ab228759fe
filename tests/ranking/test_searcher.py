"""The public searcher: hits as the search command ranks them, from many threads, and what it refuses."""

import copy
import gc
import json
import os
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import Problems
from rerank_plugin.indexes.building import build_single
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.rerankers import Scorer
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.search import main as search
from tests import small
from tests.ranking.scorers import ByLength

TEXTS = [
    "stroke cancer aspirin", "malaria", "the of", "cancer in women", "aspirin for a heart attack", "twins", "",
    "statins and cholesterol", "renal failure", "vaccines protect children", "diabetes type 2", "zzyzx",
]  # fmt: skip
QIDS = [f"q{number}" for number in range(len(TEXTS))]


class Noisy(Scorer):
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

    def attribute(self, query, candidates, place):
        self.score(query, candidates)


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
    from rerank_plugin.models.checkpoint import save_checkpoint

    vectors = small.word_vectors(small.KNOWN_WORDS, 8, seed=1)
    model = small.delta(vectors, lexical_features=("first_stage_share", "bm25_text"), document_words=20)
    folder = tmp_path_factory.mktemp("checkpoints") / "delta"
    save_checkpoint(folder, model, vectors, {})
    return str(folder)


def test_hits_tell_what_the_first_stage_said(index, documents):
    with rp.Searcher(index, ByLength(), depth=6) as searcher, rp.Searcher(index, depth=6) as first:
        before = {hit.docid: hit for hit in first.search("cancer stroke", k=6)}
        hits = searcher.search("cancer stroke", k=6)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5, 6]
    assert {hit.docid: (hit.first_stage_score, hit.first_stage_rank) for hit in hits} == {
        docid: (hit.score, hit.rank) for docid, hit in before.items()
    }
    ranked = [(hit.score, hit.docid.encode()) for hit in hits]
    assert ranked == sorted(ranked, reverse=True)
    titles = {document.id: document.title for document in documents}
    assert all(hit.title == titles[hit.docid] for hit in hits)


@pytest.mark.parametrize("first_stage", ["bm25", "qld", "bm25+rm3", "all"])
@pytest.mark.parametrize("reranker", [None, "bm25-title", "delta", ["bm25-title", "docid@3"]])
def test_runs_are_those_of_the_search_command(index_folder, queries_file, delta, tmp_path, first_stage, reranker):
    reranker = delta if reranker == "delta" else reranker
    stages = reranker if isinstance(reranker, list) else [reranker] * bool(reranker)
    rerankers = [part for stage in stages for part in ("--reranker", stage)]
    search([
        "--index", str(index_folder), "--queries", str(queries_file), "--first-stage", first_stage, "--depth", "7",
        "--tag", "t", "--output", str(tmp_path / "command.run"), *rerankers,
    ])  # fmt: skip
    run = rp.rank_many(index_folder, queries_file, reranker, first_stage, depth=7)
    rp.write_run(tmp_path / "library.run", run, tag="t")
    assert (tmp_path / "library.run").read_bytes() == (tmp_path / "command.run").read_bytes()

    written = rp.read_run(tmp_path / "command.run")
    assert all(ranked.doc_ids == written[id].doc_ids for id, ranked in run.items() if ranked.doc_ids)
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


def test_threads_neither_score_nor_explain_at_once(index):
    scorer = Noisy()
    with rp.Searcher(index, scorer) as searcher, ThreadPoolExecutor(8) as threads:
        list(threads.map(searcher.search, TEXTS * 4))
        (best,) = searcher.search("cancer", k=1)
        list(threads.map(lambda _: searcher.explain("cancer", best.docid), range(40)))
    assert scorer.most == 1


def test_threads_that_end_leave_java(index):
    from rerank_plugin.java.jvm import java_class

    with rp.Searcher(index) as searcher:
        searcher.search("stroke")
        before = java_class("java.lang.Thread").activeCount()
        for _ in range(5):
            searcher.batch_search(["stroke", "cancer"], threads=2)
        assert java_class("java.lang.Thread").activeCount() == before


def test_batches_are_by_id_in_the_order_of_the_queries(index, index_folder):
    with rp.Searcher(index) as searcher, rp.Searcher(str(index_folder)) as by_folder:
        assert searcher.index is index and searcher.search("cancer") == by_folder.search("cancer")
        hits = searcher.batch_search(["cancer", "zzyzx", "stroke"], ["c", "nothing", "a"], k=3)
        assert list(hits) == ["c", "nothing", "a"] and not hits["nothing"] and len(hits["c"]) == 3
        assert list(searcher.batch_search(["cancer", "stroke"])) == ["0", "1"]
        assert searcher.batch_search([]) == {}


def test_queries_of_a_run_are_a_spec_texts_by_id_or_records(index_folder, queries_file):
    by_id = {id: text for id, text in zip(QIDS, TEXTS) if text}
    numbered = rp.rank_many(index_folder, {7: TEXTS[0], np.int64(8): TEXTS[0]}, depth=5)
    assert list(numbered) == ["7", "8"]
    runs = [
        rp.rank_many(index_folder, queries, depth=5)
        for queries in (str(queries_file), by_id, [rp.Query(*one) for one in by_id.items()])
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
        ({"reranker": 3}, "int is not a reranker"),
        ({"reranker": "delta:nowhere"}, "nowhere is not a checkpoint"),
        ({"first_stage": "bm52"}, "unknown first stage 'bm52': did you mean 'bm25'? Known: "),
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
        (lambda s: s.search("cancer", fields={"title": 2.0}), "leave query_generator and fields out"),
        (lambda s: s.batch_search(["cancer"], fields={"title": 2.0}), "leave query_generator and fields out"),
        (lambda s: s.batch_doc("a"), "batch_doc takes a list of document ids"),
        (lambda s: s.doc_by_field("doi", "10.1/x"), "indexes no field 'doi'; it has "),
        (lambda s: s.set_rm3(filter_terms=False), "RM3 expands by terms of letters and digits only"),
        (lambda s: s.set_analyzer(None), "queries are analyzed as the documents of the index were"),
        (lambda s: s.set_language("zh"), "as English, not as 'zh'"),
        (lambda s: s.set_rocchio(10, debug=True), "Rocchio's feedback is not offered; expand queries by set_rm3"),
        (
            lambda s: copy.copy(s.search("cancer", 1)[0]).lucene_document,
            "is a copy, without its searcher: read it by Searc",
        ),
        (lambda s: s.batch_search("cancer"), "takes a list of queries"),
        (lambda s: s.batch_search(["cancer"], ["a", "b"]), "1 queries but 2 query ids"),
        (lambda s: s.batch_search(["cancer", "stroke"], ["a", "a"]), "two queries have the id 'a'"),
        (lambda s: s.batch_search(["cancer"], [1.5]), "queries: the id 1.5 is of type float: give a text"),
        (lambda s: s.batch_search(["a", "b"], [1, "1"]), "two queries have the id '1'"),
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


@pytest.mark.parametrize("closes", [True, False], ids=["closed", "dropped"])
def test_a_searcher_that_is_closed_or_dropped_gives_its_files_back_at_once(index_folder, closes):
    def open_files():
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(os.readlink(link).startswith(str(index_folder)) for link in links if os.path.exists(link))

    before = open_files()
    gc.disable()
    try:
        searcher = rp.Searcher(index_folder, "delta")
        searcher.set_rm3()
        hits, document = searcher.search("stroke"), searcher.doc("a")
        assert open_files() >= before + 20
        if closes:
            searcher.close()
            assert open_files() <= before and hits[0].title and document.raw()
        else:
            del searcher, hits  # hits read their documents by their searcher
            assert open_files() <= before + 1  # Lucene's, until Java collects its garbage
    finally:
        gc.enable()


def test_a_closed_searcher_refuses_every_use(index_folder):
    searcher = rp.Searcher(index_folder, "bm25-title")
    index, reranker = searcher.index, searcher.reranker
    searcher.close()
    searcher.close()
    for use in (
        lambda: searcher.search("cancer"), lambda: searcher.batch_search(["cancer"]), lambda: searcher.doc("a"),
        lambda: searcher.explain("cancer", "a"), lambda: searcher.similar("a"), searcher.set_bm25,
        lambda: searcher.index, lambda: searcher.notes("cancer"), lambda: pickle.dumps(searcher),
    ):  # fmt: skip
        with pytest.raises(rp.InputError, match="this searcher is closed: open another one"):
            use()
    for use in (lambda: len(index), index.open_lucene, lambda: reranker.rerank("cancer", ["a"])):
        with pytest.raises(rp.InputError, match="the index .* is closed: open it again"):
            use()
    assert not hasattr(searcher, "no_such_attribute")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda searcher: pickle.loads(pickle.dumps(searcher))])
def test_copies_search_as_the_original(index, index_folder, tmp_path, monkeypatch, copied):
    """Also in another working directory, and with the first stage that was set."""
    (tmp_path / "index").symlink_to(index_folder)
    monkeypatch.chdir(tmp_path)
    originals = [
        rp.Searcher("index", "delta", depth=20), rp.Searcher("index", ["bm25-title", "bm25-text@2"]),
        rp.Searcher(index, rp.Reranker.load("delta", index), "bm25+rm3"), rp.Searcher(index, ByLength()),
    ]  # fmt: skip
    originals[0].set_bm25(2.0, 0.75)
    monkeypatch.chdir("/")
    for original in originals:
        with copied(original) as twin:
            assert (twin.search("stroke cancer"), twin.depth) == (original.search("stroke cancer"), original.depth)
            assert twin.index is not original.index


def test_a_reranker_of_another_index(index, tmp_path):
    another_index = rp.build_index([rp.Document("1", "A title", "An abstract.")], tmp_path / "other")
    with pytest.raises(rp.InputError, match="the reranker is of the index .*other, not of"):
        rp.Searcher(index, rp.Reranker.load("bm25-title", another_index))


def test_a_first_stage_that_looks_ids_up_is_for_queries_with_ids(index, tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q1 0 a 1\nq1 0 MED-1 0\n")
    with rp.Searcher(index, first_stage=f"judged:{qrels}") as searcher:
        assert [hit.docid for hit in searcher.batch_search(["stroke"], ["q1"])["q1"]] == ["a", "MED-1"]
        with pytest.raises(rp.InputError, match="'judged' looks query ids up: use batch_search or rank_many"):
            searcher.search("stroke")
    with pytest.raises(rp.InputError, match="looks query ids up"):
        rp.rank(index, "stroke", first_stage=f"judged:{qrels}")


def test_pages_are_parts_of_one_list(index):
    with rp.Searcher(index, ByLength(), depth=12) as searcher:
        whole = searcher.search("cancer stroke", k=12)
        pages = [hit for offset in range(0, 12, 4) for hit in searcher.search("cancer stroke", k=4, offset=offset)]
        assert pages == whole and [hit.rank for hit in pages] == list(range(1, len(whole) + 1))
        assert searcher.search("malaria", k=2, offset=5) == []
        assert searcher.search("cancer stroke", k=13)[:1] != []  # more than the depth without an offset: k candidates
        with pytest.raises(rp.InputError, match="offset \\+ k is 13, but only 12 candidates .* with depth=13"):
            searcher.search("cancer", k=4, offset=9)
        with pytest.raises(rp.InputError, match="offset is -1: it must be at least 0"):
            searcher.search("cancer", offset=-1)


def test_documents_are_those_that_were_indexed(index, documents):
    with rp.Searcher(index) as searcher:
        assert searcher.num_docs == len(documents)
        for document in documents:
            doc = searcher.doc(document.id)
            assert doc.docid() == doc.id() == document.id and doc.contents() == f"{document.title} {document.abstract}"
            fields = json.loads(doc.raw())
            assert (fields["id"], fields["title"], fields["abstract"]) == (
                document.id,
                document.title,
                document.abstract,
            )
            assert doc.get("title") == document.title and doc.get("raw") == doc.raw() and doc.get("nothing") is None
        for hit in searcher.search("cancer stroke"):
            assert searcher.doc(hit.lucene_docid).docid() == hit.docid
        assert searcher.doc("gone") is searcher.doc(len(documents)) is searcher.doc(-1) is None
        with pytest.raises(rp.InputError, match="by its id or by its Lucene number, not by float"):
            searcher.doc(1.0)
    with pytest.raises(rp.InputError, match="this searcher is closed"):
        searcher.doc("a")


def test_a_first_stage_that_is_set_is_that_which_is_opened(index):
    def hits(searcher):
        return [searcher.search(text, k=20) for text in TEXTS]

    def opened(**settings):
        with rp.Searcher(index, first_stage=LuceneConfig(**settings)) as expected:
            return hits(expected)

    with rp.Searcher(index) as searcher:
        bm25 = hits(searcher)
        searcher.set_bm25(2.0, 0.75)
        assert hits(searcher) == opened(k1=2.0, b=0.75) != bm25
        searcher.set_rm3(5, 3, 0.7)
        rm3 = {"name": "bm25+rm3", "rm3_terms": 5, "rm3_documents": 3, "rm3_weight": 0.7}
        assert searcher.is_using_rm3() and hits(searcher) == opened(k1=2.0, b=0.75, **rm3)
        searcher.set_bm25()
        assert hits(searcher) == opened(**rm3)
        with pytest.raises(rp.InputError, match="call unset_rm3 before set_qld"):
            searcher.set_qld()
        searcher.unset_rm3()
        searcher.set_qld(500)
        assert not searcher.is_using_rm3() and hits(searcher) == opened(name="qld", mu=500.0)
        with pytest.raises(rp.InputError, match="call set_bm25 before set_rm3"):
            searcher.set_rm3()
        searcher.set_bm25()
        assert hits(searcher) == bm25
    with (
        rp.Searcher(index, first_stage="all") as searcher,
        pytest.raises(rp.InputError, match="set_qld is for .*'all'"),
    ):
        searcher.set_qld()


def test_a_first_stage_may_be_set_while_others_search(index):
    with rp.Searcher(index) as searcher, ThreadPoolExecutor(4) as threads:
        searches = [threads.submit(searcher.search, "cancer stroke") for _ in range(60)]
        for _ in range(5):
            searcher.set_qld()
            searcher.set_bm25()
        rankings = {tuple(hit.docid for hit in search.result()) for search in searches}
        assert len(rankings) <= 2 and len({frozenset(ids) for ids in rankings}) == 1


def test_another_first_stage_than_in_training_is_warned_of(index, index_folder, caplog, capsys):
    """The bundled delta reads BM25's scores, ktrel reads none; the command warns as the library does."""
    from rerank_plugin import search

    for reranker, first_stage in (("delta", "bm25"), ("ktrel", "qld"), (None, "qld")):
        rp.Searcher(index, reranker, first_stage)
    assert "trained on those" not in caplog.text
    rp.Searcher(index, "delta", "qld")
    assert "delta reads the scores of the first stage and was trained on those of bm25" in caplog.text
    caplog.clear()
    search.main(f"--index {index_folder} --query aspirin --reranker delta --first-stage qld".split())
    assert "evaluate it after qld" in caplog.text + capsys.readouterr().err


PROGRAM = """
hits = searcher.search('aspirin and heart attack')
for i in range(0, 3):
    print(f'{i+1:2} {hits[i].docid:7} {hits[i].score:.3f}', hits[i].lucene_docid)
doc = searcher.doc(hits[0].docid)
print(doc.id(), doc.docid(), doc.raw())
print(json.loads(doc.raw())['contents'])
searcher.set_bm25(1.2, 0.75)
searcher.set_rm3(10, 10, 0.5)
hits2 = searcher.search('insulin')
for i in range(0, 2):
    print(f'{i+1:2} {hits2[i].docid:15} {hits2[i].score:.3f}')
searcher.unset_rm3()
searcher.set_qld(800)
results = searcher.batch_search(['vaccines protect children', 'red meat'], ['q1', 'q2'], k=2, threads=2)
for qid in ['q1', 'q2']:
    print(qid, [hit.docid for hit in results[qid]])
for i in range(searcher.num_docs):
    print(searcher.doc(i).docid())
print(searcher.get_similarity().toString(), searcher.is_using_rocchio())
searcher.set_bm25()
many = searcher.search('insulin', k=1000, remove_dups=True)
print([(hit.docid, hit.lucene_document.get('id'), hit.lucene_document.get('raw')) for hit in many])
print([hit.docid for hit in searcher.search('twins share', strip_segment_id=True, remove_dups=True)])
print([hit.docid for hit in searcher.search('twins share', 1000, None, {}, True)])
print({docid: doc.raw() for docid, doc in sorted(searcher.batch_doc(['a', 'gone', 'x.1'], 2).items())})
print(searcher.doc('a').lucene_document().get('raw'), searcher.doc_by_field('id', 'b').raw())
print(searcher.doc_by_field('id', 'gone'), searcher.doc('gone'))
searcher.set_rm3(5, 5, 0.5, False, True)
print(searcher.is_using_rm3(), [hit.docid for hit in searcher.search('red meat', 3)])
searcher.unset_rocchio()
"""


def test_a_program_for_pyserini_runs_unchanged(documents, capsys, lucene_searcher, tmp_path):
    """What Pyserini's guides to searching and to fetching documents do, by its searcher and by ours, but for
    the last digits of scores, which Pyserini changes to tell equal ones apart."""
    # In this order: Pyserini takes an index for one without document vectors if its first document is empty.
    build_single(iter(documents), tmp_path / "index", "the documents of the tests", Problems(), term_vectors=True)
    index = rp.Index(tmp_path / "index")
    outputs = []
    for searcher in (lucene_searcher(str(index.lucene_folder)), rp.Searcher(index)):
        exec(PROGRAM, {"searcher": searcher, "json": json})
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] and len(outputs[0].splitlines()) > 40


def test_hits_of_another_searcher_are_re_ranked(index, documents, lucene_searcher):
    """By a reranker with this index and by one that reads the texts: with the same statistics the same."""
    searcher = lucene_searcher(str(index.lucene_folder))
    stored, free = rp.Reranker.load("delta", index), rp.Reranker.load("delta", statistics=index)
    found = searcher.search("stroke and cancer in women", k=20)
    texts, ids = (one.rerank_hits("stroke and cancer in women", found, searcher) for one in (free, stored))
    assert [hit.docid for hit in texts] == [hit.docid for hit in ids]
    np.testing.assert_allclose([hit.score for hit in texts], [hit.score for hit in ids], atol=1e-5)
    facts = [[(h.title, h.first_stage_rank, h.lucene_docid) for h in one] for one in (texts, ids)]
    assert facts[0] == facts[1] and len(texts) == len(found)
    assert free.rerank_hits("stroke and cancer in women", found, searcher, top_k=2) == texts[:2]
    assert free.rerank_hits("stroke", [], searcher) == []
    assert stored.rerank("stroke and cancer in women", found) == ids
    by_text = free.rerank("stroke and cancer in women", found)
    assert [(text.document.docid, text.score) for text in by_text] == [(hit.docid, hit.score) for hit in texts]
    dense = [namedtuple("DenseSearchResult", "docid score")(hit.docid, hit.score) for hit in found]
    assert stored.rerank("stroke and cancer in women", dense) == ids
    assert [hit.docid for hit in free.rerank_hits("stroke and cancer in women", dense, searcher)] == [
        hit.docid for hit in texts
    ]
    with pytest.raises(rp.InputError, match="hit '.*' of type DenseSearchResult has no text: give its searcher"):
        free.rerank("stroke", dense)
    with rp.Searcher(index) as ours:
        hits = ours.search("stroke and cancer in women", k=20)
        assert [text.document.docid for text in free.rerank("stroke and cancer in women", hits)] == [
            hit.docid for hit in texts
        ]
    assert texts[0].lucene_document.raw() == ids[0].lucene_document.raw() == searcher.doc(ids[0].docid).raw()


def test_similar_documents_have_close_vectors(index_folder, tmp_path):
    import shutil

    from rerank_plugin.index import main as index_command

    shutil.copytree(index_folder, tmp_path / "index")
    with rp.Searcher(tmp_path / "index") as searcher, pytest.raises(rp.InputError, match="holds no encodings by"):
        searcher.similar("a")
    index_command(["--encode", "ktrel", "--index", str(tmp_path / "index")])
    (folder,) = (tmp_path / "index" / "encodings/000001").iterdir()
    codes, scales, positions = (np.load(folder / f"000001/{name}.npy") for name in ("codes", "scales", "positions"))
    vectors = (codes * scales)[positions]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    with rp.Searcher(tmp_path / "index") as searcher:
        forward = searcher.index.forward
        row = int(forward.rows(["a"])[0])
        cosines = vectors @ vectors[row]
        hits = searcher.similar("a", k=5)
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(np.delete(cosines, row))[::-1][:5], atol=6e-5)
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5] and "a" not in [hit.docid for hit in hits]
        assert {hit.docid for hit in searcher.similar("x.1", k=2)} == {"x.10", "x.2"}  # of the same words
        with pytest.raises(rp.InputError, match="document 'gone' is not in the index"):
            searcher.similar("gone")


def test_a_relative_folder_stays_that_folder_when_the_working_folder_changes(index_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(index_folder.parent)
    with rp.Searcher(index_folder.name) as searcher:
        monkeypatch.chdir(tmp_path)
        hit = searcher.search("aspirin", 1)[0]
        searcher.set_qld()
        assert searcher.doc(hit.docid).docid() == searcher.search("aspirin", 1)[0].docid
        assert searcher.explain("aspirin", hit.docid).title == hit.title
        searcher.index.check_same()
