"""One thread, and a small index with a model of random weights over it."""

import pytest
import torch

from tests import small


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("small") / "forward")


@pytest.fixture(scope="session")
def vectors():
    return small.word_vectors(small.KNOWN_WORDS, dimension=6, seed=3)
