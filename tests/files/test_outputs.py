"""Replacing outputs, locks, and leftovers of killed processes."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.files import outputs
from rerank_plugin.files.outputs import (
    FileKind,
    FolderKind,
    remove_leftovers,
    replacing,
    replacing_folder,
    restore_interrupted,
)

BOX = FolderKind("a box", "box.json", ("made",), ("one.txt", "parts/*.txt"), listed="files")
NOTE = FileKind("a note", lambda path: path.read_bytes().startswith(b"note"))


def make_box(folder, text="old", **more):
    with replacing_folder(folder, BOX, **more) as writing:
        (writing / "parts").mkdir()
        (writing / "parts" / "a.txt").write_text(text)
        (writing / "extra.bin").write_text(text)
        (writing / "box.json").write_text(json.dumps({"made": True, "files": {"extra.bin": 3}}))


def make_note(path, text=b"note two", **more):
    with replacing(path, NOTE, **more) as file:
        file.write(text)


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_the_same_kind_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "box").mkdir()  # an empty folder is free
    make_box(tmp_path / "box")
    with pytest.raises(InputError, match="box exists already: choose another place, or overwrite it"):
        make_box(tmp_path / "box", "new")
    assert (tmp_path / "box" / "extra.bin").read_text() == "old"
    make_box(tmp_path / "box", "new", overwrite=True)
    assert (tmp_path / "box" / "extra.bin").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


SPOILED = {
    "a file": lambda box: (box / "thesis.tex").write_text("mine"),
    "a file in a part": lambda box: (box / "parts" / "thesis.tex").write_text("mine"),
    "a folder": lambda box: (box / "parts" / "deeper").mkdir(),
    "a link": lambda box: (box / "parts" / "link").symlink_to("/"),
    "a file with a temporary look": lambda box: (box / ".notes.rerank_plugin-mine").write_text("mine"),
    "no description": lambda box: (box / "box.json").unlink(),
    "another description": lambda box: (box / "box.json").write_text('{"other": 1}'),
    "a damaged description": lambda box: (box / "box.json").write_text("{"),
    "a folder as description": lambda box: ((box / "box.json").unlink(), (box / "box.json").mkdir()),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_folder_with_anything_else_is_never_replaced(tmp_path, spoil):
    make_box(tmp_path / "box")
    spoil(tmp_path / "box")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="it is left as it is") as raised:
        make_box(tmp_path / "box", "new", overwrite=True)
    assert "\n" not in str(raised.value) and contents(tmp_path) == before


def test_a_part_that_was_emptied_does_not_make_a_folder_foreign(tmp_path):
    make_box(tmp_path / "box")
    (tmp_path / "box" / "parts" / "a.txt").unlink()
    assert BOX.fault(tmp_path / "box") is None
    make_box(tmp_path / "box", "new", overwrite=True)
    assert (tmp_path / "box" / "parts" / "a.txt").read_text() == "new"


def test_an_output_that_appears_during_writing_is_kept(tmp_path):
    with pytest.raises(InputError, match="is not a box"), replacing_folder(tmp_path / "box", BOX, overwrite=True):
        (tmp_path / "box").mkdir()
        (tmp_path / "box" / "thesis.tex").write_text("mine")
    assert contents(tmp_path) == {"box/thesis.tex": b"mine"}


def test_a_link_is_followed_and_stays(tmp_path):
    make_box(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    make_box(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "extra.bin").read_text() == "new"
    (tmp_path / "dangling").symlink_to("elsewhere/box")
    make_box(tmp_path / "dangling")
    assert (tmp_path / "dangling").is_symlink() and (tmp_path / "elsewhere" / "box" / "extra.bin").exists()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    (tmp_path / "bad").symlink_to("thesis")
    with pytest.raises(InputError, match="is not a box"):
        make_box(tmp_path / "bad", overwrite=True)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError):
        make_box(tmp_path / "loop", overwrite=True)
    (tmp_path / "note").write_text("note one")
    (tmp_path / "note-link").symlink_to("note")
    make_note(tmp_path / "note-link", overwrite=True)
    assert (tmp_path / "note-link").is_symlink() and (tmp_path / "note").read_text() == "note two"


def test_files(tmp_path):
    path = tmp_path / "deep" / "note.txt"
    make_note(path, b"note one")
    with pytest.raises(InputError, match="exists already"):
        make_note(path)
    with pytest.raises(RuntimeError), replacing(path, NOTE, overwrite=True) as file:
        file.write(b"note two")
        raise RuntimeError
    assert contents(tmp_path) == {"deep/note.txt": b"note one"}
    path.write_text("a letter")
    with pytest.raises(InputError, match="is not a note: it is left as it is"):
        make_note(path, overwrite=True)
    assert path.read_text() == "a letter"
    path.write_text("")  # as mktemp makes it: nothing is lost
    make_note(path)
    assert contents(tmp_path) == {"deep/note.txt": b"note two"}
    with pytest.raises(InputError, match="is a folder"):
        outputs.check_free(tmp_path / "deep", NOTE, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        outputs.check_free(path, BOX, overwrite=True)


def test_a_new_file_has_the_usual_permissions(tmp_path):
    make_note(tmp_path / "note")
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "note").stat().st_mode == (tmp_path / "usual").stat().st_mode
    make_box(tmp_path / "box")
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "box").stat().st_mode == (tmp_path / "folder").stat().st_mode


def test_a_pipe_or_a_device_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    make_note(tmp_path / "pipe")
    reader.join(60)
    assert read == [b"note two"] and [path.name for path in tmp_path.iterdir()] == ["pipe"]
    make_note(os.devnull)
    assert outputs.is_stream(os.devnull)


def leftover(folder, name="box"):
    path = folder / f".{name}{outputs.MARK}0a1b2c3d"
    (path / "parts").mkdir(parents=True)
    (path / "parts" / "a.txt").write_text("half")
    return path


def test_leftovers_of_dead_processes_go_with_the_next_output(tmp_path):
    dead, file = leftover(tmp_path), tmp_path / f".note{outputs.MARK}77777777"
    file.write_text("half")
    for name in (".backup.rerank_plugin-2024.tar", "..rerank_plugin-x", ".rerank_plugin-0a1b2c3d"):
        (tmp_path / name).write_text("mine")
    mine = tmp_path / ".old.rerank_plugin-branch"
    mine.mkdir()
    make_box(tmp_path / "box")
    assert not dead.exists() and not file.exists() and mine.exists() and len(list(tmp_path.iterdir())) == 5


def test_those_of_living_writers_stay(tmp_path):
    """A writer locks what it writes itself, a file or a folder; the lock of another one in this process counts, too."""
    with replacing(tmp_path / "note", NOTE) as note, replacing_folder(tmp_path / "other", BOX) as other:
        make_box(tmp_path / "box")
        remove_leftovers(tmp_path)
        note.write(b"note one")
        (other / "box.json").write_text('{"made": true}')
    assert contents(tmp_path).keys() == {"note", "other/box.json", "box/box.json", "box/extra.bin", "box/parts/a.txt"}


def test_a_folder_with_temporary_files_alone_is_nobodys(tmp_path):
    """So a process leaves it that was killed while it wrote the first file into it."""
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / f".box.json{outputs.MARK}0a1b2c3d").write_text("half")
    assert BOX.fault(tmp_path / "box") is None
    (tmp_path / "box" / "parts").mkdir()
    (tmp_path / "box" / "parts" / "thesis.tex").write_text("mine")
    assert BOX.fault(tmp_path / "box") == "is not a box"


def test_leftovers_go_where_an_output_is_finished(tmp_path):
    """So a kill during the last removal leaves it: the same command says that there is nothing to do."""
    make_box(tmp_path / "box")
    leftover(tmp_path, "work")
    with pytest.raises(InputError, match="box exists already"):
        make_box(tmp_path / "box")
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


def test_another_writer_may_remove_a_temporary_folder_before_it_is_locked(tmp_path, monkeypatch):
    """Just after it was made, before this process could open it."""
    mkdir, taken = outputs.Path.mkdir, []

    def overtaken(path, *arguments, **more):
        mkdir(path, *arguments, **more)
        if outputs.MARK in path.name and not taken:
            taken.append(path)
            remove_leftovers(path.parent)

    monkeypatch.setattr(outputs.Path, "mkdir", overtaken)
    make_box(tmp_path / "box")
    assert taken and [path.name for path in tmp_path.iterdir()] == ["box"]


def test_a_planted_link_is_not_followed_when_leftovers_are_removed(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / f".box{outputs.MARK}0a1b2c3d").symlink_to(tmp_path / "thesis")
    make_box(tmp_path / "work" / "box")
    assert (tmp_path / "thesis" / "thesis.tex").read_text() == "mine"


KILLED = """
import os, pathlib, sys
from rerank_plugin.files import outputs
from tests.files.test_outputs import make_box

step, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
if sys.argv[3] == "two renames":
    outputs._exchange = lambda first, second: False
calls = 0

def count():
    global calls
    calls += 1
    if calls == step:
        os._exit(9)

for module, name in ((pathlib.Path, "rename"), (outputs.shutil, "rmtree"), (outputs, "_exchange")):
    def wrapped(*args, function=getattr(module, name), **more):
        count()
        result = function(*args, **more)
        count()
        return result
    setattr(module, name, wrapped)
make_box(folder / "box", "new", overwrite=True)
"""


@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_at_any_step_leaves_a_name_that_works(tmp_path, way):
    """Killed before and after every rename and removal: one of both boxes is there, and the next writer tidies."""
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        make_box(folder / "box")
        status = subprocess.run([sys.executable, "-c", KILLED, str(step), str(folder), way], timeout=60).returncode
        assert status in (0, 9)
        box = restore_interrupted(folder / "box")
        text = (box / "extra.bin").read_text()
        assert text == (box / "parts" / "a.txt").read_text() and text in (("old", "new") if status else ("new",))
        make_box(folder / "box", "newest", overwrite=True)
        assert [path.name for path in folder.iterdir()] == ["box"]
        if status == 0:
            assert step > 2
            return
    raise AssertionError("it never finished")


def test_a_folder_that_a_living_writer_moved_aside_is_not_restored(tmp_path, monkeypatch):
    """Between its two renames nobody else may give the old folder its name back; after a failure it does so itself."""
    make_box(tmp_path / "box")
    monkeypatch.setattr(outputs, "_exchange", lambda first, second: False)
    rename, fails, seen = Path.rename, [True, False], []

    def watched(path, target):
        if target == tmp_path / "box" and path.name[-8:] != outputs.ASIDE:
            seen.append(restore_interrupted(tmp_path / "box").exists())
            remove_leftovers(tmp_path)
            if fails.pop(0):
                raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    with pytest.raises(InputError, match="Input/output error"):
        make_box(tmp_path / "box", "new", overwrite=True)
    assert contents(tmp_path / "box")["extra.bin"] == b"old"
    make_box(tmp_path / "box", "new", overwrite=True)
    assert contents(tmp_path / "box")["extra.bin"] == b"new"
    assert seen == [False, False] and [path.name for path in tmp_path.iterdir()] == ["box"]


def test_a_locked_file_is_refused_and_a_link_too(tmp_path):
    path = tmp_path / "a.part"
    with (
        outputs.open_locked(path),
        pytest.raises(outputs.OutputLockedError, match="a.part is being written by another process"),
    ):
        outputs.open_locked(path)
    outputs.open_locked(path).close()
    (tmp_path / "thesis.tex").write_text("mine")
    (tmp_path / "b.part").symlink_to("thesis.tex")
    with pytest.raises(InputError, match="b.part: cannot be written"):
        outputs.open_locked(tmp_path / "b.part")
    os.mkfifo(tmp_path / "c.part")
    with pytest.raises(InputError, match="c.part is not a regular file"):
        outputs.open_locked(tmp_path / "c.part")
    assert (tmp_path / "thesis.tex").read_text() == "mine"


def test_a_scratch_folder_is_private_and_gone(monkeypatch, tmp_path):
    monkeypatch.setattr(outputs.tempfile, "gettempdir", lambda: str(tmp_path))
    dead = leftover(tmp_path, "scratch")
    with outputs.scratch_folder() as folder:
        assert folder.stat().st_mode & 0o077 == 0 and not dead.exists()
        (folder / "sentences.txt").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_output_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("note")
    for make in (make_box, make_note):
        with pytest.raises(InputError, match="file/box: cannot be written"):
            make(tmp_path / "file" / "box")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("Error while "
    "serializing: I/O error: No space left on device (os error 28)")])  # fmt: skip
def test_a_full_disk_is_one_clear_error_whatever_library_meets_it(tmp_path, error):
    with pytest.raises(InputError, match="box: cannot be written .No space left on device."):
        with replacing_folder(tmp_path / "box", BOX):
            raise error
    with pytest.raises(InputError, match="box was replaced or removed while it was being written"):
        with replacing_folder(tmp_path / "box", BOX) as writing:
            writing.rmdir()
            (writing / "a.txt").write_text("x")
    with pytest.raises(RuntimeError, match="of its own"), replacing_folder(tmp_path / "box", BOX):
        raise RuntimeError("of its own")
    assert list(tmp_path.iterdir()) == []


def test_a_folders_files_are_as_readable_as_the_folder(tmp_path):
    """safetensors makes files for their owner alone; what is linked or made on purpose stays as it is."""
    with replacing_folder(tmp_path / "made", BOX) as writing:
        (writing / "description.json").write_text("{}")
        for name, mode in (("private", 0o600), ("shared", 0o640)):
            (writing / name).write_text("")
            (writing / name).chmod(mode)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "made").iterdir()}
    assert modes["private"] == (tmp_path / "made").stat().st_mode & 0o666 and modes["shared"] == 0o640


@pytest.mark.parametrize("make, name", [(make_box, "box"), (make_note, "note")])
def test_an_output_is_on_the_disk_before_it_has_its_name_and_the_name_before_the_old_one_goes(
    tmp_path, monkeypatch, make, name
):
    make(tmp_path / name)
    state = lambda path: (os.stat(path).st_ino, os.stat(path).st_mtime_ns)  # noqa: E731
    steps, removed = [], shutil.rmtree
    monkeypatch.setattr(os, "fsync", lambda file, fsync=os.fsync: (fsync(file), steps.append(state(file))))
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: (steps.append("removed"), removed(*args, **more)))
    make(tmp_path / name, b"note new" if name == "note" else "new", overwrite=True)
    output = tmp_path / name
    written = [steps.index(state(path)) for path in (output, *(output.rglob("*") if output.is_dir() else ()))]
    named = steps.index(state(tmp_path)) if name == "note" else steps.index("removed") - 1
    assert steps[named][0] == os.stat(tmp_path).st_ino and max(written) < named
