"""The search API over real sockets: the library's hits under Pyserini's keys, and errors."""

import json

import pytest

import rerank_plugin as rp
from rerank_plugin.base.stopping import LateError, within
from rerank_plugin.retrieval.lucene import LuceneConfig
from rerank_plugin.service.parameters import SearchParameters
from rerank_plugin.service.search_api import _candidates


@pytest.fixture(scope="module")
def searcher(index):
    with rp.Searcher(index, reranker="delta") as opened:
        yield opened


def ids_and_scores(answer):
    return [(candidate["docid"], candidate["score"]) for candidate in answer["candidates"]]


def get(service, path, status=200, **parameters):
    answer = service.get(path, params=parameters)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("text", ["aspirin heart attack", "stroke cancer", "the of", '糖尿病 🙂 AND "(', "zzyzx"])
def test_hits_equal_the_library_s(service, searcher, text):
    answer = get(service, "/v1/small/search", query=text, hits=20)
    hits = searcher.search(text, 20)
    keys = ("docid", "score", "rank", "title", "first_stage_rank", "first_stage_score")
    assert [[candidate[key] for key in keys] for candidate in answer["candidates"]] == [
        [getattr(hit, key) for key in keys] for hit in hits
    ]
    assert (answer["api"], answer["index"], answer["query"]) == ("v1", "small", {"text": text})
    assert answer["reranked"] and answer["reranker"] == "delta"
    for candidate in answer["candidates"]:
        assert candidate["doc"] == searcher.doc(candidate["docid"]).fields


def test_offsets_page_through_the_ranking(service):
    ranking = get(service, "/v1/small/search", query="cancer women", hits=6)["candidates"]
    parameters = {"query": "cancer women", "hits": 2}
    pages = [get(service, "/v1/small/search", **parameters, offset=offset)["candidates"] for offset in (0, 2, 4)]
    assert [hit for page in pages for hit in page] == ranking and len(ranking) > 4


def test_several_queries_get_the_answers_of_single_queries(service):
    texts = ["stroke", "malaria children", "aspirin"]
    answers = get(service, "/v1/small/search", query=texts)["results"]
    single = [get(service, "/v1/small/search", query=text) for text in texts]
    assert [answer["candidates"] for answer in answers] == [answer["candidates"] for answer in single]


def test_the_first_stage_alone_and_its_settings(service, index):
    answer = get(service, "/v1/small/search", query="heart failure", reranker="none", k1=2.0, b=0.75, field="title")
    with rp.Searcher(index, first_stage=LuceneConfig(k1=2.0, b=0.75, field="title")) as titles:
        hits = titles.search("heart failure")
    assert ids_and_scores(answer) == [(hit.docid, hit.score) for hit in hits]
    assert not answer["reranked"] and answer["reranker"] == "none"


def test_words_find_more_where_a_request_asks_for_it(service, index):
    parameters = {"query": "heart-attack", "reranker": "none", "expand": "phrases"}
    found = ids_and_scores(get(service, "/v1/small/search", **parameters))
    with rp.Searcher(index, first_stage=LuceneConfig(expand="phrases")) as phrases, rp.Searcher(index) as words:
        hits, without = phrases.search("heart-attack"), words.search("heart-attack")
    assert found == [(hit.docid, hit.score) for hit in hits] != [(hit.docid, hit.score) for hit in without]


def test_a_cascade_of_rerankers(service, index):
    parameters = {"query": "cancer women", "reranker": "titles,delta@3"}
    answer = get(service, "/v1/small/search", **parameters)
    with rp.Searcher(index, ["bm25-title", "delta@3"]) as cascade:
        hits = cascade.search("cancer women")
        sentence = cascade.explain("cancer women", hits[3].docid).sentence
    assert ids_and_scores(answer) == [(hit.docid, hit.score) for hit in hits]
    explained = get(service, "/v1/small/explain", **parameters, docid=hits[3].docid)
    assert (answer["reranker"], explained["reranker"], explained["sentence"]) == (*["titles,delta@3"] * 2, sentence)


def test_notes_equal_the_library_s(service, searcher):
    text = 'Nebenwirkungen der Statine AND "Herzinfarkt"'
    answers = get(service, "/v1/small/search", query=[text, "aspirin"])["results"]
    notes = searcher.notes(text)
    assert [answer["notes"] for answer in answers] == [notes, []] and len(notes) == 4  # two words are unknown
    assert get(service, "/v1/small/search", query=text, reranker="none")["notes"] == notes[:3]


