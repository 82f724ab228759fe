"""The transformers in pipelines of the real PyTerrier."""

import json
import pickle

import numpy as np
import pytest

import rerank_plugin as rp

pt = pytest.importorskip("pyterrier", reason="needs the extra 'pyterrier'")
import pandas as pd  # noqa: E402
from pyterrier.testing import transformer_test_class  # noqa: E402

from rerank_plugin.integrations.pyterrier import IndexArtifact, Rerank, Retrieve  # noqa: E402
from rerank_plugin.retrieval.lucene import LuceneConfig  # noqa: E402
from tests.processes import run  # noqa: E402

QUERIES = pd.DataFrame(
    {"qid": ["7", "3", "5"], "query": ["stroke and cancer", "zzyzx", "malaria in children"], "kind": ["a", "b", "c"]}
)


@pytest.fixture(scope="module")
def bm25(index):
    return Retrieve(index, num_results=20)


def test_pipelines_rank_as_the_library_does(index, bm25):
    ranked = (bm25 >> Rerank("delta", index)).transform(QUERIES)
    expected = rp.rank_many(index, dict(zip(QUERIES["qid"], QUERIES["query"])), "delta", depth=20)
    assert list(ranked["qid"].unique()) == ["7", "5"]  # query 3 has no hits
    for qid, results in ranked.groupby("qid"):
        assert results["docno"].tolist() == expected[qid].doc_ids
        np.testing.assert_allclose(results["score"], expected[qid].scores, rtol=1e-6)
        assert results["rank"].tolist() == list(range(len(results)))
    assert set(ranked[ranked["qid"] == "5"]["kind"]) == {"c"}  # other columns stay


def test_a_cascade_begins_with_the_results_of_a_cutoff_between_rerankers(index, bm25):
    cascade = (bm25 >> Rerank(["bm25-title", "delta@3"], index)).transform(QUERIES)
    cut = (bm25 >> Rerank("bm25-title", index) % 3 >> Rerank("delta", index)).transform(QUERIES)
    assert cascade.groupby("qid").head(3)["docno"].tolist() == cut["docno"].tolist()
    assert len(cascade) == len(bm25.transform(QUERIES)) > len(cut)


def test_texts_of_any_index_are_re_ranked(index, documents, bm25):
    texts = pd.DataFrame({"docno": [d.id for d in documents], "title": [d.title for d in documents]})
    texts["text"] = [document.abstract for document in documents]
    results = bm25.transform(QUERIES).merge(texts, on="docno")
    by_text, by_id = Rerank("delta", statistics=index).transform(results), Rerank("delta", index).transform(results)
    assert by_text["docno"].tolist() == by_id["docno"].tolist() and by_text["text"].tolist() == by_id["text"].tolist()
    np.testing.assert_allclose(by_text["score"], by_id["score"], atol=1e-5)
    assert len(Rerank("delta").transform(results.drop(columns=["score", "rank", "title"]))) == len(results)


def test_an_index_is_an_artifact(index_folder, bm25, tmp_path):
    artifact = pt.Artifact.load(str(index_folder))
    ranked = artifact.retriever(num_results=20).transform(QUERIES)
    assert type(artifact) is IndexArtifact
    pd.testing.assert_frame_equal(ranked, bm25.transform(QUERIES))
    assert len(artifact.reranker("delta").transform(ranked)) == len(ranked)
    assert json.loads(dict(artifact._package_files())["pt_meta.json"].read())["format"] == "rerank_plugin"
    with pytest.raises(ValueError, match="No implementation"):
        pt.Artifact.load(str(tmp_path))


def test_a_cutoff_is_passed_to_the_first_stage(index, bm25):
    cut = (bm25 % 3).compile()
    assert isinstance(cut, Retrieve) and cut.num_results == 3 and (bm25 % 30).compile() is bm25
    pd.testing.assert_frame_equal(cut.transform(QUERIES), (bm25 % 3).transform(QUERIES).reset_index(drop=True))


