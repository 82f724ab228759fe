"""Indexes with encodings by small encoders: one in the place of the bundled one, which is adapted, and another."""

import shutil
from types import SimpleNamespace

import numpy as np

import rerank_plugin as rp
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder, write_judged
from rerank_plugin.files.arrays import open_array
from rerank_plugin.indexes.derived import stores
from rerank_plugin.indexes.layout import ADAPTED, JUDGED, derived_folder
from rerank_plugin.indexes.vector_store import SOURCE, store_in
from rerank_plugin.indexes.vector_store_writer import ListsConfig, Spills, write_store
from rerank_plugin.kernels.quantization import Codes
from rerank_plugin.models import checkpoint, register
from rerank_plugin.models.ktrel import adaptation
from rerank_plugin.rerankers import RerankerOptions, load
from rerank_plugin.retrieval.dense import QueryEncoder
from rerank_plugin.retrieval.register import configure
from rerank_plugin.text.vocabulary import HASHED
from tests import small
from tests.models import encodable

FEWEST = 4  # documents that the encoder is adapted to


def encoders(folder, words, patch):
    """Write the two encoders; the first is the bundled one as long as ``patch`` holds."""
    of_words = small.word_vectors([*words, *(f"{HASHED}{number}" for number in range(5))], 12, seed=5)
    other = small.word_vectors(words[:6], 8, seed=6)
    shared = {"layers": 0, "document_words": 200}
    checkpoint.save_checkpoint(folder / "bundled", encodable.ktrel(of_words, 2, **shared), of_words, {})
    checkpoint.save_checkpoint(folder / "other", encodable.ktrel(other, 3, **shared), other, {})
    usual = register.checkpoint_folder
    patch.setattr(register, "checkpoint_folder", lambda spec: folder / "bundled" if spec == "ktrel" else usual(spec))
    patch.setattr(adaptation, "FEWEST", FEWEST)
    return SimpleNamespace(bundled=folder / "bundled", other=folder / "other")


def encode(index, other, judged=(), left=None):
    """Encode an index as new ones are: by the bundled encoder, adapted if it has the documents, and by the other."""
    encoder = IndexEncoder(index.forward, "ktrel")
    (encoder.adapted() if encoder.adapts else encoder).encode()
    lists = min(3, len(index))
    IndexEncoder(index.forward, other).encode(lists=ListsConfig(lists, probes=2, floor=0))
    judge(index, other, judged, left)


def judge(index, other, ids, left=None):
    """Keep a judged query for every two of these documents, if one of them is ``left``, by default all."""
    ids, judgments = sorted(ids), {}
    texts = [Query(f"j{n}", f"aspirin heart stroke {' '.join(ids[n : n + 2])}") for n in range(0, len(ids), 2)]
    for number, query in enumerate(texts):
        pair = ids[2 * number : 2 * number + 2]
        judgments[query.id] = {id: 1 for id in pair if left is None or id in left}
    if any(judgments.values()):
        write_judged(index.forward, QueryEncoder(index.forward, other), [("tests", texts, judgments)])


def encode_alike(index, fresh, other):
    """Encode a new index of the documents of another by its encoders, in lists with its centroids."""
    if (adapted := derived_folder(index, ADAPTED)).is_dir():
        shutil.copytree(adapted, derived_folder(fresh, ADAPTED))
    for folder, described in stores(index.forward):
        encoder = IndexEncoder(
            fresh.forward, derived_folder(fresh, ADAPTED) if SOURCE in described else described["checkpoint"]
        )
        assert encoder.key == folder.name
        centroids = Codes(*(open_array(folder / f"{name}.npy") for name in ("centroids", "centroid_scales")))
        spills, encode = Spills(fresh.forward, encoder.key, encoder.spaces), encoder.encoder().encode
        for rows in spills:
            spills.keep(rows, encode(rows))
        kept = {name: described[name] for name in ("checkpoint", SOURCE, "nlist", "nprobe") if name in described}
        write_store(spills, kept, ListsConfig(probes=described["probes"], floor=0), centroids=centroids)


def arrays_of(index):
    """The vectors of all rows, their lists and the centroids of each store, by the checksum of its encoder."""
    found, rows = {}, np.arange(len(index.forward))
    for folder, described in stores(index.forward):
        store = store_in(folder, described, index.forward)
        found[folder.name] = [*store.codes(rows), store.lists_of(rows), *store.centroids]
    return found


def equal_arrays(index, fresh):
    """Check that the stores of two indexes have the same arrays."""
    found, expected = arrays_of(index), arrays_of(fresh)
    assert found.keys() == expected.keys() and len(found) > 0
    for key, arrays in expected.items():
        for array, expected_array in zip(found[key], arrays, strict=True):
            np.testing.assert_array_equal(array, expected_array)
            assert array.dtype == expected_array.dtype


def encoded_alike(index, fresh, other, texts, hybrid):
    """Check that two indexes give the same results by their encodings, to the last bit.

    Args:
        hybrid: whether those of the hybrid, too, which reads Lucene's scores.
    """
    names = ["dense:ktrel", f"dense:{other}"] + ["hybrid", "hybrid+rm3"] * hybrid
    judged = [derived_folder(one, JUDGED).is_dir() for one in (index, fresh)]
    assert judged[0] or not judged[1]
    if judged[1]:
        names.append(f"neighbours:{other}")
    for name in names:
        stages = [configure(name).open(one) for one in (index, fresh)]
        for text in texts:
            found, expected = (stage.search(Query("q", text), 20) for stage in stages)
            assert found.ids == expected.ids, name
            np.testing.assert_array_equal(found.first_stage_scores, expected.first_stage_scores)
    ids = sorted(fresh.forward.ids.take(fresh.forward.live_rows))[:8]
    for model in ("ktrel", str(other)):
        scores = []
        for one in (index, fresh):
            reranker = load(model, one.forward, RerankerOptions())
            candidates = small.candidates(one.forward, one.forward.rows(ids))
            scores.append([reranker.score(Query("q", text), candidates) for text in texts])
        np.testing.assert_array_equal(*scores)
        with rp.Searcher(index) as searcher, rp.Searcher(fresh) as expected:
            for id in ids[:2]:
                assert similar(searcher, id, model) == similar(expected, id, model)


def similar(searcher, id, encoder):
    return [(hit.docid, hit.score) for hit in searcher.similar(id, 30, encoder)]
