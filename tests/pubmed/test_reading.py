"""Files read in processes of their own: as in this one, with its errors, and without a process left behind."""

import gzip
import os
import signal
from itertools import islice

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems, pubmed_xml
from rerank_plugin.pubmed import reading
from rerank_plugin.pubmed.reading import readers

FILES = ["baseline/pubmed26n0001.xml.gz", "baseline/pubmed26n0002.xml.gz", "updatefiles/pubmed26n0004.xml.gz"]


def outcome(documents, problems):
    return list(documents), documents.deletions, problems.counts, problems.examples


@pytest.fixture
def processes(monkeypatch):
    """The processes that were started."""
    started = []

    class Popen(reading.subprocess.Popen):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            started.append(self)

    monkeypatch.setattr(reading.subprocess, "Popen", Popen)
    return started


def test_they_read_as_this_process_does(distribution):
    paths, problems, here = [distribution / name for name in FILES], Problems(), Problems()
    for reader in readers([paths]):
        found = outcome(reader.documents(problems), problems)
    assert found == outcome(pubmed_xml.documents(paths, here), here)
    assert found[0] and found[1] and found[2]["malformed XML"]


def test_the_next_files_are_read_before_and_no_process_is_left(distribution, processes):
    following = readers([distribution / name] for name in FILES)
    for count, reader in enumerate(islice(following, 2), 2):
        assert len(processes) == count and next(reader.documents(Problems()))
    following.close()
    assert len(processes) == 3 and all(process.returncode is not None for process in processes)


def test_errors_of_the_input(distribution, tmp_path):
    path = tmp_path / "one.xml"
    for reader in readers([[path]]):
        with pytest.raises(InputError, match="one.xml"):
            list(reader.documents(Problems()))
    path.write_bytes(gzip.decompress((distribution / FILES[0]).read_bytes()))
    for reader in readers([[path]]):
        path.touch()
        with pytest.raises(InputError, match="one.xml: the file changed"):
            reader.documents(Problems())


def test_a_process_that_dies_is_an_error(distribution, processes):
    for reader in readers([[distribution / FILES[0]]]):
        os.kill(processes[0].pid, signal.SIGKILL)
        with pytest.raises(InputError, match="pubmed26n0001.xml.gz: the process that reads it ended with status -9"):
            list(reader.documents(Problems()))