def test_documents_have_the_requested_form(service):
    parsed = get(service, "/v1/small/doc/1")["doc"]
    assert get(service, "/v1/small/doc/1", parse=False)["doc"] == json.dumps(parsed, ensure_ascii=False)
    assert get(service, "/v1/small/doc/1", fields="title,id,nothing")["doc"] == {"title": parsed["title"], "id": "1"}
    assert get(service, "/v1/small/doc/1", max_doc_length=7)["doc"]["abstract"] == "Low-dos"
    assert get(service, "/v1/small/doc/ζ9")["doc"]["title"] == "Zika virus"


def test_highlights_count_code_points_and_compare_stems(service):
    hits = get(service, "/v1/small/search", query="controls of 糖尿病 and statin")["candidates"]
    marked = {
        hit["docid"]: [hit["doc"][match["field"]][match["start"] : match["end"]] for match in hit["highlights"]]
        for hit in hits
    }
    assert marked["5"] == ["糖尿病", "control"]
    assert marked["MED-1"] == ["Statins", "Statins"]


@pytest.mark.parametrize(
    "path, parameters, status, field",
    [
        ("/v1/small/search", {}, 400, "query"),
        ("/v1/small/search", {"query": ""}, 400, "query"),
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
        ("/v1/small/search", {"query": "a", "expand": "x"}, 400, "expand"),
        ("/v1/small/search", {"query": "a", "expand": "mesh"}, 400, "expand"),
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
def test_errors_name_the_field(service, index_folder, path, parameters, status, field):
    answer = get(service, path, status, **parameters)
    assert answer["field"] == field
    assert len(answer["error"]) > 10 and "\n" not in answer["error"] and str(index_folder.parent) not in answer["error"]


@pytest.mark.parametrize(
    "path, parameters", [("similar", {"docid": "1"}), ("search", {"query": "a", "first_stage": "hybrid"})]
)
def test_a_command_in_an_error_hides_the_index_folder(service, path, parameters):
    error = get(service, f"/v1/small/{path}", 400, **parameters)["error"]
    assert error.endswith("rerank-plugin index --encode ktrel --index <folder of small>")


def test_indexes_list_their_first_stages_and_rerankers(service):
    answer = get(service, "/v1/indexes")
    (description,) = answer["indexes"]
    assert answer["reranker"] == "delta"
    assert (description["name"], description["documents"], description["default"]) == ("small", 40, True)
    assert description["summaries"]["delta"].endswith("; English, biomedical, mostly lexical")
    assert description["summaries"]["titles"] == "BM25 of the title"
    assert description["rerankers"] == ["delta", "titles"]
    assert {"bm25", "qld", "bm25+rm3"} <= {*description["first_stages"]} and description["suggestions"]
    for stage in description["first_stages"]:
        assert get(service, "/v1/small/search", query="aspirin", first_stage=stage)["candidates"]


def test_only_a_service_with_a_token_reloads_over_http(service):
    assert get(service, "/healthz") == {"status": "ok"}
    assert service.post("/admin/reload").status_code == 403
    assert service.post("/admin/update", json={"merge": True}).status_code == 403


@pytest.mark.parametrize("text", ["\0heart", "heart\x01attack", "heart\x1fattack", "heart\x7f", "\x9fheart"])
def test_control_characters_are_refused(service, text):
    code = f"U+{next(ord(character) for character in text if not character.isprintable()):04X}"
    for path, parameters in (("search", {}), ("explain", {"docid": "MED-1"})):
        answer = service.get(f"/v1/small/{path}", params={"query": text, **parameters})
        assert answer.status_code == 400 and f"the control character {code}" in answer.json()["error"], answer.text
    for body in ({"documents": ["b"]}, {"texts": ["b"]}):
        answer = service.post("/rerank", json={"query": text, **body})
        assert (answer.status_code, answer.json()["field"]) == (422, "query") and code in answer.json()["error"]


def test_white_space_of_a_query_is_spaces(service):
    answers = [
        service.get("/v1/small/search", params={"query": f"heart{space}attack"}).json() for space in " \t\n\r\x85"
    ]
    assert {answer["query"]["text"] for answer in answers} == {"heart attack"}
    assert all(answer["candidates"] == answers[0]["candidates"] for answer in answers)
    columns = {"query": '2\t#1 AND "a"\t\tx\t9\t05:12:33\n1\tc\t\ty\t7\t05:11:02', "query_syntax": "pubmed"}
    assert service.get("/v1/small/search", params=columns).json()["read_as"] == 'c AND "a"'


def test_each_document_of_an_answer_is_a_step(service, searcher):
    hits, form = searcher.search("stroke", 3), SearchParameters(query=["stroke"])
    with service.app.state.service.collections.in_use() as snapshot:
        assert len(_candidates(snapshot.index("small"), hits, form, frozenset())) == 3
        with within(0), pytest.raises(LateError):
            _candidates(snapshot.index("small"), hits, form, frozenset())
