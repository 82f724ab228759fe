"""The click log: its lines, files and errors; and the route that takes clicks."""

import json
import os
import re
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks import logs as click_logs
from rerank_plugin.clicks.logs import Counts
from rerank_plugin.service.click_log import HEADER, Click, ClickLog, ClickTooLargeError
from rerank_plugin.service.config import ServiceConfig
from tests.processes import run
from tests.service.live import serving

MEGABYTE = 1 << 20
SENT = {"query": "heart", "shown": ["1", "B", "a"], "clicked": "B", "position": 2, "session": "mine"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clicks.tsv"


def click(shown="abc", clicked="b", query="gout", session="s", position=None, dwell=None):
    return Click("sample", query, tuple(shown), clicked, position or shown.index(clicked) + 1, session, dwell)


def values(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]


def test_lines_by_hand(path):
    log = ClickLog(path, MEGABYTE)
    before = datetime.now(timezone.utc).replace(microsecond=0)
    log.append(click("abc", "b", position=12, dwell=2.5))
    log.append(click("abc", "c", position=13))
    first, second, third, fourth = values(path)
    session, time = first[7], first[8]
    assert first == ["gout", "a", "1", "0", "0", "0", "11", session, time, "", "sample"]
    assert second == ["gout", "b", "1", "1", "0", "0", "12", session, time, "2.5", "sample"]
    assert third == ["gout", "c", "1", "0", "0", "0", "13", session, time, "", "sample"]
    assert fourth[:7] == ["gout", "c", "0", "1", "0", "0", "13"] and fourth[7] == session
    assert before <= datetime.fromisoformat(time) <= datetime.now(timezone.utc)


def test_sessions_are_distinct_hashes(path):
    for _ in range(2):
        log = ClickLog(path, MEGABYTE)
        for session in ("anna@example.org", "bert@example.org"):
            log.append(click("a", "a", session=session))
        log.close()
    sessions = [line[7] for line in values(path)]
    assert len({*sessions}) == 4 and all(re.fullmatch("[0-9a-f]{16}", session) for session in sessions)  # a new salt
    assert "example" not in path.read_text()


def test_threads_write_complete_lines_and_the_reader_of_the_clicks_command_sums_all_files(path):
    log = ClickLog(path, max_bytes=3000)
    clicks = [click("abc", docid, session=str(session)) for session in range(100) for docid in "ba"]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(log.append, clicks))
    files = sorted(path.parent.glob("clicks*.tsv"))
    assert len(files) > 3 and {file.read_bytes().partition(b"\n")[0] + b"\n" for file in files} == {HEADER}
    assert max(file.stat().st_size for file in files) <= 3000
    (query,) = click_logs.read(*files).queries.values()
    assert query.documents == {"a": Counts(100, 100, 0), "b": Counts(100, 100, 0), "c": Counts(100, 0, 0)}


def test_a_log_is_continued_without_the_partial_line_of_a_killed_process(path):
    log = ClickLog(path, MEGABYTE)
    log.append(click("a", "a"))
    complete = path.read_bytes()
    with pytest.raises(InputError, match="written by another process"):
        ClickLog(path, MEGABYTE)
    log.close()
    path.write_bytes(complete + b"gout\tb\t1")
    log = ClickLog(path, MEGABYTE)
    assert path.read_bytes() == complete
    log.append(click("b", "b"))
    assert path.read_bytes().startswith(complete) and [line[1] for line in values(path)] == ["a", "b"]


def test_other_files_are_not_overwritten(path):
    header = "\t".join(click_logs.COLUMNS) + "\n"
    path.write_text(header)
    with pytest.raises(InputError, match="is not a click log of the service: it is left as it is"):
        ClickLog(path, MEGABYTE)
    assert path.read_text() == header
    os.mkfifo(path.with_name("pipe"))
    with pytest.raises(InputError, match="not a regular file"):
        ClickLog(path.with_name("pipe"), MEGABYTE)
    with pytest.raises(InputError, match="leave out .gz"):
        ClickLog(path.with_name("clicks.tsv.gz"), MEGABYTE)
    (path.parent / "clicks.1.tsv").write_text("mine")
    path.unlink()
    log = ClickLog(path, max_bytes=1)
    log.append(click())
    log.append(click(clicked="a"))
    assert (path.parent / "clicks.1.tsv").read_text() == "mine" and (path.parent / "clicks.2.tsv").exists()


