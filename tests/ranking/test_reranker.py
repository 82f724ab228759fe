"""The public reranker: documents of an index by their ids, and hits."""

import copy
import pickle

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.ranking.pipeline import rank
from tests.ranking.scorers import ByLength

IDS = ["B", "a", "b", "MED-2", "300"]
SCORES = [3.0, 9.0, 1.0, 4.0, 2.0]


@pytest.fixture(scope="module")
def reranker(index):
    return rp.Reranker.load("bm25-title", index)


@pytest.fixture(scope="module")
def delta(index):
    return rp.Reranker.load("delta", index)


def test_documents_are_ranked_as_a_run_of_them_is(index, delta):
    order = np.argsort(SCORES)[::-1]
    candidates = Candidates(index.forward, index.forward.rows([IDS[place] for place in order]), np.array(SCORES)[order])
    ranking = rank(rp.Query("q", "stroke and cancer"), candidates, delta._scorer)
    hits = delta.rerank("stroke and cancer", IDS, first_stage_scores=SCORES)
    assert [(hit.docid, hit.score) for hit in hits] == list(zip(ranking.doc_ids, ranking.ranked_scores.tolist()))
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert {hit.docid: hit.first_stage_rank for hit in hits} == {"a": 1, "MED-2": 2, "B": 3, "300": 4, "b": 5}
    assert {hit.docid: hit.first_stage_score for hit in hits} == dict(zip(IDS, SCORES))


def test_without_scores_the_order_that_is_given_is_the_first_stage_s(reranker):
    hits = reranker.rerank("stroke", IDS)
    assert {hit.docid: hit.first_stage_rank for hit in hits} == {id: place for place, id in enumerate(IDS, 1)}
    assert [hit.docid for hit in hits][:2] == ["B", "b"] or [hit.docid for hit in hits][:2] == ["b", "B"]


def test_hits_bring_their_scores_along(index, delta):
    with rp.Searcher(index, depth=20) as first, rp.Searcher(index, delta, depth=20) as both:
        retrieved, expected = first.search("stroke and cancer", k=20), both.search("stroke and cancer", k=20)
    assert delta.rerank("stroke and cancer", retrieved) == expected
    assert delta.rerank("stroke and cancer", expected, 3) == expected[:3]  # of hits that were re-ranked before, too


def test_a_document_that_is_given_twice_is_ranked_once_at_its_better_place(reranker, delta):
    assert reranker.rerank("stroke", ["B", "a", "B", "b", "a"]) == reranker.rerank("stroke", ["B", "a", "b"])
    twice = delta.rerank("stroke", ["B", "a", "B"], first_stage_scores=[1.0, 2.0, 3.0])
    assert twice == delta.rerank("stroke", ["B", "a"], first_stage_scores=[3.0, 2.0])
    hits = delta.rerank("stroke and cancer", IDS, first_stage_scores=SCORES)
    assert delta.rerank("stroke and cancer", [*hits, *hits[:2]]) == hits


def test_the_rows_of_a_table_are_ranked_not_its_columns(index, reranker):
    pandas = pytest.importorskip("pandas")
    texts = rp.Reranker.load("bm25-text", statistics=index)
    rows = [{"id": 7, "title": "Stroke", "text": "Stroke."}, {"id": 10, "title": None, "text": "Aspirin after stroke."}]
    frame = pandas.DataFrame(rows)
    expected = texts.rerank("stroke", rows)
    found = texts.rerank("stroke", frame)
    assert [(text.index, text.score) for text in found] == [(text.index, text.score) for text in expected]
    assert found[0].document["id"] == rows[found[0].index]["id"]
    assert reranker.rerank("stroke", frame) == reranker.rerank("stroke", ["7", "10"])
    docnos = pandas.DataFrame({"docno": ["B", "a"], "title": ["x", "y"]})
    assert reranker.rerank("stroke", docnos) == reranker.rerank("stroke", ["B", "a"])
    with pytest.raises(rp.InputError, match="documents of an index are ids or hits, not dict"):
        reranker.rerank("stroke", frame.drop(columns="id"))
    with pytest.raises(rp.InputError, match="document 0 of the list has no title, text"):
        texts.rerank("stroke", frame[["id"]])


def test_nothing_is_ranked_as_nothing(reranker, delta):
    assert reranker.rerank("stroke", []) == [] and delta.rerank("stroke", []) == []


def test_a_scorer_of_one_s_own(index):
    hits = rp.Reranker(ByLength(), index).rerank("anything", IDS)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((3, IDS), "a query is a text, not int"),
        (("stroke", "B"), "documents to re-rank are a list, not one str"),
        (("stroke", [1]), "documents of an index are ids or hits, not int"),
        (("stroke", ["B", "gone", "lost"]), "2 of 3 documents are not in the index"),
        (("stroke", ["B"], None, [1.0, 2.0]), "1 documents have first-stage scores of shape (2,)"),
        (("stroke", ["B"], None, ["x"]), "first-stage scores must be numbers"),
        (("stroke", ["B"], None, [float("nan")]), "a first-stage score is NaN or infinite"),
        (("stroke", ["B"], 0), "top_k is 0: it must be at least 1"),
    ],
)
def test_what_cannot_be_re_ranked(reranker, arguments, message):
    with pytest.raises(rp.InputError) as error:
        reranker.rerank(*arguments[:3], first_stage_scores=arguments[3] if len(arguments) > 3 else None)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_rank_as_the_original(index, reranker, tmp_path, monkeypatch, copied):
    """Also in another working directory, and opened by relative paths."""
    rp.Reranker.load("delta").save_pretrained(tmp_path / "mine")
    (tmp_path / "index").symlink_to(index.folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    hits = reranker.rerank("cancer", IDS)
    originals = [
        reranker, rp.Reranker.load("bm25-title", "index"), rp.Reranker(ByLength(), index),
        rp.Reranker.load(["bm25-title", "bm25-text@2"], "index"), rp.Reranker.load("mine"),
        rp.Reranker.load("delta:mine"), rp.Reranker.load("bm25-text", statistics="index"),
    ]  # fmt: skip
    ranked = [one.rerank("stroke", ["Stroke.", "After stroke."] if one.index is None else hits) for one in originals]
    monkeypatch.chdir("elsewhere")
    for original, expected in zip(originals, ranked):
        twin = copied(original)
        assert twin is not original and (twin.name, twin.relevance) == (original.name, original.relevance)
        assert twin.rerank("stroke", ["Stroke.", "After stroke."] if twin.index is None else hits) == expected


def test_a_model_that_reads_first_stage_scores_asks_for_them(delta):
    with pytest.raises(rp.InputError, match="'delta' reads first-stage scores: give them, or hits of a search"):
        delta.rerank("stroke", IDS)


@pytest.mark.parametrize(
    "spec, options, message",
    [
        (None, {}, "named by a string or a path, not by NoneType"),
        ("no-such", {}, "unknown reranker 'no-such'"),
        ("bm25-title", {"batch_size": 0}, "batch_size is 0: it must be at least 1"),
        ("delta", {"device": "nowhere"}, "cannot use the device 'nowhere'"),
    ],
)
def test_what_cannot_be_loaded(index, spec, options, message):
    with pytest.raises(rp.InputError) as error:
        rp.Reranker.load(spec, index, **options)
    assert message in str(error.value)
