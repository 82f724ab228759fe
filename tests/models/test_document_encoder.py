"""Documents that are encoded once: what is stored, when it is used, and that scores from it are the module's."""

import dataclasses
import json
import logging
from functools import partial

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store import VECTOR_STORE, VECTORS, encodings_folder, open_store
from rerank_plugin.indexes.verification import verify
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models import checkpoint, document_encoder
from rerank_plugin.models.document_encoder import encode_index
from rerank_plugin.models.encoded_path import EncodedDocuments, encoding_scorer, weights_checksum
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
from tests.conformance import models
from tests.conformance.models import Case, assert_same, opened, scores_of
from tests.models import encodable

MODELS = {
    "ktrel": Case("ktrel-w", {"heads": 2}),
    "sevmos-c1": Case("sevmos", {"filters": 5, "lexical_features": LEX3}),
    "sevmos-c3": Case("sevmos", {"filters": 6, "convolutions": 3, "lexical_features": ()}),  # filters as dimensions
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Like ``small``'s, inside an index folder."""
    return encodable.build_index(tmp_path_factory.mktemp("encodings") / "index")


@pytest.fixture
def fresh(tmp_path):
    """The same of a test alone, which nothing has encoded."""
    return encodable.build_index(tmp_path / "index")


def make(name, vectors, **more):
    return models.make(MODELS[name], vectors, **more)


def test_what_ktrel_stores_has_length_1_a_part(vectors):
    model = encodable.ktrel(vectors, heads=2, parts="both", concepts=9, concept_dimension=4)
    random = np.random.default_rng(3)
    ids, concepts = (torch.from_numpy(random.integers(0, count, (20, 6))) for count in (len(vectors.matrix), 9))
    with torch.no_grad():
        documents = model.encode_documents(ids, ids >= 0, concepts, concepts >= 0)
    for part in (documents[:, :6], documents[:, 6:]):
        np.testing.assert_allclose(part.norm(dim=1), 1, atol=1e-6)


# What is stored, and when it is used.


def test_the_files_of_an_encoding(index, vectors):
    model = make("ktrel", vectors)
    key = weights_checksum(model, vectors.vocabulary)
    folder = encode_index(model, model.input_builder(index, vectors.vocabulary), overwrite=True)
    assert folder == encodings_folder(index, key) == index.folder / "encodings/000001" / key
    for one, kind in ((folder, VECTOR_STORE), (folder / "000001", VECTORS)):
        files = [path.name for path in one.iterdir() if path.is_file()]
        assert sorted(files) == sorted([*(f"{name}.npy" for name in kind.arrays), kind.description])
    described = json.loads((folder / "encodings.json").read_text())
    assert (described["model"], described["weights"]) == ("ktrel", key)
    entries = [described[name] for name in ("documents", "spaces", "lists", "recall")]
    assert entries == [len(index), [6], 1, 1.0]


def stored_vectors(model, builder):
    """The vectors that the codes of all documents of an index stand for."""
    key = weights_checksum(model, builder.vocabulary)
    store = open_store(builder.index, key, encoding_scorer(model, builder, 1).spaces)
    return store.decode(np.arange(len(store)))


@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("spill", [1, 3, 1000])
def test_batches_and_spills_put_every_vector_in_its_row(index, vectors, monkeypatch, spill, batch_size):
    """Also where an encoding goes on that was interrupted; its progress is shown to the end."""
    monkeypatch.setattr(document_encoder, "SPILL", spill)
    model, shown = make("sevmos-c1", vectors), []  # its module's encodings are decoded codes, too
    builder = model.input_builder(index, vectors.vocabulary)

    def progress(rows, until=len(index)):
        for row in rows:
            if row == until:
                raise KeyboardInterrupt
            yield row
            shown.append(row)

    with pytest.raises(KeyboardInterrupt):
        encode_index(model, builder, batch_size=batch_size, overwrite=True, progress=partial(progress, until=7))
    shown.clear()
    encode_index(model, builder, batch_size=batch_size, overwrite=True, progress=progress)
    documents = builder.documents(small.candidates(index))
    with torch.no_grad():
        expected = model.encode_documents(torch.from_numpy(documents.ids), torch.from_numpy(documents.mask)).numpy()
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(stored_vectors(model, builder), expected, rtol=1e-5, atol=1e-5)
    assert shown == list(range(len(index)))


@pytest.mark.parametrize("spaces", [(1.0,), (1.0, 0.5)])
def test_sums_of_word_vectors_are_compiled(index, vectors, spaces, monkeypatch):
    """KTRel without a layer is encoded by no module; a code differs from the module's where rounding decides alone."""
    config = KtrelConfig("words", layers=0, space_weights=spaces, document_words=30)
    model = Ktrel(config, torch.from_numpy(vectors.matrix)).eval()
    builder = model.input_builder(index, vectors.vocabulary)
    spaces, rows = encoding_scorer(model, builder, 1).spaces, np.arange(len(index))
    expected = spaces.decode(spaces.quantize(document_encoder.encode_rows(model, builder, rows)))
    monkeypatch.setattr(Ktrel, "forward", None)
    monkeypatch.setattr(Ktrel, "encode_documents", None)
    encode_index(model, builder, overwrite=True, threads=2)
    found = stored_vectors(model, builder)
    assert spaces.widths == (6 // len(spaces.widths),) * len(spaces.widths)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.01 / 127)
    assert np.abs(found - expected).mean() < 1e-4 and found.any()


@every_model
def test_scores_differ_from_texts_by_the_rounding_of_codes(index, vectors, name):
    """The module of the texts themselves: half a step of each number of a document, and no more."""
    model = models.make_own(MODELS[name], vectors)
    expected = scores_of(opened(model, "module", index, vectors))
    found = scores_of(opened(model, "fast", index, vectors))
    assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_without_encodings_the_module_scores_which_is_said_once(fresh, vectors, caplog):
    model = make("ktrel", vectors)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            one = NeuralReranker(model, vectors.vocabulary, fresh)
            assert_same(scores_of(one), scores_of(opened(model, "module", fresh, vectors)))
            assert one.fast is None
    (said,) = caplog.messages
    assert "--encode" in said and str(fresh.folder) in said


@every_model
def test_whatever_changes_an_encoding_changes_the_checksum(vectors, name):
    model, words = make(name, vectors), vectors.vocabulary.words[1:]
    sums = [
        weights_checksum(model, vectors.vocabulary),
        weights_checksum(make(name, vectors, document_words=29), vectors.vocabulary),
        weights_checksum(model, Vocabulary([words[1], words[0], *words[2:]])),
    ]
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.numel():
            with torch.no_grad():
                tensor.view(-1)[-1] += 1
            sums.append(weights_checksum(model, vectors.vocabulary))
    assert len(set(sums)) == len(sums) > 10


@every_model
def test_what_only_training_reads_does_not_change_the_checksum(vectors, name):
    model = make(name, vectors)
    expected = weights_checksum(model, vectors.vocabulary)
    for field in model.config.of_training:
        value = getattr(model.config, field)
        other = dataclasses.replace(model.config, **{field: not value if isinstance(value, bool) else 0.4})
        assert other != model.config
        model.config, before = other, model.config
        assert weights_checksum(model, vectors.vocabulary) == expected
        model.config = before


def test_what_cannot_be_encoded(index, vectors, tmp_path):
    """A model without encodings or of concepts, and an index with no index.json beside it."""
    bare, ktrel = small.build_index(tmp_path / "forward"), make("ktrel", vectors)
    of_concepts = encodable.ktrel(vectors, parts="both", concepts=3, concept_dimension=4)
    for model, of_index, said in [
        (small.delta(vectors), index, "delta.*ktrel, sevmos"),
        (of_concepts, index, "no concepts"),
        (ktrel, bare, "index.json"),
    ]:
        with pytest.raises(InputError, match=said):
            encode_index(model, ktrel.input_builder(of_index, vectors.vocabulary))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_model
def test_vectors_from_a_gpu_are_the_cpus(index, vectors, name):
    model = make(name, vectors)
    builder = model.input_builder(index, vectors.vocabulary)
    encode_index(model, builder, overwrite=True)
    expected = stored_vectors(model, builder)
    on_gpu = NeuralReranker(model, vectors.vocabulary, index, rerankers.RerankerOptions("cuda"))
    encode_index(on_gpu.model, on_gpu.builder, "cuda", overwrite=True)
    found = stored_vectors(on_gpu.model, on_gpu.builder)  # a code may differ where rounding decides alone
    np.testing.assert_allclose(found, expected, atol=1.01 / 127 * np.abs(expected).max())
    assert np.abs(found - expected).mean() < 1e-4 * np.abs(expected).max()


# The command.


def test_the_command_encodes_an_index(index_command, fresh, vectors, tmp_path):
    """By the weights of a checkpoint, whose checksum is that of the model that was saved."""
    model = make("ktrel", vectors)
    checkpoint.save_checkpoint(tmp_path / "c", model, vectors, {})
    arguments = ("--encode", tmp_path / "c", "--index", fresh.folder)
    status, out, err = index_command(*arguments)
    assert (status, err) == (0, "") and "10 documents, 6 numbers each" in out and "documents per second" in out
    index = Index(fresh.folder)
    verify(index)
    expected = scores_of(opened(model, "module", index.forward, vectors))

    reranker = rerankers.load(f"ktrel:{tmp_path / 'c'}", index.forward)
    assert_same(scores_of(reranker), expected, models.rounding(MODELS["ktrel"], "fast"))
    assert isinstance(reranker.fast, EncodedDocuments)
    assert encodings_folder(index.forward, weights_checksum(model, vectors.vocabulary)).is_dir()
    status, out, err = index_command(*arguments)
    assert (status, out) == (2, "") and "exist already" in err and err.count("\n") == 1
    status, _, err = index_command(*arguments, "--overwrite", "--batch-size", 4)
    assert status == 0, err
    again = rerankers.load(f"ktrel:{tmp_path / 'c'}", index.forward)
    assert_same(scores_of(again), expected, models.rounding(MODELS["ktrel"], "fast"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--encode", "nowhere"], "nowhere is not a checkpoint"),
        (["--encode", "c", "--corpus", "sample"], "not allowed with"),
        (["--encode", "c", "--batch-size", "0"], "--batch-size must be at least 1"),
    ],
)
def test_what_the_command_refuses(index_command, index, more, said):
    status, out, err = index_command(*more, "--index", index.folder)
    assert (status, out) == (2, "") and said in err and err.count("\n") == 1
