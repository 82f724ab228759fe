"""Folds: parts of the queries, their validation queries, and files of folds."""

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.training import cross_validation
from rerank_plugin.training.cross_validation import SHARE, as_text, make_folds, random_parts, read_parts


def queries(count):
    return [Query(f"q{number}", f"word{number}") for number in range(count)]


@given(size=st.integers(2, 40), data=st.data(), seed=st.integers(0, 3))
def test_random_parts(size, data, seed):
    """Every query is in one part, in the order of the queries, and sizes differ by one at most."""
    count = data.draw(st.integers(2, size))
    every = queries(size)
    parts = random_parts(every, count, seed)
    assert len(parts) == count and list(parts) == sorted(parts)
    assert sorted(query for part in parts.values() for query in part) == sorted(every)
    assert all(part == sorted(part, key=every.index) for part in parts.values())
    sizes = [len(part) for part in parts.values()]
    assert max(sizes) - min(sizes) <= 1 and min(sizes) >= 1
    assert random_parts(every, count, seed) == parts


def test_the_seed_shuffles():
    first, second = (random_parts(queries(30), 3, seed) for seed in (1, 2))
    assert first.keys() == second.keys() == {"1", "2", "3"} and first != second
    assert first["1"] != queries(30)[:10]


@pytest.mark.parametrize("count", [0, 1, 6])
def test_too_few_and_too_many_parts(count):
    with pytest.raises(InputError, match=f"{count} folds: the 5 judged queries make 2 to 5"):
        random_parts(queries(5), count, 1)


def test_the_papers_folds():
    """[P] 3.1: six years of 50 queries; of the 250 others 50 random ones validate and 200 train."""
    parts = {str(2009 + year): queries(300)[50 * year : 50 * year + 50] for year in range(6)}
    for held_out in (50, SHARE):
        made = make_folds(parts, held_out, 3)
        assert [fold.name for fold in made] == list(parts)
        for fold in made:
            assert fold.test == parts[fold.name]
            assert (len(fold.validation), len(fold.train)) == (50, 200)
            assert sorted(fold.train + fold.validation + fold.test) == sorted(queries(300))
    assert make_folds(parts, 50, 3) == made
    assert make_folds(parts, 50, 4) != made
    assert len({query for fold in made for query in fold.validation}) > 150  # a sample of its own for each fold


def test_the_order_of_the_parts_does_not_matter():
    parts = random_parts(queries(20), 4, 1)
    backwards = dict(reversed(list(parts.items())))
    assert make_folds(parts, 3, 1) == make_folds(backwards, 3, 1)[::-1]


@pytest.mark.parametrize("held_out", [4, 9, 0.9])
def test_validation_must_leave_training_queries(held_out):
    parts = {"a": queries(6)[:2], "b": queries(6)[2:]}
    with pytest.raises(InputError, match=f"hold out {held_out} for validation: the [24] queries outside the fold"):
        make_folds(parts, held_out, 1)


def test_a_small_share_is_one_query():
    assert [len(fold.validation) for fold in make_folds(random_parts(queries(6), 3, 1), 0.01, 1)] == [1, 1, 1]


fold_names = st.lists(st.sampled_from(["2009", "wt10", "x-1.a", "é"]), min_size=2, max_size=20)


@given(fold_names.filter(lambda names: len(set(names)) > 1))
def test_written_folds_are_read(tmp_path_factory, names):
    every = queries(len(names))
    parts = {name: [query for query, fold in zip(every, names) if fold == name] for name in dict.fromkeys(names)}
    path = tmp_path_factory.mktemp("folds") / "folds.tsv"
    path.write_text(as_text(parts))
    assert list(read_parts(path, every).items()) == list(parts.items())
    path.write_text(as_text(parts).replace("\n", "\r\n") + "\n")
    assert read_parts(path, every) == parts


def test_unknown_queries_of_a_file(tmp_path, caplog):
    path = tmp_path / "folds.tsv"
    path.write_text("q1\tb\nq7\tc\nq0\ta\nq2\ta\n")
    with caplog.at_level(logging.WARNING):
        parts = read_parts(path, queries(3))
    assert {name: [query.id for query in part] for name, part in parts.items()} == {"b": ["q1"], "a": ["q0", "q2"]}
    assert "1 queries are not among the training queries, e.g. 'q7'" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q0\ta\nq1 b\n", ":2: expected a query id, a tab"),
        ("q0\ta\tb\n", ":1: expected a query id"),
        ("\ta\n", ":1: expected a query id"),
        ("q0\ta\nq0\ta\n", ":2: query q0 is in a fold already, a"),
        ("q0\ta/b\n", ":1: the fold 'a/b' names a folder"),
        ("q0\t..\n", ":1: the fold '..' names a folder"),
        ("q0\t\n", ":1: the fold '' names a folder"),
        ("q0\ta\nq1\tb\n", "1 judged queries are in no fold, e.g. 'q2'"),
        ("q0\ta\nq1\ta\nq2\ta\n", "all queries are in one fold, a"),
        ("", "3 judged queries are in no fold"),
    ],
)
def test_bad_files(tmp_path, text, message):
    (tmp_path / "folds.tsv").write_text(text)
    with pytest.raises(InputError) as raised:
        read_parts(tmp_path / "folds.tsv", queries(3))
    assert message in str(raised.value) and "folds.tsv" in str(raised.value)


def test_repeated_texts(caplog):
    """The same words after tokenization; within a fold they do no harm."""
    texts = {
        "a": {"q1": "Heart attack", "q2": "stroke", "q3": "gout"},
        "b": {"q4": "heart  ATTACK?", "q5": "migraine", "q6": "migraine", "q7": "attack heart"},
        "c": {"q8": "gout"},
    }
    parts = {name: [Query(id, text) for id, text in of_fold.items()] for name, of_fold in texts.items()}
    with caplog.at_level(logging.WARNING):
        cross_validation.warn_of_repeated_texts(parts)
    message = r"4 queries have the same words .* data: q1 \(fold a\) = q4 \(fold b\); q3 \(fold a\) = q8 \(fold c\)\n"
    assert re.search(message, caplog.text)
    caplog.clear()
    cross_validation.warn_of_repeated_texts(random_parts(queries(9), 3, 1))
    assert not caplog.text
