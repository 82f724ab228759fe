"""A server of a folder over HTTP on this machine, with the faults of servers, each for a path and so many requests."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class FaultyServer(ThreadingHTTPServer):
    """Lists folders, and serves files with ranges.

    Attributes:
        faults: of a path, what is wrong with its next requests: a status, ``(status, Retry-After)``, ``cut``, ``stall``
            (after half of the rest), ``whole`` (no ranges), ``moved`` (to itself), or bytes that are served instead.
        requests: the path and the range of each request.
        stalled: set while a request is stalled; ``released`` ends that.
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.faults, self.requests = Path(folder), {}, []
        self.stalled, self.released = threading.Event(), threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/"

    def asked(self, ending=""):
        """The paths that were asked for since the last call."""
        asked, self.requests = self.requests, []
        return [path for path, _ in asked if path.endswith(ending)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, path = self.server, self.path.lstrip("/")
        server.requests.append((path, self.headers.get("Range")))
        waiting = server.faults.get(path) or [None]
        fault = waiting.pop(0)
        target = server.folder / path
        if isinstance(fault, (int, tuple)):
            status, *after = (fault,) if isinstance(fault, int) else fault
            self.answer(status, b"", {"Retry-After": after[0]} if after else {})
        elif fault == "moved":
            self.answer(302, b"", {"Location": self.path})
        elif target.is_dir():
            sizes = [(one.name, one.stat().st_size) for one in sorted(target.iterdir())]
            lines = [f'<a href="{name}">{name}</a>  2026-01-02 03:04  {size}' for name, size in sizes]
            self.answer(200, "\n".join(['<a href="../">Parent</a>', *lines]).encode())
        elif not target.exists():
            self.answer(404, b"none")
        else:
            self.file(fault if isinstance(fault, bytes) else target.read_bytes(), fault)

    def file(self, data, fault):
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if fault != "whole" else 0
        headers = {"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        headers |= {"Content-Encoding": "x-gzip"} if self.path.endswith(".gz") else {}  # as some servers say
        if begin and begin >= len(data):
            self.answer(416, b"", headers | {"Content-Range": f"bytes */{len(data)}"})
            return
        status = 206 if begin else 200
        if begin:
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        part = data[begin:]
        sent = part[: len(part) // 2] if fault in ("cut", "stall") else part
        self.answer(status, sent, headers, len(part))
        if fault == "stall":
            self.server.stalled.set()
            self.server.released.wait(20)
        self.close_connection = sent != part

    def answer(self, status, body, headers=(), length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


@contextmanager
def serving(folder):
    server = FaultyServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
