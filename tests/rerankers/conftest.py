"""The index and the vectors that the tests of models have."""

from tests.models.conftest import index, one_thread, vectors  # noqa: F401
