"""The components in pipelines of the real Haystack."""

import pickle
import re
from copy import deepcopy
from datetime import date, datetime

import pytest

import rerank_plugin as rp
from tests.integrations.conftest import QUERY

pytest.importorskip("haystack", reason="needs the extra 'haystack'")
from haystack import Document, Pipeline  # noqa: E402

from rerank_plugin.integrations.haystack import HaystackRanker, HaystackRetriever  # noqa: E402
from rerank_plugin.models.register import entry_of  # noqa: E402


@pytest.mark.parametrize("argument", ["index", "statistics"])
def test_a_saved_pipeline_ranks_as_the_library_does(index_folder, hits, relevance, argument):
    pipeline = Pipeline()
    pipeline.add_component("retriever", HaystackRetriever(index_folder, top_k=20))
    pipeline.add_component("ranker", HaystackRanker(entry_of("delta").bundled, **{argument: index_folder}))
    pipeline.connect("retriever", "ranker")
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["rerank_plugin.*"])
    for ranking in (pipeline, loaded):
        documents = ranking.run({"retriever": {"query": QUERY}, "ranker": {"query": QUERY}})["ranker"]["documents"]
        assert [document.id for document in documents] == [hit.docid for hit in hits]
        assert [document.score for document in documents] == pytest.approx(relevance, abs=1e-5)
    for copied in (deepcopy, lambda component: pickle.loads(pickle.dumps(component))):  # with what they opened
        ranker = copied(pipeline.get_component("ranker"))
        retrieved = copied(pipeline.get_component("retriever")).run(QUERY)["documents"]
        assert ranker.run(QUERY, retrieved)["documents"] == documents
    no_hits = {"retriever": {"query": "zzyzx"}, "ranker": {"query": "zzyzx"}}
    assert pipeline.run(no_hits)["ranker"]["documents"] == []


def test_a_retrieved_document(index_folder, searcher):
    hit = searcher.search(QUERY, 1)[0]
    (document,) = HaystackRetriever(str(index_folder), first_stage="bm25", depth=5).run(QUERY, top_k=1)["documents"]
    assert (document.id, document.score) == (hit.docid, hit.score)
    assert document.content == f"{hit.title}\n{searcher.doc(hit.docid).get('abstract')}"
    assert document.meta == {"title": hit.title, "first_stage_score": hit.score}


def of(field, operator, value):
    return {"field": f"meta.{field}", "operator": operator, "value": value}


def join(operator, *conditions):
    return {"operator": operator, "conditions": list(conditions)}


REVIEW, LETTER, IN_2015 = of("type", "==", "Review"), of("types", "==", "letter"), of("year", "==", 2015)


@pytest.mark.parametrize(
    "filters, years",
    [
        (None, "2014 2015 2016 2017"),
        (REVIEW, "2015 2017"),
        (IN_2015, "2015"),
        (of("year", "==", "2015"), "2015"),
        (of("year", "in", [2014, "2016-2017"]), "2014 2016 2017"),
        (of("year", "!=", 2015), "2014 2016 2017"),
        (of("year", "not in", [2015, 2016]), "2014 2017"),
        (of("year", ">", 2015), "2016 2017"),
        (of("year", "<=", "2015"), "2014 2015"),
        (of("date", ">=", "2015-01-01"), "2015 2016 2017"),
        (of("date", "<", datetime(2016, 1, 1)), "2014 2015"),
        (of("date", ">", date(2015, 12, 31)), "2016 2017"),
        (of("date", "<=", "2016-12"), "2014 2015 2016"),
        (of("retracted", "==", True), "2016"),
        (of("retracted", "!=", True), "2014 2015 2017"),
        (join("AND", of("date", ">=", "2015-01-01"), of("date", "<=", "2016-12-31")), "2015 2016"),
        (join("AND", REVIEW, of("year", "<", 2017)), "2015"),
        (join("AND", of("year", ">", 2016), of("year", "<", 2016)), ""),
        (join("OR", REVIEW, LETTER), "2014 2015 2016 2017"),
        (join("OR", IN_2015, of("year", ">", 2016)), "2015 2017"),
        (join("AND", join("OR", IN_2015, of("year", "==", 2016)), LETTER), "2016"),
        (join("NOT", of("year", ">=", 2015), of("year", "<=", 2016)), "2014 2017"),
        (join("NOT", join("OR", of("year", "<", 2015), of("retracted", "==", True))), "2015 2017"),
        (join("NOT", join("NOT", REVIEW)), "2015 2017"),
    ],
)
def test_filters_of_haystack(dated, filters, years):
    """In the constructor, and in a call in place of those of the constructor."""
    at_first, at_last = (
        HaystackRetriever(dated, filters=filters),
        HaystackRetriever(dated, filters=of("year", "<", 2000)),
    )
    for documents in (at_first.run("aspirin")["documents"], at_last.run("aspirin", filters=filters or {})["documents"]):
        assert {document.id for document in documents} == set(years.split())


@pytest.mark.parametrize(
    "filters, message",
    [
        (of("page", "==", "3"), "unknown filter 'page'"),
        (of("type", "!=", "Review"), "only years, and retracted articles, can be excluded"),
        (join("NOT", REVIEW), "only years, and retracted articles, can be excluded"),
        (of("type", ">", "Review"), "expected == and a value, in and a list, or an order of years"),
        (of("type", "in", "Review"), "expected == and a value, in and a list"),
        (of("type", "==", ["Review"]), "expected == and a value, in and a list"),
        (of("type", "like", "Review"), "expected == and a value, in and a list"),
        (of("date", ">=", "2015-03-01"), "expected whole years, as >= 2015, >= 2015-01-01 or <= 2015-12-31"),
        (of("date", ">", None), "expected whole years"),
        (of("date", "==", "2015-03-01"), "expected whole years, as 2015 or 2015-2020"),
        (join("OR", REVIEW, IN_2015), "alternatives have to be values of one field"),
        (join("NOT", IN_2015, of("retracted", "==", True)), "alternatives have to be values of one field"),
        (join("AND", REVIEW, LETTER), "has two conditions on type: expected one"),
        (join("AND"), "has no conditions"),
        (join("AND", "type"), "'type' is no condition"),
        ({"operator": "=="}, "unknown filter 'None'"),
    ],
)
def test_filters_that_cannot_be_kept(dated, filters, message):
    with pytest.raises(rp.InputError, match=re.escape(message)):
        HaystackRetriever(dated).run("aspirin", filters=filters)


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
