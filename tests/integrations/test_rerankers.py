"""The ranker with the real library rerankers."""

import asyncio

import pytest

import rerank_plugin as rp

TEXTS = ["Aspirin prevents stroke.", "Propranolol prevents migraine."]


@pytest.fixture(scope="module")
def made():
    """Makes rankers; the library is imported here, as it takes seconds that every worker would need to collect."""
    pytest.importorskip("rerankers", reason="needs the extra 'rerankers'")
    from rerank_plugin.integrations.rerankers import Ranker

    return Ranker


@pytest.fixture(scope="module")
def ranker(made):
    return made(rp.Reranker.load("delta"))


def test_texts_are_ranked_as_the_library_does(ranker):
    ranked, expected = ranker.rank("migraine", TEXTS), ranker.reranker.rerank("migraine", TEXTS)
    assert [(result.doc_id, result.text, result.score, result.rank) for result in ranked] == [
        (text.index, text.document, text.relevance_score, text.rank) for text in expected
    ]
    assert ranked.has_scores and ranked.top_k(1)[0].doc_id == 1
    assert ranker.score("migraine", TEXTS[1]) == ranker.reranker.rerank("migraine", TEXTS[1:])[0].relevance_score
    assert asyncio.run(ranker.rank_async("migraine", TEXTS)).top_k(1)[0].text == TEXTS[1]
    assert ranker.rank("migraine", []).results_count() == 0
    assert ranker.score("migraine", "") == ranker.reranker.rerank("migraine", [""])[0].relevance_score


def test_ids_and_metadata_stay(ranker):
    from rerankers import Document

    documents = [Document(f"A title\n{text}", id, {"title": "A title", "page": 3}) for id, text in zip("ab", TEXTS)]
    ranked = ranker.rank("migraine", documents)
    assert [result.document for result in ranked] == [documents[1], documents[0]] and ranked[0].page == 3
    with_titles = [{"title": "A title", "text": text} for text in TEXTS]
    expected = ranker.reranker.rerank("migraine", with_titles)
    assert [result.score for result in ranked] == [text.relevance_score for text in expected]


def test_ids_of_an_index(made, index, documents):
    reranker = rp.Reranker.load("bm25-text", index)
    ids = [document.id for document in documents]
    ranked = made(reranker).rank("stroke", [document.abstract for document in documents], ids)
    assert [(result.doc_id, result.score) for result in ranked] == [
        (hit.docid, reranker.relevance.of(hit.score)) for hit in reranker.rerank("stroke", ids)
    ]
    with pytest.raises(rp.InputError, match="ids or hits, not int; for texts, load the reranker without an index"):
        made(reranker).rank("stroke", TEXTS)
