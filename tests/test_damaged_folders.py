"""Every kind of folder with every kind of damage: one line that names the folder, never another result.

A kind is a row of `KINDS`: how it is made, once, and what a reader gets of it, as a value to compare. A reader that
waits for a pipe is interrupted.
"""

import json
import os
import shutil
import signal
from dataclasses import dataclass

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.artifact import has_type
from rerank_plugin.files.checksums import sealed
from rerank_plugin.indexes.judged_queries import JUDGED, JudgedQueries, read_judged

SECONDS = 20  # after which a reader hangs


@dataclass(frozen=True)
class Kind:
    artifact: object
    make: object  # called with a folder that does not exist, and pytest's request
    read: object  # called with a folder and the request


def made_judged(folder, request):
    folder.mkdir()
    vectors, rows = np.eye(3, 4, dtype=np.float32), np.array([1, 7, 0, 3], np.uint32)
    index = request.getfixturevalue("index").forward
    JudgedQueries(vectors, np.array([0, 1, 2, 4], np.uint64), rows).write(folder, index, ["sample"])


def read_judged_queries(folder, request):
    judged, sources = read_judged(folder, request.getfixturevalue("index").forward, 4, "keep them again")
    return [array.tolist() for array in judged], sources


KINDS = {
    "judged queries": Kind(JUDGED, made_judged, read_judged_queries),
}


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A kind, a folder of it, and what is read there."""
    kind, folder = KINDS[request.param], tmp_path_factory.mktemp("made") / "made"
    kind.make(folder, request)
    return kind, folder, kind.read(folder, request)


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made[1], tmp_path / "copy")


@pytest.fixture(autouse=True)
def no_waiting():
    def hangs(*_):
        raise AssertionError("the reader hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refusal(made, folder, request):
    """The message of the refused folder; None where it is read as if nothing had happened."""
    kind, _, expected = made
    try:
        found = kind.read(folder, request)
    except InputError as error:
        assert str(folder) in str(error) and "\n" not in str(error) and "again" in str(error), error
        return str(error)
    assert found == expected
    return None


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def folder_instead(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "a pipe": pipe,
    "a folder": folder_instead,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": lambda path: path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2)),
}
OBJECTS = [b"{}", b"[]", b"null", b"3", b"\xff", b"[" * 100_000, b'{"format_version": 1}', b"<!doctype html>"]


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_file_is_believed(made, tmp_path, request, damage):
    kind, original, _ = made
    for number, name in enumerate(files_of(original)):
        folder = shutil.copytree(original, tmp_path / str(number))
        DAMAGES[damage](folder / name)
        white_space = damage == "longer" and name.as_posix() == kind.artifact.description
        assert (refusal(made, folder, request) is None) == white_space, name


def test_what_is_no_description_is_refused(made, copy, request):
    path = copy / made[0].artifact.description
    for content in OBJECTS:
        path.write_bytes(content)
        assert refusal(made, copy, request), content


def test_every_byte_of_a_description_counts(made, copy, request):
    path = copy / made[0].artifact.description
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 150)):
        path.write_bytes(flipped(content, place))
        refusal(made, copy, request)


def test_entries_of_another_type_are_named(made, copy, request):
    """In a description that somebody changed and sealed again."""
    artifact = made[0].artifact
    path = copy / artifact.description
    described = json.loads(path.read_bytes())
    for name, hint in {**artifact.optional, **artifact.keys}.items():
        for value in (None, True, 3, "x", [], [[]], {}, {"x": []}):
            if name in described and not has_type(value, hint):
                changed = {key: value for key, value in described.items() if key != artifact.seal_entry}
                path.write_text(json.dumps(sealed({**changed, name: value}, artifact.seal_entry)))
                assert name in refusal(made, copy, request), (name, value)


def test_a_folder_with_leftovers_of_a_killed_process_is_sound(made, copy, request):
    (copy / ".x.npy.rerank_plugin-0123abcd").write_bytes(b"half")
    (copy / ".sub.rerank_plugin-0123abcd").mkdir()
    assert refusal(made, copy, request) is None
    if made[0].artifact.arrays:
        made[0].artifact.verify(copy, **sizes(made[0], request))


def sizes(kind, request):
    return {"R": len(request.getfixturevalue("index").forward)} if kind.artifact is JUDGED else {}
