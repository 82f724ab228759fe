"""Strategies on a real Lucene index, against plain Python over the documents' words and metadata."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerank_plugin as rp
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document
from rerank_plugin.base.strategy import AND, NOT, OR, Group, Term
from rerank_plugin.indexes import strategy_query
from rerank_plugin.strategies.syntax import Reader

WORDS = "pain acute acuteness chronic of the life lives vaccine vaccinated vaccination".split()
TEXTS = [
    ("Pain of life", "Acute pain and the quality of life"), ("Vaccination", "the vaccinated lives"),
    ("", "chronic pain, acute"), ("Vaccine lives", ""), ("Acute vaccine pain", "life of chronic acuteness"),
    ("Chronic Pain", "of the acute life; vaccinated"),
]  # fmt: skip
METADATA = [
    {
        "authors": ["Müller K", "Smith JA"],
        "electronic_date": "2018-12-30",
        "volume": "3",
        "pages": "11-9",
        "journal": "N Engl J Med",
        "date": "2019-03-14",
        "mesh": ["Pain"],
    },
    {
        "authors": ["Smith J", "King ML Jr"],
        "subheadings": ["Pain/surgery"],
        "date": "2019",
        "types": ["Systematic Review"],
        "languages": ["ger"],
        "doi": "10.1000/A",
    },
    {"authors": ["Smithson J"], "date": "2018-12", "mesh": ["Pain, Postoperative"], "keywords": ["Acute care"]},
    None,
    {"date": "2020-01-01", "mesh": ["Life", "Aspirin"], "chemicals": ["Aspirin"], "registry_numbers": ["R16CO5Y76E"]},
    {"date": "2019-12-31", "url": "https://pubmed.ncbi.nlm.nih.gov/77/", "retracted": True},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    pairs = enumerate(zip(TEXTS, METADATA))
    documents = [Document(f"{number}", *texts, metadata) for number, (texts, metadata) in pairs]
    return rp.build_index(documents, tmp_path_factory.mktemp("strategies") / "index")


def found(index, strategy):
    strategy = Reader().read(strategy) if isinstance(strategy, str) else strategy
    return index.matches(Filter((), strategy=strategy)).fits.nonzero()[0].tolist()


def holds(words, term):
    """Whether a text of these words has a term as it stands, in plain Python."""
    tokens = term.text.split()
    if term.near is not None:
        places = [[at for at, word in enumerate(words) if word == token] for token in tokens]
        spread = (max(chosen) - min(chosen) + 1 - len(tokens) for chosen in product(*places) if len({*chosen}) > 1)
        return any(gaps <= term.near for gaps in spread)
    for at in range(len(words) - len(tokens) + 1):
        *first, last = words[at : at + len(tokens)]
        if first == tokens[:-1] and (last.startswith(tokens[-1]) if term.truncated else last == tokens[-1]):
            return True
    return False


def matches(strategy, texts):
    if isinstance(strategy, Term):
        fields = {"ti": texts[:1], "ab": texts[1:], "tiab": texts}[strategy.field]
        return any(holds(re.findall(r"\w+", text.lower()), strategy) for text in fields)
    parts = [matches(part, texts) for part in strategy.parts]
    if strategy.role == NOT:
        return parts[0] and not any(parts[1:])
    return all(parts) if strategy.role == AND else any(parts)


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
terms = st.builds(
    Term, texts, st.sampled_from(["ti", "ab", "tiab"]), st.just(True), st.booleans(), st.none()
) | st.builds(Term, st.sampled_from(["pain acute", "life of", "chronic pain"]), st.just("tiab"), near=st.integers(0, 3))
trees = st.recursive(
    terms,
    lambda parts: st.builds(Group, st.sampled_from([AND, OR, NOT]), st.lists(parts, min_size=2, max_size=3).map(tuple)),
)


@given(trees)
def test_words_as_they_stand(index, strategy):
    assert found(index, strategy) == [row for row, texts in enumerate(TEXTS) if matches(strategy, texts)]


@pytest.mark.parametrize(
    "strategy, rows",
    [
        ("vaccinat*", [1, 5]),  # not vaccine, whose stem is the same
        ("vaccines", [1, 3, 4, 5]),  # without a tag by its stem
        ("life[tiab]", [0, 4, 5]),
        ('"life"', [0, 4, 5]),
        ("pain AND the", [0, 2, 4, 5]),  # a stop word is left out
        ("quality of life[tiab]", [0]),
        ("life acute[tiab]", [0, 4, 5]),  # a phrase, or all of its words where it is none anywhere
        ("acute life[tiab]", [5]),
        ("chronic pain[tiab]", [2, 5]),
        ("acute care[tiab]", [2]),  # an author's keyword
        ("aspirin", [4]),  # by its heading
        ("acute[tw] AND care", [2]),
        ("pain[mh:noexp]", [0]),
        ("pain*[mh:noexp]", [0, 2]),
        ("muller k[au]", [0]),
        ("smith j[au]", [0, 1]),
        ("smith*[au]", [0, 1, 2]),
        ('"smith j"[au]', [1]),  # quotes ask for these initials
        ('"smith"[au] OR "king ml"[au]', [0, 1]),
        ('"smith j"[1au] OR "smith ja"[1au]', [1]),
        ("king m jr[au] OR king 2nd[au]", [1]),
        ("r16co5y76e[rn]", [4]),
        ("aspirin[rn]", [4]),
        ("3[vi] AND 11[pg]", [0]),
        ("2:5[uid] OR 9:77[pmid]", [2, 3, 4, 5]),
        ("pain/therapy[mh]", [1]),  # which includes surgery
        ("therapy[sh] NOT therapy[sh:noexp]", [1]),
        ("muller k[1au] OR smith ja[1au]", [0]),
        ("n engl j med[ta]", [0]),
        ("german[la] AND systematic review[pt]", [1]),
        ("10.1000/a[doi] OR 77[pmid] OR 3[uid]", [1, 3, 5]),
        ("aspirin[nm] OR acute care[ot]", [2, 4]),
        ("2019[dp]", [0, 1, 5]),
        ("life AND 2019", [0, 5]),
        ("2019/01/01:2019/12/30[dp]", [0, 1]),  # a year alone is at its beginning
        ("2018/12:2019/03[dp]", [0, 1, 2]),
        ("2018/12[dp] NOT 2018[ppdat]", [0]),  # by the date online
        ("2018[epdat]", [0]),
        ("pain NOT (acute OR the)", []),
        ("all[sb] NOT hasabstract", [3]),
    ],
)
def test_fields(index, strategy, rows):
    assert found(index, strategy) == rows


def test_filters_and_strategies_are_both_required(index):
    filter = Filter.of({"retracted": "no"})
    both = Filter(filter.values, filter.excluded, Reader().read("2019[dp]"))
    assert index.matches(both).fits.nonzero()[0].tolist() == [0, 1] and index.matches(both).total == 2


def test_a_truncated_word_of_too_many_forms_says_so(index, monkeypatch):
    monkeypatch.setattr(strategy_query, "MOST_FORMS", 1)
    result = index.matches(Filter((), strategy=Reader().read("vacc*[tiab]")))
    assert result.total == 2 and result.notes == (
        "vacc* has more than 1 forms: the first in the alphabet are searched",
    )


def test_a_field_that_no_document_has_is_noted(index):
    result = index.matches(Filter((), strategy=Reader().read("pain AND x[ip]")))
    assert result.total == 0 and result.notes == (
        "no document of the index has what [ip] searches: x[ip] matches none",
    )


def test_values_that_no_document_has_are_noted(index):
    reader = Reader()
    result = index.matches(Filter((), strategy=reader.read("pain[mh:noexp] OR zz[au] OR n engl j[ta]")))
    assert result.total == 1 and [note.partition(" has ")[2] for note in result.notes] == [
        "zz[au]",
        '"n engl j"[ta] (n engl j med is there)',
    ]
