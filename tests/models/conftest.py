"""One thread, a small index with word vectors for it, and helpers that damage files."""

import json

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


def change_json(path, **values):
    """Set values of the object in a file; None removes a value."""
    changed = {**json.loads(path.read_text("utf-8")), **values, "seal": None}  # as whoever changes one takes it out
    path.write_text(json.dumps({name: value for name, value in changed.items() if value is not None}), "utf-8")


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")
