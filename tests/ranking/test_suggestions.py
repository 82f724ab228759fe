"""Words that no document has, and what is meant by them."""

import pytest

import rerank_plugin as rp
from rerank_plugin.base.records import Document, Query
from rerank_plugin.ranking import suggestions
from rerank_plugin.ranking.reading import read

TEXTS = [
    "Metformin in diabetes", "Metformin and thrombocytopenia", "Aspirin for the heart", "Anaemia of the failure",
    "TNF-alpha in sepsis",
]  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    texts = [*TEXTS, *["Metformin trial"] * 120, "metformine"]
    documents = [Document(str(row), text, "") for row, text in enumerate(texts)]
    return rp.build_index(documents, tmp_path_factory.mktemp("suggestions") / "index")


@pytest.mark.parametrize(
    "text, meant, unknown",
    [
        ("metformin", None, []),
        ("asprin", "aspirin", ["asprin"]),
        ("Metfromin and (diabtes)", "metformin and (diabetes)", ["metfromin", "diabtes"]),
        ("trombocytopaenia AND aspirin", "thrombocytopenia AND aspirin", ["trombocytopaenia"]),
        ("asprin[ti] NOT xyzzy", "aspirin[ti] NOT xyzzy", ["asprin"]),  # what is negated need not be known
        ("xqzvw hert", "xqzvw heart", ["xqzvw", "hert"]),
        ("q" * 3000, None, ["q" * 60]),  # a note says only its beginning
        ("anemia diabetics", None, []),  # by its other spelling, by its stem
        ("metformine[tiab]", "metformin[tiab]", []),  # of little use, beside a commoner word
        ("metformine trial", None, []),
        ("TNFa", None, []),  # as it is written a name of a molecule
    ],
)
def test_words_that_are_meant(index, text, meant, unknown, monkeypatch):
    monkeypatch.setattr(suggestions, "MOST_SECONDS", 60)
    reading = read(index, Query("q", text))
    assert reading.did_you_mean == meant
    assert [note.split("'")[1] for note in reading.notes if note.startswith("no document has '")] == unknown


def test_it_takes_no_longer_than_it_may(index, monkeypatch):
    monkeypatch.setattr(suggestions, "MOST_SECONDS", 0)
    reading = read(index, Query("q", "asprin"))
    assert reading.did_you_mean is None and reading.notes == ("no document has 'asprin'",)
