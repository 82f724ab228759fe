"""The search API over real sockets: the hits of the library with Pyserini's keys, and what is refused."""

import json

import pytest

import rerank_plugin as rp
from rerank_plugin.retrieval.lucene import LuceneConfig


@pytest.fixture(scope="module")
def searcher(index):
    with rp.Searcher(index, reranker="delta") as opened:
        yield opened


def get(service, path, status=200, **parameters):
    answer = service.get(path, params=parameters)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("text", ["aspirin heart attack", "stroke cancer", "the of", '糖尿病 🙂 AND "(', "zzyzx"])
def test_hits_are_those_of_the_library(service, searcher, text):
    found = get(service, "/v1/small/search", query=text, hits=20)
    hits = searcher.search(text, 20)
    keys = ("docid", "score", "rank", "title", "first_stage_rank", "first_stage_score")
    assert [[one[key] for key in keys] for one in found["candidates"]] == [
        [getattr(hit, key) for key in keys] for hit in hits
    ]
    assert (found["api"], found["index"], found["query"]) == ("v1", "small", {"text": text})
    assert found["reranked"] and found["reranker"] == "delta"
    for one in found["candidates"]:
        assert one["doc"] == searcher.doc(one["docid"]).fields


def test_pages_follow_each_other(service):
    whole = get(service, "/v1/small/search", query="cancer women", hits=6)["candidates"]
    asked = {"query": "cancer women", "hits": 2}
    pages = [get(service, "/v1/small/search", **asked, offset=at)["candidates"] for at in (0, 2, 4)]
    assert [one for page in pages for one in page] == whole and len(whole) > 4


def test_several_queries_have_the_answers_of_each(service):
    texts = ["stroke", "malaria children", "aspirin"]
    found = get(service, "/v1/small/search", query=texts)["results"]
    alone = [get(service, "/v1/small/search", query=text) for text in texts]
    assert [one["candidates"] for one in found] == [one["candidates"] for one in alone]


def test_the_first_stage_alone_and_its_settings(service, index):
    found = get(service, "/v1/small/search", query="heart failure", reranker="none", k1=2.0, b=0.75, field="title")
    with rp.Searcher(index, first_stage=LuceneConfig(k1=2.0, b=0.75, field="title")) as other:
        hits = other.search("heart failure")
    assert [(one["docid"], one["score"]) for one in found["candidates"]] == [(hit.docid, hit.score) for hit in hits]
    assert not found["reranked"] and found["reranker"] == "none"


def test_several_rerankers_in_a_row(service, index):
    asked = {"query": "cancer women", "reranker": "titles,delta@3"}
    found = get(service, "/v1/small/search", **asked)
    with rp.Searcher(index, ["bm25-title", "delta@3"]) as other:
        hits = other.search("cancer women")
        sentence = other.explain("cancer women", hits[3].docid).sentence
    assert [(one["docid"], one["score"]) for one in found["candidates"]] == [(hit.docid, hit.score) for hit in hits]
    explained = get(service, "/v1/small/explain", **asked, docid=hits[3].docid)
    assert (found["reranker"], explained["reranker"], explained["sentence"]) == (*["titles,delta@3"] * 2, sentence)


def test_notes_are_those_of_the_library(service, searcher):
    text = 'Nebenwirkungen der Statine AND "Herzinfarkt"'
    found = get(service, "/v1/small/search", query=[text, "aspirin"])["results"]
    assert [one["notes"] for one in found] == [searcher.notes(text), []] and len(searcher.notes(text)) == 2
    assert get(service, "/v1/small/search", query=text, reranker="none")["notes"] == searcher.notes(text)[:1]


def test_documents_are_shown_as_asked(service):
    parsed = get(service, "/v1/small/doc/1")["doc"]
    assert get(service, "/v1/small/doc/1", parse=False)["doc"] == json.dumps(parsed, ensure_ascii=False)
    assert get(service, "/v1/small/doc/1", fields="title,id,nothing")["doc"] == {"title": parsed["title"], "id": "1"}
    assert get(service, "/v1/small/doc/1", max_doc_length=7)["doc"]["abstract"] == "Low-dos"
    assert get(service, "/v1/small/doc/ζ9")["doc"]["title"] == "Zika virus"


