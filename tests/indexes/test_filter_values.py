"""Values of filters with their counts, and filters that empty a list."""

import pytest

import rerank_plugin as rp
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter
from rerank_plugin.indexes import filter_values
from rerank_plugin.indexes.filter_values import FilterValues
from rerank_plugin.search import main as search

RECORDS = [
    {"authors": ["Müller K", "Smith JA"], "full_names": ["Müller, Katrin", "Smith, John A"], "date": "2019-03"},
    {"authors": ["Smith JB"], "date": "2020", "types": ["Review", "Letter"], "retracted": True},
    {"authors": ["Mullen P"], "journal": "N Engl J Med", "full_journal_title": "The New England journal of medicine"},
    {"authors": ["Smith JA"], "journal": "Lancet", "date": "2019-12-01", "types": ["Review"]},
]


TOGETHER = "no document matches all filters together; documents of each: "


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    documents = [rp.Document(str(number), "Aspirin", "", metadata) for number, metadata in enumerate(RECORDS)]
    return rp.build_index(documents, tmp_path_factory.mktemp("values") / "index")


@pytest.fixture(scope="module")
def values(index):
    values = FilterValues(index)
    yield values
    values.close()


@pytest.mark.parametrize(
    "field, begins, within, expected",
    [
        ("author", "", None, [("Smith JA", 2), ("Mullen P", 1), ("Müller K", 1), ("Smith JB", 1)]),
        ("author", "mull", None, [("Mullen P", 1), ("Müller K", 1)]),
        ("author", "smith john", None, [("Smith JA", 2)]),
        ("author", "", "type:Review", [("Smith JA", 1), ("Smith JB", 1)]),
        ("author", "smith", "year:2020", [("Smith JB", 1)]),
        ("journal", "new", None, [("N Engl J Med", 1)]),
        ("type", "", "NOT type:Letter", [("Review", 1)]),
        ("year", "", None, [("2020", 1), ("2019", 2)]),
        ("retracted", "", None, [("yes", 1)]),
        ("journal", "zz", None, []),
    ],
)
def test_values_and_their_counts(values, field, begins, within, expected):
    assert values.values(field, begins, within and Filter.parse([within])) == expected


def test_values_that_cannot_be_listed(values, monkeypatch):
    with pytest.raises(InputError, match="no document of .* has the field .mesh.; usable filters"):
        values.values("mesh")
    monkeypatch.setattr(filter_values, "MOST_TERMS", 3)
    values._terms.cache_clear()
    with pytest.raises(InputError, match="the index has more than 3 values of author: give their beginning"):
        values.values("author")


@pytest.mark.parametrize(
    "filters, message",
    [
        (["type:review"], None),
        (["author:Smiht JA", "year:2019"], "no document has author:smiht ja; the nearest values: Smith JA; Smith JB"),
        (["journal:new england"], "no document has journal:new england; the nearest values: N Engl J Med"),
        (["year:1950"], "no document has year:1950; the nearest values: 2020"),
        (["type:Letter", "author:muller"], TOGETHER + "1 type:letter, 1 author:muller"),
        (["type:Review", "NOT type:Review"], TOGETHER + "2 type:review, 2 NOT type:review"),
    ],
)  # fmt: skip
def test_the_filter_that_empties_a_list(values, filters, message):
    assert values.emptied(Filter.parse(filters)) == message


def test_the_command_names_it(index, capsys):
    search(["--index", str(index.folder), "--query", "aspirin", "--filter", "journal:lancett"])
    assert capsys.readouterr().out == "no document has journal:lancett; the nearest values: Lancet\n"
