"""Readings of hostile texts take time in proportion to their length."""

import time

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.ranking.notes import notes_of
from rerank_plugin.ranking.reading import SYNTAXES, read
from rerank_plugin.service.highlighting import phrases, query_stems

SIZE = 60_000  # characters; what is quadratic takes a minute


@pytest.mark.parametrize(
    "begun, repeated",
    [
        ("", "x"), ("", "12"), ("", "-"), ("", "<"), ("a", " "), ("[ti", " "), ("cats[ti:", " "), ("", "\n"),
        ("", "exp-, "), ("", "["), ("", '"a'), ("10.1234/", "."), ("", "journal"), ("", "a?"), ("", "A."),
    ],
)  # fmt: skip
def test_the_time_of_a_reading_is_linear(index, begun, repeated):
    text = begun + repeated * (SIZE // len(repeated))
    query_stems("warm")
    started = time.thread_time()
    for syntax in SYNTAXES:
        for newest_first in (False, True):
            try:
                reading = read(index, Query("q", text), syntax, newest_first=newest_first)
            except InputError:
                continue
            notes_of(reading.query, None, None)
            query_stems(reading.words or text)
    assert time.thread_time() - started < 5


def test_the_time_of_a_run_of_matches_is_linear():
    text = " ".join(f"w{number}" for number in range(20_000))
    started = time.thread_time()
    assert [*phrases(query_stems(text), text)] == [(0, len(text), 20_000)]
    assert time.thread_time() - started < 5
