"""The serve command: its errors, reload and stop by signals, and the commands of Pyserini's documentation."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socket import AF_INET6, create_connection, create_server
from urllib.parse import urlsplit

import httpx
import pytest

from rerank_plugin import serve
from tests.processes import ROOT, environment, run, status_of

SERVE = ("-m", "rerank_plugin.serve")
# Libraries of the tests' process may block SIGHUP. A function that runs before the command, in a copy of this process,
# would wait for locks that other threads held.
START = """
import os, resource, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, ())
if files := int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files // 2, files))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
BLOCKS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def server(*arguments, folder=None, files=None):
    """The process of the command, once it listens, and its address; ``files`` limits how many it may open."""

    command = [sys.executable, "-c", START, str(files or 0), *SERVE, "--port", "0", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            address = process.stdout.readline().strip()
            assert address, process.stderr.read()
            yield process, address
        finally:
            process.kill()


@pytest.fixture(scope="module")
def curl(tmp_path_factory):
    """Runs the curl lines of a text against a service over the bundled sample, which its start indexes."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with server(folder=tmp_path_factory.mktemp("fresh")) as (_, address):

        def answers(text):
            """The answer to each line."""
            lines = text.replace("http://localhost:8080", address).replace("\\\n", "").splitlines()
            return {line: run("-c", line, program="bash") for line in lines if line.startswith("curl")}

        yield answers


def test_pyserini_s_documentation_runs(curl):
    """The commands of its guide to the REST API, on the sample."""
    answers = curl(
        'curl -s -X GET "http://localhost:8080/v1/sample/search?query=heart%20attack%20aspirin"\n'
        'curl -s "http://localhost:8080/v1/sample/search?query=heart%20attack&hits=5&parse=false"\n'
        'curl -s "http://localhost:8080/v1/sample/doc/S000909"\n'
    )
    ranked, five, document = map(json.loads, answers.values())
    assert set(ranked) >= {"api", "index", "query", "candidates"} and len(ranked["candidates"]) == 10
    assert set(ranked["candidates"][0]) >= {"docid", "score", "rank", "doc"}
    assert [hit["rank"] for hit in five["candidates"]] == [1, 2, 3, 4, 5]
    assert isinstance(five["candidates"][0]["doc"], str) and isinstance(document["doc"], dict)


def test_the_commands_of_service_md_run(curl):
    answers = curl("".join(BLOCKS.findall((ROOT / "docs" / "service.md").read_text("utf-8"))))
    assert len(answers) >= 8
    for line, answer in answers.items():
        if "/metrics" not in line:
            assert "error_type" not in json.loads(answer), (line, answer)


def test_signals_reload_and_stop_without_failing_a_request(index_folder):
    with server("--index", f"a={index_folder}", "--reranker", "bm25-title", files=500) as (process, address):
        place = urlsplit(address)
        opened = [create_connection((place.hostname, place.port)) for _ in range(600)]  # more than it may open

        def status(_):
            return httpx.get(f"{address}/v1/a/search", params={"query": "cancer"}, timeout=60).status_code

        with ThreadPoolExecutor(4) as clients:
            process.send_signal(signal.SIGHUP)
            assert {*clients.map(status, range(40))} == {200}
        for _ in range(2000):
            if 'rerank_reloads_total{result="done"} 1.0' in httpx.get(f"{address}/metrics").text:
                break
            time.sleep(0.02)
        else:
            process.kill()
            pytest.fail(f"the service was not reloaded: {process.communicate()[1]}")
        for _ in range(20):  # reloads that the end gives up
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    for connection in opened:
        connection.close()
    assert log.count("was not accepted") <= 1 and "as this process may open 500 files only" in log
    assert process.returncode == 0 and "Traceback" not in log
    for line in ("index a: opening ", "index a: warming bm25, ", "index a: warming bm25-title", "ready: "):
        assert f"\n{line}" in f"\n{log}"


def test_an_address_of_ip_version_6(index_folder):
    try:
        create_server(("::1", 0), family=AF_INET6).close()
    except OSError:
        pytest.skip("needs the loopback address of IPv6")
    with server("--host", "[::1]", "--index", f"a={index_folder}", "--reranker", "bm25-title") as (_, address):
        assert address.startswith("http://[::1]:")
        assert httpx.get(f"{address}/v1/indexes").status_code == 200


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--index nowhere", "no index at nowhere"),
        ("--index a=x --index a=y", "'a'"),
        ("--queue 0", "argument --queue: must be at least 1"),
        ("--public-name https://a.org", "'https://a.org' must be a name without scheme"),
        ("--token-file nowhere", "nowhere"),
        ("--token-file /dev/zero", "is not a regular file"),
        ("--index a\tb=i", "has a control character"),
        ("--index i --click-log l.gz", "leave out .gz"),
        ("--mcp --click-log l", "leave one of them out"),
    ],
)
def test_invalid_options(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert status_of(serve.main, arguments.split(" ")) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_port_that_is_taken(capsys):
    with create_server(("127.0.0.1", 0)) as taken:
        assert status_of(serve.main, ["--index", "i", "--port", taken.getsockname()[1]]) == 2
    assert "choose another --port" in capsys.readouterr().err
