"""Statistics of a collection: those of an index, and what a checkpoint keeps of them."""

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes import collection_statistics
from rerank_plugin.indexes.collection_statistics import STATISTICS_FILE, CollectionStatistics
from rerank_plugin.models.checkpoint import save_checkpoint, write_statistics
from tests import small


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("statistics") / "index" / "forward")


@pytest.fixture
def checkpoint(tmp_path):
    vectors = small.word_vectors(small.KNOWN_WORDS, 4, seed=1)
    model = small.delta(vectors, lexical_features=("bm25_title", "idf_overlap_text"), filters=3)
    save_checkpoint(tmp_path / "delta", model, vectors, {})
    return tmp_path / "delta"


def test_a_checkpoint_keeps_what_its_model_reads(index, checkpoint):
    write_statistics(checkpoint, index)
    stored, kept = CollectionStatistics.of_index(index), CollectionStatistics.load(checkpoint)
    assert (kept.documents, kept.mean_lengths, kept.tokenizer) == (10, stored.mean_lengths, index.tokenizer)
    assert sorted(kept.document_frequency) == ["text", "title"]
    frequency = dict(zip(index.terms.take(np.arange(len(index.terms))), index.document_frequency["text"].tolist()))
    assert set(kept.terms.strings) == {term for term, count in frequency.items() if count >= 2}
    rows = index.terms.find(kept.terms.strings)
    for field, counts in kept.document_frequency.items():
        np.testing.assert_array_equal(counts, index.document_frequency[field][rows])


def test_only_so_many_words_are_kept(index, checkpoint, monkeypatch):
    monkeypatch.setattr(collection_statistics, "MOST_TERMS", 3)
    write_statistics(checkpoint, index)
    kept = CollectionStatistics.load(checkpoint)
    most = np.sort(index.document_frequency["text"])[::-1][:3]
    assert kept.document_frequency["text"].tolist() == most.tolist()


def test_a_checkpoint_without_statistics_says_how_to_get_them(checkpoint):
    with pytest.raises(
        InputError, match=f"name an index as statistics, or add them with: .*--statistics {checkpoint}$"
    ):
        CollectionStatistics.load(checkpoint)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:100], lambda data: b"", lambda data: data.replace(b'\\"', b"''")]
)
def test_damaged_statistics(index, checkpoint, damage):
    path = write_statistics(checkpoint, index)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=f"{STATISTICS_FILE} cannot be read .*: add the statistics of an index again"):
        CollectionStatistics.load(checkpoint)


def test_the_command(index_command, index_folder, checkpoint):
    call = ("--statistics", checkpoint, "--index", index_folder)
    status, out, _ = index_command(*call)
    assert status == 0 and out.startswith(f"{checkpoint / STATISTICS_FILE}: ")
    assert CollectionStatistics.load(checkpoint).documents == 40
    status, _, err = index_command(*call)
    assert status == 2 and "exists already" in err
    assert index_command(*call, "--overwrite")[0] == 0
    status, _, err = index_command("--statistics", checkpoint.parent, "--index", index_folder)
    assert status == 2 and err.startswith(f"error: {checkpoint.parent} is not a checkpoint: it holds no config.json; ")
    assert list(checkpoint.parent.iterdir()) == [checkpoint]
