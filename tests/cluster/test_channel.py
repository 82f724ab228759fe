"""Messages between a coordinator and the processes of shards, and the connections that carry them."""

import socket
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("msgpack", reason="the extra 'cluster' is not installed")

from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Query
from rerank_plugin.cluster.channel import Channel, Channels, listen
from rerank_plugin.cluster.messages import packed, unpacked
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


@pytest.fixture
def address():
    """Of what answers every message with the first one and itself."""

    def converse(channel):
        hello = channel.receive()
        while True:
            channel.send((hello, channel.receive()))

    return listen("127.0.0.1", converse)


def test_connections_are_used_again(address):
    channels = Channels(address, "hello")
    first, second = channels.take(5), channels.take(5)
    for channel in (first, second):
        channel.send(np.zeros(1 << 20, np.uint8))
    for channel in (second, first):
        hello, answer = channel.receive()
        assert hello == "hello" and len(answer) == 1 << 20
        channels.idle.append(channel)
    assert channels.take(5) is first
    first.close()
    channels.close()
    with pytest.raises(OSError):
        second.send("closed")


def test_who_does_not_know_the_key_gets_no_answer(address):
    with socket.create_connection(address[:2]):  # says nothing, and holds nobody up
        with pytest.raises(OSError):
            Channel.to(address._replace(key=bytes(32)), 5)
        channel = Channels(address, "hello").take(5)
        channel.send("question")
        assert channel.receive() == ("hello", "question")
        channel.close()


def test_an_end_that_does_not_answer_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        Channel.to(listen("127.0.0.1", print)._replace(port=silent.getsockname()[1]), 0.1)
