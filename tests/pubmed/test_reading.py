"""Files read in a process of their own: as in this one, with its errors, and without a process left behind."""

import os
import signal

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Problems, pubmed_xml
from rerank_plugin.pubmed import reading
from rerank_plugin.pubmed.reading import reading as read

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


def test_it_reads_as_this_process_does(distribution):
    paths, problems, here = [distribution / name for name in FILES], Problems(), Problems()
    with read(paths, problems) as documents:
        found = outcome(documents, problems)
    assert found == outcome(pubmed_xml.documents(paths, here), here)
    assert found[0] and found[1] and found[2]["malformed XML"]


def test_an_error_of_the_input(tmp_path):
    with pytest.raises(InputError, match="nothing.xml"), read([tmp_path / "nothing.xml"], Problems()) as documents:
        list(documents)


def test_what_is_left_early_ends_with_its_process(distribution, processes):
    with read([distribution / name for name in FILES], Problems()) as documents:
        next(documents)
    assert processes[0].returncode is not None


def test_a_process_that_dies_is_an_error(distribution, processes):
    with read([distribution / FILES[0]], Problems()) as documents:
        os.kill(processes[0].pid, signal.SIGKILL)
        with pytest.raises(InputError, match="pubmed26n0001.xml.gz: the process that reads it ended with status -9"):
            list(documents)
