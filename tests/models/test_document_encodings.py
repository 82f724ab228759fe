"""Documents that are encoded once: what is stored, when it is used, and that scores from it are the module's."""

import dataclasses
import json
import logging
import os
import shutil
from functools import partial

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.stored_encodings import encodings_folder, find_encodings, write_encodings
from rerank_plugin.indexes.verification import verify
from rerank_plugin.inputs.lexical_features import LEX3
from rerank_plugin.models import checkpoints, document_encodings
from rerank_plugin.models.document_encodings import encode_index
from rerank_plugin.models.encoded_documents import EncodedDocuments, encodings_key, weights_checksum
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers.neural import NeuralReranker
from rerank_plugin.text.vocabulary import Vocabulary
from tests import small
from tests.conformance import models
from tests.conformance.models import Case, assert_same, opened, scores_of
from tests.models import encodable
from tests.models.conftest import change_json

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
    assert folder == encodings_folder(index, key) == index.folder / "encodings" / key
    assert sorted(path.name for path in folder.iterdir()) == ["000001.npy", "encodings.json"]
    described = json.loads((folder / "encodings.json").read_text())
    assert (described["model"], described["weights"]) == ("ktrel", key)
    assert (described["shape"], described["dtype"]) == ([len(index), 6], "float32")


@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_batches_and_pieces_put_every_vector_in_its_row(index, vectors, monkeypatch, piece, batch_size):
    """Also where an encoding goes on that was interrupted; its progress is shown to the end."""
    monkeypatch.setattr(document_encodings, "PIECE", piece)
    model, shown = make("sevmos-c1", vectors), []
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
    folder = encode_index(model, builder, batch_size=batch_size, overwrite=True, progress=progress)
    documents = builder.documents(small.candidates(index))
    with torch.no_grad():
        expected = model.encode_documents(torch.from_numpy(documents.ids), torch.from_numpy(documents.mask)).numpy()
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(np.load(folder / "000001.npy"), expected, rtol=1e-5, atol=1e-5)
    assert shown == list(range(len(index)))


@every_model
def test_half_precision(index, vectors, name):
    """Half the space; scores change in the third digit, so the order of what is far apart stays."""
    model = make(name, vectors)
    expected, one = scores_of(opened(model, "module", index, vectors)), opened(model, "fast", index, vectors)
    encode_index(model, one.builder, dtype="float16", overwrite=True)
    found = scores_of(one)
    assert one.fast.vectors.dtype == np.float16
    assert 0 < np.abs(found - expected).max() < 5e-3 * np.abs(expected).max()
    assert scores_of(one, rows=[4, 2]).tolist() == found[[4, 2]].tolist()


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


def test_encodings_under_a_checksum_of_all_fields_are_still_used(index, vectors):
    """The literal is what the program before wrote for these weights: its checksum covered ``word_dropout``, too."""
    model = Ktrel(KtrelConfig(parts="words", layers=0, word_dropout=0.1), torch.arange(12.0).reshape(4, 3))
    words = Vocabulary(["a", "b", "c"])
    before = "fd1f7f59bb9abf2472ba7a8e2e5be1f8"
    assert weights_checksum(model, words, all_fields=True) == before
    assert encodings_key(index, model, words) == weights_checksum(model, words) != before
    write_encodings(index, before, [pieces_of(index)], 3, overwrite=True)
    assert encodings_key(index, model, words) == before
    write_encodings(index, weights_checksum(model, words), [pieces_of(index)], 3, overwrite=True)
    assert encodings_key(index, model, words) != before


def pieces_of(index, size=3):
    return np.arange(len(index) * size, dtype=np.float32).reshape(len(index), size)


def test_vectors_of_another_index_are_not_used(fresh, tmp_path, caplog):
    """A folder copied from an index of as many other documents."""
    turned = [(id, abstract, title) for id, title, abstract in small.DOCUMENTS]
    other = encodable.build_index(tmp_path / "other", turned)
    folder = write_encodings(fresh, "key", [pieces_of(fresh)], 3)
    shutil.copytree(folder, encodings_folder(other, "key"))
    with caplog.at_level(logging.WARNING):
        assert find_encodings(other, "key", 3) is None
    assert "another index" in caplog.text
    assert find_encodings(fresh, "other key", 3) is None


def test_writing_is_all_or_nothing(fresh):
    rows = pieces_of(fresh)

    def interrupted():
        yield rows[:4]
        raise KeyboardInterrupt

    def stored():
        return find_encodings(fresh, "key", 3).tolist()

    with pytest.raises(KeyboardInterrupt):
        write_encodings(fresh, "key", interrupted(), 3)
    assert list((fresh.folder / "encodings").iterdir()) == []
    write_encodings(fresh, "key", [rows[:4], rows[4:]], 3)
    assert stored() == rows.tolist()
    with pytest.raises(InputError, match="exists already.*overwrite"):
        write_encodings(fresh, "key", [-rows], 3)
    with pytest.raises(KeyboardInterrupt):
        write_encodings(fresh, "key", interrupted(), 3, overwrite=True)
    assert stored() == rows.tolist()
    write_encodings(fresh, "key", [-rows], 3, "float16", overwrite=True)
    assert stored() == (-rows).tolist()
    with pytest.raises(RuntimeError, match="4 vectors"):
        write_encodings(fresh, "less", [rows[:4]], 3)


