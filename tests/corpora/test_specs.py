"""Specs: BEIR folders and splits, the bundled sample, and unknown specs."""

import logging

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.corpora import Document, Query, documents, judgments, queries, queries_and_judgments, specs


@pytest.fixture
def beir(put, tmp_path):
    """Writes a BEIR folder of this name with these splits, and gives its path as text."""

    def write(name="nf", splits=("dev", "test", "train.graded"), packed=""):
        corpus = "".join(f'{{"_id": "d{i}", "title": "T{i}", "text": "x{i}"}}\n' for i in (1, 2))
        put(f"{name}/corpus.jsonl{packed}", corpus)
        put(f"{name}/queries.jsonl{packed}", "".join(f'{{"_id": "q{i}", "text": "text {i}"}}\n' for i in (3, 1, 2)))
        for number, split in enumerate(splits):
            rows = f"query-id\tcorpus-id\tscore\nq1\td1\t{number}\nq3\td2\t1\n"
            put(f"{name}/qrels/{split}.tsv{packed}", rows)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    "name, packed", [("nf", ""), ("nf", ".gz"), ("nf:2016", "")], ids=["plain", "packed", "a colon in the name"]
)
def test_a_beir_folder(beir, name, packed):
    folder = beir(name, packed=packed)
    assert list(documents(folder)) == [Document("d1", "T1", "x1"), Document("d2", "T2", "x2")]
    assert list(documents(f"{folder}:test")) == list(documents(folder))
    assert [query.id for query in queries(folder)] == ["q3", "q1", "q2"]
    assert queries(f"{folder}:test") == [Query("q3", "text 3"), Query("q1", "text 1")]  # in the order of the file
    assert judgments(f"{folder}:train.graded") == {"q1": {"d1": 2}, "q3": {"d2": 1}}
    assert queries_and_judgments(f"{folder}:dev") == (queries(f"{folder}:dev"), {"q1": {"d1": 0}, "q3": {"d2": 1}})


@pytest.mark.parametrize(
    "read, split, message",
    [
        (judgments, "", "several splits: use one of .*:dev, .*:test, .*:train.graded"),
        (judgments, ":tset", "no split 'tset': use one of"),
        (queries, ":tset", "no split 'tset': use one of"),
        (judgments, ":", "cannot be the name of a split"),
        (judgments, ":../x", "cannot be the name of a split"),
    ],
)
def test_judgments_of_a_folder_need_one_of_its_splits(beir, read, split, message):
    with pytest.raises(InputError, match=message):
        read(f"{beir()}{split}")


def test_a_folder_of_one_split_needs_no_name(beir):
    folder = beir("one", ["test"])
    assert judgments(folder) == judgments(f"{folder}:test")
    assert [query.id for query in queries_and_judgments(folder)[0]] == ["q3", "q1"]
    with pytest.raises(InputError, match="no qrels/SPLIT.tsv in this folder"):
        judgments(beir("none", []))


def test_a_colon_in_the_name_of_a_file_is_no_split(put):
    assert queries(put("q:1.tsv", "1\ta\n")) == [Query("1", "a")]


