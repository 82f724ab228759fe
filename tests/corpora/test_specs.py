"""What a spec means: BEIR folders and splits, the bundled sample, and everything that is none of them."""

import gzip
import json

import pytest

from rerank_plugin.corpora import Document, Query, documents, judgments, queries, queries_and_judgments, specs
from rerank_plugin.files.errors import InputError


def beir_folder(folder, splits=("dev", "test", "train.graded"), packed=False):
    def put(name, text):
        path = folder / (name + ".gz" if packed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())

    put("corpus.jsonl", "".join(json.dumps({"_id": f"d{i}", "title": f"T{i}", "text": f"x{i}"}) + "\n" for i in (1, 2)))
    put("queries.jsonl", "".join(json.dumps({"_id": f"q{i}", "text": f"text {i}"}) + "\n" for i in (3, 1, 2)))
    for number, split in enumerate(splits):
        put(f"qrels/{split}.tsv", f"query-id\tcorpus-id\tscore\nq1\td1\t{number}\nq3\td2\t1\n")
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_beir_folder(tmp_path, packed):
    folder = beir_folder(tmp_path / "nf", packed=packed)
    assert list(documents(str(folder))) == [Document("d1", "T1", "x1"), Document("d2", "T2", "x2")]
    assert list(documents(f"{folder}:test")) == list(documents(str(folder)))
    assert [q.id for q in queries(str(folder))] == ["q3", "q1", "q2"]
    assert queries(f"{folder}:test") == [Query("q3", "text 3"), Query("q1", "text 1")]  # in the order of the file
    assert judgments(f"{folder}:train.graded") == {"q1": {"d1": 2}, "q3": {"d2": 1}}
    assert queries_and_judgments(f"{folder}:dev") == (queries(f"{folder}:dev"), {"q1": {"d1": 0}, "q3": {"d2": 1}})


def test_judgments_of_a_folder_need_a_split_unless_there_is_one(tmp_path):
    several = beir_folder(tmp_path / "several")
    for read, split, message in (
        (judgments, "", "several splits: use one of .*:dev, .*:test, .*:train.graded"),
        (judgments, ":tset", "no split 'tset': use one of"),
        (queries, ":tset", "no split 'tset': use one of"),
        (judgments, ":", "cannot be the name of a split"),
        (judgments, ":../x", "cannot be the name of a split"),
    ):
        with pytest.raises(InputError, match=message):
            read(f"{several}{split}")
    one = beir_folder(tmp_path / "one", splits=["test"])
    assert judgments(str(one)) == judgments(f"{one}:test")
    assert [q.id for q in queries_and_judgments(str(one))[0]] == ["q3", "q1"]
    with pytest.raises(InputError, match="no qrels/SPLIT.tsv in this folder"):
        judgments(str(beir_folder(tmp_path / "none", splits=[])))


def test_a_colon_in_a_name_is_no_split(tmp_path):
    folder = beir_folder(tmp_path / "nf:2016")
    assert len(list(documents(str(folder)))) == 2
    assert len(queries(f"{folder}:test")) == 2
    other = tmp_path / "q:1.tsv"
    other.write_text("1\ta\n")
    assert queries(str(other)) == [Query("1", "a")]


def test_the_sample_is_a_beir_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(specs, "SAMPLE", beir_folder(tmp_path / "bundled", packed=True))
    (tmp_path / "sample").mkdir()
    monkeypatch.chdir(tmp_path)  # a folder of that name does not hide it
    assert len(list(documents("sample"))) == 2
    assert len(list(documents("sample:test"))) == 2
    assert len(queries("sample")) == 3
    assert len(queries("sample:dev")) == 2
    assert judgments("sample:test") == {"q1": {"d1": 1}, "q3": {"d2": 1}}
    assert queries_and_judgments("sample:test") == (queries("sample:test"), judgments("sample:test"))
    monkeypatch.setattr(specs, "SAMPLE", tmp_path / "gone")
    with pytest.raises(InputError, match="the bundled sample is missing"):
        documents("sample")


def test_an_existing_path_wins_over_an_ir_datasets_id(tmp_path, monkeypatch):
    beir_folder(tmp_path / "beir" / "nfcorpus" / "test")
    monkeypatch.chdir(tmp_path)
    assert [d.id for d in documents("beir/nfcorpus/test")] == ["d1", "d2"]


@pytest.mark.parametrize("read", [documents, queries, judgments, queries_and_judgments])
@pytest.mark.parametrize("spec", ["no/such/thing", "nope.tsv", "/no/such/file", "no folder:test", "", "x:y:z"])
def test_an_unknown_spec_is_an_error_at_once_that_lists_the_forms(read, spec):
    with pytest.raises(InputError) as error:
        read(spec)
    message = str(error.value)
    assert "\n" not in message and repr(spec) in message
    assert "ir-datasets id (" in message and "BEIR folder" in message and "sample" in message


def test_a_similar_ir_datasets_id_is_suggested():
    with pytest.raises(InputError, match=r"similar ids: .*beir/nfcorpus/test"):
        queries("beir/nfcorpos/test")


def test_folders_and_files_without_documents(tmp_path):
    def refused(message, name="", read=documents):
        with pytest.raises(InputError, match=message):
            read(f"{tmp_path}{name}")

    refused("no documents in this folder: expected corpus.jsonl")
    refused("only a BEIR folder has splits", ":test")
    refused(r"no queries\.jsonl", read=queries)
    (tmp_path / "a.pdf").write_text("x")
    refused(r"a\.pdf: documents are read from", "/a.pdf")
    (tmp_path / "a.jsonl").write_text("{}")
    refused(r"a\.jsonl is a file; only a BEIR folder has splits", "/a.jsonl:test")
    (tmp_path / "b.xml").write_text("<x/>")
    refused(r"both JSON lines \(a\.jsonl\) and PubMed XML \(b\.xml\)")