@pytest.mark.parametrize(("dtype", "value"), [("float32", np.nan), ("float32", np.inf), ("float16", 1e6)])
def test_vectors_that_are_not_finite_name_their_document(fresh, dtype, value):
    rows = pieces_of(fresh)
    rows[5, 1] = value
    with pytest.raises(InputError, match=f"document Z .*{dtype}"):
        write_encodings(fresh, "key", [rows[:3], rows[3:]], 3, dtype)
    assert not encodings_folder(fresh, "key").exists()


def described(**changes):
    return lambda folder: change_json(folder / "encodings.json", **changes)


def stored(*what):
    return lambda folder: np.save(folder / "000001.npy", np.zeros(*what))


DAMAGE = {
    "half a file": (lambda folder: os.truncate(folder / "000001.npy", 124), "cannot be read"),
    "no vectors": (lambda folder: (folder / "000001.npy").unlink(), "cannot be read"),
    "no description": (lambda folder: (folder / "encodings.json").unlink(), "cannot be read"),
    "no JSON": (lambda folder: (folder / "encodings.json").write_text("{"), "cannot be read"),
    "a list": (lambda folder: (folder / "encodings.json").write_text("[1]"), "cannot be read"),
    "other vectors": (stored((10, 4), np.float32), r"\[10, 4\]"),
    "double precision": (stored((10, 3)), "float64"),
    "another dtype": (described(dtype="int8"), "dtype int8"),
    "another shape": (described(shape=[3, 3]), r"shape \[3, 3\], expected \[10, 3\]"),
    "other weights": (described(weights="abc"), "weights abc"),
    "another version": (described(format_version=2), "format_version 2"),
}


@pytest.mark.parametrize(("spoil", "said"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_encodings_are_refused(fresh, spoil, said):
    folder = write_encodings(fresh, "key", [pieces_of(fresh)], 3)
    spoil(folder)
    with pytest.raises(InputError, match=said) as raised:
        find_encodings(fresh, "key", 3)
    assert str(folder) in str(raised.value) and "encode again" in str(raised.value)


def test_what_cannot_be_encoded(index, vectors, tmp_path):
    """A model without encodings or of concepts, a type of numbers, and an index with no index.json beside it."""
    bare, ktrel = small.build_index(tmp_path / "forward"), make("ktrel", vectors)
    of_concepts = encodable.ktrel(vectors, parts="both", concepts=3, concept_dimension=4)
    for model, of_index, dtype, said in [
        (small.delta(vectors), index, "float32", "delta.*ktrel, sevmos"),
        (of_concepts, index, "float32", "no concepts"),
        (ktrel, index, "int8", "int8"),
        (ktrel, bare, "float32", "index.json"),
    ]:
        with pytest.raises(InputError, match=said):
            encode_index(model, ktrel.input_builder(of_index, vectors.vocabulary), dtype=dtype)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_model
def test_vectors_from_a_gpu_are_the_cpus(index, vectors, name):
    model = make(name, vectors)
    folder = encode_index(model, model.input_builder(index, vectors.vocabulary), overwrite=True)
    expected = np.load(folder / "000001.npy")
    on_gpu = NeuralReranker(model, vectors.vocabulary, index, rerankers.RerankerOptions("cuda"))
    found = np.load(encode_index(on_gpu.model, on_gpu.builder, "cuda", overwrite=True) / "000001.npy")
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


# The command.


def test_the_command_encodes_an_index(index_command, fresh, vectors, tmp_path):
    """By the weights of a checkpoint, whose checksum is that of the model that was saved."""
    model = make("ktrel", vectors)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    arguments = ("--encode", tmp_path / "c", "--index", fresh.folder)
    status, out, err = index_command(*arguments)
    assert (status, err) == (0, "") and "10 documents, 6 numbers each" in out and "documents per second" in out
    index = Index(fresh.folder)
    verify(index)
    expected = scores_of(opened(model, "module", index.forward, vectors))

    def check_stored(dtype, tolerance):
        one = rerankers.load(f"ktrel:{tmp_path / 'c'}", index.forward)
        assert_same(scores_of(one), expected, tolerance)
        assert isinstance(one.fast, EncodedDocuments) and one.fast.vectors.dtype == dtype

    check_stored(np.float32, 1e-5)
    assert encodings_folder(index.forward, weights_checksum(model, vectors.vocabulary)).is_dir()
    status, out, err = index_command(*arguments, "--half")
    assert (status, out) == (2, "") and "exist already" in err and err.count("\n") == 1
    status, _, err = index_command(*arguments, "--half", "--overwrite", "--batch-size", 4)
    assert status == 0, err
    check_stored(np.float16, 1e-2)


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
