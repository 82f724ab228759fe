"""The service under load over real sockets, and the clients against a server with known answers."""

import asyncio
import json
from functools import partial

import pytest

from rerank_plugin.benchmark import service_load
from tests.benchmark.test_bench_command import consistent
from tests.processes import attempt


def answers_of(answer, loop):
    """The answers to a loop of requests, the connections left open, and the requests that the server received."""
    requests = []

    async def connected(reader, writer):
        while line := (await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""):
            requests.append(line.split()[1].decode())
            await answer(writer, len(requests))

    async def run():
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        connections = service_load.Connections("127.0.0.1", server.sockets[0].getsockname()[1], "one", ["a b", "c"])
        answers = await loop(connections)
        opened = len(connections.free)
        connections.close()
        server.close()
        return answers, opened

    return (*asyncio.run(run()), requests)


async def say(writer, status, body):
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


async def by_turns(writer, number):
    await say(writer, 429 if number % 2 else 200, "{}" if number % 2 else '{"reranked":false}')


def test_statuses_and_late_answers_are_told_apart_and_connections_kept():
    answers, opened, requests = answers_of(by_turns, partial(service_load.closed_loop, clients=1, seconds=0.05))
    assert [(answer.status, answer.late) for answer in answers[:4]] == [(429, False), (200, True)] * 2
    assert requests[:3] == [f"/v1/one/search?query={query}&first_stage=bm25" for query in ("a+b", "c", "a+b")]
    assert opened == 1


def test_an_open_loop_does_not_wait_for_answers_and_counts_from_when_a_request_was_due():
    gate = asyncio.Event()

    async def held(writer, number):
        if number == 20:
            gate.set()  # the last one releases all
        await gate.wait()
        await say(writer, 200, "{}")

    answers, opened, _ = answers_of(held, partial(service_load.open_loop, rate=200, seconds=0.1, seed=1))
    assert len(answers) == opened == 20
    seconds = [answer.seconds for answer in answers]
    assert seconds == sorted(seconds, reverse=True) and seconds[0] > 0.05 > seconds[-1] - 0.05


def test_a_connection_that_ends_is_an_error_of_its_kind():
    async def ended(writer, number):
        writer.close()

    answers, opened, _ = answers_of(ended, partial(service_load.open_loop, rate=1000, seconds=0.003, seed=1))
    assert {answer.status for answer in answers} == {"IncompleteReadError"} and not opened


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Output and rows of the command for a service that it starts."""
    folder = tmp_path_factory.mktemp("load")
    line = "bench --quick --service --reranker bm25-title --documents 300 --depth 20 --rate 40 --clients 99 --seconds 1"
    status, out, err = attempt(folder, f"{line} --json rows.json", OMP_NUM_THREADS="1")
    assert status == 0, err
    return out, json.loads((folder / "rows.json").read_text())


def test_the_library_the_service_a_rate_and_a_crowd(measured):
    out, rows = measured
    assert [(row["path"], row.get("rate"), row.get("clients")) for row in rows] == [
        ("library", None, None), ("HTTP", None, None), ("HTTP", 40, None), ("HTTP", None, 99)
    ]  # fmt: skip
    for row in rows[2:]:
        assert row["stage"] == "service" and row["memory_before_mb"] > 100 and row["errors"] == {}
        assert row["median_ms"] <= row["p95_ms"] <= row["p99_ms"]
    for row in rows[:2]:
        consistent(row)
    assert rows[2]["repetitions"] + round(rows[2]["refused"] * 40) == 40
    assert rows[3]["refused"] > 0  # 99 clients are more than the queue holds
    assert "The service" in out and "clients on the same machine" in out
