"""Files against their descriptions, and what is remembered of them."""

import os

import pytest

from rerank_plugin.files import checksums
from rerank_plugin.files.checksums import check_once, describe_file, describe_parts, fault, remembered

SMALL, LARGE = 10_000, 3 << 20


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """A cache of the test's own, for files of any age."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "RECENT", -1e9)
    checksums._remembered.cache_clear()
    yield tmp_path / "cache" / "rerank_plugin" / "sound"
    checksums._remembered.cache_clear()


def described(path, size):
    path.write_bytes(os.urandom(size))
    return describe_file(path) | describe_parts(path, size)


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("place", [0, SMALL // 2, SMALL - 1])
def test_every_byte_of_a_small_file_is_compared(tmp_path, place):
    description = described(tmp_path / "file", SMALL)
    assert fault(tmp_path / "file", description) is None
    flip(tmp_path / "file", place)
    assert fault(tmp_path / "file", description) == "has changed"


def test_of_a_large_file_the_ends_and_a_sample_unless_told(tmp_path):
    path = tmp_path / "file"
    description = described(path, LARGE)
    sampled = LARGE * 7 // (checksums.BLOCKS + 1) // checksums.END * checksums.END
    for place, found in ((0, "has changed"), (LARGE - 1, "has changed"), (sampled, "has changed"), (sampled - 1, None)):
        flip(path, place)
        assert fault(path, description) == found
        assert fault(path, description, whole=True) == "has changed"
        flip(path, place)
    assert fault(path, description, whole=True) is None


def test_sizes(tmp_path):
    path = tmp_path / "file"
    description = described(path, SMALL)
    with open(path, "ab") as file:
        file.write(b"more")
    assert fault(path, description) == f"has {SMALL + 4} bytes"
    path.unlink()
    assert fault(path, description) == "is missing"


def test_descriptions_of_earlier_versions(tmp_path):
    """They have fewer checksums, or none: the size is compared, and what there is."""
    path = tmp_path / "file"
    description = described(path, SMALL)
    flip(path, SMALL // 2)
    assert fault(path, {"bytes": SMALL}) is None
    assert fault(path, {name: description[name] for name in ("bytes", "head")}) is None
    assert fault(path, {name: description[name] for name in ("bytes", "blake2b")}) == "has changed"


def test_a_check_is_remembered_until_the_file_changes(tmp_path, memory):
    path, calls = tmp_path / "file", []
    path.write_text("one")

    def check(result=True, how=1):
        checksums._remembered.cache_clear()  # as in another process
        return check_once([path], lambda: calls.append(how) or result, how)

    assert check() and check() and calls == [1]
    assert check(how=2) and calls == [1, 2]
    path.write_text("two")
    assert not check(False) and not check(False) and calls == [1, 2, 1, 1]
    assert check() and check() and len(calls) == 5 and len(memory.read_text().splitlines()) == 3


def test_a_digest_is_computed_once_and_never_read_from_half_a_line(memory):
    calls = []

    def digest(how):
        checksums._remembered.cache_clear()  # as in another process
        return remembered(lambda: calls.append(how) or f"{how:032x}", how)

    assert [digest(how) for how in (10, 11, 10, 11)] == [f"{how:032x}" for how in (10, 11, 10, 11)]
    assert calls == [10, 11]
    memory.write_text(memory.read_text()[:-2])
    assert (digest(11), calls) == (f"{11:032x}", [10, 11, 11])


def test_a_copy_is_known_by_its_bytes(tmp_path, memory):
    calls = []
    for name, text in (("file", "one"), ("copy", "one"), ("other", "two")):
        (tmp_path / name).write_text(text)
        checksums._remembered.cache_clear()
        assert check_once([tmp_path / name], lambda: calls.append(name) or True, by_content=True)  # noqa: B023
    assert calls == ["file", "other"]


def test_a_file_that_was_just_written_is_checked_again(tmp_path, monkeypatch):
    """It may change within the resolution of its time."""
    monkeypatch.setattr(checksums, "RECENT", 60.0)
    (tmp_path / "file").write_text("one")
    calls = []
    for _ in range(2):
        assert check_once([tmp_path / "file"], lambda: calls.append(1) or True)
    assert len(calls) == 2


def test_without_a_cache_every_process_checks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/none")
    (tmp_path / "file").write_text("one")
    calls = []
    for _ in range(2):
        checksums._remembered.cache_clear()
        assert check_once([tmp_path / "file"], lambda: calls.append(1) or True)
    assert len(calls) == 2


def test_the_cache_stays_small_and_may_be_damaged(tmp_path, memory, monkeypatch):
    monkeypatch.setattr(checksums, "KEPT", 3)
    memory.parent.mkdir(parents=True)
    memory.write_bytes(b"".join(b"%032d\n" % number for number in range(20)) + b"\xff half a line")
    (tmp_path / "file").write_text("one")
    assert check_once([tmp_path / "file"], lambda: True)
    assert len(memory.read_text(errors="replace").splitlines()) == 4
