"""Hostile clients of a running service: their bodies, headers and connections. No client may stop the others.

Each attack gets a client and chance, and returns the connections that stay open while others are served. A new one is
one function of `ATTACKS`.
"""

import gzip
import json
import resource
import shutil
import socket
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx

from tests.processes import ROOT, environment

PATHS = ("/rerank", "/v1/rerank", "/infinity/rerank", "/v1/made/click", "/mcp", "/admin/update")
SECONDS = 10.0  # in which others are served
MOST_MEMORY = 3 << 30  # bytes of the service
MOST_LOG = 20_000  # bytes of its log for an attack
ITEMS = ("1", '""', "[]", "{}", "null", '{"":""}', '{"text":"a"}', "1e999", '"a"')
MCP = {"Accept": "application/json, text/event-stream"}


class Client:
    """Sends to a service whatever it is given."""

    def __init__(self, address):
        self.url, self.place = address, (httpx.URL(address).host, httpx.URL(address).port)

    def connect(self, sent=b""):
        connection = socket.create_connection(self.place, timeout=SECONDS)
        with suppress(OSError):  # it may be closed while it sends
            connection.sendall(sent)
        return connection

    def post(self, path, body, **headers):
        """The status of an answer; 0 if the service closes the connection before it."""
        if path == "/mcp":
            headers |= MCP
        headers = {"Content-Type": "application/json", **{name.replace("_", "-"): headers[name] for name in headers}}
        try:
            return httpx.post(self.url + path, content=body, headers=headers, timeout=60).status_code
        except httpx.TransportError:
            return 0

    def ask(self, path, body, chance):
        """Post JSON as it is, packed, or in chunks."""
        how = chance.choice(("plain", "gzip", "deflate", "chunks"))
        if how == "chunks":
            size = chance.choice((1000, 100_000))
            body = map(partial(_part, body, size), range(0, len(body), size))
        elif how != "plain":
            body = gzip.compress(body, 1) if how == "gzip" else zlib.compress(body, 1)
        return self.post(path, body, **({"Content_Encoding": how} if how in ("gzip", "deflate") else {}))


def _part(body, size, start):
    return body[start : start + size]


def in_form(path, items, chance):
    """A body of this path in whose place for a list the items stand."""
    if path == "/mcp":
        name, argument = chance.choice((("rerank", "documents"), ("search", "filter"), ("search", "query")))
        value = json.dumps(items) if chance.random() < 0.3 else items  # the library reads JSON in strings, too
        call = f'{{"name": "{name}", "arguments": {{"query": "a", "{argument}": {value}}}}}'
        return f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {call}}}'.encode()
    field = chance.choice(("documents", "texts", "rank_fields", "shown", "query", "add", "delete", "relevant_spans"))
    return f'{{"query": "a", "documents": ["b"], "{field}": {items}}}'.encode()


def nested(client, chance):
    depth, (start, end) = int(10 ** chance.uniform(1, 6.3)), chance.choice((("[", "]"), ('{"a":', "}")))
    path = chance.choice(PATHS)
    client.ask(path, in_form(path, start * depth + "1" + end * (depth * chance.randint(0, 1)), chance), chance)


def many_items(client, chance):
    path, item = chance.choice(PATHS), chance.choice(ITEMS)
    items = ",".join([item] * int(10 ** chance.uniform(3, 6.5)))
    client.ask(path, in_form(path, f"[{items}]", chance), chance)


