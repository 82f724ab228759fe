"""``python -m rerank_plugin.embed``: word vectors of a small corpus, imported, compact and extended ones."""

import json
import shutil

import numpy as np
import pytest
from gensim.models import KeyedVectors

from rerank_plugin.base.errors import InputError
from rerank_plugin.text.tokenizer import SETTINGS as SETTINGS_OF_TEXTS
from rerank_plugin.text.tokenizer import tokenize
from rerank_plugin.text.word_vectors import compact, load
from tests import small
from tests.models import encodable
from tests.processes import inside, run

TEXTS = ["Aspirin lowers the risk of stroke. It is cheap.", "The risk of bleeding rises on aspirin, 5% a year."] * 6


WORDS = "embed words --corpus corpus.jsonl --dimension 8 --min-count 6 --epochs 1 --output"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and word vectors of it in ``words``."""
    folder = tmp_path_factory.mktemp("embed")
    records = [{"_id": str(number), "title": "Aspirin", "text": text} for number, text in enumerate(TEXTS)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    inside(folder, f"{WORDS} words")
    return folder


def test_a_corpus_gives_the_same_vectors_in_every_process(folder):
    printed = run("-m", *f"rerank_plugin.{WORDS} other".split(), folder=folder, PYTHONHASHSEED="6")
    assert printed.startswith("other: ") and "8 dimensions" in printed
    vectors = load(folder / "words")
    assert {"aspirin", "risk", "<percentage>"} <= set(vectors.vocabulary.words)
    assert vectors.matrix.shape == (len(vectors.vocabulary), 8)
    for name in ("vocab.txt", "embeddings.safetensors"):
        assert (folder / "words" / name).read_bytes() == (folder / "other" / name).read_bytes()
    described = json.loads((folder / "words" / "words.json").read_text())
    assert described["seed"] == 42 and described["corpora"] == ["corpus.jsonl"]
    assert (described["word2vec"]["minimum_count"], described["word2vec"]["model"]) == (6, "skip-gram")


def test_a_folder_is_replaced_only_when_asked_and_the_seed_matters(folder):
    before = load(folder / "words").matrix
    shutil.copytree(folder / "words", folder / "again")
    with pytest.raises(InputError, match="again exists already"):
        inside(folder, f"{WORDS} again --seed 1")
    np.testing.assert_array_equal(load(folder / "again").matrix, before)
    inside(folder, f"{WORDS} again --seed 1 --overwrite")
    after = load(folder / "again").matrix
    assert after.shape == before.shape
    assert not np.array_equal(after[0], before[0]) and not np.array_equal(after[1:], before[1:])


def test_cbow_gives_other_vectors_and_the_folder_says_so(folder):
    inside(folder, f"{WORDS} cbow --method cbow")
    skip_gram, cbow = load(folder / "words"), load(folder / "cbow")
    described = json.loads((folder / "cbow" / "words.json").read_text())["word2vec"]
    assert described["model"] == "cbow" and described["hierarchical_softmax"]
    assert cbow.vocabulary.words == skip_gram.vocabulary.words
    assert np.abs(cbow.matrix - skip_gram.matrix)[1:].max() > 1e-5


def test_vectors_are_imported(folder):
    made = KeyedVectors(vector_size=2)
    made.add_vectors(["aspirin", "IL-2"], np.array([[1, 2], [3, 4]], np.float32))
    made.save_word2vec_format(str(folder / "vectors.bin"), binary=True)
    inside(folder, "embed words --import vectors.bin --binary --output imported")
    vectors = load(folder / "imported")
    assert vectors.vocabulary.words[1:] == ["aspirin", "il2"]
    assert vectors.matrix[1:].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--output x", "give either --corpus or --import"),
        ("--corpus {corpus} --import v --output x", "give either --corpus or --import"),
        ("--corpus {corpus}", "--output"),
        ("--corpus nowhere.jsonl --output x", "nowhere.jsonl"),
        ("--corpus {corpus} --min-count 1000 --output x", "no word occurs 1000 times"),
        ("--corpus {corpus} --dimension 0 --output x", "--dimension"),
        ("--import {corpus} --output x", "corpus.jsonl cannot be read as word2vec text"),
    ],
)
def test_bad_usage_and_bad_input_are_one_line_and_status_2(folder, tmp_path, refused, arguments, message):
    assert message in refused(f"embed words {arguments.format(corpus=folder / 'corpus.jsonl')}")
    assert not (tmp_path / "x").exists()


def test_compact_vectors(folder):
    assert "3 words" in inside(folder, "embed compact --words words --most-frequent 2 --output s")
    assert load(folder / "s").matrix.tobytes() == compact(load(folder / "words"), 2).matrix.tobytes()
    described = json.loads((folder / "s" / "words.json").read_text())
    assert (described["words"], described["corpora"], described["precision"]) == (3, ["corpus.jsonl"], "int8")
    with pytest.raises(InputError, match="s exists already"):
        inside(folder, "embed compact --words words --output s")


def test_words_of_an_index_that_have_no_vectors(folder):
    """Every word of the index has one then; a second folder of the same name is refused."""
    small.describe(encodable.build_index(folder / "index"), tokenizer=SETTINGS_OF_TEXTS)
    extend = "embed extend --words words --index index --output many"
    printed = inside(folder, extend)
    few, many = load(folder / "words"), load(folder / "many")
    words = {word for _, title, abstract in small.DOCUMENTS for word in tokenize(f"{title} {abstract}")}
    assert words <= set(many.vocabulary.words) and not words <= set(few.vocabulary.words)
    assert np.array_equal(many.matrix[: len(few.matrix)], few.matrix)
    assert f"{len(many.matrix):,} words, {len(many.matrix) - len(few.matrix):,} of them" in printed
    assert json.loads((folder / "many" / "words.json").read_text())["word2vec"]["dimension"] == 8
    with pytest.raises(InputError, match="exists already"):
        inside(folder, extend)
