"""String tables against lists, hashes that are equal, and the order of bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.files.string_table import SeenHashes, StringTable, StringTableWriter, hash_strings
from rerank_plugin.indexes.forward import SegmentedTable
from rerank_plugin.indexes.rows import Rows


def written(folder, strings, hashes=None, searchable=True):
    writer, half = StringTableWriter(folder, "names", searchable), len(strings) // 2
    for part in (slice(half), slice(half, None)):
        writer.extend(strings[part], None if hashes is None else hashes[part])
    writer.close()
    return StringTable(folder, "names")


def test_a_hash_is_the_same_on_every_machine():
    """BLAKE2b with a digest of 8 bytes (``b2sum --length=64``), read as a little-endian number."""
    assert hash_strings(["", "aspirin", "β"]).tolist() == [
        int.from_bytes(bytes.fromhex(digest), "little")
        for digest in ("e4a6a0577479b2b4", "b99926e4bafbf8cb", "9cd6c086c763bb5c")
    ]
    assert hash_strings([]).shape == (0,)


@pytest.mark.parametrize("strings", [[], ["", ""], ["a", "", "b"], ["ab", "c", "β", "a", "bc"]])
def test_edges(tmp_path, strings):
    """'ab', 'c' and 'a', 'bc' are the same bytes with other borders."""
    table, rows = written(tmp_path, strings), range(len(strings))
    assert len(table) == len(strings) and [table[row] for row in rows] == strings
    assert table.take(np.array([*rows][::-1], np.int64)) == strings[::-1]
    for string in ("", "a", "b", "ab", "bc", "abc", "ba", "β"):
        assert table.find([string]).tolist() == [strings.index(string) if string in strings else -1]
    ranks = sorted(rows, key=lambda row: strings[row].encode())
    assert table.ranks(np.arange(len(strings))).tolist() == [ranks.index(row) for row in rows]


@given(
    st.lists(st.lists(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=9), max_size=4)),
    st.data(),
)
def test_strings_of_several_tables_are_ranked_together(tmp_path_factory, parts, data):
    strings = sum(parts, [])
    order = data.draw(st.permutations(range(len(strings))))
    tables = [written(tmp_path_factory.mktemp("table"), part) for part in parts]
    table = SegmentedTable(Rows([len(part) for part in parts], np.array(order, np.uint32)), tables)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1), unique=True)) if strings else []
    taken = [strings[order[row]] for row in rows]
    assert table.take(rows) == taken
    ranks = table.ranks(np.array(rows, np.int64))
    assert [taken[place].encode() for place in np.argsort(ranks)] == sorted(one.encode() for one in taken)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=10, unique=True), st.data())
def test_any_pattern_of_equal_hashes_is_told_apart(tmp_path_factory, strings, data):
    """Every string keeps its own hash or takes that of another: a string under a wrong hash is not found, all others
    are, whatever stands beside them."""
    real = hash_strings(strings)
    owners = data.draw(st.lists(st.integers(0, len(strings) - 1), min_size=len(strings), max_size=len(strings)))
    table = written(tmp_path_factory.mktemp("table"), strings, real[owners])
    expected = [row if owners[row] == row else -1 for row in range(len(strings))]
    assert table.find(strings).tolist() == expected
    assert table.take(np.arange(len(strings))[::-1]) == strings[::-1]


@given(st.lists(st.text(max_size=3), max_size=8, unique=True), st.lists(st.text(max_size=3), max_size=8, unique=True))
def test_a_copy_that_is_extended_is_that_of_all_strings(tmp_path_factory, strings, more):
    folder, more = tmp_path_factory.mktemp("table"), [string for string in more if string not in strings]
    table = written(folder, strings)
    (folder / "copy").mkdir()
    writer = StringTableWriter(folder / "copy", "names", True)
    writer.copy(table)
    writer.extend(more)
    writer.close()
    (folder / "plain").mkdir()
    written(folder / "plain", [*strings, *more])
    for path in (folder / "copy").iterdir():
        assert path.read_bytes() == (folder / "plain" / path.name).read_bytes()


def test_a_table_without_hashes_says_so(tmp_path):
    table = written(tmp_path, ["a"], searchable=False)
    assert table[0] == "a"
    with pytest.raises(TypeError, match="without hashes"):
        table.find(["a"])
    assert not list(tmp_path.glob("*hashes*"))


# "As C's strcmp", for which a string ends at its first zero byte: no id holds one.
ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@given(st.lists(ids, min_size=1, max_size=25, unique=True))
def test_ranks_are_those_of_the_sorted_bytes(tmp_path_factory, strings):
    table = written(tmp_path_factory.mktemp("ranks"), strings)
    rows = np.arange(len(strings))[::-2]  # some of them, in another order
    ordered = sorted((strings[row] for row in rows), key=str.encode)
    assert [ordered[rank] for rank in table.ranks(rows)] == [strings[row] for row in rows]
    assert table.ranks(rows[:0]).tolist() == []


@given(st.lists(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=9), max_size=12))
def test_hashes_are_remembered_in_runs_that_stay_few(batches):
    seen, expected = SeenHashes(), set()
    for batch in batches:
        hashes = np.array(sorted(batch | {0, 7, 2**64 - 1}), np.uint64)
        assert seen.seen(hashes).tolist() == [int(value) in expected for value in hashes]
        assert seen.seen(hashes).tolist() == [int(value) in expected for value in hashes]  # asking adds nothing
        seen.add(np.array(sorted(batch - expected, reverse=True), np.uint64))
        expected |= batch
    lengths = [len(run) for run in seen.runs]
    assert sum(lengths) == len(expected)
    assert all(first > second for first, second in zip(lengths, lengths[1:]))
