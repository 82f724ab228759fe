"""Arrays that grow on disk, and the gather of many slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.files.arrays import ArrayWriter, OffsetsWriter, open_array, ranges, save_array, slices


@given(
    st.sampled_from([np.uint8, np.uint32, np.uint64, np.float32]),
    st.lists(st.lists(st.integers(0, 255), max_size=5), max_size=6),
)
def test_appended_values_are_read_back(tmp_path_factory, dtype, parts):
    path = tmp_path_factory.mktemp("array") / "array.npy"
    writer = ArrayWriter(path, dtype)
    for part in parts:
        writer.append(part)
    writer.close()
    expected = [number for part in parts for number in part]
    assert writer.length == len(expected)
    read = open_array(path)
    assert read.dtype == dtype and read.shape == (len(expected),)
    assert read.tolist() == expected
    np.testing.assert_array_equal(np.load(path), read)  # an ordinary .npy file


def test_arrays_are_read_only_and_hold_no_objects(tmp_path):
    save_array(tmp_path / "array.npy", np.arange(3))
    with pytest.raises(ValueError):
        open_array(tmp_path / "array.npy")[0] = 7
    np.save(tmp_path / "array.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError):
        open_array(tmp_path / "array.npy")
    with pytest.raises(ValueError):
        save_array(tmp_path / "other.npy", np.array([{}], dtype=object))


def test_offsets_and_slices_of_lists(tmp_path):
    writer = OffsetsWriter(tmp_path / "offsets.npy")
    for lengths in ([], [2, 0], [3]):
        writer.extend(lengths)
    writer.close()
    offsets = open_array(tmp_path / "offsets.npy")
    assert (offsets.dtype, offsets.tolist()) == (np.uint64, [0, 2, 2, 5])
    starts, lengths = slices(offsets, np.array([2, 1, 0, 2]))
    assert (starts.tolist(), lengths.tolist()) == ([2, 2, 0, 2], [3, 0, 2, 3])


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 6)), max_size=10))
def test_ranges_are_joined(pairs):
    starts, lengths = (np.array(column, np.uint64) for column in (zip(*pairs) if pairs else ((), ())))
    joined = ranges(starts, lengths)
    assert joined.dtype == np.int64
    assert joined.tolist() == [start + place for start, length in pairs for place in range(length)]
