"""Documents that are encoded once: what is stored, when it is used, and that scores from it are the module's."""

import json
import logging

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rerank_plugin import rerankers
from rerank_plugin.features.lexical_features import LEX3, PAPER_NAMES
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.stored_encodings import encodings_folder, find_encodings, write_encodings
from rerank_plugin.indexes.verification import verify
from rerank_plugin.kernels.dense_layers import dense, pack_panels, pad_vector
from rerank_plugin.kernels.parallel import Workspace
from rerank_plugin.models import checkpoints, document_encodings
from rerank_plugin.models.document_encodings import EncodedDocuments, encode_index, weights_checksum
from rerank_plugin.models.ktrel.fused import KtrelScorer
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from tests import guarded, small
from tests.models import encodable

QUERY = Query("q1", "aspirin heart attack xylitol")  # xylitol is in the index, not in the vocabulary: UNK
QUERIES = [QUERY, Query("q2", "risk"), Query("q3", "Women who smoke, risk of stroke"), Query("q4", "migraine zyzzyva")]
EMPTY = [row for row, (_, title, abstract) in enumerate(small.DOCUMENTS) if not title + abstract]
MODELS = {
    "ktrel": (encodable.ktrel, dict(heads=2, document_words=30, query_words=7)),
    "sevmos-c1": (encodable.sevmos, dict(filters=5, document_words=30, lexical_features=LEX3)),
    "sevmos-c3": (encodable.sevmos, dict(filters=6, convolutions=3, document_words=30)),  # as many filters as numbers
}
every_model = pytest.mark.parametrize("name", MODELS)
every_path = pytest.mark.parametrize("path", ["module", "encoded"])


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Like ``small``'s, inside an index folder."""
    return encodable.build_index(tmp_path_factory.mktemp("encodings") / "index")


def make(name, vectors, **more):
    build, hyper_parameters = MODELS[name]
    return build(vectors, seed=1, **{**hyper_parameters, **more})


def reranker(path, name, vectors, index, threads=2, **more):
    build = encodable.encoded_reranker if path == "encoded" else encodable.module_reranker
    return build(make(name, vectors, **more), vectors, index, threads=threads)


def scores_of(one, query=QUERY, rows=None):
    return one.score(query, small.candidates(one.builder.index, rows))


def assert_same(found, expected, tolerance=1e-6, scale=1e-3):
    """Equal but for ``tolerance`` of the largest expected score, or of ``scale`` where that is more."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(scale, np.abs(expected).max()))


@pytest.fixture(scope="module")
def reference(index, vectors):
    """The modules' scores of all documents for QUERY; documents differ by far over what is tolerated."""
    found = {name: scores_of(reranker("module", name, vectors, index)) for name in MODELS}
    for scores in found.values():
        assert scores.dtype == np.float32 and np.ptp(scores) > 0.1 * np.abs(scores).max()
        assert np.min(np.diff(np.sort(scores))) > 1e-4 * np.abs(scores).max()
    return found


# What must not change a score, by either path.


@every_model
def test_encoded_scores_are_the_modules(index, vectors, name):
    fast, plain = (reranker(path, name, vectors, index) for path in ("encoded", "module"))
    for query in QUERIES:
        assert_same(scores_of(fast, query), scores_of(plain, query), 1e-5)
    assert isinstance(fast.fast, EncodedDocuments) and plain.fast is None


@every_path
@every_model
def test_more_padding(index, vectors, reference, path, name):
    longest = int(small.candidates(index).lengths.max())
    for document_words, query_words in [(longest, 4), (31, 7), (200, 40)]:
        one = reranker(path, name, vectors, index, document_words=document_words, query_words=query_words)
        assert_same(scores_of(one), reference[name])


@every_path
@every_model
def test_other_batch_mates_permutations_and_repetitions(index, vectors, reference, path, name):
    one, random = reranker(path, name, vectors, index), np.random.default_rng(0)
    for rows in [[3], [3, 0, 3], random.permutation(len(index)), *np.arange(len(index))[:, None]]:
        found = scores_of(one, rows=rows)
        assert found.shape == (len(rows),) and found.dtype == np.float32
        assert_same(found, reference[name][rows], scale=np.abs(reference[name]).max())


@every_path
@every_model
def test_two_calls_and_other_queries_between(index, vectors, reference, path, name):
    one = reranker(path, name, vectors, index)
    for query in QUERIES:
        scores_of(one, query)
    assert_same(scores_of(one), reference[name])
    assert scores_of(one).tolist() == scores_of(one).tolist()


