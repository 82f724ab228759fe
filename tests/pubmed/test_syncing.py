"""Mirrors of a server with faults: every file whole and once, whatever the server or a kill does."""

import os
import signal
import time
from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.pubmed.distribution import SourceFile, listed_files, md5_of
from rerank_plugin.pubmed.mirror import Mirror
from rerank_plugin.pubmed.server import Server
from rerank_plugin.pubmed.syncing import sync
from rerank_plugin.sample.pubmed import write_distribution
from tests.processes import start
from tests.pubmed.conftest import PLAN
from tests.pubmed.faulty_server import serving

FIRST, LAST = "baseline/pubmed26n0001.xml.gz", "updatefiles/pubmed26n0006.xml.gz"


def contents(folder):
    """The files of a mirror or a distribution, without what is only one of them."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in Path(folder).rglob("*")
        if path.is_file() and path.name not in ("mirror.json", "README.txt")
    }


def test_a_mirror_has_each_file_once(served, client, tmp_path):
    mirror = Mirror(tmp_path / "mirror")
    assert sync(mirror, client).fetched == 6
    assert contents(mirror.folder) == contents(served.folder)
    assert len(served.asked(".gz")) == 6
    assert Mirror(mirror.folder).files()[-1] == SourceFile(26, 6, "updatefiles")
    assert mirror.path(SourceFile(26, 1, "baseline")).stat().st_mtime == 1767323045  # as the server says
    assert sync(mirror, client).fetched == 0
    assert served.asked() == ["baseline/", "updatefiles/"]
    (mirror.folder / "mirror.json").unlink()  # files of another program, or a kill before it was written
    assert sync(mirror, client).fetched == 0 and not served.asked(".gz")


@pytest.mark.parametrize(
    "faults, times, waits",
    [
        ([503, 429], 3, [1, 2]),
        ([(429, "7"), (503, "Fri, 02 Jan 2026 03:04:05 GMT")], 3, [7, 2]),
        (["cut", "cut"], 3, [1, 1]),  # each brought more
        (["stall"], 2, [1]),
        (["cut", "whole"], 2, [1]),
        (["cut", b"shorter"], 3, [1, 2]),  # the rest is of another file: all of it again
        ([b"changed while it was fetched"], 2, []),
    ],
)
def test_faults_that_pass(served, client, tmp_path, faults, times, waits):
    served.faults[FIRST] = list(faults)
    client.stall = 1.5 if "stall" in faults else client.stall
    mirror = Mirror(tmp_path / "mirror")
    assert not sync(mirror, client).failed
    assert contents(mirror.folder) == contents(served.folder)
    assert served.asked().count(FIRST) == times
    passed = [wait for wait in client.waits if wait > 0.5]
    assert len(passed) == len(waits) and all(0.75 * least <= wait <= 1.25 * least for wait, least in zip(passed, waits))


@pytest.mark.parametrize(
    "fault, reason",
    [
        ([503] * 9, "status 503, 3 times"),
        ([404], "404"),
        ([b"?"] * 9, "its MD5 is"),
        (["moved"] * 6, "redirects more than 5 times"),
    ],
)
def test_a_file_that_cannot_be_fetched_costs_no_other(served, client, tmp_path, fault, reason):
    served.faults[FIRST] = list(fault)
    mirror = Mirror(tmp_path / "mirror")
    report = sync(mirror, client)
    assert len(report.failed) == 1 and reason in report.failed[0] and report.fetched == 5
    assert contents(mirror.folder).keys() == contents(served.folder).keys() - {FIRST, f"{FIRST}.md5"}
    del served.faults[FIRST]
    assert sync(mirror, client).fetched == 1 and contents(mirror.folder) == contents(served.folder)


def test_a_file_that_the_server_has_replaced_is_fetched_again(served, client, tmp_path):
    mirror = Mirror(tmp_path / "mirror")
    sync(mirror, client)
    served.asked()
    for name in (LAST, f"{LAST}.md5"):
        data = (served.folder / name.replace("0006", "0005")).read_bytes()
        (served.folder / name).unlink()
        (served.folder / name).write_bytes(data.replace(b"n0005", b"n0006") if name.endswith("md5") else data)
    assert sync(mirror, client).fetched == 1 and served.asked(".gz") == [LAST]
    assert contents(mirror.folder) == contents(served.folder)


def test_the_next_baseline_replaces_the_last_without_a_second_copy(served, client, tmp_path):
    mirror = Mirror(tmp_path / "mirror")
    served.faults[LAST] = ["cut", 404]
    sync(mirror, client)
    assert mirror.path(SourceFile(26, 6, "updatefiles"), ".part").exists()
    write_distribution(tmp_path / "27", PLAN.__class__(**{**PLAN.__dict__, "release": 27}))
    with serving(tmp_path / "27") as server:
        following, most = Server(server.url, rate=1e6), []

        def watched(files):
            for file in files:
                most.append(len(mirror.files()))
                yield file

        report = sync(mirror, following, watched)
    assert report.removed == 5 and max(most) <= 6
    assert contents(mirror.folder) == contents(tmp_path / "27")


def test_an_incomplete_baseline_removes_only_what_it_replaces(served, client, tmp_path):
    mirror, new = Mirror(tmp_path / "mirror"), tmp_path / "27"
    sync(mirror, client)
    write_distribution(new, PLAN.__class__(**{**PLAN.__dict__, "release": 27, "updates": 1}))
    hidden = [path for path in sorted(new.rglob("*27n*.gz*")) if "n0001" not in path.name]
    for path in hidden:
        path.rename(tmp_path / path.name)
    with serving(new) as server:
        following = Server(server.url, rate=1e6)
        assert sync(mirror, following).removed == 1 and len(mirror.files()) == 6
        for path in hidden:
            (tmp_path / path.name).rename(path)
        sync(mirror, following)
        following.close()
    assert contents(mirror.folder) == contents(new)


def test_what_has_no_end_is_refused(served, client, tmp_path, monkeypatch):
    monkeypatch.setattr("rerank_plugin.pubmed.server.FILE_BYTES", 1000)
    monkeypatch.setattr("rerank_plugin.pubmed.server.TEXT_BYTES", 5000)
    served.faults[f"{LAST}.md5"] = [b"?" * 5001]
    report = sync(Mirror(tmp_path / "mirror"), client)
    assert len(report.failed) == 6 and all("is too long" in reason for reason in report.failed)
    monkeypatch.setattr("rerank_plugin.pubmed.server.TEXT_BYTES", 50)
    with pytest.raises(InputError, match="baseline/ is too long"):
        sync(Mirror(tmp_path / "mirror"), client)


def test_a_killed_run_is_continued(served, client, tmp_path):
    served.faults[FIRST] = ["stall"]
    process = start(tmp_path, "-m", "rerank_plugin", "pubmed", "sync", "--mirror", "mirror", "--base-url", served.url)
    part, end = tmp_path / "mirror" / f"{FIRST}.part", time.monotonic() + 60
    while not (part.exists() and part.stat().st_size) and time.monotonic() < end:
        served.stalled.wait(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    served.released.set()
    assert contents(tmp_path / "mirror").keys() == {f"{FIRST}.part"}
    assert sync(Mirror(tmp_path / "mirror"), client).fetched == 6
    assert contents(tmp_path / "mirror") == contents(served.folder)
    assert [asked for path, asked in served.requests if path == FIRST][-1].startswith("bytes=")


@pytest.mark.parametrize("step", range(1, 9))
def test_an_interruption_at_a_rename(served, client, tmp_path, monkeypatch, step):
    """Renames give names to lists and files: before each of the first, and then after it."""
    real, count = os.replace, iter(range(1, 1000))

    def interrupted(source, target):
        if (number := next(count)) == step and step % 2:
            raise KeyboardInterrupt
        real(source, target)
        if number == step:
            raise KeyboardInterrupt

    mirror = Mirror(tmp_path / "mirror")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sync(mirror, client)
    monkeypatch.undo()
    verified = {name: data for name, data in contents(mirror.folder).items() if name.endswith(".xml.gz")}
    assert verified.items() <= contents(served.folder).items()
    sync(Mirror(mirror.folder), client)
    assert contents(mirror.folder) == contents(served.folder)
    assert served.asked(".gz").count(FIRST) <= 1 + (FIRST not in verified)


def test_lists_and_md5_as_servers_write_them():
    apache = '<img src="/i.gif"> <a href="pubmed26n0001.xml.gz">pubmed26n00..&gt;</a> 2026-01-02 03:04  19M  '
    table = '<tr><td><a href="/p/pubmed26n0002.xml.gz">x</a></td><td>2026-01-02 03:04</td><td>5M</td></tr>'
    assert list(listed_files(f'<a href="../">..</a>\n{apache}\n{table}', "baseline")) == [
        (SourceFile(26, 1, "baseline"), "2026-01-02 03:04 19M"),
        (SourceFile(26, 2, "baseline"), "2026-01-02 03:04 5M"),
    ]
    file, digits = SourceFile(26, 1, "baseline"), "0123456789abcdef" * 2
    for text in (f"MD5(pubmed26n0001.xml.gz)= {digits}\n", f"{digits}  pubmed26n0001.xml.gz", digits.upper()):
        assert md5_of(text, file) == digits
    for text in (f"MD5(pubmed26n0002.xml.gz)= {digits}", "<html>", ""):
        with pytest.raises(InputError, match="n0001.xml.gz.md5"):
            md5_of(text, file)
