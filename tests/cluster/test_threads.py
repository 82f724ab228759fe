"""What threads of a coordinator share, with their steps in the order that was wrong."""

from threading import Condition
from types import SimpleNamespace

import numpy as np
import pytest

from rerank_plugin.cluster import index


def test_words_that_another_thread_forgets_are_still_counted(monkeypatch):
    monkeypatch.setattr(index, "MOST_WORDS", 2)

    class Answering:
        """Counts a word by its letters; while it counts the longest word, another query's words fill the memory."""

        def ask(self, questions):
            ((number, (_, field, words)),) = questions.items()
            if "heart" in words:
                for others in (["x", "y", "z"], ["u"]):
                    coordinator.word_frequencies(field, others)
            return {number: np.array([(len(word), 2 * len(word)) for word in words])}

    coordinator = object.__new__(index.RemoteIndex)
    coordinator.answering, coordinator.frequencies = Answering(), {}
    forward = SimpleNamespace(ask_searched=lambda *question: coordinator.answering.ask({0: question}))
    vars(coordinator)["forward"] = forward
    coordinator.word_frequencies("contents", ["an", "old"])
    assert coordinator.word_frequencies("contents", ["an", "heart"]) == [(2, 4), (5, 10)]
    assert len(coordinator.frequencies) <= 4


def test_closing_while_a_process_comes_back_closes_all_connections():
    actors = pytest.importorskip("rerank_plugin.cluster.actors", reason="Ray is not installed")
    shards, closed = object.__new__(actors.RayShards), []

    class Channels:
        def close(self):
            closed.append(self)
            shards.channels[len(closed), 1] = self  # the thread that pings has reached another process

    shards.changed, shards.closed, shards.opening = Condition(), False, None
    shards.channels = {(0, 0): Channels(), (1, 0): Channels()}
    shards.processes = SimpleNamespace(release=closed.append)
    shards.close()
    assert len(closed) == 3 and closed[-1] is None
