"""Declared folders: what is sealed is opened and verified, and what compiled loops rely on is checked before."""

import json
import logging

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import artifact
from rerank_plugin.files.arrays import save_array
from rerank_plugin.files.artifact import Array, Artifact, has_type, type_name
from rerank_plugin.files.string_table import StringTableWriter

LISTS = Artifact(
    "a folder of lists",
    "lists.json",
    {"names": list[str], "count": int},
    arrays={
        "starts": Array(np.uint64, "C+1", offsets="N"),
        "values": Array(np.int32, "N", below="K"),
        "order": Array(np.uint32, "N", below="N", increasing=True),
        "weights": Array(np.float32, "N D", finite=True),
    },
    strings={"ids": "C"},
    sizes={"C": "count", "K": "names"},
    version=3,
    again="write the lists again",
)
GOOD = {
    "starts": np.array([0, 2, 2, 4], np.uint64),
    "values": np.array([1, 0, 1, 1], np.int32),
    "order": np.array([0, 1, 1, 3], np.uint32),
    "weights": np.ones((4, 2), np.float32),
}


def written(folder, **changes):
    folder.mkdir()
    for name, array in (GOOD | changes).items():
        save_array(folder / f"{name}.npy", array)
    ids = StringTableWriter(folder, "ids", searchable=True)
    ids.extend(["a", "b", "c"])
    ids.close()
    LISTS.seal(folder, {"names": ["x", "y"], "count": 3})
    return folder


def test_what_is_sealed_is_opened_and_verified(tmp_path):
    opened = LISTS.open(written(tmp_path / "lists"), N=4, D=None)
    assert all(np.array_equal(opened.arrays[name], array) for name, array in GOOD.items())
    assert list(opened.arrays) == list(GOOD) and opened.strings["ids"].find(["b"]) == [1]
    assert opened.sizes == {"N": 4, "C": 3, "K": 2, "D": 2} and opened.description["names"] == ["x", "y"]
    assert LISTS.verify(tmp_path / "lists") == 9
    assert LISTS.fault(tmp_path / "lists") is None
    (tmp_path / "lists" / "notes.txt").write_text("mine")
    assert "notes.txt" in LISTS.fault(tmp_path / "lists")
    with pytest.raises(InputError, match="notes.txt is not listed in lists.json: write the lists again, or remove it"):
        LISTS.verify(tmp_path / "lists")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"starts": [0, 3, 2, 4]}, "do not fit"), ({"starts": [0, 2, 2, 5]}, "do not fit"),
        ({"starts": [1, 2, 2, 4]}, "do not fit"), ({"starts": [0, 4]}, r"starts.npy is uint64 \[2\], expected .*\[4\]"),
        ({"values": [0, 0, 0, 2]}, "do not fit"), ({"values": [0, 0, 0, -1]}, "do not fit"),
        ({"order": [0, 2, 1, 3]}, "do not fit"), ({"order": [0, 1, 1, 4]}, "do not fit"),
        ({"order": [0, 1, 1]}, r"order.npy is uint32 \[3\], expected uint32 \[4\]"),
        ({"weights": [[1, 1], [1, np.nan], [1, 1], [1, 1]]}, "do not fit"), ({"weights": [1, 1, 1, 1]}, "weights.npy"),
        ({"values": np.zeros(4, np.int64)}, "int64"), ({"values": np.zeros(4, ">i4")}, "values.npy is >i4"),
    ],
)  # fmt: skip
def test_arrays_are_what_is_declared_whoever_sealed_them(tmp_path, changes, message):
    typed = {name: values if hasattr(values, "dtype") else np.array(values, GOOD[name].dtype)
             for name, values in changes.items()}  # fmt: skip
    with pytest.raises(InputError, match=f"lists cannot be read .*{message}.*; write the lists again"):
        LISTS.open(written(tmp_path / "lists", **typed))


def test_sizes_that_the_caller_knows(tmp_path):
    folder = written(tmp_path / "lists")
    with pytest.raises(InputError, match=r"weights.npy is float32 \[4, 2\], expected float32 \[4, 5\]"):
        LISTS.open(folder, D=5)
    with pytest.raises(InputError, match="it has 3 count, expected 4"):
        LISTS.open(folder, C=4)


def test_a_byte_that_only_reading_all_finds(tmp_path, monkeypatch):
    """Opening remembers a file by its size and times; verifying does not."""
    folder = written(tmp_path / "lists")
    monkeypatch.setattr(artifact, "fault", lambda *_, **__: None)
    save_array(folder / "values.npy", np.array([1, 1, 1, 1], np.int32))
    LISTS.open(folder)
    with pytest.raises(InputError, match="values.npy does not match its checksum: write the lists again"):
        LISTS.verify(folder)


def change(folder, **entries):
    described = json.loads((folder / "lists.json").read_text())
    (folder / "lists.json").write_text(
        json.dumps({name: value for name, value in {**described, **entries}.items() if value is not ...})
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format_version": 2}, "is a folder of lists of format 2, this program reads 3"),
        ({"count": ..., "seal": ...}, "lists.json lacks count"),
        ({"seal": ...}, "lists.json has no checksum"),
        ({"count": 2}, "lists.json was changed since it was written"),
    ],
)
def test_a_description_that_was_changed(tmp_path, entries, message):
    folder = written(tmp_path / "lists")
    change(folder, **entries)
    with pytest.raises(InputError, match=f"{message}.*; write the lists again|{message}: write the lists again"):
        LISTS.open(folder)


def test_users_may_take_the_checksum_out_where_they_may_edit(tmp_path, caplog):
    notes = Artifact("notes", "notes.json", {"text": str}, editable=True)
    notes.seal(tmp_path, {"text": "one"})
    (tmp_path / "notes.json").write_text((tmp_path / "notes.json").read_text().replace("one", "two"))
    with pytest.raises(InputError, match="or take out its entry 'seal' to use it as it is"):
        notes.read(tmp_path)
    (tmp_path / "notes.json").write_text('{"text": "two"}')
    with caplog.at_level(logging.WARNING):
        assert notes.read(tmp_path)["text"] == "two"
    assert caplog.messages == [f"{tmp_path / 'notes.json'} has no checksum: changes of it are not noticed"]


@pytest.mark.parametrize(
    ("hint", "good", "bad", "name"),
    [
        (int, [3], [True, 3.0, "3", None], "a whole number"),
        (float, [3, 0.5], [True, "x"], "a number"),
        (bool, [False], [0], "true or false"),
        (str | None, ["", None], [0], "a string or null"),
        (list[int], [[], [1]], [[True], {}, ["x"], 3], "a list"),
        (dict[str, str], [{}, {"a": "b"}], [{"a": 1}, [], "ab"], "an object"),
        (tuple[int, ...], [(1, 2)], [(1, "x"), 1], "a list"),
    ],
)
def test_types(hint, good, bad, name):
    assert all(has_type(value, hint) for value in good) and not any(has_type(value, hint) for value in bad)
    assert type_name(hint) == name
