"""The index and the word vectors of the tests of models."""

from tests.models.conftest import index, one_thread, vectors  # noqa: F401
