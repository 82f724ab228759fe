"""``python -m rerank_plugin.knowledge``: compile, show and annotate, and MeSH as it is."""

import time

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.knowledge.__main__ import main
from rerank_plugin.knowledge.entries import Concept
from tests.annotated import knowledge_base
from tests.processes import attempt


def test_compile_and_show(sample_knowledge, capsys):
    def shown(*names):
        main(["show", "--knowledge", str(sample_knowledge), *names])
        return capsys.readouterr().out

    assert shown().startswith("sample: sample\n205 concepts, 477 names\n112 broader\n150 concerns\n")
    by_name = shown("Heart Attack")
    assert by_name.splitlines()[:3] == [
        "S001  myocardial infarction  [condition]",
        "  names: heart attack; MI; acute coronary occlusion",
        "  -> broader: coronary disease",
    ]
    assert "  <- concerns: aspirin; clopidogrel;" in by_name
    assert shown("S001") == by_name
    with pytest.raises(InputError, match="no concept has the name or id 'nothing'"):
        shown("nothing")


def test_many_neighbours_are_counted(tmp_path, capsys):
    records = "".join(f"*NEWRECORD\nMH = N{i}\nMN = A01.{i:02}\nUI = D{i}\n" for i in range(1, 15))
    (tmp_path / "d2024.bin").write_text(f"*NEWRECORD\nMH = Top\nMN = A01\nUI = D0\n{records}")
    main(["compile", "--source", str(tmp_path / "d2024.bin"), "--output", str(tmp_path / "kb")])
    assert "15 concepts, 15 names, 14 relations (parent)" in capsys.readouterr().out
    main(["show", "--knowledge", str(tmp_path / "kb"), "top"])
    assert "<- parent: N1; N2; N3; N4; N5; N6; N7; N8; N9; N10; and 4 more" in capsys.readouterr().out


def test_bad_input_is_one_line_and_status_2(tmp_path):
    """In a process of its own, as a user starts it."""
    status, out, err = attempt(tmp_path, "knowledge compile --source no --output kb")
    assert (status, out) == (2, "")
    assert err.startswith("error: no: no such file") and err.count("\n") == 1


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory):
    concepts = (
        Concept("D1", "Hypertension"),
        Concept("D2", "Aspirin"),
        Concept("D4", "Delirium"),
        Concept("D6", "Stroke"),
    )
    return knowledge_base(tmp_path_factory.mktemp("annotated") / "kb", concepts)


def test_annotate(knowledge, capsys):
    main(["annotate", "--knowledge", str(knowledge.folder), "--text", "Hypertensions,\nand delirium"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["text", "place", "similarity", "concept", "name"]
    assert [line.split() for line in lines] == [
        ["Hypertensions", "0-13", "1.00", "D1", "Hypertension"],
        ["delirium", "19-27", "1.00", "D4", "Delirium"],
    ]
    main(["annotate", "--knowledge", str(knowledge.folder), "--text", "none", "--exact"])
    assert capsys.readouterr().out == "no concept found\n"


def test_annotate_a_corpus(knowledge, capsys, put):
    corpus = put("corpus.jsonl", '{"_id": "1", "title": "Stroke", "text": "and aspirin"}\n')
    main(["annotate", "--knowledge", str(knowledge.folder), "--corpus", corpus, "--threads", "2"])
    assert "1 documents of 3 words, 2.0 concepts each" in capsys.readouterr().out


def test_bad_settings_are_one_line(knowledge, refused):
    assert "threshold is 2" in refused(f"knowledge annotate --knowledge {knowledge.folder} --text a --threshold 2")


@pytest.mark.real_data
def test_mesh_as_it_is(real_data, tmp_path, capsys):
    main(["compile", "--source", str(real_data / "mesh"), "--output", str(tmp_path / "mesh")])
    started = time.perf_counter()
    knowledge = KnowledgeBase(tmp_path / "mesh")
    assert time.perf_counter() - started < 1
    # 123,902 synonyms are listed, one of them twice for the same descriptor (D005175).
    assert (len(knowledge), len(knowledge.terms), len(knowledge.heads)) == (29_351, 29_351 + 123_901, 39_785)
    row = int(knowledge.ids.find(["D009203"])[0])
    assert knowledge.names[row] == "Myocardial Infarction" and knowledge.semantic_types(row) == ("C",)
    assert knowledge.rows_of_name("heart attack") == [row]
    parents = knowledge.tails[knowledge.heads == row]
    assert knowledge.names.take(parents) == ["Myocardial Ischemia"]
    assert set(knowledge.type_names) == set("ABCDEFGHIJKLMNVZ")
