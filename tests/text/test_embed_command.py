"""``python -m rerank_plugin.embed words``, run as a user runs it on a small corpus."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

import rerank_plugin
from rerank_plugin.files.errors import InputError
from rerank_plugin.text.tokenizer import SETTINGS as SETTINGS_OF_TEXTS
from rerank_plugin.text.word_vectors import load

TEXTS = ["Aspirin lowers the risk of stroke. It is cheap.", "The risk of bleeding rises on aspirin, 5% a year."] * 6


def embed(folder, *arguments, hash_seed="random"):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(rerank_plugin.__file__).parents[1]),
        "PYTHONHASHSEED": hash_seed,
    }
    return subprocess.run(
        [sys.executable, "-m", "rerank_plugin.embed", "words", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as file:
        for number, text in enumerate(TEXTS):
            file.write(json.dumps({"_id": str(number), "title": "Aspirin", "text": text}) + "\n")
    return folder


SETTINGS = ("--corpus", "corpus.jsonl", "--dimension", "8", "--min-count", "6", "--epochs", "1")


def refused(done):
    lines = done.stderr.strip().split("\n")
    assert done.returncode == 2 and done.stdout == "" and len(lines) == 1, done.stderr
    return lines[0]


def test_a_corpus_gives_the_same_vectors_in_every_process(folder):
    first = embed(folder, *SETTINGS, "--output", "first", hash_seed="1")
    second = embed(folder, *SETTINGS, "--output", "second", hash_seed="2")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.startswith("first: ") and "8 dimensions" in first.stdout
    vectors = load(folder / "first")
    assert {"aspirin", "risk", "<percentage>"} <= set(vectors.vocabulary.words)
    assert vectors.matrix.shape == (len(vectors.vocabulary), 8)
    for name in ("vocab.txt", "embeddings.safetensors"):
        assert (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes()
    described = json.loads((folder / "first" / "words.json").read_text())
    assert described["seed"] == 42 and described["word2vec"]["minimum_count"] == 6
    assert described["corpora"] == ["corpus.jsonl"]


def test_a_folder_is_replaced_only_when_asked_and_the_seed_matters(folder):
    assert embed(folder, *SETTINGS, "--output", "again").returncode == 0
    before = load(folder / "again").matrix
    assert "again exists already" in refused(embed(folder, *SETTINGS, "--output", "again", "--seed", "1"))
    np.testing.assert_array_equal(load(folder / "again").matrix, before)
    assert embed(folder, *SETTINGS, "--output", "again", "--seed", "1", "--overwrite").returncode == 0
    after = load(folder / "again").matrix
    assert after.shape == before.shape and not np.array_equal(after[0], before[0])


def test_cbow_gives_other_vectors_and_the_folder_says_so(folder):
    for method in ("skip-gram", "cbow"):
        done = embed(folder, *SETTINGS, "--method", method, "--output", method)
        assert done.returncode == 0, done.stderr
    skip_gram, cbow = (load(folder / method) for method in ("skip-gram", "cbow"))
    assert skip_gram.vocabulary.words == cbow.vocabulary.words
    assert np.abs(skip_gram.matrix - cbow.matrix)[1:].max() > 1e-5
    described = [
        json.loads((folder / method / "words.json").read_text())["word2vec"] for method in ("skip-gram", "cbow")
    ]
    assert [one["model"] for one in described] == ["skip-gram", "cbow"]
    assert all(one["hierarchical_softmax"] for one in described)


def test_vectors_are_imported(folder):
    made = KeyedVectors(vector_size=2)
    made.add_vectors(["aspirin", "IL-2"], np.array([[1, 2], [3, 4]], np.float32))
    made.save_word2vec_format(str(folder / "vectors.bin"), binary=True)
    done = embed(folder, "--import", "vectors.bin", "--binary", "--output", "imported")
    assert done.returncode == 0, done.stderr
    vectors = load(folder / "imported")
    assert vectors.vocabulary.words[1:] == ["aspirin", "il2"]
    assert vectors.matrix[1:].tolist() == [[1, 2], [3, 4]]
    said = refused(embed(folder, "--import", "corpus.jsonl", "--output", "wrong"))
    assert "corpus.jsonl cannot be read as word2vec text" in said
    assert not (folder / "wrong").exists()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--output", "x"], "give either --corpus or --import"),
        (["--corpus", "corpus.jsonl", "--import", "v", "--output", "x"], "give either --corpus or --import"),
        (["--corpus", "corpus.jsonl"], "--output"),
        (["--corpus", "nowhere.jsonl", "--output", "x"], "nowhere.jsonl"),
        (["--corpus", "corpus.jsonl", "--min-count", "1000", "--output", "x"], "no word occurs 1000 times"),
        (["--corpus", "corpus.jsonl", "--dimension", "0", "--output", "x"], "--dimension"),
    ],
)
def test_bad_usage_and_bad_input_are_one_line_and_status_2(folder, arguments, said):
    assert said in refused(embed(folder, *arguments))
    assert not (folder / "x").exists()


def test_compact_vectors_from_the_command(tmp_path, capsys):
    from rerank_plugin import embed as command
    from rerank_plugin.text.vocabulary import Vocabulary
    from rerank_plugin.text.word_vectors import WordVectors, compact, save

    matrix = np.random.default_rng(2).normal(size=(4, 16)).astype(np.float32)
    vectors = WordVectors(Vocabulary(["a", "b", "c"]), matrix)
    save(vectors, tmp_path / "words", {"corpora": ["x"]})
    command.main(
        ["compact", "--words", str(tmp_path / "words"), "--most-frequent", "2", "--output", str(tmp_path / "s")]
    )
    assert "3 words" in capsys.readouterr().out
    assert load(tmp_path / "s").matrix.tobytes() == compact(vectors, 2).matrix.tobytes()
    described = json.loads((tmp_path / "s" / "words.json").read_text())
    assert (described["words"], described["corpora"], described["precision"]) == (3, ["x"], "int8")
    with pytest.raises(InputError, match="s exists already"):
        command.main(["compact", "--words", str(tmp_path / "words"), "--output", str(tmp_path / "s")])


def test_words_of_an_index_that_have_no_vectors(folder, capsys):
    """Every word of the index has one then; a second folder of the same name is refused."""
    from rerank_plugin import embed as command
    from tests.models import encodable

    index = folder / "index"
    encodable.build_index(index)
    described = json.loads((index / "index.json").read_text())
    (index / "index.json").write_text(
        json.dumps({**described, "format_version": 1, "tokenizer": SETTINGS_OF_TEXTS, "fields": {}})
    )
    assert embed(folder, *SETTINGS, "--output", "few").returncode == 0
    arguments = ["extend", "--words", f"{folder}/few", "--index", str(index), "--output", f"{folder}/many"]
    command.main(arguments)
    few, many = load(folder / "few"), load(folder / "many")
    words = set(small_words())
    assert words <= set(many.vocabulary.words) and not words <= set(few.vocabulary.words)
    assert np.array_equal(many.matrix[: len(few.matrix)], few.matrix)
    assert f"{len(many.matrix):,} words, {len(many.matrix) - len(few.matrix):,} of them" in capsys.readouterr().out
    assert json.loads((folder / "many" / "words.json").read_text())["word2vec"]["dimension"] == 8
    with pytest.raises(InputError, match="exists already"):
        command.main(arguments)


def small_words():
    from rerank_plugin.text.tokenizer import tokenize
    from tests import small

    return [word for _, title, abstract in small.DOCUMENTS for word in tokenize(f"{title} {abstract}")]