def test_a_new_file_begins_after_the_log_was_moved(path):
    log = ClickLog(path, MEGABYTE)
    log.append(click("a", "a"))
    path.rename(path.with_name("old.tsv"))
    log.append(click("b", "b"))
    assert path.read_bytes().startswith(HEADER) and [line[1] for line in values(path)] == ["b"]


@contextmanager
def file_size(limit):
    """A limit of the size of files, beyond which no byte is written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_no_partial_header(path):
    """Not of the first file, and not of one that follows a full one."""
    with file_size(10), pytest.raises(InputError, match="cannot be written"):
        ClickLog(path, MEGABYTE)
    assert path.read_bytes() == b""
    log = ClickLog(path, max_bytes=1)
    log.append(click("abc", "b"))
    with file_size(10):
        for _ in range(2):
            with pytest.raises(InputError, match="cannot be written"):
                log.append(click("def", "e"))
    log.append(click("def", "e"))
    assert sorted(file.name for file in path.parent.iterdir()) == ["clicks.1.tsv", "clicks.tsv"]
    assert [line[1] for line in values(path)] == [*"def"] and path.read_bytes().startswith(HEADER)


@pytest.mark.parametrize("written", [1, 10, len(HEADER)])
def test_a_header_that_a_killed_process_has_begun_is_written_again(path, written):
    path.write_bytes((b"\xff" + HEADER[1:])[:written])
    log = ClickLog(path, MEGABYTE)
    assert path.read_bytes() == HEADER
    log.append(click("a", "a"))
    assert [line[1] for line in values(path)] == ["a"]


@pytest.mark.parametrize("query", ["\0gout", "\0", "\x1e", "\xff", "\ufeffgout", "\U0010ffff", "é" * 4000])
def test_no_complete_line_is_lost_whatever_it_holds(path, query):
    """Also of logs of the time when queries could have control characters, and behind a line that was damaged."""
    log = ClickLog(path, MEGABYTE)
    for session, text in enumerate(("first", query, "third", query)):
        log.append(click("abc", "b", query=text, session=str(session)))
    log.close()
    complete = path.read_bytes()
    ClickLog(path, MEGABYTE).close()
    assert path.read_bytes() == complete and complete.count(b"\n") == 13
    damaged = complete.replace(b"\nthird", b"\n\xffhird", 1)
    for tail in (b"", b"gout\tb\t1", b"\xffout\tb\t1"):
        path.write_bytes(damaged + tail)
        ClickLog(path, MEGABYTE).close()
        assert path.read_bytes() == damaged


def test_a_long_damage_at_the_end_is_removed_whole(path):
    log = ClickLog(path, MEGABYTE)
    log.append(click())
    log.close()
    complete = path.read_bytes()
    path.write_bytes(complete + bytes(3 * MEGABYTE))  # as a power loss may leave
    ClickLog(path, MEGABYTE).close()
    assert path.read_bytes() == complete


def test_a_full_disk_leaves_no_partial_click(path):
    log = ClickLog(path, MEGABYTE)
    log.append(click("abc", "b"))
    complete = path.read_bytes()
    with file_size(len(complete) + 30), pytest.raises(OSError):
        log.append(click("def", "e"))
    assert path.read_bytes() == complete
    log.append(click("def", "e"))
    assert [line[1] for line in values(path)] == [*"abcdef"]


KILLED = """if True:
    import os, signal, sys
    from rerank_plugin.service import click_log

    class Killed(click_log.FileIO):
        def write(self, part):
            super().write(part[: int(sys.argv[2])])
            os.kill(os.getpid(), signal.SIGKILL)

    log = click_log.ClickLog(sys.argv[1], 1 << 20)
    log.append(click_log.Click("sample", "first", ("a", "b"), "b", 2, "s", None))
    descriptor, place = os.dup(log.file.fileno()), log.file.tell()
    log.file = Killed(descriptor, "r+b")
    log.file.seek(place)
    log.append(click_log.Click("sample", "sécond", ("a", "b", "c"), "b", 2, "s", None))
