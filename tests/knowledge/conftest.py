"""Knowledge bases that several tests read."""

import pytest

from rerank_plugin.knowledge.__main__ import main


@pytest.fixture(scope="session")
def sample_knowledge(tmp_path_factory):
    """The folder of the bundled vocabulary, compiled by the command."""
    folder = tmp_path_factory.mktemp("sample") / "kb"
    main(["compile", "--source", "sample", "--output", str(folder)])
    return folder
