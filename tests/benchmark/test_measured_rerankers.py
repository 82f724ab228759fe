import json
from dataclasses import replace

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.benchmark import measured_rerankers
from rerank_plugin.benchmark.collection import generated, with_candidates
from rerank_plugin.benchmark.measured_rerankers import check_spec, measured_by_default, open_measured, random_vectors
from rerank_plugin.benchmark.rows import FAST, PLAIN
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.models.register import entry_of, names
from tests.conformance.models import Case, assert_same, over_decoded, rounding

OPTIONS = rerankers.RerankerOptions(threads=1)


def test_every_model_is_measured():
    """Except those without word vectors and those that read concepts, which generated collections lack."""
    classes = {name: (entry_of(name).load("module"), entry_of(name).load("config")) for name in names()}
    of_words = {
        name for name, (model, config) in classes.items() if model.has_word_vectors and not config.reads_concepts({})
    }
    assert {"delta", "ktrel-w", "wmd-title"} < {*of_words, "wmd-title"} == set(measured_by_default())


@pytest.mark.parametrize("spec", ["delta", "delta:.", "ktrel:.", "wmd-title", "package.module:Class", "."])
def test_specs_that_can_be_measured(spec):
    check_spec(spec)


@pytest.mark.parametrize(
    "spec, message",
    [
        *((unknown, "unknown reranker") for unknown in ("nope", "nope:checkpoint", "delt", "")),
        ("ktrel", "no random weights: give NAME:CHECKPOINT"),
    ],
)
def test_specs_that_cannot_be_measured(spec, message):
    with pytest.raises(InputError, match=message):
        check_spec(spec)


def test_random_vectors_are_of_the_frequent_words(collection, monkeypatch):
    frequency = collection.forward.document_frequency["text"]
    vectors = random_vectors(collection.forward, 0)
    assert len(vectors.vocabulary) == 1 + int((frequency > 1).sum())
    assert (
        vectors.matrix.shape == (len(vectors.vocabulary), measured_rerankers.DIMENSION)
        and vectors.matrix.dtype == np.float32
    )
    assert (random_vectors(collection.forward, 0).matrix == vectors.matrix).all()
    monkeypatch.setattr(measured_rerankers, "MOST_WORDS", 3)
    most = set(random_vectors(collection.forward, 0).vocabulary.words[1:])
    terms = collection.forward.terms.take(np.argsort(-frequency.astype(int), kind="stable")[:3])
    assert most == set(terms)


def test_delta_is_loaded_on_both_paths_at_the_size_of_its_paper(collection):
    with open_measured("delta", collection, 20, OPTIONS, 0) as subject:
        assert subject.name == "delta" and list(subject.paths) == [PLAIN, FAST]
        config = subject.paths[FAST].model.config
        assert config.filters == 32 and len(config.lexical_features) == 3
        assert subject.paths[PLAIN].fast is None and subject.paths[FAST].fast is not None
        assert 0 < subject.largest_difference < 1e-5


class RowNumber:
    """A reranker from elsewhere, called with the index alone."""

    name = "row-number"

    def __init__(self, index):
        self.index = index

    def score(self, query, candidates):
        return candidates.rows.astype(np.float32)


@pytest.mark.parametrize("spec", [f"{__name__}:RowNumber", "delta-classifier"])
def test_a_class_from_elsewhere_has_one_path_as_a_model_without_a_fast_one(collection, spec):
    with open_measured(spec, collection, 20, OPTIONS, 0) as subject:
        assert list(subject.paths) == [PLAIN] and subject.largest_difference is None


@pytest.fixture
def in_this_process(monkeypatch):
    """The names of the functions that make a collection, which run in this process instead of a child."""
    called = []

    def call(function, *arguments):
        called.append(function.__name__)
        return function(*arguments)

    monkeypatch.setattr("rerank_plugin.benchmark.collection._in_child_process", call)
    return called


@pytest.mark.parametrize("name", ["sevmos", "ktrel-w"])
@pytest.mark.usefixtures("in_this_process")
def test_encodings_are_made_for_the_checked_queries_and_removed_again(name, tmp_path):
    made = generated(tmp_path, 200, 3, 30, lucene=False)
    with open_measured(name, made, 30, OPTIONS, 0) as subject:
        assert 0 <= subject.largest_difference < 0.01  # stored encodings are 8-bit codes
        assert subject.paths[FAST].fast is not None
        assert len(list((made.index.folder / "encodings/000001").iterdir())) == 1
        scores = subject.paths[FAST].score(made.queries[0], made.candidates(0, 30))
        over_decoded(subject.paths[PLAIN].module)
        expected = subject.paths[PLAIN].score(made.queries[0], made.candidates(0, 30))
        assert_same(scores, expected, rounding(Case(name, {}), "fast"))
        assert np.ptp(scores) > 0
    assert not list((made.index.folder / "encodings/000001").iterdir())


def test_a_generated_collection_is_made_once(tmp_path, in_this_process):
    first = generated(tmp_path, 200, 3, 30, lucene=False)
    assert in_this_process == ["_generate", "_index_without_lucene", "_scan"]
    assert len(first) == 200 and len(first.queries) == 10 and first.mean_candidates(30) == 30
    second = generated(tmp_path, 200, 3, 30, lucene=False)
    assert len(in_this_process) == 3
    assert second.queries == first.queries
    assert (second.candidates(4, 30).rows == first.candidates(4, 30).rows).all()
    description = json.loads((first.index.folder / "index.json").read_text())
    of_an_older_program = {**description, "format_version": 0}
    (first.index.folder / "index.json").write_text(json.dumps(of_an_older_program))
    generated(tmp_path, 200, 3, 30, lucene=False)
    assert in_this_process[3:] == ["_index_without_lucene"]
    generated(tmp_path, 200, 3, 200, lucene=False)
    assert len(in_this_process) == 4  # deep enough already


def test_queries_without_candidates_are_left_out(collection):
    class ThreeRows:
        name = "three-rows"

        def search(self, query, depth):
            rows = np.arange(3 if query.id != "q2" else 0)
            return Candidates(collection.forward, rows, np.ones(len(rows), np.float32))

    kept = with_candidates(collection, ThreeRows(), 10, "three rows")
    assert [query.id for query in kept.queries] == ["q0", "q1", "q3", "q4", "q5"]
    assert kept.mean_candidates(10) == 3 and kept.source == "three rows"
    with pytest.raises(InputError, match="nothing at all"):
        with_candidates(replace(collection, queries=[Query("q2", "")]), ThreeRows(), 10, "nothing at all")