def test_an_experiment(index, bm25):
    qrels = pd.DataFrame({"qid": ["7", "5"], "docno": ["a", "doc_with_a_rather_long_identifier_0001"], "label": [1, 1]})
    table = pt.Experiment(
        [bm25, bm25 >> Rerank("delta", index)], QUERIES, qrels, eval_metrics=["ndcg_cut_10"], names=["bm25", "delta"]
    )
    runs = {"delta": rp.rank_many(index, dict(zip(QUERIES["qid"], QUERIES["query"])), "delta", depth=20)}
    judged = {qid: {docno: 1} for qid, docno in zip(qrels["qid"], qrels["docno"])}
    measured = rp.evaluate_runs(judged, runs, ["nDCG@10"])["runs"]["delta"]["nDCG@10"]
    assert table.set_index("name")["ndcg_cut_10"]["delta"] == pytest.approx(measured, abs=1e-4) and measured > 0


def test_parameters_take_effect(index):
    """Those that GridScan sets, on the transformer that was built; a parameter that is unknown is refused."""
    retrieve = Retrieve(index, num_results=20)
    qrels = pd.DataFrame({"qid": ["7", "5"], "docno": ["a", "doc_with_a_rather_long_identifier_0001"], "label": [1, 1]})
    grid = {"first_stage": ["bm25", "bm25+rm3"], "k1": [0.4, 3.0], "b": [0.9], "num_results": [2, 20]}
    table = pt.GridScan(retrieve, {retrieve: grid}, QUERIES, qrels, ["num_ret", "recip_rank"])
    assert table["num_ret"].max() > 4 and table["recip_rank"].nunique() > 1
    for row in table.to_dict("records"):
        names = [key.removeprefix(f"tran_{place}_") for place in range(4) for key in row if key[:7] == f"tran_{place}_"]
        name, k1, b, depth = (row[f"tran_{place}_{name}"] for place, name in enumerate(names))
        for parameter, value in zip(names, (name, k1, b, depth)):
            retrieve.set_parameter(parameter, value)
        queries = dict(zip(QUERIES["qid"], QUERIES["query"]))
        run = rp.rank_many(index, queries, first_stage=LuceneConfig(name=name, k1=k1, b=b), depth=depth)
        found = {qid: results["docno"].tolist() for qid, results in retrieve.transform(QUERIES).groupby("qid")}
        assert found == {qid: ranked.doc_ids for qid, ranked in run.items() if ranked.doc_ids}
    assert retrieve.get_parameter("k1") == 3.0 and Retrieve(index).k1 == 0.9
    with pytest.raises(ValueError, match="does not expose a parameter named k3"):
        pt.GridScan(retrieve, {retrieve: {"k3": [1]}}, QUERIES, qrels)
    retrieve.set_parameter("first_stage", "all")
    with pytest.raises(rp.InputError, match="'all' has no setting k1; it has: none"):
        retrieve.transform(QUERIES)
    rerank = Rerank("bm25-title", index)
    rerank.set_parameter("reranker", "delta")
    assert rerank.reranker.name == "delta"


def test_results_that_were_combined(index, bm25):
    """``+`` leaves queries out on its right side, ``|`` scores and ranks: BM25's are then computed from the index."""
    left, rerank = Retrieve(index, num_results=3), Rerank("delta", index)
    summed = (left + bm25).transform(QUERIES)
    assert summed["query"].isna().any()
    ranked = rerank.transform(summed)
    assert len(ranked) == len(summed) and set(ranked["query"]) <= set(QUERIES["query"])
    expected = (bm25 >> rerank).transform(QUERIES)
    together = ((left | bm25) >> rerank).transform(QUERIES)
    np.testing.assert_allclose(_scores(together), _scores(expected), rtol=1e-6)
    alone = [rerank.transform(expected[["qid", "query", "docno"]].iloc[[row]]) for row in range(len(expected))]
    np.testing.assert_allclose(_scores(pd.concat(alone)), _scores(expected), rtol=1e-6)  # by no other document
    foreign = pd.DataFrame({"qid": ["7"], "query": ["stroke and cancer"], "docno": ["gone"]})
    with pytest.raises(rp.InputError, match="1 of 1 documents are not in the index"):
        rerank.transform(foreign)


