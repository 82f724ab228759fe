"""Zips as inputs: of one file, as a folder of files, and what is refused before anything is unpacked."""

import struct
import zipfile
from pathlib import Path

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Problems, Query, documents, judgments, queries
from rerank_plugin.files import zips
from rerank_plugin.files.runs import read_run

LINE = '{"id": "%s", "title": "Aspirin", "text": "It helps."}\n'
DOCUMENTS = [Document(id, "Aspirin", "It helps.") for id in "12"]


def zipped(path, members, **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as file:
        for name, text in members:
            file.writestr(name, text)
    return str(path)


def test_a_zip_is_read_like_a_folder_also_within_one(tmp_path, caplog):
    inner = Path(zipped(tmp_path / "inner.zip", [("c.jsonl", LINE % "3")])).read_bytes()
    members = [("d/", ""), ("d/a.jsonl", LINE % "1"), ("d/b.json", LINE % "2"), ("inner.zip", inner), ("x.bin", "\0")]
    path = zipped(tmp_path / "all", members)
    assert list(documents(path)) == DOCUMENTS
    assert "1 zips in a zip: inner.zip; 1 files of unknown formats: x.bin" in caplog.text
    (tmp_path / "folder").mkdir()
    Path(path).rename(tmp_path / "folder" / "all.zip")
    assert list(documents(str(tmp_path / "folder"))) == DOCUMENTS
    beir = [("nf/queries.jsonl", LINE % "q"), ("nf/corpus.jsonl", LINE % "1" + LINE % "2")]
    assert list(documents(zipped(tmp_path / "nf.zip", beir))) == DOCUMENTS


def test_queries_judgments_and_runs_in_a_zip_of_one_file(tmp_path):
    assert queries(zipped(tmp_path / "q.tsv.zip", [("q.tsv", "1\taspirin\n")])) == [Query("1", "aspirin")]
    assert judgments(zipped(tmp_path / "qrels", [("a/qrels.txt", "1 0 d 2\n")])) == {"1": {"d": 2}}
    assert read_run(zipped(tmp_path / "a.zip", [("a.run", "1 Q0 d 1 0.5 t\n")]))["1"].doc_ids == ["d"]
    with pytest.raises(InputError, match=r"two\.zip: holds 2 files: unpack it"):
        queries(zipped(tmp_path / "two.zip", [("q", "1\tx\n"), ("r", "2\ty\n")]))


def edited(data, offset, form, *values):
    """The archive with other values at this offset of the first entry of its directory."""
    data = bytearray(data)
    struct.pack_into(form, data, data.index(b"PK\1\2") + offset, *values)
    return bytes(data)


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda data: data.replace(b"d.jsonl", b"../../x"), "'../../x' leads out of it"),
        (lambda data: data.replace(b"d.jsonl", b"/etc/xy"), "'/etc/xy' leads out of it"),
        (lambda data: data.replace(b"e.jsonl", b"d.jsonl"), "'d.jsonl' is there twice"),
        (lambda data: edited(data, 8, "<H", 1), "'d.jsonl' is encrypted"),
        (lambda data: edited(data, 10, "<H", 12), "'d.jsonl' is compressed by another method than deflate"),
        (lambda data: edited(data, 24, "<I", 1 << 31), "would unpack to 2,147,483,7.., more than 200 times"),
        (lambda data: data[:-9], "damaged zip file"),
        (lambda data: data[:-30] + b"\xff" * 30, "damaged zip file"),
    ],
)
def test_what_is_refused(tmp_path, edit, message):
    path = Path(zipped(tmp_path / "a.zip", [("d.jsonl", LINE % "1"), ("e.jsonl", LINE % "2")]))
    path.write_bytes(edit(path.read_bytes()))
    with pytest.raises(InputError, match=f"a.zip: .*{message}"):
        documents(str(path))


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr(zips, "MEMBERS", 1)
    with pytest.raises(InputError, match="'b.jsonl' is one of more than 1"):
        documents(zipped(tmp_path / "a.zip", [("a.jsonl", LINE % "1"), ("b.jsonl", LINE % "2")]))


def test_a_damaged_member_costs_itself(tmp_path):
    path = Path(zipped(tmp_path / "a.zip", [("a.jsonl", LINE % "1"), ("b.jsonl", LINE % "2")]))
    data = path.read_bytes()
    start = data.index(b"a.jsonl") + len("a.jsonl")
    path.write_bytes(data[:start] + bytes(len(data[start : start + 9])) + data[start + 9 :])
    assert list(documents(str(path), problems := Problems())) == DOCUMENTS[1:]
    assert problems.counts == {"damaged zip file": 1}