def test_the_sample_is_a_beir_folder_that_none_of_its_name_hides(beir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beir("sample")
    bundled = str(specs.SAMPLE)
    for split in ("", ":test"):
        assert list(documents(f"sample{split}")) == list(documents(bundled)) != list(documents("./sample"))
        assert queries(f"sample{split}") == queries(f"{bundled}{split}")
    assert judgments("sample:test") == judgments(f"{bundled}:test")
    assert queries_and_judgments("sample:test") == (queries("sample:test"), judgments("sample:test"))
    monkeypatch.setattr(specs, "SAMPLE", tmp_path / "gone")
    with pytest.raises(InputError, match="the bundled sample is missing"):
        documents("sample")


def test_an_existing_path_wins_over_an_ir_datasets_id(beir, tmp_path, monkeypatch):
    beir("beir/nfcorpus/test")
    monkeypatch.chdir(tmp_path)
    assert [document.id for document in documents("beir/nfcorpus/test")] == ["d1", "d2"]


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


@pytest.mark.parametrize(
    "files, spec, read, message",
    [
        ([], "", documents, "no documents in this folder: expected corpus.jsonl"),
        ([], ":test", documents, "only a BEIR folder has splits"),
        ([], "", queries, r"no queries\.jsonl"),
        (["a.pdf"], "/a.pdf", documents, r"a\.pdf: documents are read from"),
        (["a.jsonl"], "/a.jsonl:test", documents, r"a\.jsonl is a file; only a BEIR folder has splits"),
    ],
)
def test_folders_and_files_without_documents(put, tmp_path, files, spec, read, message):
    for name in files:
        put(name, "x")
    with pytest.raises(InputError, match=message):
        read(f"{tmp_path}{spec}")


def test_an_empty_corpus_without_a_format(put):
    with pytest.raises(InputError, match="nothing: is empty: name a file with documents"):
        documents(put("nothing", "\ufeff \n"))


def line(id):
    return f'{{"id": "{id}", "title": "{id}"}}\n'


def test_a_folder_gives_all_that_it_holds_or_names_it(put, tmp_path, caplog):
    import bz2
    import lzma

    put("f/a.jsonl", line("a"))
    (tmp_path / "f" / "b.jsonl.bz2").write_bytes(bz2.compress(line("b").encode()))
    (tmp_path / "f" / "c.jsonl.xz").write_bytes(lzma.compress(line("c").encode()))
    (tmp_path / "f" / "d.jsonl").symlink_to("nowhere")
    for name in ("e/e.jsonl", ".h.jsonl", ".git/x.jsonl", ".other"):
        put(f"f/{name}", line("x"))
    put("f/n.txt", "Notes.")
    assert [document.id for document in documents(str(tmp_path / "f"))] == ["a", "b", "c"]
    assert caplog.messages == [
        f"{tmp_path / 'f'}: left out: 1 hidden files: .h.jsonl; 1 dangling links: d.jsonl; "
        "1 files of unknown formats: n.txt; 1 files in subfolders: e/e.jsonl"
    ]


def test_the_content_of_a_file_decides_its_format_alone_and_in_a_folder(put, tmp_path, caplog):
    """Names of downloads are wrong, or say nothing: easyPubMed's and PubMed's own end with .txt."""
    from tests.corpora.pubmed import article, xml

    caplog.set_level(logging.WARNING)  # commands of other tests leave it lower
    nbib = "\nPMID- {}\nTI  - T\n".format
    texts = {
        "easyPubMed_data_01.txt": xml(article("1")), "easyPubMed_data_02.txt.gz": xml(article("2")),
        "export.json": xml(article("3")), "pubmed-heart-set.txt": nbib(4), "b.xml": nbib(5), "lines.txt": line("6"),
        "c.xml.gz": f"[{line('7')}]", "empty.jsonl": " ",
    }  # fmt: skip
    left_out = {
        "a_stats.html": "<html><p>1</p></html>",
        "e.txt": "",
        "m.xml.gz.md5": "MD5(m.xml.gz)= 0",
        "README.md": "[![A](b)]",
    }
    for name, text in (texts | left_out).items():
        put(f"f/{name}", text)
    assert [document.id for document in documents(str(tmp_path / "f"))] == ["5", "4", "7", "6", "1", "2", "3"]
    assert caplog.messages == [
        f"{tmp_path / 'f'}: holds files of several formats: 2 of MEDLINE text: b.xml, pubmed-heart-set.txt; 3 of JSON "
        "lines: c.xml.gz, empty.jsonl, lines.txt; 3 of PubMed XML: easyPubMed_data_01.txt, easyPubMed_data_02.txt.gz, "
        "export.json",
        f"{tmp_path / 'f'}: left out: 4 files of unknown formats: README.md, a_stats.html, e.txt, ...",
    ]
    alone = [document.id for name in texts for document in documents(str(tmp_path / "f" / name))]
    assert alone == ["1", "2", "3", "4", "5", "6", "7"]
    for name in left_out:
        with pytest.raises(InputError, match="is empty" if name == "e.txt" else "documents are read from"):
            documents(str(tmp_path / "f" / name))


def test_subfolders_of_pubmed_beside_a_file(put, tmp_path):
    from tests.corpora.pubmed import article, xml

    put("f/stray.xml", xml(article("3")))
    put("f/updates/2.xml", xml(article("1", "new")))
    put("f/base/1.xml", xml(article("1", "old"), article("2")))
    (tmp_path / "f" / "base" / "loop").symlink_to(tmp_path / "f")
    assert [(document.id, document.title) for document in documents(str(tmp_path / "f"))] == [
        ("2", "A title."), ("1", "new"), ("3", "A title.")]  # fmt: skip


def test_several_corpora_and_patterns(put, beir, tmp_path, monkeypatch):
    from tests.corpora.pubmed import article, xml

    monkeypatch.chdir(tmp_path)
    put("a1.jsonl", line("a1"))
    put("a2.jsonl", line("a2"))
    put("1.xml", xml(article("1", "old"), article("2")))
    put("2.xml", xml(article("1", "new")))
    beir("b")
    assert [d.id for d in documents(["a?.jsonl", "b", "1.xml", "2.xml"])] == ["a1", "a2", "d1", "d2", "2", "1"]
    with pytest.raises(InputError, match="a1.jsonl is given twice"):
        documents(["a1.jsonl", "a*.jsonl"])
    with pytest.raises(InputError, match=r"x\*: no file or folder has a name of this pattern"):
        documents("x*")
    put("odd[1].jsonl", line("o"))
    assert [d.id for d in documents("odd[1].jsonl")] == ["o"]


def test_other_files_of_a_beir_folder_are_named(beir, put, tmp_path, caplog):
    folder = beir("b")
    for name in ("extra.jsonl", "corpus.json.gz", "queries_dev.jsonl"):
        put(f"b/{name}", line("x"))
    assert [document.id for document in documents(folder)] == ["d1", "d2"]
    assert caplog.messages == [f"{folder}: left out beside corpus.jsonl: corpus.json.gz, extra.jsonl"]
