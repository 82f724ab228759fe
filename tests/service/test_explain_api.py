"""Explanations over HTTP equal the library's, for each reranker and for the first stage alone."""

import json

import pytest

import rerank_plugin as rp


@pytest.mark.parametrize("reranker, spec", [("delta", "delta"), ("titles", "bm25-title"), ("none", None)])
def test_explanations_equal_the_library_s(service, index, reranker, spec):
    query = {"query": "aspirin heart attack", "reranker": reranker}
    for hit in service.get("/v1/small/search", params=query).json()["candidates"][:2]:
        answer = service.get("/v1/small/explain", params={**query, "docid": hit["docid"]}).json()
        with rp.Searcher(index, reranker=spec) as searcher:
            explanation = searcher.explain(query["query"], hit["docid"]).as_json()
        expected = json.loads(json.dumps(explanation)) | {"api": "v1", "index": "small", "reranker": reranker}
        assert sorted(sum(answer.pop("words").values(), [])) == ["aspirin", "attack", "heart"]
        assert answer == expected
        assert (answer["rank"], answer["first_stage_rank"]) == (hit["rank"], hit["first_stage_rank"])
        assert answer["score"] == pytest.approx(hit["score"], abs=1e-4) and answer["sentence"]
