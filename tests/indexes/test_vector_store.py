"""The store of vectors: its searches against sorting all scores, and its files."""

import json
import logging
import os
import shutil
from functools import partialmethod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import outputs
from rerank_plugin.files.checksums import sealed
from rerank_plugin.indexes import vector_store, vector_store_writer
from rerank_plugin.indexes.index_folder import forward_checksum
from rerank_plugin.indexes.rows import Rows
from rerank_plugin.indexes.vector_store import SegmentVectors, VectorStore, open_store
from rerank_plugin.indexes.vector_store_writer import ListsConfig, Spills, remove_left_spills, write_store
from rerank_plugin.kernels.quantization import Spaces
from rerank_plugin.kernels.quantized_products import scores
from tests import small

SPACES = Spaces([33, 5])
SEEDS = st.integers(0, 2**32 - 1)
LISTS = ListsConfig(lists=3, floor=0.0)
ROWS = np.arange(len(small.DOCUMENTS))


@pytest.fixture
def index(tmp_path):
    return indexed(tmp_path / "index")


def indexed(folder, documents=small.DOCUMENTS):
    index = small.build_index(folder, documents)
    index.checksum = forward_checksum(small.describe(index))
    return index


def vectors_of(count=len(ROWS), seed=0, spaces=SPACES):
    return np.random.default_rng(seed).standard_normal((count, spaces.size)).astype(np.float32)


def spills_of(index, vectors=None, size=4, key="key"):
    spills = Spills(index, key, SPACES, size)
    for rows in spills:
        spills.keep(rows, (vectors_of() if vectors is None else vectors)[rows])
    return spills


def written(index, config=LISTS, **options):
    return write_store(spills_of(index), config=config, **options)


def store_of(vectors, lists, seed, spaces=SPACES, given=None):
    """A store in memory, whose documents lie in lists at random, some of which are empty, or in those given."""
    if given is None:
        given = np.random.default_rng(seed).integers(0, lists, len(vectors))
    rows = np.argsort(given, kind="stable").astype(np.int32)
    positions = np.empty_like(rows)
    positions[rows] = np.arange(len(rows))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(given, minlength=lists))]).astype(np.int64)
    centroids = spaces.quantize(vectors_of(lists, seed + 1, spaces))
    part = SegmentVectors(spaces.quantize(vectors[rows]), rows, positions, offsets)
    return VectorStore(spaces, [part], Rows([len(vectors)]), centroids, threads=2), given


def expected(store, query, count, which):
    """The best of the documents ``which`` bool [R], by sorting."""
    rows = np.flatnonzero(which)
    found = scores(store.spaces.quantize(store.decode(rows)), np.arange(len(rows)), store.quantize(query))[0]
    order = np.lexsort((rows, -found))[:count]
    return rows[order]


@given(st.integers(0, 80), st.integers(1, 12), st.integers(1, 90), st.integers(1, 3), SEEDS)
def test_all_lists_give_what_sorting_gives_to_the_last_bit(count, lists, best_of, queries, seed):
    random = np.random.default_rng(seed)
    vectors = random.integers(-1, 2, (count, SPACES.size)).astype(np.float32)[random.integers(0, max(count, 1), count)]
    store, _ = store_of(vectors, lists, seed)
    flat, _ = store_of(vectors, 1, seed)
    asked, fits = vectors_of(queries, seed), random.random(count) < random.random()
    for which in (None, fits):
        many = store.search_many(asked, best_of, which, probes=lists)
        for query, (rows, found) in zip(asked, many):
            for other in (store.search(query, best_of, which, lists), flat.search(query, best_of, which)):
                assert rows.tolist() == other[0].tolist() and found.tolist() == other[1].tolist()
            assert (
                rows.tolist()
                == expected(store, query, best_of, np.ones(count, bool) if which is None else which).tolist()
            )
            assert store.scores(query, rows).tolist() == found.tolist()
            assert found.dtype == np.float32 and rows.dtype == np.int64