"""


@pytest.mark.parametrize("written", [0, 1, 10, 70, 100, 10_000])
def test_a_click_is_whole_or_absent_after_a_kill(path, written):
    """Killed after so many bytes of its lines, of which some are whole."""
    run("-c", KILLED, path, written, status=-signal.SIGKILL)
    left = path.read_bytes()
    log = ClickLog(path, MEGABYTE)
    assert [line[:2] for line in values(path)] == [["first", "a"], ["first", "b"]]
    assert left.startswith(path.read_bytes())
    log.append(click("de", "e"))
    assert [line[1] for line in values(path)] == ["a", "b", "d", "e"] and b"\xff" not in path.read_bytes()


def test_a_click_that_is_too_large_is_refused_before_it_is_written(path):
    log = ClickLog(path, MEGABYTE)
    shown = tuple(str(n) for n in range(154))
    with pytest.raises(ClickTooLargeError):
        log.append(click(shown, "7", query="é" * 4000))
    assert path.read_bytes() == HEADER
    log.append(click(shown, "7", query="a" * 4000))
    log.append(click(shown, "8", query="b" * 4000))
    assert path.stat().st_size <= MEGABYTE and (path.parent / "clicks.1.tsv").stat().st_size <= MEGABYTE


# ---- over HTTP ----


@pytest.fixture
def log(service):
    """The file of the service's click log."""
    return service.app.state.service.click_log.path


def test_clicks_are_logged_over_http(service, log):
    assert service.get("/v1/indexes").json()["clicks"]
    ranking = service.get("/v1/small/search", params={"query": "heart\tattack  in\nwomen"}).json()
    shown = [hit["docid"] for hit in ranking["candidates"]]
    sent = {"query": ranking["query"]["text"], "shown": shown, "clicked": shown[1], "position": 2, "session": "secret"}
    answer = service.post("/v1/small/click", json=sent | {"dwell": 7})
    assert (answer.status_code, answer.content) == (204, b"")
    query = next(query for query in click_logs.read(log).queries.values() if query.text == "heart attack in women")
    assert [*query.documents] == shown
    assert [docid for docid, counts in query.documents.items() if counts.clicked] == [shown[1]]
    assert "secret" not in log.read_text() and "127.0.0.1" not in log.read_text()


@pytest.mark.parametrize(
    "change, status, field",
    [
        ({"query": " \n"}, 422, "query"),
        ({"query": "a " * 5001}, 422, "query"),
        ({"query": "\ud800"}, 422, "query"),
        ({"query": "\0heart"}, 422, "query"),
        ({"query": "heart\x7f"}, 422, "query"),
        ({"query": "é" * 5001}, 422, "query"),
        ({"query": ["a"]}, 422, "query"),
        ({"clicked": "\ud800"}, 422, "clicked"),
        ({"shown": ["1", "B", "\ud800"]}, 422, "shown"),
        ({"shown": []}, 422, "shown"),
        ({"shown": ["1", "B", "1"]}, 422, "shown"),
        ({"shown": ["1", "B", "unknown"]}, 404, "shown"),
        ({"shown": ["1", "B", "a\tb"]}, 404, "shown"),
        ({"shown": [f"{n}" for n in range(1001)]}, 422, "shown"),
        ({"clicked": "10"}, 422, "clicked"),
        ({"position": 1}, 422, "position"),
        ({"position": "2"}, 422, "position"),
        ({"session": ""}, 422, "session"),
        ({"dwell": -1}, 422, "dwell"),
        ({"address": "127.0.0.1"}, 422, "address"),
    ],
)
def test_an_invalid_click_is_not_logged(service, log, change, status, field):
    before, sent = log.read_bytes(), json.dumps(SENT | change)
    answer = service.post("/v1/small/click", content=sent, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["field"]) == (status, field), answer.text
    assert log.read_bytes() == before


def test_a_click_on_an_unknown_index_is_not_logged(service, log):
    before = log.read_bytes()
    assert service.post("/v1/other/click", json=SENT).status_code == 404
    assert log.read_bytes() == before


def test_a_click_that_cannot_be_logged_is_an_error(service, log):
    log.rename(log.with_name("aside.tsv"))
    log.mkdir()
    answer = service.post("/v1/small/click", json=SENT)
    assert answer.status_code == 503 and str(log) not in answer.text
    assert service.get("/v1/small/search", params={"query": "heart"}).status_code == 200
    log.rmdir()
    assert service.post("/v1/small/click", json=SENT).status_code == 204
    assert [line[1] for line in values(log)] == SENT["shown"]


def test_without_a_log_there_is_no_route_for_clicks(index_folder):
    with serving(ServiceConfig({"small": str(index_folder)}, {"titles": "bm25-title"})) as client:
        assert client.post("/v1/small/click", json=SENT).status_code == 404
        assert not client.get("/v1/indexes").json()["clicks"]
        assert not any("click" in path for path in client.get("/openapi.json").json()["paths"])
