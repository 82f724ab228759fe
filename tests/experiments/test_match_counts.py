"""The table of matches in the candidates, counted by hand on the small index."""

import pytest

from experiments import match_counts
from rerank_plugin import Query, RankedList
from tests import small

QUERIES = [Query("q", "aspirin heart heart"), Query("nothing", "zebra"), Query("unretrieved", "cancer")]
RUN = {
    "q": RankedList(["9", "a7", "10", "MED-14"], [4.0, 3.0, 2.0, 1.0]),
    "nothing": RankedList(["b"], [1.0]),
}
JUDGMENTS = {"q": {"9": 2, "MED-14": 1, "100": 1, "10": 0}, "nothing": {"b": 1}, "unretrieved": {"b": 1}}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return small.build_index(tmp_path_factory.mktemp("matches") / "forward")


def test_counts_of_one_query(index):
    """A word that the query repeats is one word; titles count, and so do all occurrences."""
    found = match_counts.counted(QUERIES[0], RUN["q"], JUDGMENTS["q"], index)
    assert found.counts.tolist() == [[2, 2], [1, 0], [0, 0], [0, 1]]  # aspirin, heart
    assert found.relevant.tolist() == [True, False, False, True]
    assert found.lengths.tolist() == [14, 1, 13, 17]


def test_a_word_of_no_document_matches_nothing(index):
    found = match_counts.counted(QUERIES[1], RUN["nothing"], JUDGMENTS["nothing"], index)
    assert found.counts.tolist() == [[0]] and found.relevant.tolist() == [True]


def test_table(index):
    """Relevant candidates are 9 and MED-14 of the first query and b of the second; the others are a7 and 10."""
    text = match_counts.markdown(QUERIES, RUN, JUDGMENTS, index)
    assert text.startswith("3 queries of 1 words in the median; 3 of their 5 relevant documents are candidates.")
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line)
    rows = {name: cells for name, *cells in lines}
    assert rows["candidates"] == ["3", "2"]
    assert rows["words, median"] == ["14", "7"]
    assert rows["with all query words"] == ["33.3%", "0.0%"]
    assert rows["with none of them"] == ["33.3%", "50.0%"]
    assert rows["with one of them more than 2 times"] == ["0.0%", "0.0%"]
