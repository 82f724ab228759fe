"""Opening inputs: compression by content, pipes that are read once, and stdin."""

import bz2
import gzip
import lzma
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from rerank_plugin import corpora
from rerank_plugin.base.errors import InputError, SystemFailure
from rerank_plugin.files import text_files
from rerank_plugin.files.fingerprints import fingerprints
from rerank_plugin.files.runs import read_run
from rerank_plugin.files.text_files import beginning, byte_lines, kind_of, lines, rereadable
from tests.processes import run

TEXT = "\ufeffone\ntwo\u2028three\n" + "x" * 100 + "\n" + "end\n" * 30_000
COMPRESSIONS = [lambda data: data, gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]


@pytest.fixture
def pipe(tmp_path):
    """A named pipe into which these bytes are written, once."""
    writers = []

    def make(data, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(data,), daemon=True))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join(10)
        assert not writer.is_alive()


@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.txt.bz2", "a"])
def test_the_content_decides_whether_a_file_is_compressed(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress(TEXT.encode()))
    assert b"".join(byte_lines(tmp_path / name)).decode() == TEXT[1:]
    assert beginning(tmp_path / name).decode().startswith("one\ntwo\u2028three\n")


@pytest.mark.parametrize("compress", COMPRESSIONS[1:])
def test_a_truncated_file_is_named_after_its_first_lines(tmp_path, compress):
    random = os.urandom(200_000).hex(" ", 40).replace(" ", "\n")
    (tmp_path / "a.xz").write_bytes(compress(random.encode())[:-40])
    with pytest.raises(InputError, match=r"a\.xz:\d+: damaged xz file"):
        for number, line in lines(tmp_path / "a.xz"):
            assert line == random.split("\n")[number - 1][: len(line)]


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_pipe_is_read_once_and_kept_where_it_is_read_twice(pipe, compress):
    path = pipe(compress(TEXT.encode()))
    assert beginning(path)[:4] == b"one\n"
    assert b"".join(byte_lines(path)).decode() == TEXT[1:]
    path = pipe(compress(TEXT.encode()), "second")
    with rereadable([path]):
        assert [b"".join(byte_lines(path)) for _ in range(3)] == [TEXT[1:].encode()] * 3


def test_a_damaged_pipe_stays_damaged(pipe):
    path = pipe(gzip.compress(TEXT.encode())[:-20])
    with rereadable([path]):
        for _ in range(2):
            with pytest.raises(InputError, match="damaged gzip file"):
                list(lines(path))


def test_a_run_may_be_a_pipe(pipe):
    assert read_run(pipe(b"q1 Q0 d1 1 2.5 t\n"))["q1"].doc_ids == ["d1"]


def test_pipes_are_never_equal_when_a_command_is_resumed(pipe, tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    named = {"queries": "-", "run": str(pipe(b"")), "index": str(tmp_path / "a")}
    first, second = fingerprints(named), fingerprints(named)
    assert first.keys() == second.keys() == set(named.values())
    assert [name for name in named.values() if first[name] == second[name]] == [named["index"]]
    list(lines(tmp_path / "pipe"))  # its writer waits for a reader


def test_stdin_and_stdout(tmp_path):
    code = (
        "from pathlib import Path; from rerank_plugin.files.outputs import replacing; "
        "from rerank_plugin.files.runs import RUN; from rerank_plugin.files.text_files import lines\n"
        "print('before')\nwith replacing('-', RUN) as file: file.write(str([*lines(Path('-'))]).encode())\n"
        "print(' after')"
    )
    assert run("-c", code, text="a\nb\n", folder=tmp_path) == "before\n[(1, 'a'), (2, 'b')] after\n"
    assert not list(tmp_path.iterdir())


def test_suffixes():
    names = {"a.JSONL.gz": ".jsonl", "a.xml.BZ2": ".xml", "a.zst": "", "a.tsv": ".tsv", "gz": ""}
    assert {name: kind_of(Path(name)) for name in names} == names


def test_byte_order_marks_of_joined_files_are_no_text(tmp_path):
    (tmp_path / "a").write_bytes("\ufeff\ufeffq1 Q0 d1 1 2 t\n\ufeffq2 Q0 d\ufeff2 1 2 t\n".encode())
    assert {query: one.doc_ids for query, one in read_run(tmp_path / "a").items()} == {"q1": ["d1"], "q2": ["d\ufeff2"]}
    assert beginning(tmp_path / "a").startswith(b"q1")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path, encoding, end):
    """Of a compressed file, too. Without a line feed, lines end at carriage returns."""
    text = end.join(["one", "zwei µ\u2028 \U00010348", "", "x" * 100_000, "end"])
    (path := tmp_path / "a.gz").write_bytes(gzip.compress(text.encode(encoding)))
    expected = [line for line in text.split(end) if line]
    assert [line for _, line in lines(path)] == expected
    assert beginning(path).decode().split(end)[:2] == expected[:2]


def test_inputs_without_end(put, pipe, monkeypatch):
    path = pipe(TEXT.encode())
    with monkeypatch.context() as small:
        small.setattr(text_files.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2 * len(TEXT)))
        with pytest.raises(InputError, match="gives more than half of the free space"), rereadable([path]):
            pass
    monkeypatch.setattr(text_files, "LONGEST_LINE", 1 << 20)
    with pytest.raises(InputError, match="a line has more than 1 MB"):
        list(lines(Path(put("a.txt", "\0" * (1 << 21)))))
    with pytest.raises(InputError, match="a device that never ends"):
        list(lines(Path("/dev/urandom")))


def test_what_may_not_be_known_is_not_missing(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o600)
    user = os.geteuid()
    os.seteuid(user or 65534)  # nobody in the place of root, who may know everything
    try:
        with pytest.raises(SystemFailure, match="Permission denied: check its permissions"):
            corpora.documents(str(closed / "corpus.jsonl"))
    finally:
        os.seteuid(user)


def test_a_zstd_file_may_begin_with_a_frame_to_skip(tmp_path):
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    packed = [zstandard.ZstdCompressor().compress(text) for text in (b"one\n", b"two\n")]
    (tmp_path / "a").write_bytes(skipped + packed[0] + skipped + packed[1])
    assert list(byte_lines(tmp_path / "a")) == [b"one\n", b"two\n"]
