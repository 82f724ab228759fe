"""Dense search in the benchmark: the plain path has the hits of the search command, and both are timed."""

import numpy as np
import pytest

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.bench import main
from rerank_plugin.benchmark.collection import generated
from rerank_plugin.benchmark.dense_search import PlainSearch, dense_rows, largest_difference
from rerank_plugin.benchmark.measured_rerankers import open_measured
from rerank_plugin.benchmark.measuring import Meter
from rerank_plugin.benchmark.rows import DENSE, FAST, PLAIN
from rerank_plugin.benchmark.scoring import Setup
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.retrieval.dense import DenseConfig, DenseStage

OPTIONS = rerankers.RerankerOptions(threads=1)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A generated collection."""
    return generated(tmp_path_factory.mktemp("dense"), 300, 5, 20, lucene=False)


@pytest.fixture
def subject(named):
    with open_measured("ktrel-w", named, 20, OPTIONS, 3) as opened_subject:
        yield opened_subject


def test_both_paths_have_the_same_hits(named, subject):
    fast = DenseStage(named.index, DenseConfig(str(subject.checkpoint)))
    plain = PlainSearch(subject.paths[PLAIN], fast.store.decode(np.arange(len(named))))
    for query in named.queries:
        hits, expected = fast.search(query, 25), plain.search(query, 25)
        assert hits.rows.tolist() == expected.rows.tolist()
        found, scores = hits.first_stage_scores, expected.first_stage_scores
        np.testing.assert_allclose(found, scores, rtol=0, atol=6e-5 * scores[0])  # queries have 15 bits
    assert 0 <= largest_difference({PLAIN: plain, FAST: fast}, named, 25) < 1e-4


def test_rows(named, subject):
    setup = Setup(Meter(0.1, 5), "cpu", 1, "a machine")
    plain, fast = dense_rows(subject, named, 10, setup)
    assert (plain.path, fast.path, fast.stage, fast.batch, fast.depth) == (PLAIN, FAST, DENSE, 1, 10)
    assert fast.candidate_source == "all documents" and fast.candidates == 10 and fast.largest_difference < 1e-4
    assert fast.ratio_to_plain == pytest.approx(plain.median_ms / fast.median_ms)


@pytest.mark.parametrize("name", ["ktrel-w", "sevmos", "delta", "wmd-title"])
def test_models_that_retrieve(named, name):
    """Those, and only those, whose scores over all documents are the inner products that dense search takes."""
    with open_measured(name, named, 20, OPTIONS, 3) as subject:
        assert subject.retrieves == (name == "ktrel-w")
        if not subject.retrieves:
            with pytest.raises(InputError):
                DenseStage(named.index, DenseConfig(str(subject.checkpoint)))
            return
        rows, query = np.arange(len(named)), named.queries[0]
        every = Candidates(named.index.forward, rows, np.zeros(len(rows), np.float32))
        scores = subject.paths[FAST].score(query, every)  # by the same stored encodings
        found = DenseStage(named.index, DenseConfig(str(subject.checkpoint))).search(query, len(named))
        assert found.first_stage_scores == pytest.approx(scores[found.rows], abs=1e-3 * float(np.abs(scores).max()))


def test_encodings_must_be_there(named, subject, tmp_path):
    """A checkpoint of the user's whose index was not encoded."""
    with open_measured("ktrel-w", named, 20, OPTIONS, 4) as other:
        moved = other.checkpoint.rename(tmp_path / "moved")
    with pytest.raises(InputError, match="holds no encodings"):
        dense_rows(subject._replace(checkpoint=moved), named, 10, Setup(Meter(0.1, 5), "cpu", 1, "m"))


def test_the_command(tmp_path, capsys):
    main(
        f"--quick --reranker ktrel-w knrm --documents 300 --depth 10 --batch 1 --dense --plot {tmp_path}/p.png".split()
    )
    output = capsys.readouterr().out
    table = output[output.index("### Dense search") :]
    assert table.count("| ktrel-w") == 2 and "knrm" not in table
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
