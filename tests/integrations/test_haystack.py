"""The components in pipelines of the real Haystack."""

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("haystack", reason="needs the extra 'haystack'")
from haystack import Document, Pipeline  # noqa: E402

from rerank_plugin.integrations.haystack import HaystackRanker, HaystackRetriever  # noqa: E402


@pytest.mark.parametrize("argument", ["index", "statistics"])
def test_a_saved_pipeline_ranks_as_the_library_does(index_folder, hits, relevance, argument):
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(str(index_folder), top_k=20))
    pipeline.add_component("ranker", HaystackRanker("delta", **{argument: str(index_folder)}))
    pipeline.connect("retriever", "ranker")
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["rerank_plugin.*"])
    for ranking in (pipeline, loaded):
        documents = ranking.run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}})["ranker"]["documents"]
        assert [document.id for document in documents] == [hit.docid for hit in hits]
        assert [document.score for document in documents] == pytest.approx(relevance, abs=1e-5)
    no_hits = {"retriever": {"query": "zzyzx"}, "ranker": {"query": "zzyzx"}}
    assert pipeline.run(no_hits)["ranker"]["documents"] == []


def test_a_retrieved_document(index_folder, searcher):
    hit = searcher.search(QUERY, 1)[0]
    (document,) = HaystackRetriever(str(index_folder), first_stage="bm25", depth=5).run(QUERY, top_k=1)["documents"]
    assert (document.id, document.score) == (hit.docid, hit.score)
    assert document.content == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}"
    assert document.meta == {"title": hit.title, "first_stage_score": hit.score}


def test_filters_of_haystack(tmp_path):
    documents = [
        rp.Document(str(year), "Aspirin", "", {"date": str(year), "types": ["Review" if year % 2 else "Letter"]})
        for year in (2014, 2015, 2016, 2017)
    ]
    rp.build_index(documents, tmp_path / "index")
    review = {"field": "meta.type", "operator": "==", "value": "Review"}
    years = {"field": "meta.year", "operator": "in", "value": ["2014", "2015-2016"]}
    both = {"operator": "AND", "conditions": [review, years]}
    retriever = HaystackRetriever(str(tmp_path / "index"), filters=review)
    for filters, ids in ((None, {"2015", "2017"}), (years, {"2014", "2015", "2016"}), (both, {"2015"})):
        assert {document.id for document in retriever.run("aspirin", filters=filters)["documents"]} == ids
    for invalid in ({"operator": "OR", "conditions": [review]}, {**review, "operator": "!="}):
        with pytest.raises(rp.InputError, match="a condition with == or in, or an AND .* not {'"):
            retriever.run("aspirin", filters=invalid)
    with pytest.raises(rp.InputError, match="unknown filter 'page'"):
        retriever.run("aspirin", filters={**review, "field": "meta.page"})


def test_documents_of_other_retrievers_keep_their_fields():
    documents = [
        Document(content="Aspirin prevents stroke.", score=0.9),
        Document(content="Propranolol prevents migraine.", meta={"page": 3}, embedding=[0.5], score=0.1),
    ]
    (best,) = HaystackRanker("delta", top_k=2).run("migraine", documents, top_k=1)["documents"]
    assert (best.id, best.meta, best.embedding) == (documents[1].id, {"page": 3}, [0.5])
    assert documents[1].score == 0.1 != best.score
    documents.insert(0, Document(content=None, meta={"title": float("nan")}))
    ranked = HaystackRanker("delta").run("migraine", documents)["documents"]
    assert {one.id for one in ranked} == {one.id for one in documents} and ranked[0].id == documents[2].id