def _scores(ranked):
    return ranked.sort_values(["qid", "docno"])["score"]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda frame: frame.assign(qid=[None, *frame["qid"][1:]]), "1 of 19 rows have no qid: give every row"),
        (lambda frame: frame.assign(query=None), "the query '7' has no text in any row, as where only the right side"),
        (lambda frame: frame[frame["rank"] > 0], "ranks are missing from that of the query '7', as from batches"),
        (lambda frame: frame.drop(columns="rank"), "ranks are missing from that of the query '7', as from batches"),
    ],
)
def test_rows_that_cannot_be_re_ranked(index, bm25, change, message):
    results = bm25.transform(QUERIES[:1])
    with pytest.raises(rp.InputError, match=message.replace("19", str(len(results)))):
        Rerank("delta", index).transform(change(results))
    if "ranks" in message:  # a pointwise reranker takes every part
        assert len(Rerank("bm25-title", index).transform(change(results))) == len(change(results))


def test_texts_are_loaded(index, documents, bm25, index_folder):
    results = bm25.transform(QUERIES)
    loaded = pt.text.get_text(bm25)(results)
    stored = {document.id: document for document in documents}
    assert loaded["title"].tolist() == [stored[docno].title for docno in results["docno"]]
    assert loaded["text"].tolist() == [stored[docno].abstract for docno in results["docno"]]
    artifact = pt.Artifact.load(str(index_folder))
    assert set(pt.text.get_text(artifact, "title")(results)) - set(results) == {"title"}
    with pytest.raises(rp.InputError, match="has no field 'body' of documents; it has: title, text"):
        artifact.text_loader(["body"])
    with pytest.raises(rp.InputError, match="has no document 'gone'"):
        artifact.text_loader().transform(pd.DataFrame({"docno": ["gone"]}))


def test_copies_and_names(index_folder, bm25):
    retrieve, rerank = Retrieve(str(index_folder), num_results=9, k1=2.0), Rerank("delta", str(index_folder))
    assert repr(retrieve) == f"Retrieve({str(index_folder)!r}, 'bm25', num_results=9, k1=2.0)"
    assert repr(rerank) == f"Rerank('delta', {str(index_folder)!r})"
    pipeline = retrieve >> retrieve.text_loader("title") >> rerank
    twin = pickle.loads(pickle.dumps(pipeline))
    pd.testing.assert_frame_equal(twin.transform(QUERIES), pipeline.transform(QUERIES))


@pytest.mark.parametrize("columns", [["qid"], ["qid", "query", "docno"], ["docno", "text"]])
def test_a_frame_without_a_required_column(columns):
    with pytest.raises(pt.validate.InputValidationError):
        Rerank("delta").transform(pd.DataFrame(columns=columns))


@pytest.mark.parametrize("kind", ["retrieve", "by id", "by text"])
def test_inspection_and_drawing(index, bm25, kind):
    transformers = {
        "retrieve": lambda: bm25,
        "by id": lambda: Rerank("delta", index),
        "by text": lambda: Rerank("delta"),
    }
    cases = transformer_test_class(transformers[kind])
    cases.setUpClass()
    for name in ("test_inspect_io", "test_schematic"):
        getattr(cases(name), name)()
    columns = {"retrieve": ["qid", "query"], "by id": ["qid", "query", "docno"]}
    expected = columns.get(kind, ["qid", "query", "docno", "text"])
    assert set(expected) in map(set, pt.inspect.transformer_inputs(transformers[kind]()))


def test_lucene_is_on_the_class_path_of_pyterrier_s_java():
    """PyTerrier starts Java before this package does."""
    code = """
import os
from rerank_plugin.java.jvm import java_home
from rerank_plugin.integrations.pyterrier import LuceneJava
os.environ["JAVA_HOME"] = str(java_home())
import jnius_config
LuceneJava().pre_init(jnius_config)
import jnius
from rerank_plugin.java.jvm import java_class
print(java_class("org.apache.lucene.util.Version").LATEST.major)
"""
    assert int(run("-c", code).split()[-1]) >= 9
