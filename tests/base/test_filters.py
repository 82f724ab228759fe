"""Filters: their syntax, and invalid ones."""

import unicodedata

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.filters import Filter, folded, years


def test_a_filter_of_texts_is_that_of_its_mapping():
    parsed = Filter.parse(["year:2015-2020", "type:Review", "type:Meta-Analysis", "journal:N  Engl J: Med "])
    values = {"year": "2015-2020", "type": ["Review", "Meta-Analysis"], "journal": "N Engl J: Med"}
    assert parsed == Filter.of(values) and hash(parsed) == hash(Filter.of(values))
    assert Filter.of({"year": 2015, "retracted": False}) == Filter.parse(["year:2015", "retracted:no"])
    assert Filter.of({"journal": "Ha\u0308matologie"}) == Filter.of({"journal": "H\u00e4matologie"})  # composed or not
    assert str(parsed) == "year:2015-2020, type:review, type:meta analysis, journal:n engl j med"
    parsed = Filter.parse(["NOT type:Letter", "AND mesh:Aspirin", "AND mesh:Humans", "entered:2024/11/02.."])
    assert parsed.values == (("mesh", ("aspirin",)), ("mesh", ("humans",)), ("entered", ("2024-11-02..",)))
    assert parsed.excluded == (("type", ("letter",)),)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2015", ("2015", "2015")),
        ("2015-2020", ("2015", "2020")),
        ("2015-", ("2015", "9999")),
        ("-2020", ("0000", "2020")),
        ("2015-03", ("2015-03", "2015-03")),
        ("2023-06-", ("2023-06", "9999")),
        ("2015-03..2015", ("2015-03", "2015")),
        ("2015-03-01:", ("2015-03-01", "9999")),
    ],
)
def test_years(text, expected):
    assert years(text) == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ("color:red", "unknown filter 'color'; known: year, journal, author, mesh, type, language, retracted"),
        ("Review", "unknown filter 'Review'"),
        ("", "unknown filter ''"),
        *(
            (f"year:{wrong}", "expected a date or a range")
            for wrong in ("", "-", "15", "2015-20", "2015 2016", "20155")
        ),
        ("entered:soon", "the filter entered:soon: expected a date"),
        ("year:2020-2015", "ends before it begins"),
        ("retracted:maybe", "expected yes or no"),
        ("type: ", "has no value"),
    ],
)
def test_invalid_filters(text, message):
    with pytest.raises(InputError, match=message):
        Filter.parse([text])


def test_values_that_are_not_texts():
    with pytest.raises(InputError, match="the filter year has the value True: expected a text"):
        Filter.of({"year": True})


@pytest.mark.parametrize(
    "value, form",
    [("Müller  K.", "muller k"), ("O\u2019Brien-Ångström", "obrien angstrom"), ("Strauß", "strauss"), ("?!", "?!")],
)
def test_values_are_compared_without_accents_and_punctuation(value, form):
    assert folded(value) == folded(unicodedata.normalize("NFD", value)) == form
