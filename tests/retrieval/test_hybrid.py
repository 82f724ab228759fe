"""The hybrid first stage: the two stages and the weights it says, by one name, over a real Lucene index."""

import shutil

import numpy as np
import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.retrieval.encoding import IndexEncoder
from rerank_plugin.retrieval.fusion import min_max
from rerank_plugin.retrieval.register import configure

QUERY = Query("q", "heart attack in women with diabetes")


@pytest.fixture(scope="module")
def encoded(index_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hybrid") / "index"
    shutil.copytree(index_folder, folder)
    IndexEncoder(Index(folder).forward, "ktrel").encode()
    return Index(folder)


@pytest.mark.parametrize("name, lexical", [("hybrid", "bm25"), ("hybrid+rm3", "bm25+rm3")])
def test_scores_are_the_weighted_scores_of_both_stages(encoded, name, lexical):
    expected = np.zeros(len(encoded))
    for spec, weight in ((lexical, 0.65), ("dense:ktrel", 0.35)):
        found = configure(spec).open(encoded).search(QUERY, 1000)
        expected[found.rows] += weight * min_max(found.first_stage_scores)
    stage = configure(name).open(encoded)
    fused = stage.search(QUERY, 20)
    assert stage.name == name and len(fused) == 20
    assert fused.first_stage_scores == pytest.approx(expected[fused.rows], abs=1e-6)
    assert expected[fused.rows].min() >= np.sort(expected)[-20] - 1e-6


def test_an_index_without_encodings_says_how_to_make_them(index):
    with pytest.raises(InputError, match="index --encode ktrel --index"):
        configure("hybrid").open(index)
