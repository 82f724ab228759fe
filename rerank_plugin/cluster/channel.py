"""Connections to the processes of shards, on which questions are asked and answered.

Ray places the processes and starts them again. A call of an actor by Ray takes a millisecond of processor time, and a
search asks several questions one after the other, so questions take a connection of TCP, which needs some hundredth of
that. It is one of :mod:`multiprocessing.connection`, with bytes only: nothing is unpickled. They are msgpack with
arrays, tuples, and records of known classes; nothing else is read. Both ends prove that they know a key, which the
coordinator gets by Ray; messages are not encrypted, as those of Ray. A thread of the process answers the questions of a
connection; a coordinator's thread uses it alone meanwhile.
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from threading import Thread, Timer
from typing import Any, NamedTuple

import msgpack
import numpy as np

from rerank_plugin.base.errors import kind_and_message, one_line
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document, Query
from rerank_plugin.cluster.shard import ScoredPart, WholeQuery
from rerank_plugin.indexes.forward import WordSlices
from rerank_plugin.indexes.sharding import Commit
from rerank_plugin.kernels.quantization import Codes, QuantizedQueries
from rerank_plugin.models.attribution import Attribution, ScorePart
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.retrieval.lucene import LuceneConfig

MOST = 1 << 30  # bytes of a message
NESTED = 16  # tuples, arrays and records in one another

# Numbers of msgpack's extensions: each is a list itself.
TUPLE, ARRAY, RECORD = 1, 2, 3
RECORDS = {
    record.__name__: record
    for record in (
        Attribution, Codes, Document, Filter, Commit, LuceneConfig, ScorePart, QuantizedQueries, Query, RerankerOptions,
        ScoredPart, WholeQuery, WordSlices,
    )
}  # fmt: skip


def packed(message: Any) -> bytes:
    """A message of None, bool, int, float, str, bytes, lists, dictionaries, tuples, arrays of numbers and `RECORDS`.

    Raises:
        TypeError: it holds something else.
        ValueError: it is longer than `MOST`.
    """
    data: bytes = msgpack.packb(message, default=_extension, strict_types=True)
    if len(data) > MOST:
        raise ValueError(f"a message of {len(data):,} bytes is longer than {MOST:,}")
    return data


def unpacked(data: bytes | memoryview, within: int = 0) -> Any:
    """The message; arrays can be written to, as if they were made here.

    Raises:
        ValueError, TypeError, KeyError: the bytes are no message.
    """
    if within > NESTED:
        raise ValueError(f"more than {NESTED} records in one another")
    return msgpack.unpackb(data, ext_hook=partial(_value, within=within + 1), strict_map_key=False)


def _extension(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return msgpack.ExtType(ARRAY, packed([value.dtype.str, list(value.shape), value.tobytes()]))
    if kind is tuple:
        return msgpack.ExtType(TUPLE, packed(list(value)))
    if RECORDS.get(kind.__name__) is kind:
        values = [getattr(value, each.name) for each in fields(value)] if is_dataclass(value) else list(value)
        return msgpack.ExtType(RECORD, packed([kind.__name__, *values]))
    raise TypeError(f"a message cannot hold {kind.__name__}")


def _value(number: int, data: bytes, within: int) -> Any:
    parts = unpacked(data, within)
    if number == TUPLE:
        return tuple(parts)
    if number == RECORD:
        return RECORDS[parts[0]](*parts[1:])
    if number != ARRAY:
        raise ValueError(f"unknown extension {number}")
    dtype, shape, content = parts
    array = np.frombuffer(bytearray(content), np.dtype(dtype)).reshape(shape)
    return array if shape else array[()]  # a single number


log = logging.getLogger(__name__)

AGREEING = 5.0  # seconds in which both ends have proved that they know the key
QUIET = 60  # seconds after which a connection that nobody uses is looked after: some networks forget it
PAUSE = 1.0  # seconds until connections are accepted again, after the system had no room for one
SECRET = 32  # bytes


class Address(NamedTuple):
    """Where a process answers, and the keys of those who ask and of those who answer: a proof is of one direction."""

    host: str
    port: int
    asking: bytes
    answering: bytes


class Channel:
    """One end of a connection; one thread at a time uses it.

    Args:
        asks: whether this end asks, or answers.
        timeout: seconds that a method waits for the other end each time; None for ever.

    Raises:
        OSError: the other end cannot be reached, does not know the key, does not answer in time, or sends something
            else than messages; as all methods do.
    """

    def __init__(self, connected: socket.socket, address: Address, asks: bool, timeout: float | None = None):
        with connected:
            connected.settimeout(None)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a round trip takes 45 ms
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET)
            if timeout is not None:
                interval = struct.pack("ll", *divmod(max(round(timeout * 1e6), 1), 10**6))  # 0 would be for ever
                for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                    connected.setsockopt(socket.SOL_SOCKET, option, interval)
            end = connected.dup()
            self.connection = Connection(connected.detach())
        with end:
            self._agree(end, address, asks, AGREEING if timeout is None else min(timeout, AGREEING))

    def _agree(self, end: socket.socket, address: Address, asks: bool, seconds: float) -> None:
        """Prove both keys; whatever the other end sends, and however slowly, this takes no longer than some seconds."""
        hang_up, started = Timer(seconds, _hang_up, [end]), time.monotonic()
        hang_up.daemon = True
        hang_up.start()
        try:
            with _failures():
                if asks:
                    answer_challenge(self.connection, address.asking)
                    deliver_challenge(self.connection, address.answering)
                else:
                    deliver_challenge(self.connection, address.asking)
                    answer_challenge(self.connection, address.answering)
        except OSError:
            self.close()
            if time.monotonic() - started >= seconds:
                raise TimeoutError(f"the other end did not prove in {seconds:g} s that it knows the key") from None
            raise
        finally:
            hang_up.cancel()
            hang_up.join()  # it must not meet another connection with this number

    @classmethod
    def to(cls, address: Address, timeout: float) -> Channel:
        """A connection to a process; its methods wait no longer than ``timeout`` seconds each time."""
        return cls(socket.create_connection(address[:2], timeout), address, True, timeout)

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, message: Any) -> None:
        self.send_packed(packed(message))

    def send_packed(self, data: bytes) -> None:
        with _failures():
            self.connection.send_bytes(data)

    def receive(self) -> Any:
        with _failures():
            return unpacked(self.connection.recv_bytes(MOST))

    def close(self) -> None:
        self.connection.close()


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what an end that hangs up, lies or is late makes of a connection into an `OSError` of one line."""
    try:
        yield
    except EOFError:
        raise ConnectionResetError("the other end closed the connection") from None
    except BlockingIOError:
        raise TimeoutError("the other end did not answer in time") from None
    except (AuthenticationError, AssertionError):
        raise ConnectionRefusedError("the other end does not know the key") from None
    except (ValueError, TypeError, LookupError) as error:
        raise ConnectionAbortedError(f"the other end sent no message ({one_line(error):.100})") from None


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


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


def listen(host: str, converse: Callable[[Channel], None]) -> Address:
    """Answer connections from now on, each in a thread that ``converse`` until the other end closes it."""
    server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    address = Address(host, server.getsockname()[1], secrets.token_bytes(SECRET), secrets.token_bytes(SECRET))

    def conversation(connected: socket.socket) -> None:
        try:
            channel = Channel(connected, address, False)
            try:
                converse(channel)
            finally:
                channel.close()
        except OSError as error:  # the other end is no coordinator, has ended, or waits for the answer no longer
            log.debug("a connection ended: %s", one_line(error))
        except Exception as error:
            log.warning("a connection was ended: %s", kind_and_message(error))

    def accept() -> None:
        while True:
            try:
                connected, _ = server.accept()
            except OSError as error:
                log.warning("no connection can be accepted (%s)", one_line(error))
                time.sleep(PAUSE)
                continue
            Thread(target=conversation, args=[connected], daemon=True).start()

    Thread(target=accept, daemon=True).start()
    return address
