"""An index of format 1, as version 0.2.0 wrote it of the documents of the tests: it searches as a new one does."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from rerank_plugin.features.matches import Matches
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.filters import Filter
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.stored_encodings import find_encodings, write_encodings
from rerank_plugin.indexes.verification import verify
from rerank_plugin.retrieval.lucene import NAMES, LuceneConfig
from tests.indexes.alike import search_alike


@pytest.fixture
def old(tmp_path):
    with tarfile.open(Path(__file__).parents[1] / "data" / "format1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Index(tmp_path / "format1")


def test_it_is_whole_and_has_the_arrays_of_a_new_one(old, index):
    assert old.description["format_version"] == 1 and verify(old) == len(old.description["files"]) + 2
    for name in ("tokens", "offsets", "title_lengths", "term_weights"):
        np.testing.assert_array_equal(getattr(old.forward, name), getattr(index.forward, name))
    everything = np.arange(len(index))
    for table in ("ids", "titles"):
        assert getattr(old.forward, table).take(everything) == getattr(index.forward, table).take(everything)
    assert old.forward.published is None


def test_lucene_of_another_build_is_refused(old):
    description = {**old.description, "generation": "0" * 32, "checksum": None}
    (old.folder / "index.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match="lucene has changed since .* was built, or is of another build"):
        Index(old.folder).first_stage(LuceneConfig())


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_same(old, index, name):
    search_alike(
        old, index, ["aspirin and the prevention of heart attack", "twins share words", "stroke", "糖尿病"], name
    )


def test_its_idf_masses_are_those_that_are_computed_now(old):
    """Format 1 stored the IDF of each document's distinct words. The query is none of them, so the union is all."""
    for field in ("title", "abstract", "text"):
        stored = np.load(old.folder / "forward" / f"idf_mass_{field}.npy")
        matches = Matches(
            old.forward.query("aspirin"), Candidates(old.forward, np.arange(len(old)), np.zeros(len(old)))
        )
        _, common = matches._common(field)
        expected = common / (matches.weight + stored.astype(np.float64) - common)
        np.testing.assert_allclose(matches.idf_jaccard(field), expected, rtol=1e-6)


def test_its_encodings_are_found_and_new_ones_are_stored(old):
    expected = np.random.default_rng(1).normal(size=(len(old), 4)).astype(np.float32)
    np.testing.assert_array_equal(find_encodings(old.forward, "0123456789abcdef", 4), expected)
    write_encodings(old.forward, "other", [expected * 2], 4)
    np.testing.assert_array_equal(find_encodings(old.forward, "other", 4), expected * 2)
    verify(old)


def test_what_it_lacks_is_refused_with_the_command_that_rebuilds_it(old):
    filter = Filter.of({"year": "2015"})
    with pytest.raises(
        InputError, match="no metadata to filter by.*rerank-plugin index --corpus 'the documents of the"
    ):
        old.check_filter(filter)
    with pytest.raises(InputError, match=f"--index {old.folder} --overwrite"):
        old.first_stage(LuceneConfig()).search(Query("q", "aspirin", filter), 10)
