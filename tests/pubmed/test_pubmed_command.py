"""The command from a server to an index, and what it says."""

import os

import pytest

from rerank_plugin.pubmed.__main__ import main
from rerank_plugin.pubmed.mirror import file_md5
from tests.processes import status_of


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(line):
        status = status_of(main, line.split())
        return status, *capsys.readouterr()

    return run


def test_from_a_server_to_an_index(served, command, tmp_path):
    gone = served.folder / "updatefiles/pubmed26n0005.xml.gz"
    os.rename(gone, tmp_path / "later")
    status, out, err = command(f"sync --mirror m --base-url {served.url} --rate 1000")
    assert (status, out.split(" (")[0]) == (0, "m: 5 files fetched")
    assert "lacks 1 files, the first pubmed26n0005.xml.gz" in err
    status, out, err = command("index --mirror m --index i --threads 1 --filter year:1980-")
    assert status == 2 and err.endswith(
        "error: m lacks pubmed26n0005.xml.gz, as does its server, and later files wait for it: sync again\n"
    )
    lines = out.splitlines()
    assert len(lines) == 5 and lines[3].startswith("i: pubmed26n0004.xml.gz: ") and "1 malformed XML" in err
    assert lines[4] == "i: holds pubmed26n0004.xml.gz of 2026-01-02T03:04:05+00:00 and all files before it"
    os.rename(tmp_path / "later", gone)
    status, out, _ = command("status --mirror m --index i")
    assert status == 0 and "6 files now, of which the mirror lacks 1\n" in out
    assert "i: lacks 0 files of the mirror" in out and "m lacks pubmed26n0005.xml.gz, and later files" in out
    assert command("sync --mirror m --rate 1000")[0] == 0  # the address is the mirror's
    _, out, _ = command("status --mirror m --index i --offline")
    assert "i: lacks 2 files of the mirror, 0.00 GB, some 0 minutes\n" in out
    status, out, _ = command("index --mirror m --index i --threads 1")
    assert status == 0 and out.count("\n") == 3
    os.replace(served.folder / "updatefiles/pubmed26n0006.xml.gz", gone)
    (md5 := gone.with_name(f"{gone.name}.md5")).unlink()  # a link
    md5.write_text(f"MD5({gone.name})= {file_md5(gone)}")
    assert command("sync --mirror m --rate 1000")[0] == 0
    _, out, _ = command("status --mirror m --index i --offline")
    assert "i: pubmed26n0005.xml.gz was published anew after it was applied: a run applies it again, and the 1 " in out
    _, out, _ = command("index --mirror m --index i --threads 1")
    assert out.startswith("i: pubmed26n0005.xml.gz, which was published anew, and all applied files after it: 0 new")


@pytest.mark.parametrize(
    "line, error",
    [
        ("index --mirror none --index i", "none has no file with a record to index"),
        ("sync --mirror m --base-url ftp://x", "expected an address that begins with https:// or http://"),
        ("sync --mirror m --rate 0", "--rate and --stall must be above 0"),
        ("index --mirror m --index i --knowledge kb", "give it with --filter"),
        ("index --mirror m --index i --filter color:red", "unknown filter 'color'"),
    ],
)
def test_what_is_refused(command, line, error):
    status, out, err = command(line)
    assert status == 2 and error in err and out == "" and err.count("\n") == 1
