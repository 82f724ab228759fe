"""Subsets of queries, against counts made by hand and a plain twin with Python's sets."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import subsets
from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Query, judged_queries, judgments, queries
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.text.tokenizer import tokenize
from tests.evaluation.runs import ranked

# The titles are those of conftest.DOCUMENTS.
QUERIES = [
    Query("q1", "cancer"),
    Query("q2", "Stroke, stroke"),
    Query("q3", "heart failure women"),
    Query("q4", "..."),
    Query("q5", "unjudged"),
]
JUDGMENTS = {
    # cancer in the title: 20, 300, MED-2, MED-20, not MED-200
    "q1": {"20": 2, "300": 0, "MED-2": 0, "MED-20": -1, "MED-200": 1},
    # stroke in the title: B, b; in a's abstract only
    "q2": {"a": 0.5, "B": 0, "b": 0},
    # women only in 77's abstract
    "q3": {"77": 1, "777": 0},
    "q4": {"1": 1, "2": 0},
    "q0": {"1": 1},
}


@given(
    words=st.lists(st.sampled_from("aspirin the cancer heart failure d b12 twins β-catenin covid-19 of xyz".split()))
)
def test_documents_with_words_as_python_s_sets_say(index, documents, words):
    rows = index.forward.rows([document.id for document in documents])
    expected = [
        bool(words) and set(tokenize(" ".join(words))) <= set(tokenize(document.title)) for document in documents
    ]
    candidates = Candidates(index.forward, rows, np.zeros(len(rows), np.float32))
    found = subsets.all_words_in_title(" ".join(words), candidates)
    assert found.dtype == bool and found.tolist() == expected
    texts = [{*tokenize(document.title), *tokenize(document.abstract)} for document in documents]
    some = subsets.some_word(" ".join(words), candidates).tolist()
    assert some == [bool({*tokenize(" ".join(words))} & text) for text in texts]


def test_samples_of_judged_documents(index):
    of_queries = subsets.samples(QUERIES[:3], JUDGMENTS, index.forward)
    assert list(of_queries) == ["q1", "q2", "q3"]
    assert of_queries["q1"].relevant.tolist() == [True, False, False, False, True]
    assert of_queries["q1"].in_title.tolist() == [True, True, True, True, False]
    assert of_queries["q2"].relevant.tolist() == [True, False, False]  # grades may be fractions
    assert of_queries["q2"].in_title.tolist() == [False, True, True]
    assert not of_queries["q3"].in_title.any()


def test_samples_of_a_run_count_unjudged_documents_as_not_relevant(index):
    run = {"q1": ranked("MED-200", "300", "1", "20"), "q9": ranked("1")}
    of_queries = subsets.samples(QUERIES[:2], JUDGMENTS, index.forward, run)
    assert of_queries["q1"].relevant.tolist() == [True, False, False, True]
    assert of_queries["q1"].in_title.tolist() == [False, True, False, True]
    assert of_queries["q2"].relevant.tolist() == []  # not in the run


def test_documents_that_are_not_in_the_index_are_left_out_and_counted(index, caplog):
    judgments = {"q1": {"20": 1, "nobody": 0, "noone": 0}}
    with caplog.at_level(logging.WARNING):
        of_queries = subsets.samples(QUERIES[:1], judgments, index.forward)
    assert of_queries["q1"].relevant.tolist() == [True]
    assert caplog.messages == ["2 of 3 documents are not in the index and are left out, e.g. nobody"]
    with pytest.raises(InputError, match="none of the 1 judged documents of 1 queries is in the index"):
        subsets.samples(QUERIES[:1], {"q1": {"nobody": 1}}, index.forward)


@pytest.mark.parametrize("at_least, expected", [(1, ["q1", "q2"]), (2, ["q1", "q2"]), (3, ["q1"]), (4, []), (20, [])])
def test_hard_queries(index, at_least, expected):
    of_queries = subsets.samples(QUERIES[:4], JUDGMENTS, index.forward)
    assert subsets.hard_queries(of_queries, at_least) == expected


def test_hard_queries_need_non_relevant_documents(index):
    of_queries = subsets.samples(QUERIES[:1], {"q1": {"20": 1, "300": 2}}, index.forward)
    with pytest.raises(InputError, match=r"neg20\+ needs non-relevant documents.*give a run"):
        subsets.hard_queries(of_queries)


@pytest.mark.parametrize(
    "name, count", [("neg20+", 20), ("neg5+", 5), ("neg0+", None), ("neg+", None), ("neg20", None), ("xneg20+", None)]
)
def test_names_of_hard_subsets(name, count):
    assert subsets.hard_count(name) == count


def test_new_words():
    seen = subsets.words_of([Query("t", "Heart attack in 1999"), Query("v", "of women")])
    asked = [
        Query("old", "women heart, HEART"),
        Query("year", "1987 attack"),  # all years of a century are one word
        Query("one", "heart failure"),
        Query("all", "renal failure"),
        Query("none", "!!!"),
    ]
    assert subsets.one_new_word(asked, seen) == ["one", "all"]
    assert subsets.all_new_words(asked, seen) == ["all"]
    assert subsets.all_new_words(asked, set()) == ["old", "year", "one", "all"]


@given(texts=st.lists(st.text("abc ", max_size=6), max_size=6), seen=st.sets(st.text("abc", min_size=1, max_size=2)))
def test_queries_of_new_words_as_python_s_sets_say(texts, seen):
    asked = [Query(str(number), text) for number, text in enumerate(texts)]
    words = {query.id: {*tokenize(query.text)} for query in asked}
    assert subsets.one_new_word(asked, seen) == [id for id, of_query in words.items() if of_query - seen]
    assert subsets.all_new_words(asked, seen) == [id for id, all in words.items() if all and not all & seen]


def test_judged_queries_with_a_text(caplog):
    with caplog.at_level(logging.WARNING):
        kept = judged_queries(QUERIES, JUDGMENTS | {"q6": {}}, "some")
    assert [query.id for query in kept] == ["q1", "q2", "q3", "q4"]
    assert caplog.messages == ["some: 1 judged queries have no text: q0"]
    with pytest.raises(InputError, match="some: none of the . queries has a judgment"):
        judged_queries(QUERIES, {"77": {"1": 1}}, "some")


def test_ids_of_a_file(tmp_path):
    path = tmp_path / "ids"
    path.write_text("q1\n\n  q3 \nq9\n")
    assert subsets.read_ids(path) == ["q1", "q3", "q9"]
    path.write_text("q1\nq2 q3\n")
    with pytest.raises(InputError, match="ids:2: expected one query id, found 'q2 q3'"):
        subsets.read_ids(path)
    path.write_text("\n")
    with pytest.raises(InputError, match="holds no query id"):
        subsets.read_ids(path)
    with pytest.raises(InputError, match=r"neg20: is neither a subset \(neg20\+, .*overlap0.3-0.5\) nor"):
        subsets.read_ids("neg20")


def test_judgments_and_runs_of_a_subset(caplog):
    with caplog.at_level(logging.WARNING):
        kept = subsets.restricted(JUDGMENTS, ["q3", "q1", "q9"], "ids")
    assert list(kept) == ["q1", "q3"] and kept["q3"] is JUDGMENTS["q3"]
    assert caplog.messages == ["subset ids: 1 of its queries are not judged, e.g. q9"]
    run = {query: ranked("1") for query in ("q1", "q2", "q9")}
    assert list(subsets.without_others(run, JUDGMENTS, kept)) == ["q1", "q9"]
    with pytest.raises(InputError, match="the subset neg20. is empty: it has none of the 5 judged queries"):
        subsets.restricted(JUDGMENTS, [], "neg20+")


def test_the_table_of_the_paper(index):
    """q1, q2, q3, q4: samples 5, 3, 2, 2, relevant 2, 1, 1, 1; q1 has one relevant document without its word in the
    title and three others with it, q2 one and two; q3 has one of each without, q4 no words."""
    found = subsets.describe(QUERIES, JUDGMENTS, index.forward, {"stroke", "heart"}, at_least=2)
    assert found == [
        ("Full test data", 4, 5, 4, 7, 5),
        ("Neg2+", 2, 3, 2, 5, 5),
        ("OneNewWord", 2, 3, 2, 4, 3),  # q1 and q3
        ("AllNewWords", 1, 2, 1, 3, 3),  # q1
    ]
    assert subsets.markdown(found) == (
        "|  | Full test data | Neg2+ | OneNewWord | AllNewWords |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| Number of queries | 4 | 2 | 2 | 1 |\n"
        "| Number of samples | 12 | 8 | 7 | 5 |\n"
        "| Proportion of samples +ive | 41.7% | 37.5% | 42.9% | 40.0% |\n"
        "| Proportion of samples -ive | 58.3% | 62.5% | 57.1% | 60.0% |\n"
        "| +ives without all query terms in title | 80.0% | 66.7% | 66.7% | 50.0% |\n"
        "| -ives with all query terms in title | 71.4% | 100.0% | 75.0% | 100.0% |\n"
    )


def test_the_table_without_what_its_subsets_need(index):
    relevant_only = {"q1": {"20": 1, "MED-200": 2}}
    found = subsets.describe(QUERIES, relevant_only, index.forward)
    assert found == [("Full test data", 1, 2, 1, 0, 0)]
    assert subsets.markdown(found).endswith("| -ives with all query terms in title | - |\n")


def test_overlaps_by_hand():
    """Grades of 0 are not relevant; an end of 1 is included."""
    judged = {"same": {"a": 1, "b": 2}, "half": {"a": 1, "b": 1, "c": 1, "d": 1}, "none": {"z": 1, "a": 0}}
    seen = {"s": {"a": 1, "b": 1}, "t": {"a": 1, "b": 1, "x": 1}, "u": {"z": 0, "y": 1}}
    assert subsets.largest_overlaps(judged, seen) == {"same": 1.0, "half": 0.5, "none": 0.0}
    found = {name: subsets.overlapping(judged, seen, *subsets.overlap_range(name)) for name in
             ("overlap0-0.5", "overlap0.5-1", "overlap0-1", "overlap0.5-0.9")}  # fmt: skip
    assert found == {
        "overlap0-0.5": ["none"],
        "overlap0.5-1": ["same", "half"],
        "overlap0-1": ["same", "half", "none"],
        "overlap0.5-0.9": ["half"],
    }
    assert subsets.overlap_range("overlap2-3") is subsets.overlap_range("overlap0.3") is None


@pytest.mark.real_data
def test_overlaps_of_nfcorpus(real_data):
    judged, seen = (judgments(f"{real_data}/nfcorpus:{split}") for split in ("test", "train"))
    bounds = [0, 0.3, 0.5, 0.9, 1]
    sizes = [len(subsets.overlapping(judged, seen, *between)) for between in zip(bounds, bounds[1:])]
    assert sizes == [43, 96, 119, 65]


@pytest.mark.real_data
def test_new_words_of_nfcorpus(real_data):
    train, dev, test = (queries(f"{real_data}/nfcorpus:{split}") for split in ("train", "dev", "test"))
    seen = subsets.words_of([*train, *dev])
    parts = (test, subsets.one_new_word(test, seen), subsets.all_new_words(test, seen))
    assert [len(part) for part in parts] == [323, 163, 68]
