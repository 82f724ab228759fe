"""The rerank endpoints: real clients, the ranking of the library, and errors."""

import random
import threading

import cohere
import pytest
from langchain_cohere import CohereRerank

import rerank_plugin as rp
from rerank_plugin.base.stopping import LateError, within
from rerank_plugin.serve import _by_name
from rerank_plugin.service import rerank_api
from rerank_plugin.service.config import ServiceConfig
from tests.conftest import DOCUMENTS
from tests.service.live import serving

QUERY = "statins and cholesterol"
TEXTS = [f"{document.title}. {document.abstract}" for document in DOCUMENTS]
PATHS = ("/rerank", "/v1/rerank", "/v2/rerank", "/infinity/rerank")


@pytest.fixture(scope="module")
def order():
    """Places of the texts in the library's ranking."""
    return [text.index for text in rp.Reranker.load("delta").rerank(QUERY, TEXTS)]


@pytest.fixture(scope="module")
def url(service):
    return str(service.base_url).rstrip("/")


def post(service, path="/rerank", status=200, **body):
    answer = service.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def places(results):
    return [result["index"] for result in results]


def test_cohere(url, order):
    for client in (cohere.Client("token", base_url=url), cohere.ClientV2("token", base_url=url)):
        results = client.rerank(model="delta", query=QUERY, documents=TEXTS, top_n=5).results
        assert [result.index for result in results] == order[:5]
        assert all(0 < result.relevance_score < 1 for result in results)


def test_long_texts_do_not_hold_up_other_requests(service, monkeypatch):
    """What takes as long as the texts are long runs in threads of the scheduler, not in that of the event loop."""
    seen = {}

    def watched(name):
        function = getattr(rerank_api, name)

        def call(*arguments):
            seen.setdefault(name, set()).add(threading.current_thread().name.split("_")[0])
            return function(*arguments)

        return call

    for name in ("check_limits", "phrases"):
        monkeypatch.setattr(rerank_api, name, watched(name))
    post(service, "/v2/rerank", query=QUERY, documents=TEXTS, relevant_spans={})
    post(service, query=QUERY, texts=TEXTS)
    assert seen == {"check_limits": {"first-stage"}, "phrases": {"first-stage"}}


def test_rerankers(url, order):
    import rerankers

    for provider, path in (("cohere", "/v1/rerank"), ("jina", "/rerank"), ("text-embeddings-inference", "/rerank")):
        client = rerankers.Reranker(
            "delta", model_type="APIRanker", api_provider=provider, api_key="token", url=url + path
        )
        ranked = client.rank(QUERY, TEXTS, doc_ids=list(range(len(TEXTS))))
        assert [result.doc_id for result in ranked.results] == order


def test_litellm(url, order):
    import litellm

    for model in ("cohere/delta", "jina_ai/delta", "hosted_vllm/delta"):
        answer = litellm.rerank(model=model, query=QUERY, documents=TEXTS, top_n=5, api_base=url, api_key="token")
        assert places(answer.results) == order[:5]


def test_litellm_s_client_of_infinity(service, url, order):
    """It sends what its client of vLLM sends, and expects documents to come back as texts."""
    import litellm

    for documents in (True, False):
        answer = litellm.rerank(
            model="infinity/delta", query=QUERY, documents=TEXTS, top_n=5, api_base=f"{url}/infinity", api_key="token",
            return_documents=documents,
        )  # fmt: skip
        assert places(answer.results) == order[:5]
        returned = [result["document"]["text"] for result in answer.results if "document" in result]
        assert returned == ([TEXTS[place] for place in order[:5]] if documents else [])


def test_names_that_clients_cannot_change(index_folder, order):
    """As `serve --reranker NAME=delta` gives them to LibreChat, Cohere's clients and Open WebUI; it is loaded once."""
    names = ("jina-reranker-v2-base-multilingual", "rerank-v3.5", "reranker", "BAAI/bge-reranker-v2-m3")
    with serving(ServiceConfig({"small": str(index_folder)}, _by_name([f"{name}=delta" for name in names]))) as client:
        url = str(client.base_url).rstrip("/")
        for name in names:
            results = cohere.ClientV2("token", base_url=url).rerank(model=name, query=QUERY, documents=TEXTS).results
            assert [result.index for result in results] == order
            answer = post(client, "/v1/rerank", model=name, query=QUERY, documents=TEXTS, top_n=len(TEXTS))
            assert answer["model"] == name and places(answer["results"]) == order
        current = client.app.state.service.collections.current
        assert len({id(reranker.reranker) for reranker in current.text_rerankers.values()}) == 1
        assert len({*current.indexes["small"].rerankers.values()}) == 1
        assert {model["id"] for model in client.get("/v1/models").json()["data"]} == {*names}


