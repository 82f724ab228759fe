"""Arrays that grow on disk, and the gather of many slices."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.files import arrays
from rerank_plugin.files.arrays import (
    ArrayWriter,
    OffsetsWriter,
    are_below,
    are_offsets,
    open_array,
    ranges,
    save_array,
    slices,
)


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


@given(st.lists(st.integers(0, 6), max_size=20), st.integers(0, 7), st.integers(1, 5))
def test_what_compiled_loops_rely_on_is_checked_part_by_part(values, bound, part):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "PART", part)
        array = np.array(values, np.uint32)
        assert are_below(array, bound) == all(value < bound for value in values)
        assert are_below(array, bound, absent=6) == all(value < bound or value == 6 for value in values)
        assert are_below(array.astype(np.int32) - 1, bound) == all(0 <= value - 1 < bound for value in values)
        fall = any(later < earlier for earlier, later in zip(values, values[1:]))
        assert are_offsets(array, bound) == (values[:1] == [0] and values[-1:] == [bound] and not fall)


def test_an_array_of_another_type_or_shape_is_refused(tmp_path):
    save_array(tmp_path / "array.npy", np.zeros((3, 2), np.float32))
    assert open_array(tmp_path / "array.npy", dtype=np.float32, shape=(None, 2)).shape == (3, 2)
    for dtype, shape in ((np.float64, (3, 2)), (np.float32, (3,)), (np.float32, (3, 3)), (np.float32, (None,))):
        with pytest.raises(ValueError, match=r"array.npy is float32 \[3, 2\], expected "):
            open_array(tmp_path / "array.npy", dtype=dtype, shape=shape)
    np.save(tmp_path / "array.npy", np.asfortranarray(np.ones((3, 2), np.float32)))
    with pytest.raises(ValueError, match="array.npy is "):
        open_array(tmp_path / "array.npy")


@pytest.mark.filterwarnings("ignore")
def test_any_damage_of_a_header_is_a_value_error(tmp_path):
    """NumPy reads headers as Python, and raises what its parser does."""
    np.save(path := tmp_path / "a.npy", np.arange(3))
    header = path.read_bytes()
    for bit in range(8 * 76):  # its text ends there
        damaged = bytearray(header)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with suppress(ValueError):
            open_array(path)
