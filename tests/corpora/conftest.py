"""Files of test data."""

import gzip

import pytest


@pytest.fixture
def put(tmp_path):
    """Writes a file of this name, packed where the name says so, and gives its path as text.

    A lone surrogate stands for a byte that is no UTF-8.
    """

    def put(name, text):
        data = text.encode(errors="surrogateescape")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(tmp_path / name)

    return put