@given(st.integers(1, 200), st.integers(2, 30), st.integers(1, 40), st.integers(1, 5), st.booleans(), SEEDS)
def test_the_nearest_lists_are_read_until_they_hold_enough(count, lists, best_of, probes, filtered, seed):
    """Plain numpy walks the lists in the order of their centroids' products."""
    vectors, random = vectors_of(count, seed), np.random.default_rng(seed)
    store, of_document = store_of(vectors, lists, seed)
    which = random.random(count) < 0.6 if filtered else np.ones(count, bool)
    query = vectors_of(1, seed + 2)[0]
    products = scores(store.centroids, np.arange(lists), store.quantize(query))[0]
    reach, read = max(best_of, -(-probes * count // lists)), np.zeros(count, bool)
    for one in np.lexsort((np.arange(lists), -products)):
        if read.sum() < reach:
            read |= (of_document == one) & which
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_store, "FLAT", 0)  # a filter that few documents fit is not searched whole
        rows, _ = store.search(query, best_of, which if filtered else None, probes)
        fitting = store.fitting(which)
        assert rows.tolist() == store.search(query, best_of, fitting if filtered else None, probes)[0].tolist()
    assert rows.tolist() == expected(store, query, best_of, read).tolist()


def test_more_lists_are_read_where_the_nearest_are_short():
    """Forty lists of one document, and one of 400, which is the furthest: one list in the mean has 11."""
    given = np.minimum(np.arange(440), 40)
    store, _ = store_of(vectors_of(440, 4), 41, 4, given=given)
    query = -store.spaces.decode(store.centroids)[40]
    products = scores(store.centroids, np.arange(41), store.quantize(query))[0]
    nearest = np.lexsort((np.arange(41), -products))[:11]
    assert products.argmin() == 40
    assert store.search(query, 20, probes=1)[0].tolist() != store.search(query, 10, probes=1)[0].tolist()
    assert store.search(query, 10, probes=1)[0].tolist() == expected(store, query, 10, np.isin(given, nearest)).tolist()


def test_a_filter_that_few_documents_fit_is_searched_whole(monkeypatch):
    vectors = vectors_of(300, 1)
    store, of_document = store_of(vectors, 50, 1)
    query, fits = vectors[7], np.arange(300) % 10 == 0
    found = [store.search(query, 5, fits, probes=1)[0].tolist()]
    monkeypatch.setattr(vector_store, "FLAT", 29)  # 30 fit
    found.append(store.search(query, 5, fits, probes=1)[0].tolist())
    assert found[0] == expected(store, query, 5, fits).tolist() != found[1]


def test_what_is_written_is_found_again(index):
    folder = written(index, description={"model": "ktrel"})
    assert folder == index.folder / "encodings/000001/key" and list(folder.parent.iterdir()) == [folder]
    store, whole = open_store(index, "key", SPACES), SPACES.quantize(vectors_of())
    assert len(store) == 10 and store.description["model"] == "ktrel" and store.description["lists"] == 3
    assert np.array_equal(store.decode(ROWS), SPACES.decode(whole))
    query = vectors_of(1, 5)[0]
    assert np.array_equal(store.scores(query, ROWS), scores(whole, ROWS, SPACES.quantize_queries(query[None]))[0])
    rows, found = store.search(query, 10, probes=3)
    assert sorted(rows) == ROWS.tolist() and np.all(np.diff(found) <= 0)
    lists = np.split(np.asarray(store.segments[0].rows), store.lists[0, 1:-1])
    assert all(np.all(np.diff(rows) > 0) for rows in lists) and len(lists) == 3


def test_each_document_is_in_the_list_of_its_nearest_centroid(index):
    written(index)
    store = open_store(index, "key", SPACES)
    centroids = SPACES.decode(store.centroids)
    nearest = (store.decode(ROWS) @ centroids.T).argmax(axis=1)
    assert np.array_equal(nearest, store.lists_of(ROWS))
    assert np.array_equal(np.diff(store.lists[0]), np.bincount(nearest, minlength=3))


def test_a_store_depends_on_neither_threads_nor_spills(index):
    contents = []
    for size, threads in ((4, 1), (10, 3), (1, 2)):
        folder = write_store(spills_of(index, size=size), config=LISTS, threads=threads, overwrite=True)
        contents.append({path.name: path.read_bytes() for path in folder.rglob("*.npy")})
    assert len(contents[0]) == 7 and contents[0] == contents[1] == contents[2]


def test_few_documents_are_one_list(index):
    written(index, ListsConfig())
    store = open_store(index, "key", SPACES)
    assert store.description["lists"] == 1 and store.description["recall"] == 1.0
    assert store.segments[0].rows.tolist() == store.positions(ROWS).tolist() == ROWS.tolist()


@pytest.mark.parametrize(
    "documents, lists, probes",
    [
        (49_999, 1, 512),
        (50_000, 1789, 1789),  # as exhaustive as below
        (200_000, 3578, 895),  # a quarter of the lists has 50,000 documents
        (1_000_000, 8000, 512),
    ],
)
def test_a_search_reads_512_lists_and_fifty_thousand_documents(documents, lists, probes):
    assert ListsConfig().sizes(documents) == (lists, probes)
    assert ListsConfig(lists=40, probes=7).sizes(documents) == (40, 7)


@pytest.mark.parametrize("documents", [[], small.DOCUMENTS[:1], [small.DOCUMENTS[0], small.DOCUMENTS[4]]])
def test_very_small_indexes(tmp_path, documents):
    """None, one, and one whose vector is 0, as that of a document without words."""
    index, count = indexed(tmp_path / "index", documents), len(documents)
    vectors = vectors_of(count)
    vectors[1:] = 0
    write_store(spills_of(index, vectors), config=ListsConfig(lists=1))
    store = open_store(index, "key", SPACES)
    rows, found = store.search(vectors_of(1)[0], 5)
    assert rows.tolist() == list(range(count)) and np.all(found[1:] == 0) and np.all(found[:1] > 0)
    assert store.decode(np.arange(count)).shape == (count, SPACES.size)


def test_an_interrupted_encoding_is_resumed(index):
    """Whoever is interrupted leaves the spills that are done; the next one encodes the others alone."""
    spills, done = Spills(index, "key", SPACES, 4), []
    with pytest.raises(KeyboardInterrupt):
        for rows in spills:
            if len(done) == 2:
                raise KeyboardInterrupt
            spills.keep(rows, vectors_of()[rows])
            done.append(rows)
    assert open_store(index, "key", SPACES) is None
    with pytest.raises(InputError, match="cannot be read.*encode again"):
        write_store(spills, config=LISTS)
    missing = [rows.tolist() for rows in Spills(index, "key", SPACES, 4) if not spills.has(rows)]
    assert missing == [[8, 9]]
    spills.keep(np.array([8, 9]), vectors_of()[8:])
    write_store(spills, config=LISTS)
    assert np.array_equal(open_store(index, "key", SPACES).decode(ROWS), SPACES.decode(SPACES.quantize(vectors_of())))
    assert not any(Spills(index, "other", SPACES, 4).has(rows) for rows in spills)


def test_writing_is_all_or_nothing(index, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    folder = written(index)
    before = open_store(index, "key", SPACES).decode(ROWS)
    with pytest.raises(InputError, match="exists already.*overwrite"):
        written(index)
    spills = spills_of(index, -vectors_of())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(vector_store_writer, "describe_store", interrupt)
        write_store(spills, config=LISTS, overwrite=True)
    assert np.array_equal(open_store(index, "key", SPACES).decode(ROWS), before)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["key", "key.pieces"]
    write_store(spills, config=LISTS, overwrite=True)
    assert np.array_equal(open_store(index, "key", SPACES).decode(ROWS), -before)


@pytest.mark.parametrize(
    "damage", [lambda old: b"", lambda old: old[:-40] + b"\1" + old[-39:], lambda old: old + b"\0"]
)
def test_a_damaged_piece_is_named_and_encoded_again(index, damage):
    first, *others = spills_of(index)
    path = Spills(index, "key", SPACES, 4)._file(first)
    path.write_bytes(damage(path.read_bytes()))
    spills = Spills(index, "key", SPACES, 4)
    assert not spills.has(first) and all(map(spills.has, others))
    with pytest.raises(InputError, match="does not match its checksum.*encode again") as raised:
        write_store(spills, config=LISTS)
    assert str(path) in str(raised.value)
    spills.keep(first, vectors_of()[first])
    write_store(spills, config=LISTS)
    assert np.array_equal(open_store(index, "key", SPACES).decode(ROWS), SPACES.decode(SPACES.quantize(vectors_of())))


KILLS = {"before": ("remove", lambda self: None), "after": ("rmtree", lambda *_, **__: None)}


@pytest.mark.parametrize("killed", ["before", "after"])
def test_spills_that_a_kill_left_beside_their_store_are_removed(index, monkeypatch, killed):
    """Before or after they got a temporary name; those of an encoding that goes on stay."""
    spills = spills_of(index)
    remove_left_spills(index)
    assert spills.has(np.arange(4))
    with monkeypatch.context() as patch:
        patch.setattr(Spills if killed == "before" else outputs.shutil, *KILLS[killed])
        folder = write_store(spills, config=LISTS)
    assert len(list(folder.parent.iterdir())) == 2
    remove_left_spills(index)
    assert list(folder.parent.iterdir()) == [folder] and open_store(index, "key", SPACES) is not None
    spills = spills_of(index)
    remove_left_spills(index)
    assert spills.folder.is_dir()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_name_their_document(index, value):
    vectors = vectors_of()
    vectors[5, 1] = value
    with pytest.raises(InputError, match="document Z is not finite"):
        spills_of(index, vectors)


def test_lists_that_find_too_little_are_refused(index, monkeypatch):
    """One list of nine holds the best document at most."""
    monkeypatch.setattr(vector_store_writer, "RECALL_DEPTH", 1)
    spills = spills_of(index, np.tile(vectors_of(1), (10, 1)))
    low = ListsConfig(lists=9, probes=1, floor=1.01)
    with pytest.raises(InputError, match=r"1 of 9 inverted lists find \d+% .*101% are needed"):
        write_store(spills, config=low)
    assert open_store(index, "key", SPACES) is None and spills.has(next(iter(spills)))
    with pytest.raises(InputError, match="11 inverted lists are too many for 10 documents"):
        write_store(spills, config=ListsConfig(lists=11))
    for wrong in ({"probes": 0}, {"lists": 0}):
        with pytest.raises(InputError, match="it must be at least 1"):
            ListsConfig(**wrong)


def test_as_many_lists_are_read_as_the_recall_needs(index, monkeypatch):
    monkeypatch.setattr(vector_store_writer, "PROBES", 1)
    monkeypatch.setattr(vector_store_writer, "FLAT", 1)
    monkeypatch.setattr(VectorStore, "recall", partialmethod(VectorStore.recall, depth=2))  # 1,000 would be all
    write_store(spills_of(index), config=ListsConfig(lists=9, floor=0.9))
    store = open_store(index, "key", SPACES)
    assert store.probes in (2, 4, 8, 9) and store.description["nprobe"] is None
    assert store.recall(42) == store.description["recall"] >= 0.9
    store.probes //= 2
    assert store.recall(42) < 0.9


def test_recall_is_that_of_counting():
    store, _ = store_of(vectors_of(200, 3), 20, 3)
    store.probes, queries = 4, vectors_of(30, 9)
    shares = []
    for query in queries:
        exact, found = store.search(query, 10, probes=20)[0], store.search(query, 10)[0]
        shares.append(len({*exact.tolist()} & {*found.tolist()}) / 10)
    assert store.recall(0, queries, depth=10) == pytest.approx(np.mean(shares)) and 0 < np.mean(shares) < 1


def test_an_index_without_description_has_no_store(tmp_path):
    with pytest.raises(InputError, match="no index folder with an index.json"):
        write_store(spills_of(small.build_index(tmp_path / "bare")), config=LISTS)


def test_vectors_of_another_index_are_not_used(index, tmp_path, caplog):
    turned = [(id, abstract, title) for id, title, abstract in small.DOCUMENTS]
    other = indexed(tmp_path / "other", turned)
    shutil.copytree(written(index), other.folder / "encodings/000001/key")
    with caplog.at_level(logging.WARNING):
        assert open_store(other, "key", SPACES) is None
    assert "another index" in caplog.text and open_store(index, "other", SPACES) is None


def described(**changes):
    def change(folder):
        path = folder / "encodings.json"
        path.write_text(json.dumps(sealed({**json.loads(path.read_text()), **changes})))

    return change


def first_byte(name):
    """Changes a byte of an array's numbers."""

    def change(folder):
        with open(folder / f"{name}.npy", "r+b") as file:
            file.seek(130)
            byte = file.read(1)
            file.seek(130)
            file.write(bytes([byte[0] ^ 1]))

    return change


DAMAGE = {
    "half a file": (lambda folder: os.truncate(folder / "000001/codes.npy", 150), "codes.npy has 150 bytes"),
    "no scales": (lambda folder: (folder / "000001/scales.npy").unlink(), "scales.npy is missing"),
    "no description": (lambda folder: (folder / "encodings.json").unlink(), "it holds no encodings.json"),
    "no JSON": (lambda folder: (folder / "encodings.json").write_text("{"), "cannot be read"),
    "a list": (lambda folder: (folder / "encodings.json").write_text("[1]"), "cannot be read"),
    "other positions": (first_byte("000001/positions"), "positions.* has changed"),
    "other codes": (first_byte("000001/codes"), "codes.* has changed"),
    "other weights": (described(weights="abc"), "weights abc"),
    "no vectors": (lambda folder: shutil.rmtree(folder / "000001"), "000001 is not the vectors of a segment"),
    "another encoding's vectors": (described(segments={"000001": "0"}), "000001 is not of"),
    "more lists": (described(lists=4), r"centroids.npy is int8 .*, expected int8 \[4, "),
    "other spaces": (described(spaces=[38]), r"spaces \[38\], expected \[33, 5\]"),
    "numbers of floating point": (described(format_version=1), "of format 1, this program reads 5"),
}


@pytest.mark.parametrize(("spoil", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_stores_are_refused(index, spoil, said):
    folder = written(index)
    spoil(folder)
    with pytest.raises(InputError, match=said) as raised:
        open_store(index, "key", SPACES)
    assert str(folder) in str(raised.value) and "encode again" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_encodings_of_before_are_encoded_again(index):
    """As the programs before wrote them: not in the folder of a commit."""
    folder = index.folder / "encodings/key"
    folder.mkdir(parents=True)
    np.save(folder / "000001.npy", vectors_of())
    entries = {"weights": "key", "forward_index": index.checksum, "shape": [10, SPACES.size], "dtype": "float32"}
    for checkpoint, named in (("c/ktrel-w", "c/ktrel-w"), (f"{index.folder}/adapted", "ktrel")):
        description = {"format_version": 1, "checkpoint": checkpoint, **entries}
        (folder / "encodings.json").write_text(json.dumps(description))
        command = f"index --encode {named} --index {index.folder} --overwrite"
        with pytest.raises(InputError, match=f"format 1, this program reads 5; encode again with: .*{command}$"):
            open_store(index, "key", SPACES)
    written(index, overwrite=True)
    assert len(open_store(index, "key", SPACES)) == 10


@pytest.mark.parametrize("lists", [1, 3])
def test_the_encoder_that_another_was_adapted_from_reads_its_first_space(index, lists):
    """Scores are those of a store of this space alone, to the last bit."""
    vectors, first = vectors_of(seed=4), Spaces([33])
    write_store(spills_of(index, vectors), {"source": "before"}, ListsConfig(lists=lists, floor=0))
    store, queries = open_store(index, "before", first), vectors_of(3, 8, first)
    alone = VectorStore.of_vectors(first, vectors[:, :33], ROWS, len(ROWS))
    assert store.decode(ROWS[::-1]).tolist() == alone.decode(ROWS[::-1]).tolist()
    for query in queries:
        scores_of_all = alone.scores(query, ROWS)
        assert store.scores(query, ROWS).tolist() == scores_of_all.tolist()
        rows, found = store.search(query, 4, probes=lists)
        assert rows.tolist() == np.argsort(-scores_of_all, kind="stable")[:4].tolist()
        assert found.tolist() == scores_of_all[rows].tolist()
    assert store.recall(3, depth=2) > 0
    with pytest.raises(InputError, match=r"spaces \[33\], expected \[5\]"):
        open_store(index, "before", Spaces([5]))
    assert open_store(index, "another", first) is None


def test_a_store_in_memory_of_some_documents():
    vectors, rows = vectors_of(3, 5), np.array([2, 5, 6])
    store = VectorStore.of_vectors(SPACES, vectors, rows, 9)
    query, order = vectors_of(1, 6)[0], np.array([6, 2, 5, 2])
    expected = scores(SPACES.quantize(vectors), np.array([2, 0, 1, 0]), store.quantize(query))[0]
    assert store.scores(query, order).tolist() == expected.tolist()
    assert store.decode(order) == pytest.approx(vectors[[2, 0, 1, 0]], abs=0.02)
    assert store.search(query, 2)[0].tolist() == rows[np.argsort(-expected[[1, 2, 0]])[:2]].tolist()


@given(
    st.integers(1, 60), st.integers(1, 7), st.lists(st.integers(1, 25), max_size=3), st.integers(1, 9),
    st.integers(1, 3), st.booleans(), st.booleans(), SEEDS,
)  # fmt: skip
def test_segments_and_deleted_documents_give_what_a_store_of_the_others_gives(
    count, lists, added, best_of, probes, filtered, shuffled, seed
):
    """With the same centroids, to the last bit, and from the same lists."""
    random, total = np.random.default_rng(seed), count + sum(added)
    vectors, centroids = vectors_of(total, seed), SPACES.quantize(vectors_of(lists, seed + 1))
    given = random.integers(0, lists, total)
    places = random.permutation(total) if shuffled else None
    index = Rows([count, *added], None if places is None else places.astype(np.uint32))
    if shuffled:  # rows of a segment are increasing
        order = np.concatenate([np.sort(index.of_segment(number)) for number in range(1 + len(added))])
        index = Rows([count, *added], np.argsort(order).astype(np.uint32))
    parts = []
    for number in range(1 + len(added)):
        rows = index.of_segment(number)
        order = np.argsort(given[rows], kind="stable").astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(given[rows], minlength=lists))])
        parts.append(
            SegmentVectors(SPACES.quantize(vectors[rows[order]]), order, np.argsort(order).astype(np.int32), offsets)
        )
    gone = np.flatnonzero(random.random(total) < 0.3)
    store = VectorStore(SPACES, parts, index, centroids, probes, threads=2, deleted=gone)
    live = np.setdiff1d(np.arange(total), gone)
    plain, _ = store_of(vectors[live], lists, seed, given=given[live])
    plain = VectorStore(SPACES, plain.segments, plain.row_map, centroids, probes, threads=2)
    every = np.arange(total)
    assert store.lists_of(every).tolist() == given.tolist()
    assert store.rows_at(store.positions(every)).tolist() == every.tolist()
    assert np.array_equal(store.decode(every), SPACES.decode(SPACES.quantize(vectors)))
    fits = random.random(total) < 0.5
    fits[gone] = False
    for query in vectors_of(3, seed + 2):
        for depth in (probes, lists):
            found = store.search(query, best_of, fits if filtered else None, depth)
            expected = plain.search(query, best_of, fits[live] if filtered else None, depth)
            assert found[0].tolist() == live[expected[0]].tolist() and found[1].tolist() == expected[1].tolist()
