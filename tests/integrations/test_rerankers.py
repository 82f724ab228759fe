"""The ranker with the real rerankers."""

import asyncio

import pytest

import rerank_plugin as rp

pytest.importorskip("rerankers", reason="needs the extra 'rerankers'")
from rerankers import Document  # noqa: E402

from rerank_plugin.integrations.rerankers import Ranker  # noqa: E402

TEXTS = ["Aspirin prevents stroke.", "Propranolol prevents migraine."]


@pytest.fixture(scope="module")
def ranker():
    return Ranker(rp.Reranker.load("delta"))


def test_texts_are_ranked_as_the_library_does(ranker):
    found, expected = ranker.rank("migraine", TEXTS), ranker.reranker.rerank("migraine", TEXTS)
    assert [(one.doc_id, one.text, one.score, one.rank) for one in found] == [
        (one.index, one.document, one.relevance_score, one.rank) for one in expected
    ]
    assert found.has_scores and found.top_k(1)[0].doc_id == 1
    assert ranker.score("migraine", TEXTS[1]) == ranker.reranker.rerank("migraine", TEXTS[1:])[0].relevance_score
    assert asyncio.run(ranker.rank_async("migraine", TEXTS)).top_k(1)[0].text == TEXTS[1]
    assert ranker.rank("migraine", []).results_count() == 0
    assert ranker.score("migraine", "") == ranker.reranker.rerank("migraine", [""])[0].relevance_score


def test_ids_and_metadata_stay(ranker):
    documents = [Document(f"A title\n{text}", id, {"title": "A title", "page": 3}) for id, text in zip("ab", TEXTS)]
    found = ranker.rank("migraine", documents)
    assert [one.document for one in found] == [documents[1], documents[0]] and found[0].page == 3
    apart = [{"title": "A title", "text": text} for text in TEXTS]
    assert [one.score for one in found] == [one.relevance_score for one in ranker.reranker.rerank("migraine", apart)]


def test_ids_of_an_index(index, documents):
    reranker = rp.Reranker.load("bm25-text", index)
    ids = [one.id for one in documents]
    found = Ranker(reranker).rank("stroke", [one.abstract for one in documents], ids)
    assert [(one.doc_id, one.score) for one in found] == [
        (hit.docid, reranker.relevance.of(hit.score)) for hit in reranker.rerank("stroke", ids)
    ]
    with pytest.raises(rp.InputError, match="ids or hits, not int; for texts, load the reranker without an index"):
        Ranker(reranker).rank("stroke", TEXTS)
