"""Tests of every untrained reranker."""

import json

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.rerankers import UNTRAINED
from rerank_plugin.text import word_vectors
from tests import small
from tests.conformance.test_scores import bare_indexes  # noqa: F401
from tests.processes import run

TEXT = "heart cancer risk of the women aspirin heart"
every_one = pytest.mark.parametrize("name", UNTRAINED)


@pytest.fixture(scope="module")
def words(tmp_path_factory, vectors):
    folder = tmp_path_factory.mktemp("words") / "words"
    word_vectors.save(vectors, folder, {})
    return folder


def opened(name, words, index):
    spec = f"{name}:{words}" if UNTRAINED[name].reads_vectors else name
    return rerankers.load(spec, index)


def scores(reranker, index, rows=None, text=TEXT):
    values = reranker.score(Query("q", text), small.candidates(index, rows))
    assert values.dtype == np.float32 and np.isfinite(values).all()
    return values


@every_one
def test_a_document_has_the_same_score_in_any_company(index, words, name):
    """Alone, in another order, twice, without others, and with other queries at once."""
    reranker = opened(name, words, index)
    together = scores(reranker, index)
    if name != "docid":
        assert len(set(together.tolist())) > 3
    if reranker.name != "wmd-title-top20":
        assert [scores(reranker, index, [row])[0] for row in range(len(index))] == together.tolist()
    for rows in (np.random.default_rng(1).permutation(len(index)), np.repeat(np.arange(10), 2)):
        np.testing.assert_array_equal(scores(reranker, index, rows), together[rows])
    assert scores(reranker, index, []).shape == (0,)
    candidates = [small.candidates(index), small.candidates(index, [3])]
    actual = reranker.score_many([Query("q", TEXT), Query("r", "aspirin")], candidates)
    np.testing.assert_array_equal(actual[0], together)
    np.testing.assert_array_equal(actual[1], scores(reranker, index, [3], "aspirin"))


@every_one
def test_no_documents_and_no_words(bare_indexes, words, name):  # noqa: F811
    empty, wordless = bare_indexes
    assert scores(opened(name, words, empty), empty).shape == (0,)
    actual = scores(opened(name, words, wordless), wordless)
    assert actual[0] == actual[1]


@every_one
def test_loaded_by_name(index, words, tmp_path, name):
    reranker = opened(name, words, index)
    assert reranker.name == name and name in rerankers.known_names()
    if UNTRAINED[name].reads_vectors:
        for spec, message in (
            (name, "word vectors"),
            (f"{name}:", "word vectors"),
            (f"{name}:{tmp_path / 'no'}", "no"),
        ):
            with pytest.raises(InputError, match=message):
                rerankers.load(spec, index)
    else:
        assert rerankers.load(f"{name}:", index).name == name
        with pytest.raises(InputError, match=f"^{name} loads no checkpoint: write '{name}', not '{name}:some/folder'$"):
            rerankers.load(f"{name}:some/folder", index)


def test_neither_java_nor_torch_is_needed(index):
    script = """
import json, sys
from pathlib import Path
from rerank_plugin import rerankers
from rerank_plugin.base.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.forward import CommitData, ForwardIndex
from rerank_plugin.indexes.segment import Segment
rerankers.known_names()
segment = Segment(Path(sys.argv[1], "segments", "000001"))
data = CommitData(segment.terms, segment.document_frequency, json.loads(sys.argv[2]))
index = ForwardIndex(Path(sys.argv[1]), [segment], data)
for spec in sys.argv[3:]:
    print(len(rerankers.load(spec, index).score(Query("q", "heart"), Candidates(index, [8, 1, 4], [3, 2, 1]))))
print(sorted({"torch", "pyserini", "jnius", "gensim", "matplotlib"} & set(sys.modules)))
"""
    names = [name for name, entry in UNTRAINED.items() if not entry.reads_vectors]  # POT imports torch if installed
    output = run("-c", script, index.folder, json.dumps(index.mean_lengths), *names)
    assert output == "3\n" * len(names) + "[]\n"
