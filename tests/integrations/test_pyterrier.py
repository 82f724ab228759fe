"""The transformers in pipelines of the real PyTerrier."""

import json

import numpy as np
import pytest

import rerank_plugin as rp

pt = pytest.importorskip("pyterrier", reason="needs the extra 'pyterrier'")
import pandas as pd  # noqa: E402
from pyterrier.testing import transformer_test_class  # noqa: E402

from rerank_plugin.integrations.pyterrier import IndexArtifact, Rerank, Retrieve  # noqa: E402
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
