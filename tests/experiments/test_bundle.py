"""A checkpoint that refers to another one's words: the bundled Delta to those of the bundled encoder."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from experiments import bundle
from rerank_plugin.base.errors import InputError
from rerank_plugin.models.checkpoint import Checkpoint
from rerank_plugin.models.register import checkpoint_folder
from rerank_plugin.text import word_vectors
from tests.sealing import unsealed


@pytest.fixture
def folders(tmp_path):
    """Copies of the bundled models, in the places that the package has them; the first has the other's words itself."""
    delta, ktrel = tmp_path / "delta" / "bundled", tmp_path / "ktrel" / "bundled"
    shutil.copytree(checkpoint_folder("delta"), delta)
    shutil.copytree(checkpoint_folder("ktrel"), ktrel)
    trained = tmp_path / "trained"
    shutil.copytree(delta, trained)
    word_vectors.write(word_vectors.load(ktrel), trained, {})
    return trained, delta, ktrel


def test_a_bundled_model_refers_to_the_words_of_another(folders):
    trained, delta, ktrel = folders
    arguments = [str(trained), "--words", str(ktrel), "--output", str(delta), "--overwrite", "--set"]
    bundle.main([*arguments, "query_words=9"])
    config = Checkpoint.open(delta).read().config
    assert config == replace(Checkpoint.open(trained).config, query_words=9)
    with pytest.raises(InputError, match="trained: unknown hyper-parameters words"):
        bundle.main([*arguments, "words=9"])
    assert not (delta / "embeddings.safetensors").exists() and not (delta / "vocab.txt").exists()
    ours = checkpoint_folder("delta")
    assert json.loads((delta / "words.json").read_text()) == json.loads((ours / "words.json").read_text())
    found, expected = word_vectors.load(delta), word_vectors.load(trained)
    assert found.vocabulary.words == expected.vocabulary.words
    np.testing.assert_array_equal(found.matrix, expected.matrix)


def test_other_words_are_refused(folders):
    trained, delta, ktrel = folders
    unsealed(ktrel)
    (ktrel / "vocab.txt").write_text((ktrel / "vocab.txt").read_text().replace("\naspirin\n", "\naspirine\n"))
    with pytest.raises(InputError, match="trained on other word vectors than those in"):
        bundle.main([str(trained), "--words", str(ktrel), "--output", str(delta), "--overwrite"])
    with pytest.raises(InputError, match="made with other word vectors than those in"):
        word_vectors.load(delta)


def test_a_bundled_model_alone_says_what_it_lacks(tmp_path):
    shutil.copytree(checkpoint_folder("delta"), tmp_path / "delta")
    with pytest.raises(InputError, match="refers to the word vectors in .*, which does not exist: move both"):
        word_vectors.load(tmp_path / "delta")