def test_times_are_counted_by_path(service):
    def counted():
        lines = service.get("/metrics").text.splitlines()
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines if "request_seconds_count" in line}

    before = counted()
    for path in PATHS:
        post(service, path, query=QUERY, texts=TEXTS)
        post(service, path, 400, query=QUERY, texts=[])
    for path in ("/v1/small/search?query=a", "/v1/small/doc/7", "/nothing", "/v1/nothing"):
        service.get(path)
    more = {path: count - before.get(path, 0) for path, count in counted().items() if count != before.get(path)}
    expected = dict.fromkeys(PATHS, 2) | {"/v1/{index}/search": 1, "/v1/{index}/doc/{docid:path}": 1}
    assert more == expected | {"/metrics": 1}


def test_langchain_cohere(url, order):
    client = CohereRerank(base_url=url, cohere_api_key="token", model="delta")
    assert places(client.rerank(TEXTS, QUERY, top_n=5)) == order[:5]


@pytest.mark.parametrize("path", PATHS)
def test_both_formats_agree_at_every_path(service, order, path):
    answer = post(service, path, query=QUERY, documents=TEXTS, model="delta")
    texts = post(service, path, query=QUERY, texts=TEXTS, return_text=True)
    assert places(answer["results"]) == places(texts) == order
    assert [result["relevance_score"] for result in answer["results"]] == [result["score"] for result in texts]
    assert [result["text"] for result in texts] == [TEXTS[place] for place in order]
    assert ("document" in answer["results"][0]) == (path != "/v2/rerank")
    assert answer["reranked"] and answer["usage"]["total_tokens"] == sum(len(text.split()) for text in TEXTS)


def test_voyage_and_infinity(service, url, order):
    """LiteLLM reads Voyage's ``data``; Infinity's documents are texts."""
    import litellm

    for top_n in (5, None):
        answer = litellm.rerank(
            model="voyage/delta", query=QUERY, documents=TEXTS, top_n=top_n, api_base=url, api_key="token",
            return_documents=True,
        )  # fmt: skip
        assert places(answer.results) == order[:top_n]
        assert [result["document"]["text"] for result in answer.results] == [TEXTS[at] for at in order[:top_n]]
    voyage = post(service, "/v1/rerank", query=QUERY, documents=TEXTS, model="delta", top_k=2, truncation=True)
    assert voyage["object"] == "list" and places(voyage["data"]) == order[:2] == places(voyage["results"])
    assert "document" not in voyage["data"][0] and voyage["usage"]["total_tokens"] > 0
    sent = {"raw_scores": False, "return_documents": True, "top_n": 3, "model": "default/not-specified"}
    infinity = post(service, "/rerank", query=QUERY, documents=TEXTS, **sent)
    assert infinity["object"] == "rerank" and infinity["created"] > 10**9 and infinity["model"] == "delta"
    assert [result["document"] for result in infinity["results"]] == [TEXTS[at] for at in order[:3]]
    raw = post(service, "/rerank", query=QUERY, documents=TEXTS, **sent | {"raw_scores": True})
    ranked = rp.Reranker.load("delta").rerank(QUERY, TEXTS)
    assert [result["relevance_score"] for result in raw["results"]] == [text.score for text in ranked[:3]]
    assert "object" in infinity and post(service, "/rerank", query=QUERY, documents=TEXTS, top_k=2, top_n=1)["results"]


DOCUMENT = {
    "id": 7, "url": "https://example.org/7", "title": None, "abstract": "Statins lower cholesterol.", "year": None,
    "tags": ["a", {"b": None}],
}  # fmt: skip


