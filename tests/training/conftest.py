"""The small index of the rerankers' tests."""

from tests.rerankers.conftest import index, one_thread, vectors  # noqa: F401
