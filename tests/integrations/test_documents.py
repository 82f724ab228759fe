"""The code shared by adapters, the examples of ecosystem.md, and libraries that are not installed."""

import re

import numpy as np
import pytest

import rerank_plugin as rp
from rerank_plugin.integrations.documents import rerank, retrieve
from rerank_plugin.ranking.texts import title_of
from tests.processes import ROOT, run

EXAMPLES = re.findall(
    r"^## (\w+)\n.*?^```python\n(.*?)^```$",
    (ROOT / "docs" / "ecosystem.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)
LIBRARIES = {
    "pyterrier": "pyterrier",
    "langchain": "langchain_core",
    "llama-index": "llama_index",
    "haystack": "haystack",
    "rerankers": "rerankers",
}


@pytest.mark.parametrize("title, example", EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_the_examples_of_ecosystem_md(title, example, index_folder, tmp_path, monkeypatch, capsys):
    module = re.search(r"rerank_plugin\.integrations\.(\w+)", example)[1]
    pytest.importorskip(LIBRARIES[module.replace("_", "-")], reason=f"needs the extra for {title}")
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / "sample").symlink_to(index_folder)
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert len(capsys.readouterr().out.splitlines()) >= 2


def test_every_adapter_has_an_example():
    modules = {path.stem for path in (ROOT / "rerank_plugin" / "integrations").glob("*.py")}
    shown = {name for _, example in EXAMPLES for name in re.findall(r"rerank_plugin\.integrations\.(\w+)", example)}
    assert shown == modules - {"__init__", "documents"} == {name.replace("-", "_") for name in LIBRARIES}


def test_libraries_that_are_not_installed():
    code = """
import importlib, sys
for extra, library in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.modules[library] = None  # as if not installed
    try:
        importlib.import_module("rerank_plugin.integrations." + extra.replace("-", "_"))
    except ValueError as error:
        print(isinstance(error, ImportError), error)
"""
    lines = run("-c", code, *(name for pair in LIBRARIES.items() for name in pair)).splitlines()
    for line, (extra, library) in zip(lines, LIBRARIES.items(), strict=True):
        assert line.startswith("True ") and library in line
        assert line.endswith(f": pip install 'rerank_plugin[{extra}]'")


def test_retrieved_documents_have_the_index_s_metadata(tmp_path):
    metadata = {"date": "2016-05", "journal": "Headache", "types": ["Review"]}
    rp.build_index([rp.Document("1", "Migraine", "Migraine in women.", metadata)], tmp_path / "index")
    with rp.Searcher(tmp_path / "index") as searcher:
        ((hit, relevance, text, retrieved),) = retrieve(searcher, "migraine", 3)
    assert (hit.docid, relevance, text) == ("1", None, "Migraine\nMigraine in women.")
    assert retrieved == {"title": "Migraine", **metadata}


def test_a_title_and_first_stage_scores_are_read_once(index):
    delta = rp.Reranker.load("delta", statistics=index)
    texts = [{"title": "Stroke", "text": "Migraine."}, "Stroke after migraine."]
    expected = delta.rerank("migraine", texts, first_stage_scores=[2.5, 7])
    documents = [
        ("a", "Stroke\nMigraine.", {"title": "Stroke", "first_stage_score": 2.5}),
        ("b", "Stroke after migraine.", {"first_stage_score": 7}),
    ]
    assert rerank(delta, "migraine", documents) == [(text.index, text.relevance_score) for text in expected]
    documents[1] = ("b", "Stroke after migraine.", {"title": None})  # not all have scores
    assert rerank(delta, "migraine", documents, 1) == [
        (text.index, text.relevance_score) for text in delta.rerank("migraine", texts, top_k=1)
    ]


@pytest.mark.parametrize(
    "title, read",
    [
        (float("nan"), ""), (None, ""), (np.float32("nan"), ""), ({"en": "x"}, ""), (True, ""),
        (["Stroke", None, "care"], "Stroke care"), (1984, "1984"),
    ],
)  # fmt: skip
def test_metadata_that_is_no_text_never_refuses_a_list(index, title, read):
    by_id, by_text = rp.Reranker.load("bm25-text", index), rp.Reranker.load("bm25-text", statistics=index)
    odd = {"title": title, "first_stage_score": title}
    documents = [("B", "Migraine.", odd), ("a", "Stroke.", None), ("b", None, odd), ("B", "Migraine.", {})]
    texts = [{"title": read, "text": "Migraine."}, "Stroke.", {"title": read, "text": ""}, "Migraine."]
    expected = by_text.rerank("stroke 1984", texts)
    assert title_of(title) == read
    assert rerank(by_text, "stroke 1984", documents) == [(text.index, text.relevance_score) for text in expected]
    ranked = rerank(by_id, "stroke", documents)  # of the two documents B, the first
    assert sorted(place for place, _ in ranked) == [0, 1, 2]


def test_documents_that_cannot_be_re_ranked(index):
    by_id, by_text = rp.Reranker.load("bm25-text", index), rp.Reranker.load("bm25-text", statistics=index)
    for reranker, document, message in (
        (by_id, ("gone", "Text", {}), "not in the index .* first 'gone'"),
        (by_id, (None, "Text", {}), "ids or hits, not NoneType"),
        (by_text, ("a", 3, {}), "its text is of type int"),
    ):
        with pytest.raises(rp.InputError, match=message):
            rerank(reranker, "text", [document])
    assert rerank(by_id, "text", []) == rerank(by_text, "text", []) == []