def test_documents_come_back_whole(service, url):
    documents = [DOCUMENT, {"contents": "Cats.", "id": "x"}, "statins"]
    answer = post(service, query=QUERY, documents=documents)
    found = {result["index"]: result["document"] for result in answer["results"]}
    assert found == {
        0: {**DOCUMENT, "text": "Statins lower cholesterol."},
        1: {"contents": "Cats.", "id": "x", "text": "Cats."},
        2: {"text": "statins"},
    }
    texts = ["Statins lower cholesterol.", "Cats.", "statins"]
    assert places(answer["results"]) == places(post(service, query=QUERY, texts=texts))
    client = cohere.Client("token", base_url=url)
    results = client.rerank(query=QUERY, documents=documents[:2], return_documents=True).results
    assert results[0].document.text == "Statins lower cholesterol." and results[0].document.url == DOCUMENT["url"]


def test_metadata_that_is_no_text_refuses_no_list(service):
    """NaN, as Python's clients write it, is null in an answer."""
    body = '{"query": "statins", "documents": [{"title": NaN, "text": "statins"}, {"text": null, "title": ["a"]}, "b"]}'
    answer = service.post("/rerank", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    best = answer.json()["results"][0]
    assert best["index"] == 0 and best["document"] == {"title": None, "text": "statins"}
    assert sorted(places(answer.json()["results"])) == [0, 1, 2]


def test_rank_fields_choose_what_is_read(service, url):
    documents = [{"title": "cats", "body": "statins", "note": 5}, {"title": "statins", "body": "cats"}]
    for fields, best in ((["body"], 0), (["title"], 1), (["note", "body"], 0)):
        answer = post(service, query="statins", documents=documents, rank_fields=fields)
        assert answer["results"][0]["index"] == best, fields
    client = cohere.Client("token", base_url=url)
    assert client.rerank(query="statins", documents=documents, rank_fields=["body"]).results[0].index == 0


def test_errors_are_where_clients_look_for_them(service, url):
    """LlamaIndex's and Haystack's clients of Jina raise ``detail``, Cohere's ``message``."""
    body = service.post("/v1/rerank", json={"query": "a", "documents": []}).json()
    assert "results" not in body and body["detail"] == body["message"] == body["error"]
    with pytest.raises(cohere.errors.BadRequestError) as refused:
        cohere.ClientV2("token", base_url=url).rerank(model="delta", query="a", documents=[])
    assert refused.value.body["message"] == body["error"]


def test_raw_scores_are_model_scores_and_relevance_keeps_their_order(service):
    raw = post(service, query=QUERY, texts=TEXTS, raw_scores=True)
    ranked = rp.Reranker.load("delta").rerank(QUERY, TEXTS)
    assert [result["score"] for result in raw] == [text.score for text in ranked]
    relevance = [result["score"] for result in post(service, query=QUERY, texts=TEXTS)]
    assert relevance == [text.relevance_score for text in ranked]
    assert len(set(relevance)) == len({result["score"] for result in raw}) and relevance == sorted(
        relevance, reverse=True
    )


def test_notes_equal_the_library_s(service, url, caplog):
    """Cohere's clients get them as warnings; the service does not log queries."""
    text = "Nebenwirkungen der Statine"
    notes = rp.Reranker.load("delta").notes(text)
    answer = post(service, query=text, documents=TEXTS)
    assert answer["notes"] == answer["meta"]["warnings"] == notes and len(notes) == 1
    meta = cohere.ClientV2("token", base_url=url).rerank(model="delta", query=text, documents=TEXTS).meta
    assert meta.warnings == notes and not caplog.messages
    answer = post(service, query=QUERY, documents=TEXTS)
    assert answer["notes"] == [] and "warnings" not in answer["meta"]


def test_titles_of_documents_are_titles(service):
    documents = [{"title": title, "text": abstract} for _, title, abstract, *_ in DOCUMENTS if title or abstract]
    answer = post(service, query=QUERY, documents=documents, model="titles")
    reranker = rp.Reranker.load(
        "bm25-title", statistics=service.app.state.service.collections.current.indexes["small"].index
    )
    assert places(answer["results"]) == [text.index for text in reranker.rerank(QUERY, documents)]


def test_relevant_spans_end_with_the_time_of_the_thread():
    body = rerank_api.RerankRequest(query=QUERY, documents=TEXTS, relevant_spans=rerank_api.SpansRequest())
    assert rerank_api._relevant_spans(body, QUERY)
    with within(0), pytest.raises(LateError):
        rerank_api._relevant_spans(body, QUERY)


def test_relevant_spans_count_code_points(service):
    text = "🙂 Statins: cholesterol falls. On statins, it falls. Cholesterol."
    (result,) = post(service, query=QUERY, documents=[text], relevant_spans={})["results"]
    spans = [(text[span["start"] : span["end"]], span["score"]) for span in result["relevant_spans"]]
    assert spans == [("Statins: cholesterol", 1.0), ("statins", 0.5), ("Cholesterol", 0.5)]
    (result,) = post(service, query=QUERY, documents=[text], relevant_spans={"threshold": 0.6})["results"]
    assert len(result["relevant_spans"]) == 1
    (result,) = post(service, query=QUERY, documents=[text], relevant_spans={}, max_tokens_per_doc=2)["results"]
    assert [(span["start"], span["end"]) for span in result["relevant_spans"]] == [(2, 9)]


def test_500_documents_of_250_words(service):
    words, chance = " ".join(TEXTS).split(), random.Random(0)
    texts = [" ".join(chance.choices(words, k=250)) for _ in range(500)]
    assert sorted(places(post(service, query=QUERY, texts=texts))) == list(range(500))


@pytest.mark.parametrize(
    "body, status, field",
    [
        ({"documents": ["a"]}, 422, "query"),
        ({"query": "a"}, 422, "documents"),
        ({"query": 1, "documents": ["a"]}, 422, "query"),
        ({"query": "a", "documents": "a"}, 422, "documents"),
        ({"query": "a", "documents": [1]}, 422, "documents.0"),
        ({"query": "a", "documents": ["b", {"id": 1}]}, 422, "documents.1"),
        ({"query": "a", "documents": ["b", {"text": 3}]}, 422, "documents.1"),
        ({"query": "a", "documents": ["b", {"text": "c"}], "rank_fields": ["d"]}, 422, "documents.1"),
        ({"query": "a", "documents": ["a"], "top_k": 0}, 422, "top_k"),
        ({"query": "a", "documents": ["a" * 100_001]}, 413, "documents"),
        ({"query": "a" * 100_001, "documents": ["a"]}, 413, "query"),
        ({"query": "a", "documents": ["a"], "top_n": 0}, 422, "top_n"),
        ({"query": "a", "documents": ["a"], "model": "x"}, 404, "model"),
        ({"query": "a", "documents": []}, 400, "documents"),
        ({"query": "a", "documents": ["a"] * 1001}, 413, "documents"),
        ({"query": "a", "documents": ["a " * 5001]}, 413, "documents"),
        ({"query": "a", "texts": []}, 400, "texts"),
        ({"query": "a", "texts": [None]}, 422, "texts.0"),
        (["a"], 422, "body"),
    ],
)
def test_errors_name_the_field(service, body, status, field):
    for path in PATHS:
        answer = service.post(path, json=body)
        assert (answer.status_code, answer.json()["field"]) == (status, field)
        assert answer.json()["error_type"]


@pytest.mark.parametrize("field", ["documents", "texts"])
def test_null_among_texts_is_named_by_its_place(service, field):
    for place in (0, 2):
        texts = ["a", "b", "c"]
        texts[place] = None
        answer = post(service, status=422, query="a", **{field: texts})
        assert answer["error"] == f"{field}.{place}: is null: leave it out, or send a value"
    schemas = service.get("/openapi.json").json()["components"]["schemas"]
    form = schemas["RerankRequest" if field == "documents" else "TextsRequest"]
    assert form["properties"][field]["minItems"] == 1  # an empty list is answered by 400


def test_a_body_without_the_json_content_type_gets_a_hint(service):
    answer = service.post("/rerank", content='{"query": "a", "texts": ["a"]}')  # as curl -d sends it
    assert (answer.status_code, answer.json()["field"]) == (422, "body")
    assert "Content-Type: application/json" in answer.json()["error"]
