"""Connections to the processes of shards, on which questions are asked and answered.

Ray places the processes and starts them again. A call of an actor by Ray takes a millisecond of processor time, and a
search asks several questions one after the other, so questions take a connection of TCP, which needs some hundredth of
that. Both ends prove that they know a key, which the coordinator gets by Ray; messages are not encrypted, as those of
Ray. A thread of the process answers the questions of a connection; a coordinator's thread uses it alone meanwhile.
"""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import socketserver
from collections import deque
from collections.abc import Callable, Iterable
from struct import Struct
from threading import Thread
from typing import Any, NamedTuple

from rerank_plugin.cluster.messages import packed, unpacked

SIZE = Struct("<Q")  # before each message
NONCE = 32  # bytes
AGREEING = 5.0  # seconds in which the other end has to prove that it knows the key
ASKING, ANSWERING = b"asking", b"answering"
QUIET = 60  # seconds after which a connection that nobody uses is looked after: some networks forget it


class Address(NamedTuple):
    """Where a process answers."""

    host: str
    port: int
    key: bytes


class Channel:
    """One end of a connection; one thread at a time uses it.

    Raises:
        OSError: the other end cannot be reached, does not know the key, or does not answer in time; as all methods do.
    """

    def __init__(self, connected: socket.socket, key: bytes, own: bytes, other: bytes):
        self.connected, self.reading = connected, connected.makefile("rb")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET)
        mine = secrets.token_bytes(NONCE)
        connected.sendall(mine)
        theirs = self._read(NONCE)
        connected.sendall(hmac.digest(key, own + theirs + mine, "sha256"))
        if not hmac.compare_digest(self._read(32), hmac.digest(key, other + mine + theirs, "sha256")):
            self.close()
            raise ConnectionRefusedError("the other end does not know the key")

    @classmethod
    def to(cls, address: Address, timeout: float) -> Channel:
        """A connection to a process; its methods wait no longer than ``timeout`` seconds each time."""
        connected = socket.create_connection((address.host, address.port), timeout)
        try:
            return cls(connected, address.key, ASKING, ANSWERING)
        except OSError:
            connected.close()
            raise

    def fileno(self) -> int:
        return self.connected.fileno()

    def send(self, message: Any) -> None:
        self.send_packed(packed(message))

    def send_packed(self, data: bytes) -> None:
        self.connected.sendall(SIZE.pack(len(data)) + data)

    def receive(self) -> Any:
        (size,) = SIZE.unpack(self._read(SIZE.size))
        return unpacked(self._read(size))

    def _read(self, count: int) -> bytes:
        data = self.reading.read(count)
        if len(data) < count:
            raise ConnectionResetError("the other end closed the connection")
        return data

    def close(self) -> None:
        self.reading.close()
        self.connected.close()


class Channels:
    """The connections of a coordinator to one process; thread-safe.

    Args:
        hello: the first message on each.
    """

    def __init__(self, address: Address, hello: Any):
        self.address, self.hello = address, hello
        self.idle: deque[Channel] = deque()

    def take(self, timeout: float) -> Channel:
        """A connection that nobody uses; put it into ``idle`` again once its question is answered."""
        try:
            return self.idle.pop()
        except IndexError:
            channel = Channel.to(self.address, timeout)
            channel.send(self.hello)
            return channel

    def close(self) -> None:
        """Close those that nobody uses."""
        while self.idle:
            self.idle.pop().close()


def answered(channels: Iterable[Channel], seconds: float) -> list[Channel]:
    """Those of some channels that have something to receive, as soon as one has, or none after some seconds."""
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            selector.register(channel, selectors.EVENT_READ, channel)
        return [key.data for key, _ in selector.select(max(seconds, 0))]


def listen(host: str, converse: Callable[[Channel], None]) -> Address:
    """Answer connections from now on, each in a thread that ``converse`` until the other end closes it."""
    key = secrets.token_bytes(32)

    class Conversation(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(AGREEING)
            try:
                channel = Channel(self.request, key, ANSWERING, ASKING)
                self.request.settimeout(None)
                converse(channel)
            except OSError:  # the other end is no coordinator, has ended, or waits for the answer no longer
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        request_queue_size = 128

    server = Server((host, 0), Conversation)
    Thread(target=server.serve_forever, daemon=True).start()
    return Address(host, server.server_address[1], key)