def many_fields(client, chance):
    path, count = chance.choice(PATHS), int(10 ** chance.uniform(2, 6))
    name = chance.choice(("query", "k{n}", "k" * 1_000_000))[: 10_000_000 // count]
    fields = ",".join(f'"{name.format(n=n)}": 1' for n in range(count))
    client.ask(path, in_form(path, f"{{{fields}}}", chance), chance)
    client.ask(path, f"{{{fields}}}".encode(), chance)


def numbers(client, chance):
    path, digits = chance.choice(PATHS), chance.choice((20, 4301, 1_000_000))
    number = chance.choice(("9" * digits, "-" + "9" * digits, "1e" + "9" * digits, "0." + "0" * digits + "1", "NaN"))
    client.ask(path, in_form(path, f"[{number}]", chance), chance)
    client.ask(path, f'{{"query": "a", "documents": ["b"], "top_n": {number}}}'.encode(), chance)


def bomb(client, chance):
    packed = gzip.compress(chance.choice((b"0", b"[", b"1,", b'"",')) * int(10 ** chance.uniform(5, 7.5)))
    for _ in range(chance.randint(0, 2)):
        packed = gzip.compress(packed)
    packing = chance.choice(("gzip", "gzip, gzip", "x-gzip", "br", "zstd", "deflate", "GZIP", "identity, gzip"))
    client.post(
        chance.choice(PATHS), packed[: chance.choice((len(packed), len(packed) // 2))], Content_Encoding=packing
    )


def slow_bodies(client, chance):
    """Many bodies that do not end, some of them large."""
    head = b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    size = chance.choice((1, 1000, 2_000_000))
    started = head + chance.choice((b"Content-Length: 16000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"))
    part = b"[" * size if b"Content" in started[len(head) :] else b"%x\r\n" % size + b"[" * size
    return [client.connect(started + part) for _ in range(chance.choice((10, 100)))]


def unfinished_headers(client, chance):
    sent = chance.choice((b"", b"G", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nA: "))
    return [client.connect(sent) for _ in range(chance.choice((100, 700)))]


def large_headers(client, chance):
    many = b"".join(b"X-%d: a\r\n" % n for n in range(int(10 ** chance.uniform(2, 6))))
    long = b"X-Long: " + b"a" * int(10 ** chance.uniform(4, 7.5))
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    trailers = b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
    return [client.connect(chance.choice((head, trailers)) + chance.choice((many, long, long + b"\r\n\r\n")))]


def pipelined(client, chance):
    request = chance.choice(
        (b"GET /v1/made/search?query=a HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n")
    )
    return [client.connect(request * chance.choice((2, 60, 3000))) for _ in range(chance.choice((1, 20)))]


def many_connections(client, chance):
    """More than a service takes; some have had an answer."""
    sent = chance.choice((b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    opened = []
    with suppress(OSError):
        for _ in range(chance.choice((200, 1500))):
            opened.append(client.connect(sent))
    return opened


def unread_answers(client, chance):
    path = chance.choice((b"v1/made/search?query=patients+of+the+study&hits=200", b"docs/swagger/swagger-ui-bundle.js"))
    request = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
    return [client.connect(request * chance.choice((1, 30))) for _ in range(chance.choice((5, 40, 1100)))]


def broken_connections(client, chance):
    """Closed by one side, or reset, in the middle."""
    for _ in range(50):
        request = b"POST /rerank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n" + b"x" * 50
        connection = client.connect(request[: chance.randrange(len(request) + 1)])
        if chance.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        else:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        connection.close()


def noise(client, chance):
    start = chance.choice((b"", b"GET ", b"POST /rerank HTTP/1.1\r\n", b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\n"))
    return [client.connect(start + chance.randbytes(chance.choice((1, 100, 1_000_000))))]


def streams(client, chance):
    """Answers of MCP that would not end."""
    listen = b'{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}'
    head = b"Host: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    post = b"POST /mcp HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(listen), listen)
    sent = chance.choice((b"GET /mcp HTTP/1.1\r\n%b\r\n" % head, post))
    return [client.connect(sent) for _ in range(chance.choice((5, 200)))]


def addresses(client, chance):
    """Long addresses, with many parameters, or with none that are known."""
    part = chance.choice(("query=a&", "filter=year:2015&", "x{n}=1&", "query=" + "a" * 50_000 + "&", "query=%00&"))
    parameters = "".join(part.format(n=n) for n in range(int(10 ** chance.uniform(0, 4))))
    return [client.connect(f"GET /v1/made/search?{parameters} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())]


def clicks(client, chance):
    """Queries of any characters, some of which are refused."""
    shown = [hit["docid"] for hit in httpx.get(client.url + "/v1/made/search?query=patients").json()["candidates"]]
    for _ in range(20):
        text = "".join(chance.choice("a \t\n\r\0\x01\x1c\x7f\x85\u2028\ufeff\xff\U0001f642") for _ in range(5))
        sent = {"query": text, "shown": shown, "clicked": shown[0], "position": 1, "session": text}
        client.post("/v1/made/click", json.dumps(sent, ensure_ascii=chance.random() < 0.5).encode())


ATTACKS = {
    function.__name__.replace("_", " "): function
    for function in (
        nested, many_items, many_fields, numbers, bomb, slow_bodies, unfinished_headers, large_headers, pipelined,
        many_connections, unread_answers, broken_connections, noise, streams, addresses, clicks,
    )
}  # fmt: skip


class Served:
    """A process of the service over an index, and its log."""

    def __init__(self, index: Path, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
        self.log, self.clicks = folder / "service.log", folder / "clicks.tsv"
        command = [sys.executable, "-m", "rerank_plugin.serve", "--port", "0", "--index", f"made={index}"]
        command += ["--reranker", "bm25-title", "--click-log", str(self.clicks)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=open(self.log, "w")
        )
        self.client = Client(self.process.stdout.readline().strip())

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()

    def faults(self, attack, chance) -> list[str]:
        """What an attack shows: others that are not served meanwhile, a traceback, or too much memory or log."""
        before = self.log.stat().st_size
        with ThreadPoolExecutor(1) as executor:
            attacking = executor.submit(attack, self.client, chance)
            faults = self._others()
            while not (faults or attacking.done()):
                faults = self._others()
        broken = isinstance(attacking.exception(), (OSError, httpx.TransportError))  # which the others show, too
        opened = [] if broken else attacking.result() or []
        faults = faults or self._others()
        for connection in opened:
            connection.close()
        logged = self.log.read_bytes()[before:].decode(errors="replace")
        if "Traceback" in logged or len(logged) > MOST_LOG:
            faults.append(f"logs {len(logged)} characters: {logged[-300:]}")
        if (memory := self._memory()) > MOST_MEMORY:
            faults.append(f"takes {memory >> 20} MB")
        copy = shutil.copyfile(self.clicks, self.clicks.with_name("copy.tsv"))
        if self._reopened(copy) != self.clicks.read_bytes():
            faults.append("a click log loses lines when it is opened again")
        return faults

    def _others(self) -> list[str]:
        """A search and a re-ranking by someone else."""
        end = time.monotonic() + SECONDS
        last = ""
        while time.monotonic() < end:
            try:
                found = httpx.get(f"{self.client.url}/v1/made/search?query=patients", timeout=SECONDS)
                ranked = httpx.post(
                    f"{self.client.url}/rerank", json={"query": "a", "texts": ["b", "a"]}, timeout=SECONDS
                )
                if found.status_code == ranked.status_code == 200:
                    return []
                last = f"{found.status_code} {ranked.status_code} {found.text[:100]}"
            except httpx.TransportError as error:
                last = repr(error)
            if self.process.poll() is not None:
                return [f"the service ended with status {self.process.returncode}"]
            time.sleep(0.1)
        return [f"others are not served for {SECONDS:g} seconds: {last}"]

    def _memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)

    @staticmethod
    def _reopened(path: Path) -> bytes:
        from rerank_plugin.service.click_log import ClickLog

        ClickLog(path, 1 << 30).close()
        return path.read_bytes()