@every_path
@every_model
def test_several_queries_at_once(index, vectors, path, name):
    one = reranker(path, name, vectors, index)
    found = one.score_many(QUERIES, [small.candidates(index) for _ in QUERIES])
    for query, scores in zip(QUERIES, found):
        assert_same(scores, scores_of(one, query))


@every_path
@every_model
def test_one_word_query_and_no_candidates(index, vectors, path, name):
    query = Query("q", "heart")
    found = [scores_of(reranker(path, name, vectors, index, query_words=m), query) for m in (1, 2, 7)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
    assert scores_of(reranker(path, name, vectors, index), rows=[]).shape == (0,)


@every_path
@every_model
def test_a_query_without_words(index, vectors, path, name):
    """The adapter leaves it to the first stage; the paths themselves give finite scores, equal to one another."""
    one = reranker(path, name, vectors, index)
    terms, candidates = index.query(""), small.candidates(index)
    words = one.builder.query(terms)
    if path == "module":
        with torch.no_grad():
            found = one.model(one.builder.build(terms, words, candidates)).numpy()
    else:
        scores_of(one)
        found = one.fast.score(terms, words, candidates)
        with torch.no_grad():
            assert_same(found, one.model(one.builder.build(terms, words, candidates)).numpy())
    assert np.isfinite(found).all()
    if name == "ktrel":
        assert not found.any()


@every_path
@every_model
def test_unknown_words_are_words(index, vectors, path, name):
    """UNK has a vector: it moves what a query says, and a document of it alone differs from an empty one."""
    one = reranker(path, name, vectors, index)
    with_unknown, without = scores_of(one), scores_of(one, Query("q", "aspirin heart attack"))
    assert np.abs(with_unknown - without).max() > 1e-3
    unknown = [id for id, _, _ in small.DOCUMENTS].index("2")  # quokka, xylitol and zyzzyva alone
    found = scores_of(one, Query("q", "aspirin heart"), rows=[unknown, *EMPTY])
    assert np.isfinite(found).all() and abs(found[0] - found[1]) > 1e-3


@every_path
@every_model
def test_empty_and_short_documents(index, vectors, path, name):
    """A document of one word is shorter than the filters, and an empty one has cosine 0 with every query."""
    for document_words in (1, 50):
        one = reranker(path, name, vectors, index, document_words=document_words)
        rows = [*EMPTY, [id for id, _, _ in small.DOCUMENTS].index("a7")]
        found = [scores_of(one, query, rows) for query in QUERIES]
        assert np.isfinite(found).all()
        if name == "ktrel":
            assert all(scores[0] == 0 for scores in found)
    assert_same(found[0], scores_of(reranker(path, name, vectors, index, document_words=1), rows=rows))


@every_path
@every_model
def test_cutting_documents_changes_scores(index, vectors, reference, path, name):
    cut = scores_of(reranker(path, name, vectors, index, document_words=3), rows=[0])
    assert abs(cut[0] - reference[name][0]) > 1e-4


@every_model
def test_neither_threads_nor_candidates_nor_old_memory_change_a_bit(index, vectors, name, monkeypatch):
    """600 candidates, so that there are parts for several threads; memory full of NaN, nothing beyond it written."""
    rows = np.random.default_rng(0).integers(0, len(index), 600)
    monkeypatch.setattr("rerank_plugin.models.ktrel.fused.SMALLEST_PART", 64)
    one = reranker("encoded", name, vectors, index, threads=1)
    expected, alone = scores_of(one, rows=rows), scores_of(one)
    assert expected.tolist() == alone[rows].tolist()
    for threads in (2, 3):
        assert scores_of(reranker("encoded", name, vectors, index, threads), rows=rows).tolist() == expected.tolist()
    poisoned = guarded.Poisoned()
    monkeypatch.setattr(Workspace, "array", lambda *arguments: poisoned.array(*arguments))
    one = reranker("encoded", name, vectors, index)
    for query in QUERIES:
        scores_of(one, query)
    assert scores_of(one, rows=rows).tolist() == expected.tolist()
    assert poisoned.given and not poisoned.overrun()


WORDS = [f"w{i}" for i in range(12)]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_encoded_scores_are_the_modules_for_any_model(tmp_path_factory, data):
    """Random sizes, odd ones too, of models and texts. The last three words are unknown to the model, and 'nowhere' is
    in no document; examples whose scores hardly vary do not count."""
    texts = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
    documents = data.draw(st.lists(texts, min_size=3, max_size=8, unique=True), label="documents")
    query = data.draw(st.lists(st.sampled_from([*WORDS, "nowhere"]), min_size=1, max_size=9), label="query")
    assume(any(word in WORDS[:-3] for word in query))
    numbers = st.integers(1, 9)
    seed, heads, width = data.draw(st.integers(0, 99)), data.draw(st.integers(1, 3)), data.draw(numbers)
    vectors = small.word_vectors(WORDS[:-3], heads * width, seed)
    sizes = dict(document_words=data.draw(st.integers(1, 15)), query_words=data.draw(st.integers(1, 9)))
    assume(any(word in WORDS[:-3] for word in query[: sizes["query_words"]]))
    if data.draw(st.booleans(), label="ktrel"):
        model = encodable.ktrel(vectors, seed, heads=heads, feed_forward=data.draw(numbers), **sizes)
        scale = abs(model.a.item())  # of cosines near 0, what is rounded is as large as of others
    else:
        scale = 1e-3
        features = data.draw(st.lists(st.sampled_from(PAPER_NAMES), unique=True, max_size=4))
        hidden = data.draw(st.none() | st.lists(st.integers(1, 20), max_size=3).map(tuple))
        model = encodable.sevmos(
            vectors, seed, filters=data.draw(st.integers(1, 18)), width=data.draw(st.integers(1, 6)),
            convolutions=data.draw(st.integers(1, 3)), lexical_features=tuple(features), hidden=hidden,
            slope=data.draw(st.sampled_from([0.0, 0.3, 1.0])), **sizes,
        )  # fmt: skip
    folder = tmp_path_factory.mktemp("any") / "index"
    index = encodable.build_index(folder, [(f"d{i}", text[:9], text) for i, text in enumerate(documents)])
    query, candidates = Query("q", " ".join(query)), small.candidates(index)
    expected = encodable.module_reranker(model, vectors, index).score(query, candidates)
    assume(np.ptp(expected) > 1e-2 * np.abs(expected).max())
    one = encodable.encoded_reranker(model, vectors, index, threads=2)
    assert_same(one.score(query, candidates), expected, 1e-5, scale)
    assert isinstance(one.fast, EncodedDocuments)


def test_ktrel_is_one_inner_product_of_stored_unit_vectors(index, vectors):
    """With both parts, from synthetic concepts: what is stored has length 1 a part, and a and b are in the query."""
    model = encodable.ktrel(vectors, heads=2, parts="both", concepts=9, concept_dimension=4)
    random = np.random.default_rng(3)
    ids, concepts = (torch.from_numpy(random.integers(0, count, (20, 6))) for count in (len(vectors.matrix), 9))
    lengths = torch.from_numpy(random.integers(1, 7, (2, 20, 1)))
    mask, concept_mask = torch.arange(6) < lengths[0], torch.arange(6) < lengths[1]
    with torch.no_grad():
        documents = model.encode_documents(ids, mask, concepts, concept_mask).numpy()
        words, knowledge = model.words(ids[:1], mask[:1]), model.concepts(concepts[:1], concept_mask[:1])
    np.testing.assert_allclose(np.linalg.norm(documents[:, :6], axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(documents[:, 6:], axis=1), 1, atol=1e-6)
    scorer = KtrelScorer(model, None, threads=2)
    query = scorer.encode_query([ids[0][mask[0]].numpy(), concepts[0][concept_mask[0]].numpy()])
    np.testing.assert_allclose(query, torch.cat([model.a * words, model.b * knowledge], dim=1)[0].detach(), atol=1e-6)
    rows = random.integers(0, 20, 50)
    found = scorer.inner_products(query, documents, rows)
    cosines = documents[rows, :6] @ words[0].numpy(), documents[rows, 6:] @ knowledge[0].numpy()
    expected = model.a.item() * cosines[0] + model.b.item() * cosines[1]
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("rows", "inward", "outward", "window"), [(1, 1, 1, 1), (6, 5, 16, 1), (7, 33, 40, 3)])
def test_dense_layers(rows, inward, outward, window):
    random = np.random.default_rng(rows)
    source = random.normal(size=(rows + window + 5, inward)).astype(np.float32)
    weights = random.normal(size=(window * inward, outward)).astype(np.float32)
    bias = random.normal(size=outward).astype(np.float32)
    panels, padded = pack_panels(weights), pad_vector(bias)
    target = np.full((rows + 5, len(padded)), np.nan, np.float32)
    dense(source, panels, padded, np.float32(0.25), target, rows)
    expected = np.stack([source[i : i + window].ravel() @ weights + bias for i in range(rows)])
    expected = np.where(expected > 0, expected, 0.25 * expected)
    np.testing.assert_allclose(target[:rows, :outward], expected, atol=1e-4)
    assert not target[:rows, outward:].any()


# What is stored, and when it is used.


def test_the_files_of_an_encoding(index, vectors):
    model = make("ktrel", vectors)
    one = encodable.encoded_reranker(model, vectors, index)
    key = weights_checksum(model, vectors.vocabulary)
    folder = encodings_folder(index, key)
    assert folder == index.folder.parent / "encodings" / key
    assert sorted(path.name for path in folder.iterdir()) == ["encodings.json", "vectors.npy"]
    described = json.loads((folder / "encodings.json").read_text())
    assert (described["model"], described["weights"]) == ("ktrel", key)
    assert (described["shape"], described["dtype"]) == ([len(index), 6], "float32")
    stored = np.load(folder / "vectors.npy")
    documents = one.builder.documents(small.candidates(index))
    with torch.no_grad():
        expected = model.encode_documents(torch.from_numpy(documents.ids), torch.from_numpy(documents.mask))
    np.testing.assert_allclose(stored, expected, atol=1e-6)
    assert np.ptp(stored, axis=0).min() > 0.1


@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_batches_and_pieces_put_every_vector_in_its_row(index, vectors, monkeypatch, piece, batch_size):
    monkeypatch.setattr(document_encodings, "PIECE", piece)
    model, shown = make("sevmos-c1", vectors), []
    builder = NeuralReranker(model, vectors.vocabulary, index).builder

    def progress(rows):
        for row in rows:
            yield row
            shown.append(row)

    folder = encode_index(model, builder, batch_size=batch_size, overwrite=True, progress=progress)
    documents = builder.documents(small.candidates(index))
    with torch.no_grad():
        expected = model.encode_documents(torch.from_numpy(documents.ids), torch.from_numpy(documents.mask))
    np.testing.assert_allclose(np.load(folder / "vectors.npy"), expected, rtol=1e-5, atol=1e-5)
    assert shown == list(range(len(index)))


@every_model
def test_half_precision(index, vectors, reference, name):
    """Half the space; scores change in the third digit, so the order of what is far apart stays."""
    one = encodable.encoded_reranker(make(name, vectors), vectors, index, dtype="float16")
    found, expected = scores_of(one), reference[name]
    assert one.fast.vectors.dtype == np.float16
    assert 0 < np.abs(found - expected).max() < 5e-3 * np.abs(expected).max()
    assert scores_of(one, rows=[4, 2]).tolist() == found[[4, 2]].tolist()


def test_without_encodings_the_module_scores_which_is_said_once(tmp_path, vectors, caplog):
    index = encodable.build_index(tmp_path / "index")
    model = make("ktrel", vectors)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            one = NeuralReranker(model, vectors.vocabulary, index)
            for query in QUERIES:
                assert_same(scores_of(one, query), scores_of(encodable.module_reranker(model, vectors, index), query))
            assert one.fast is None
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "--encode" in said[0] and str(tmp_path / "index") in said[0]


def test_encodings_are_of_these_weights_only(index, vectors):
    """After a training step the encodings of before are not used, and with the old weights they are again."""
    model = make("sevmos-c1", vectors)
    one = encodable.encoded_reranker(model, vectors, index)
    before, weights = scores_of(one), model.document_convolutions[0].bias.detach().clone()
    with torch.no_grad():
        model.document_convolutions[0].bias.add_(0.5)
    one.refresh()
    after = scores_of(one)
    assert one.fast is None and np.abs(after - before).max() > 1e-3
    assert_same(after, scores_of(encodable.module_reranker(model, vectors, index)))
    with torch.no_grad():
        model.document_convolutions[0].bias.copy_(weights)
    one.refresh()
    assert_same(scores_of(one), before)
    assert isinstance(one.fast, EncodedDocuments)


@every_model
def test_whatever_changes_an_encoding_changes_the_checksum(vectors, name):
    model, words = make(name, vectors), vectors.vocabulary.words[1:]
    sums = [
        weights_checksum(model, vectors.vocabulary),
        weights_checksum(make(name, vectors, document_words=29), vectors.vocabulary),
    ]
    sums.append(weights_checksum(model, Vocabulary([words[1], words[0], *words[2:]])))
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.numel():
            with torch.no_grad():
                tensor.view(-1)[-1] += 1
            sums.append(weights_checksum(model, vectors.vocabulary))
    assert len(set(sums)) == len(sums) > 10
    assert weights_checksum(make(name, vectors), vectors.vocabulary) != sums[-1]


def test_the_checksum_is_the_same_for_the_same_weights(vectors, tmp_path):
    model = make("sevmos-c3", vectors)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    loaded, vocabulary = checkpoints.load_checkpoint(tmp_path / "c")
    assert weights_checksum(loaded, vocabulary) == weights_checksum(model, vectors.vocabulary)


def pieces_of(index, size=3):
    return np.arange(len(index) * size, dtype=np.float32).reshape(len(index), size)


def test_vectors_of_another_index_are_not_used(tmp_path, vectors, caplog):
    """A folder copied from an index of as many other documents."""
    index = encodable.build_index(tmp_path / "one")
    other = encodable.build_index(
        tmp_path / "other", [(id, abstract, title) for id, title, abstract in small.DOCUMENTS]
    )
    folder = write_encodings(index, "key", [pieces_of(index)], 3)
    (tmp_path / "other" / "encodings").mkdir()
    folder.rename(tmp_path / "other" / "encodings" / "key")
    with caplog.at_level(logging.WARNING):
        assert find_encodings(other, "key", 3) is None
    assert "another index" in caplog.text
    assert find_encodings(index, "key", 3) is None


def test_writing_is_all_or_nothing(tmp_path):
    index = encodable.build_index(tmp_path / "index")
    rows = pieces_of(index)

    def interrupted():
        yield rows[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_encodings(index, "key", interrupted(), 3)
    assert list((tmp_path / "index" / "encodings").iterdir()) == []
    write_encodings(index, "key", [rows[:4], rows[4:]], 3)
    np.testing.assert_array_equal(find_encodings(index, "key", 3), rows)
    with pytest.raises(InputError, match="exists already.*overwrite"):
        write_encodings(index, "key", [-rows], 3)
    with pytest.raises(KeyboardInterrupt):
        write_encodings(index, "key", interrupted(), 3, overwrite=True)
    np.testing.assert_array_equal(find_encodings(index, "key", 3), rows)
    write_encodings(index, "key", [-rows], 3, "float16", overwrite=True)
    np.testing.assert_array_equal(find_encodings(index, "key", 3), -rows)
    with pytest.raises(RuntimeError, match="4 vectors"):
        write_encodings(index, "less", [rows[:4]], 3)


@pytest.mark.parametrize(("dtype", "value"), [("float32", np.nan), ("float32", np.inf), ("float16", 1e6)])
def test_vectors_that_are_not_finite_name_their_document(tmp_path, dtype, value):
    index = encodable.build_index(tmp_path / "index")
    rows = pieces_of(index)
    rows[5, 1] = value
    with pytest.raises(InputError, match=f"document Z .*{dtype}"):
        write_encodings(index, "key", [rows[:3], rows[3:]], 3, dtype)
    assert not encodings_folder(index, "key").exists()


def cut_in_half(folder):
    data = (folder / "vectors.npy").read_bytes()
    (folder / "vectors.npy").write_bytes(data[: len(data) // 2])


def describe(**changes):
    def change(folder):
        path = folder / "encodings.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


DAMAGE = {
    "half a file": (cut_in_half, "cannot be read"),
    "no vectors": (lambda folder: (folder / "vectors.npy").unlink(), "cannot be read"),
    "no description": (lambda folder: (folder / "encodings.json").unlink(), "cannot be read"),
    "no JSON": (lambda folder: (folder / "encodings.json").write_text("{"), "cannot be read"),
    "a list": (lambda folder: (folder / "encodings.json").write_text("[1]"), "cannot be read"),
    "other vectors": (lambda folder: np.save(folder / "vectors.npy", np.zeros((10, 4), np.float32)), r"\[10, 4\]"),
    "double precision": (lambda folder: np.save(folder / "vectors.npy", np.zeros((10, 3))), "float64"),
    "another dtype": (describe(dtype="int8"), "dtype int8"),
    "another shape": (describe(shape=[3, 3]), r"shape \[3, 3\], expected \[10, 3\]"),
    "other weights": (describe(weights="abc"), "weights abc"),
    "another version": (describe(format_version=2), "format_version 2"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_encodings_are_refused(tmp_path, damage):
    index = encodable.build_index(tmp_path / "index")
    folder = write_encodings(index, "key", [pieces_of(index)], 3)
    spoil, said = DAMAGE[damage]
    spoil(folder)
    with pytest.raises(InputError, match=said) as raised:
        find_encodings(index, "key", 3)
    assert str(folder) in str(raised.value) and "encode again" in str(raised.value)


def test_what_cannot_be_encoded(index, vectors, tmp_path):
    model = small.delta(vectors)
    with pytest.raises(InputError, match="delta.*ktrel, sevmos"):
        encode_index(model, NeuralReranker(model, vectors.vocabulary, index).builder)
    builder = NeuralReranker(make("ktrel", vectors), vectors.vocabulary, index).builder
    with pytest.raises(InputError, match="no concepts"):
        encode_index(make("ktrel", vectors, parts="both", concepts=3, concept_dimension=4), builder)
    with pytest.raises(InputError, match="int8"):
        encode_index(make("ktrel", vectors), builder, dtype="int8")
    bare = small.build_index(tmp_path / "forward")  # with no index.json beside it
    model = make("ktrel", vectors)
    with pytest.raises(InputError, match="index.json"):
        encode_index(model, NeuralReranker(model, vectors.vocabulary, bare).builder)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_model
def test_vectors_from_a_gpu_are_the_cpus(index, vectors, name):
    model = make(name, vectors)
    expected = np.load(
        encode_index(model, NeuralReranker(model, vectors.vocabulary, index).builder, overwrite=True) / "vectors.npy"
    )
    on_gpu = NeuralReranker(model, vectors.vocabulary, index, rerankers.RerankerOptions("cuda"))
    found = np.load(encode_index(on_gpu.model, on_gpu.builder, "cuda", overwrite=True) / "vectors.npy")
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


# The command.


@pytest.fixture(scope="module")
def whole_index(tmp_path_factory):
    """An index folder that is complete for opening, made without Java."""
    from rerank_plugin.indexes.index_folder import DESCRIPTION, FORMAT_VERSION
    from rerank_plugin.text.tokenizer import SETTINGS

    folder = tmp_path_factory.mktemp("command") / "index"
    index = encodable.build_index(folder)
    description = json.loads((folder / DESCRIPTION).read_text())
    fields = {
        field: {"tokens": round(mean * len(index)), "mean_length": mean} for field, mean in index.mean_lengths.items()
    }
    description |= {"format_version": FORMAT_VERSION, "tokenizer": SETTINGS, "fields": fields, "documents": len(index)}
    (folder / DESCRIPTION).write_text(json.dumps(description))
    return folder


def test_the_command_encodes_an_index(index_command, whole_index, vectors, tmp_path):
    from rerank_plugin.indexes.index_folder import Index

    checkpoints.save_checkpoint(tmp_path / "c", make("ktrel", vectors), vectors, {})
    arguments = ("--encode", tmp_path / "c", "--index", whole_index)
    status, out, err = index_command(*arguments)
    assert (status, err) == (0, "") and "10 documents, 6 numbers each" in out and "documents per second" in out
    index = Index(whole_index)
    verify(index)
    one = rerankers.load(f"ktrel:{tmp_path / 'c'}", index.forward)
    expected = scores_of(encodable.module_reranker(make("ktrel", vectors), vectors, index.forward))
    assert_same(scores_of(one), expected, 1e-5)
    assert isinstance(one.fast, EncodedDocuments) and one.fast.vectors.dtype == np.float32
    status, out, err = index_command(*arguments, "--half")
    assert (status, out) == (2, "") and "exists already" in err and err.count("\n") == 1
    status, _, err = index_command(*arguments, "--half", "--overwrite", "--batch-size", 4)
    assert status == 0, err
    one = rerankers.load(f"ktrel:{tmp_path / 'c'}", index.forward)
    assert_same(scores_of(one), expected, 1e-2)
    assert one.fast.vectors.dtype == np.float16


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--encode", "nowhere"], "nowhere is no checkpoint"),
        (["--encode", "c", "--corpus", "sample"], "not allowed with"),
        (["--encode", "c", "--batch-size", "0"], "--batch-size must be at least 1"),
    ],
)
def test_what_the_command_refuses(index_command, whole_index, more, said):
    status, out, err = index_command(*more, "--index", whole_index)
    assert (status, out) == (2, "") and said in err and err.count("\n") == 1
