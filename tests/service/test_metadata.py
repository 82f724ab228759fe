"""Filters, the order by date, and similar documents, on an index with metadata and encodings."""

import pytest

import rerank_plugin as rp
from rerank_plugin.corpora import documents
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.service.config import ServiceConfig
from tests.service.live import serving

DATES = {"a": "2015-03", "b": "2021", "c": None, "d": "2015-03-02", "e": "1999", "f": "2015-03"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    stored = [
        rp.Document(
            id,
            f"Statins {id}",
            "Statins lower cholesterol. " * (place + 1),
            {"types": ["Review"] if place % 2 else []} | ({"date": date} if date else {}),
        )
        for place, (id, date) in enumerate(DATES.items())
    ]
    folder = tmp_path_factory.mktemp("dated") / "index"
    IndexEncoder(rp.build_index(stored, folder).forward, "ktrel").encode()
    with serving(ServiceConfig({"dated": str(folder)}, {"ktrel": "ktrel"})) as client:
        yield client


def get(service, path="search", **parameters):
    return service.get(f"/v1/dated/{path}", params=parameters).json()


def ids(answer):
    return [hit["docid"] for hit in answer["candidates"]]


def test_filters_are_joined_by_or_within_a_field_and_by_and_between_fields(service):
    assert sorted(ids(get(service, query="statins", filter="year:2015-2020"))) == ["a", "d", "f"]
    assert sorted(ids(get(service, query="statins", filter=["year:2015", "year:1999"]))) == ["a", "d", "e", "f"]
    assert sorted(ids(get(service, query="statins", filter=["year:2015", "type:Review"]))) == ["d", "f"]
    assert get(service, query="statins", filter="journal:x")["field"] == "filter"
    (index,) = service.get("/v1/indexes").json()["indexes"]
    assert index["fields"] == ["year", "type"] and "hybrid" in index["first_stages"]
    assert index["recommended"] == {"first_stage": "hybrid", "reranker": "ktrel"}


def test_sorting_by_date_puts_the_newest_first(service):
    ranked = get(service, query="statins", reranker="none")
    dated = get(service, query="statins", sort="date")
    same_date = [docid for docid in ids(ranked) if docid in ("a", "f")]  # by score
    assert ids(dated) == ["b", "d", *same_date, "e", "c"] != ids(ranked)
    assert [hit["rank"] for hit in dated["candidates"]] == [1, 2, 3, 4, 5, 6]
    assert ids(get(service, query="statins", sort="date", hits=2, offset=1)) == ["d", same_date[0]]


def test_similar_documents_equal_the_library_s(service):
    answer = get(service, "similar", docid="a", hits=3)
    index = service.app.state.service.collections.current.indexes["dated"].index
    with rp.Searcher(index) as searcher:
        assert [(hit["docid"], hit["score"]) for hit in answer["candidates"]] == [
            (hit.docid, hit.score) for hit in searcher.similar("a", 3)
        ]
    assert "a" not in ids(answer) and len(ids(answer)) == 3
    assert get(service, "similar", docid="none")["field"] == "docid"


def test_values_and_the_filter_that_empties_a_list(service):
    answer = get(service, "values", field="type", filter="year:2015-2020")
    assert answer == {"api": "v1", "index": "dated", "field": "type", "values": [{"value": "Review", "documents": 2}]}
    assert get(service, "values", field="mesh")["field"] == "field"
    assert get(service, query="statins", filter="type:revue")["notes"] == [
        "no document has type:revue; the nearest values: Review"
    ]


@pytest.mark.parametrize("format", ["ris", "nbib", "csv", "json"])
def test_documents_are_exported_by_their_ids(service, tmp_path, format):
    answer = service.post("/v1/dated/export", json={"docids": ["b", "a"], "format": format})
    path = tmp_path / answer.headers["Content-Disposition"].partition('filename="')[2].rstrip('"')
    path.write_text(answer.text)
    found = list(documents(str(path)))
    assert [(document.id, document.title) for document in found] == [("b", "Statins b"), ("a", "Statins a")]
    assert [document.metadata["date"] for document in found] == ["2021", "2015-03"]
    refused = service.post("/v1/dated/export", json={"docids": ["b", "zz"], "format": format})
    assert refused.status_code == 404 and refused.json()["field"] == "docids"


def test_all_documents_of_a_search_are_exported_in_its_order(service):
    search = {"query": ["statins"], "filter": ["year:2015-2020"], "sort": "date"}
    answer = service.post("/v1/dated/export", json={"search": search, "format": "json"})
    found = [document["id"] for document in answer.json()]
    assert found == ids(get(service, **search)) and len(found) == 3
    for body in ({"search": {"query": ["zzyzx"], "first_stage": "bm25"}}, {}, {"docids": ["a"], "search": search}):
        refused = service.post("/v1/dated/export", json=body)
        assert refused.status_code == 422 and refused.json()["field"] in ("search", "docids")


def test_undecided_documents_are_ranked_by_those_that_were_included(service):
    def screening(**body):
        return service.post("/v1/dated/screening", json={"search": {"query": ["statins"]}} | body).json()

    ranked = ids(get(service, query="statins"))
    assert ids(screening(decided=["b", "gone"])) == [docid for docid in ranked if docid != "b"]
    answer = screening(included=["a", "e"], decided=["a", "e", "c"])
    index = service.app.state.service.collections.current.indexes["dated"].index
    with rp.Searcher(index) as searcher:
        cosines = [{hit.docid: hit.score for hit in searcher.similar(docid, 5)} for docid in ("a", "e")]
    expected = {docid: (cosines[0][docid] + cosines[1][docid]) / 2 for docid in "bdf"}
    assert {hit["docid"]: hit["score"] for hit in answer["candidates"]} == pytest.approx(expected, abs=1e-4)
    assert ids(answer) == sorted(expected, key=expected.get, reverse=True) and answer["total"] == 3


def test_counts_within_a_query(service):
    assert get(service, "count", query="statins AND 2015[dp]", query_syntax="pubmed")["documents"] == 3
    assert get(service, "count", query="the zzyzx statins", filter="year:2021")["documents"] == 1
    assert get(service, "count")["documents"] == len(DATES)
    answer = get(service, "values", field="type", query="statins NOT 2015[dp]", query_syntax="pubmed")
    assert answer["values"] == [{"value": "Review", "documents": 1}]


def test_the_words_of_a_query_are_found_in_a_document(service):
    answer = get(service, "doc/a", query="the statin AND cholesterol", query_syntax="pubmed")
    texts = {"title": "Statins a", "abstract": "Statins lower cholesterol. "}
    marked = [texts[mark["field"]][mark["start"] : mark["end"]] for mark in answer["highlights"]]
    assert marked == ["Statins", "Statins", "cholesterol"] and get(service, "doc/a")["highlights"] == []
    explained = get(service, "explain", query="Statin lowering the zzyzx", docid="a")
    assert explained["words"] == {"title": ["Statin"], "abstract": ["lowering"], "neither": ["zzyzx"]}
