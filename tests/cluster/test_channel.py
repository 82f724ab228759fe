"""Messages between a coordinator and the processes of shards, and the connections that carry them."""

import os
import re
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

pytest.importorskip("msgpack", reason="the extra 'cluster' is not installed")

from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.cluster import channel
from rerank_plugin.cluster.channel import Channel, Channels, listen, packed, unpacked
from rerank_plugin.cluster.shard import ScoredPart
from rerank_plugin.models.base import RerankerOptions
from rerank_plugin.retrieval.lucene import LuceneConfig


def test_a_message_arrives_as_it_was():
    query = Query("1", "naïve", Filter.of({"year": "2000-"}))
    part = ScoredPart(query, np.arange(3), np.array([3, 2.5, 1], np.float32)[::-1], 0.1)
    message = (
        "score",
        [part],
        {"a": (1, None, True)},
        LuceneConfig("qld", k1=1.5),
        RerankerOptions(threads=2),
        1.5,
        b"\0",
    )
    found = unpacked(packed(message))
    assert found[0] == "score" and found[2:] == message[2:] and type(found[2]["a"]) is tuple
    assert isinstance(found[1][0], ScoredPart) and found[1][0].query == query
    scores = found[1][0].first_stage_scores
    np.testing.assert_array_equal(scores, part.first_stage_scores, strict=True)
    assert scores.flags.writeable
    np.testing.assert_array_equal(unpacked(packed(np.zeros((0, 4), np.int8))), np.zeros((0, 4), np.int8), strict=True)
    number = unpacked(packed(np.float32(0.1)))
    assert type(number) is np.float32 and number == np.float32(0.1)


def test_other_objects_are_neither_sent_nor_made():
    for other in (Path("a"), np.array([Path("a")]), {1, 2}):
        with pytest.raises(TypeError, match="a message cannot hold"):
            packed(other)
    written = packed(Query("1", "a"))
    with pytest.raises(KeyError, match="Quary"):
        unpacked(written.replace(b"Query", b"Quary"))


def nested(levels):
    message = ()
    for _ in range(levels):
        message = (message,)
    return message


def test_a_message_has_a_largest_length_and_depth(monkeypatch):
    assert unpacked(packed(nested(10))) == nested(10)
    with pytest.raises(ValueError, match="more than 16 records in one another"):
        unpacked(packed(nested(300)))
    monkeypatch.setattr(channel, "MOST", 10)
    with pytest.raises(ValueError, match="a message of 16 bytes is longer than 10"):
        packed("fourteen bytes!")


@pytest.fixture
def address(monkeypatch):
    """Of what answers every message with the first one and itself."""
    monkeypatch.setattr(channel, "AGREEING", 0.5)

    def converse(channel):
        hello = channel.receive()
        while True:
            channel.send((hello, channel.receive()))

    return listen("127.0.0.1", converse)


def test_connections_are_used_again(address):
    channels = Channels(address, "hello")
    first, second = channels.take(5), channels.take(5)
    for one in (first, second):
        one.send(np.zeros(1 << 20, np.uint8))
    for one in (second, first):
        hello, answer = one.receive()
        assert hello == "hello" and len(answer) == 1 << 20
        channels.idle.append(one)
    assert channels.take(5) is first
    first.close()
    channels.close()
    with pytest.raises(OSError):
        second.send("closed")


def slowly(connected):
    """A byte of a proof every now and then: each read gets something, and the proof never ends."""
    with suppress(OSError):
        for byte in struct.pack("!i", 200) + bytes(200):
            connected.sendall(bytes([byte]))
            time.sleep(0.02)


@pytest.mark.parametrize(
    "attack",
    [
        lambda connected: None,
        slowly,
        lambda connected: connected.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
        lambda connected: connected.sendall(struct.pack("!iQ", -1, 1 << 40) + bytes(1000)),
        lambda connected: connected.sendall(struct.pack("!i", 257) + bytes(257)),
        lambda connected: connected.sendall(struct.pack("!i", 16) + bytes(16)),
    ],
    ids=["silent", "slow", "http", "a terabyte", "long", "wrong proof"],
)
def test_who_does_not_prove_the_key_is_hung_up_on_and_holds_nobody_up(address, attack):
    with socket.create_connection(address[:2]) as connected:
        attacking = Thread(target=attack, args=[connected])
        attacking.start()
        channel = Channels(address, "hello").take(5)
        channel.send("question")
        assert channel.receive() == ("hello", "question")
        connected.settimeout(5)
        with suppress(ConnectionResetError):
            while connected.recv(1000):
                pass
        attacking.join()
        channel.close()


def test_each_end_proves_a_key_of_its_own(address):
    """Who answers at the place of a dead process gets proofs of those who ask, and cannot pass them on as its own."""
    for changed in ({"asking": bytes(32)}, {"answering": bytes(32)}, {"answering": address.asking}):
        with pytest.raises(ConnectionRefusedError, match="does not know the key"):
            Channel.to(address._replace(**changed), 5)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (struct.pack("!iQ", -1, 1 << 40), "bad message length"),
        (struct.pack("!i", 3) + b"\xc1\xc1\xc1", "sent no message"),
        (struct.pack("!i", 5) + packed("four"), None),
        (struct.pack("!i", 2) + b"\xd4\x07", "sent no message"),
        (struct.pack("!i", 9)[:2], "closed the connection|got end of file"),
    ],
    ids=["a terabyte", "no msgpack", "a message", "cut off", "half a length"],
)
def test_what_an_end_sends_is_a_message_or_an_error_of_one_line(sent, said):
    answered = []

    def converse(channel):
        try:
            answered.append(channel.receive())
        except OSError as error:
            answered.append(error)

    channel = Channel.to(listen("127.0.0.1", converse), 5)
    os.write(channel.fileno(), sent)
    channel.close()
    while not answered:
        time.sleep(0.01)
    assert answered == ["four"] if said is None else re.search(said, str(answered[0])) and "\n" not in str(answered[0])


def test_an_end_that_does_not_answer_is_not_waited_for(address):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError, match="did not prove in 0.1 s"):
        Channel.to(address._replace(port=silent.getsockname()[1]), 0.1)
    channel = Channel.to(address, 0.1)
    with pytest.raises(TimeoutError, match="did not answer in time"):
        channel.receive()
    channel.close()


def test_both_ends_send_small_messages_at_once(address):
    """Without TCP_NODELAY a round trip takes some 40 ms."""
    delays = []

    def converse(channel):
        with socket.socket(fileno=os.dup(channel.fileno())) as connected:
            delays.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        channel.send("opened")

    channel = Channel.to(listen("127.0.0.1", converse), 5)
    assert channel.receive() == "opened"
    with socket.socket(fileno=os.dup(channel.fileno())) as connected:
        delays.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    channel.close()
    assert all(delays) and len(delays) == 2
