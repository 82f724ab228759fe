"""The vectors of a store in a Faiss index, against the store; what can be told of GPUs without one."""

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes import faiss_folder, faiss_vectors
from rerank_plugin.indexes.faiss_folder import FaissFolder
from rerank_plugin.indexes.faiss_gpu import CAGRA, Place, unsupported
from rerank_plugin.indexes.faiss_vectors import FaissVectors
from tests.indexes.test_device_vectors import queries, store, store_of  # noqa: F401 (fixtures)

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize("count", [1, 20, 300, 1000])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_documents_and_scores_of_the_store(store, queries, count, filtered):  # noqa: F811
    fits = np.arange(300) % 3 == 1 if filtered else None
    found = FaissVectors(store, Place()).search_many(queries, count, fits)
    for (rows, scores), (expected, theirs) in zip(found, store.search_many(queries, count, fits), strict=True):
        assert rows.tolist() == expected.tolist() and scores.tobytes() == theirs.tobytes()


def test_the_store_searches_for_more_than_a_gpu_finds(store, queries, monkeypatch):  # noqa: F811
    vectors = FaissVectors(store, Place())
    monkeypatch.setattr(faiss_vectors, "MOST", 40)
    vectors.index.reset()  # finds nothing now
    assert len(vectors.search(queries[0], 20)[0]) == 0
    assert vectors.search(queries[0], 41)[0].tolist() == store.search(queries[0], 41)[0].tolist()


@pytest.mark.parametrize(
    "factory, kind",
    [("Flat", ""), ("IVF4,PQ4x4", ""), ("PCA8,IVF4,SQ8", ""), ("IDMap,Flat", ""), ("SQ8", "IndexScalarQuantizer"),
     ("HNSW8", "IndexHNSWFlat"), ("PCA8,PQ4x4", "IndexPQ"), ("Flat,RFlat", "IndexRefineFlat")],
)  # fmt: skip
def test_kinds_that_faiss_does_not_search_on_a_gpu_are_told(factory, kind):
    assert unsupported(faiss.index_factory(16, factory)) == kind


@pytest.mark.skipif(hasattr(faiss, "StandardGpuResources"), reason="this Faiss has GPUs")
@pytest.mark.parametrize("engine", [faiss_vectors.FAISS, CAGRA])
def test_a_faiss_without_gpus_is_told(engine):
    with pytest.raises(InputError, match="searches on CPUs only: install faiss-gpu for cuda"):
        FaissVectors(store_of((8,), 10), Place("cuda"), engine)


def test_a_copy_on_a_gpu_selects_from_a_longer_list_and_leaves_the_rest_to_the_cpu(tmp_path, monkeypatch, caplog):
    """The copy is one on the CPU, searched without selectors."""
    vectors = np.random.default_rng(1).standard_normal((60, 8)).astype(np.float32)
    index = faiss.IndexFlatIP(8)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "index"))
    (tmp_path / "docid").write_text("".join(f"{number}\n" for number in range(60)))
    folder, allowed = FaissFolder(tmp_path), np.arange(60) % 4 > 0
    expected = {depth: folder.search(vectors[0], depth, allowed)[0].tolist() for depth in (10, 20)}
    folder.searched = faiss.clone_index(index)
    monkeypatch.setattr(faiss_folder, "MOST", 30)
    assert folder.search(vectors[0], 10, allowed)[0].tolist() == expected[10] and not caplog.text
    folder.searched.reset()
    assert folder.search(vectors[0], 30)[0].tolist() == []
    assert folder.search(vectors[0], 20, allowed)[0].tolist() == expected[20]
    assert "finds 30 documents at most" in caplog.text
