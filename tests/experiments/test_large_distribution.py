"""The files of a large distribution are those of `sample --pubmed`, and a killed run is completed."""

import pytest

from experiments.large_distribution import main
from rerank_plugin import InputError
from rerank_plugin.sample.pubmed import Distribution, write_distribution


def files(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("pubmed*")}


def test_the_files_of_a_distribution(tmp_path):
    line = ["--documents", "90", "--per-file", "40", "--updates", "2", "--per-update", "20", "--processes", "1"]
    main([*line, "--output", str(tmp_path / "large")])
    plan = Distribution(90, 2, 40, damaged=False)
    assert plan.of_update == (10, 10, 1)  # as of 20 records
    write_distribution(tmp_path / "whole", plan)
    assert files(tmp_path / "large") == files(tmp_path / "whole") and len(files(tmp_path / "whole")) == 10
    killed = tmp_path / "large" / "baseline" / "pubmed26n0002.xml.gz"
    killed.write_bytes(b"begun")
    killed.with_name(f"{killed.name}.md5").unlink()
    main([*line, "--output", str(tmp_path / "large")])
    assert files(tmp_path / "large") == files(tmp_path / "whole")
    with pytest.raises(InputError, match="begun with another plan"):
        main([*line[2:], "--documents", "91", "--output", str(tmp_path / "large")])