def test_highlights_count_code_points_and_compare_stems(service):
    found = get(service, "/v1/small/search", query="controls of 糖尿病 and statin")["candidates"]
    marked = {
        one["docid"]: [one["doc"][place["field"]][place["start"] : place["end"]] for place in one["highlights"]]
        for one in found
    }
    assert marked["5"] == ["糖尿病", "control"]
    assert marked["MED-1"] == ["Statins", "Statins"]


@pytest.mark.parametrize(
    "path, parameters, status, field",
    [
        ("/v1/small/search", {}, 400, "query"),
        ("/v1/small/search", {"query": ""}, 400, "query.0"),
        ("/v1/small/search", {"query": "a", "hits": "ten"}, 400, "hits"),
        ("/v1/small/search", {"query": "a", "hits": 0}, 400, "hits"),
        ("/v1/small/search", {"query": "a", "hits": 600}, 400, "hits"),
        ("/v1/small/search", {"query": "a", "offset": 495}, 400, "offset"),
        ("/v1/small/search", {"query": "a", "depth": 5000}, 400, "depth"),
        ("/v1/small/search", {"query": ["a"] * 17}, 400, "query"),
        ("/v1/small/search", {"query": "a " * 5001}, 400, "query"),
        ("/v1/small/search", {"query": "a", "reranker": "x"}, 400, "reranker"),
        ("/v1/small/search", {"query": "a", "reranker": "delta,x@2"}, 400, "reranker"),
        ("/v1/small/search", {"query": "a", "reranker": "delta@0"}, 400, "reranker"),
        ("/v1/small/search", {"query": "a", "reranker": "delta,titles,delta@3"}, 400, "reranker"),
        ("/v1/small/search", {"query": "a", "first_stage": "x"}, 400, "first_stage"),
        ("/v1/small/search", {"query": "a", "k1": 1, "first_stage": "hybrid"}, 400, "first_stage"),
        ("/v1/small/search", {"query": "a", "k1": "nan"}, 400, "k1"),
        ("/v1/small/search", {"query": "a", "filter": "year:x"}, 400, "filter"),
        ("/v1/small/search", {"query": "a", "filter": "journal:x"}, 400, "filter"),
        ("/v1/small/search", {"query": "a", "colour": "red"}, 400, "colour"),
        ("/v1/other/search", {"query": "a"}, 404, "index"),
        ("/v1/small/doc/none", {}, 404, "docid"),
        ("/v1/small/similar", {"docid": "1"}, 400, "docid"),
        ("/v1/small/similar", {}, 400, "docid"),
        ("/v1/small/explain", {"query": "aspirin", "docid": "MED-20"}, 404, "docid"),
        ("/v1/small/explain", {"query": "aspirin", "docid": "1", "reranker": "x"}, 400, "reranker"),
        ("/v1/small/explain", {"query": "aspirin", "docid": "1", "depth": 9999}, 400, "depth"),
        ("/v1/small/explain", {"docid": "1"}, 400, "query"),
        ("/v2/nothing", {}, 404, None),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_with_its_field(service, index_folder, path, parameters, status, field):
    found = get(service, path, status, **parameters)
    assert found["field"] == field
    assert len(found["error"]) > 10 and "\n" not in found["error"] and str(index_folder.parent) not in found["error"]


@pytest.mark.parametrize(
    "path, parameters", [("similar", {"docid": "1"}), ("search", {"query": "a", "first_stage": "hybrid"})]
)
def test_the_command_that_encodes_an_index_names_no_folder_that_is_not_there(service, path, parameters):
    found = get(service, f"/v1/small/{path}", 400, **parameters)["error"]
    assert found.endswith("rerank-plugin index --encode ktrel --index <folder of small>")


def test_indexes_say_what_can_be_asked_of_them(service):
    found = get(service, "/v1/indexes")
    (one,) = found["indexes"]
    assert found["reranker"] == "delta"
    assert (one["name"], one["documents"], one["default"]) == ("small", 40, True)
    assert one["summaries"]["delta"].endswith("; English, biomedical, mostly lexical")
    assert one["summaries"]["titles"] == "BM25 of the title"
    assert one["rerankers"] == ["delta", "titles"] and {"bm25", "qld", "bm25+rm3"} <= {*one["first_stages"]}
    assert one["suggestions"]
    for stage in one["first_stages"]:
        assert get(service, "/v1/small/search", query="aspirin", first_stage=stage)["candidates"]


def test_only_a_service_with_a_token_reloads_over_http(service):
    assert get(service, "/healthz") == {"status": "ok"}
    assert service.post("/admin/reload").status_code == 403
