"""The command: what it refuses, a process that is reloaded and stopped by signals, and Pyserini's own lines."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from socket import create_server

import httpx
import pytest

from tests.processes import ROOT, environment, run

SERVE = ("-m", "rerank_plugin.serve")
LINES = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def served(*arguments, folder=None):
    """The process of the command, once it answers, and its address."""
    command = [sys.executable, *SERVE, "--port", "0", *map(str, arguments)]
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
    """Runs the lines of a page against the bundled sample, which the first start indexes; each gives JSON."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with served(folder=tmp_path_factory.mktemp("fresh")) as (_, address):

        def answers(text):
            lines = text.replace("http://localhost:8080", address).replace("\\\n", "").splitlines()
            return {line: run("-c", line, program="bash") for line in lines if line.startswith("curl")}

        yield answers


def test_pyserini_s_documentation_runs(curl):
    """The lines of its guide to the REST API, with the sample's documents."""
    found = curl(
        'curl -s -X GET "http://localhost:8080/v1/sample/search?query=heart%20attack%20aspirin"\n'
        'curl -s "http://localhost:8080/v1/sample/search?query=heart%20attack&hits=5&parse=false"\n'
        'curl -s "http://localhost:8080/v1/sample/doc/S000909"\n'
    )
    ranked, five, document = map(json.loads, found.values())
    assert set(ranked) >= {"api", "index", "query", "candidates"} and len(ranked["candidates"]) == 10
    assert set(ranked["candidates"][0]) >= {"docid", "score", "rank", "doc"}
    assert [one["rank"] for one in five["candidates"]] == [1, 2, 3, 4, 5]
    assert isinstance(five["candidates"][0]["doc"], str) and isinstance(document["doc"], dict)


def test_the_lines_of_the_page_run(curl):
    found = curl("".join(LINES.findall((ROOT / "docs" / "service.md").read_text("utf-8"))))
    assert len(found) >= 8
    for line, answer in found.items():
        if "/metrics" not in line:
            assert "error_type" not in json.loads(answer), (line, answer)


def test_signals_reload_and_stop_without_dropping_a_request(index_folder):
    with served("--index", f"a={index_folder}", "--reranker", "bm25-title") as (process, address):

        def asked(_):
            return httpx.get(f"{address}/v1/a/search", params={"query": "cancer"}, timeout=60).status_code

        with ThreadPoolExecutor(4) as clients:
            process.send_signal(signal.SIGHUP)
            assert {*clients.map(asked, range(40))} == {200}
        for _ in range(500):
            if 'rerank_reloads_total{result="done"} 1.0' in httpx.get(f"{address}/metrics").text:
                break
            time.sleep(0.02)
        else:
            pytest.fail("it was not reloaded")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in said
    for line in ("index a: opening ", "index a: warming bm25, ", "index a: warming bm25-title", "ready: "):
        assert f"\n{line}" in f"\n{said}"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--index", "nowhere"), "no index at nowhere"),
        (("--index", "a=x", "--index", "a=y"), "'a'"),
        (("--queue", "0"), "queue is 0"),
        (("--token-file", "nowhere"), "nowhere"),
        (("--index", "i", "--click-log", "l.gz"), "leave out .gz"),
        (("--mcp", "--click-log", "l"), "leave one of them out"),
        (("--port", "{taken}"), "choose another --port"),
    ],
)
def test_what_it_refuses(tmp_path, arguments, said):
    with create_server(("127.0.0.1", 0)) as taken:
        known = ("--index", "i") if "--port" in arguments else ()
        given = [one.format(taken=taken.getsockname()[1]) for one in (*known, *arguments)]
        assert said in run(*SERVE, *given, folder=tmp_path, status=2)
