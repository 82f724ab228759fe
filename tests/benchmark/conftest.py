"""A small collection for the benchmark's tests, made once, without Java."""

import pytest

from rerank_plugin.base.records import Query
from rerank_plugin.benchmark.collection import Collection, with_scan
from rerank_plugin.indexes.index_folder import Index
from tests import small


class Folder:
    """A stand-in for an index folder of which only the forward index is used."""

    search = Index.search

    def __init__(self, forward):
        self.forward = forward


@pytest.fixture(scope="session")
def collection(tmp_path_factory):
    """Six queries over 60 documents."""
    words = [f"w{number}" for number in range(40)]
    documents = [
        (f"d{row}", " ".join(words[row % 7 : row % 7 + 4]), " ".join(words[row % 30 : row % 30 + 10]))
        for row in range(60)
    ]
    forward = small.build_index(tmp_path_factory.mktemp("collection") / "forward", documents)
    queries = [Query(f"q{number}", f"w{number} w{number + 9} w{3 * number}") for number in range(6)]
    return with_scan(Collection("sixty documents", Folder(forward), queries, [], "none"), 20, 0)
