"""UMLS: reading its files, and the concepts that the command keeps."""

import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KnowledgeBase
from rerank_plugin.knowledge.__main__ import main
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.knowledge.sources import open_source


def conso(cui, string, language="ENG", ts="P", stt="PF", preferred="Y", suppress="N"):
    return f"{cui}|{language}|{ts}|L1|{stt}|S1|{preferred}|A1||M1|D1|MSH|MH|D1|{string}|0|{suppress}||\n"


def rel(first, relation, second, more="", suppress="N"):
    return f"{first}|A1|AUI|{relation}|{second}|A2|AUI|{more}|R1||MSH|MSH|||{suppress}||\n"


NAMES = (
    conso("C0001", "Heart attack", stt="VO")
    + conso("C0001", "Myocardial infarction")
    + conso("C0001", "Myokardinfarkt", language="GER")
    + conso("C0001", "Obsolete infarction", ts="S", suppress="O")
    + conso("C0001", "MI", ts="S", suppress="E")
    + conso("C0001", "Cardiac infarct", ts="S", preferred="N")
    + conso("C0001", "Cardiac infarct", ts="S", stt="VO")
    + conso("C0002", "Nur deutsch", language="GER")
    + conso("C0003", "Ten", stt="VC")
    + conso("C0003", "10", ts="S")
    + conso("C0004", "Sjögren’s syndrome")
    + conso("C0005", "Gone", suppress="Y")
    + conso("C0006", "Typeless")
)
TYPES = """\
C0001|T047|B2.2.1.2.1|Disease or Syndrome|AT1||
C0002|T047|B2.2.1.2.1|Disease or Syndrome|AT2||
C0003|T081|A2.1.3|Quantitative Concept|AT3||
C0004|T047|B2.2.1.2.1|Disease or Syndrome|AT4||
C0004|T081|A2.1.3|Quantitative Concept|AT5||
"""
RELATIONS = (
    rel("C0004", "CHD", "C0001", "isa")
    + rel("C0001", "PAR", "C0004", "inverse_isa")
    + rel("C0001", "RO", "C0004")
    + rel("C0001", "SY", "C0001", "entry_version_of")
    + rel("C0001", "RO", "C0004", "old", suppress="O")
    + rel("C0001", "RO", "C0003")
)


@pytest.fixture
def folder(put, tmp_path):
    for name, text in (("MRCONSO", NAMES), ("MRSTY", TYPES), ("MRREL", RELATIONS)):
        put(f"2024AA/{name}.RRF", text)
    return tmp_path / "2024AA"


def read(folder, language="ENG"):
    source = open_source(str(folder), language)
    assert source.format == "umls"
    return list(source.concepts), list(source.relations)


def test_names_types_and_relations_are_read(folder):
    concepts, relations = read(folder)
    assert concepts == [
        Concept("C0001", "Myocardial infarction", ("Heart attack", "Cardiac infarct"), ("T047",)),
        Concept("C0003", "Ten", ("10",), ("T081",)),
        Concept("C0004", "Sjögren’s syndrome", (), ("T047", "T081")),
        Concept("C0006", "Typeless", (), ()),
    ]
    assert relations == [
        Relation("C0001", "isa", "C0004"),
        Relation("C0004", "inverse_isa", "C0001"),
        Relation("C0004", "RO", "C0001"),
        Relation("C0003", "RO", "C0001"),
    ]


def test_packed_files_and_rows_without_the_last_pipe_are_the_same(folder, put):
    expected = read(folder)
    for path in list(folder.iterdir()):
        put(f"2024AA/{path.name}.gz", path.read_text(encoding="utf-8").replace("|\n", "\n"))
        path.unlink()
    assert read(folder) == expected


def test_another_language(folder):
    assert [concept.name for concept in read(folder, "GER")[0]] == ["Myokardinfarkt", "Nur deutsch"]
    with pytest.raises(InputError, match="no unsuppressed name in the language FRE"):
        read(folder, "FRE")


def test_the_command_keeps_medical_or_selected_types(folder, tmp_path):
    def compiled(*more):
        main(["compile", "--source", str(folder), "--output", str(tmp_path / "kb"), "--overwrite", *more])
        knowledge = KnowledgeBase(tmp_path / "kb")
        return knowledge.ids.take(range(len(knowledge))), knowledge

    ids, knowledge = compiled()
    described = knowledge.description
    assert ids == ["C0001", "C0004"] and described["edition"] == "2024AA"
    assert (described["concepts_left_out"], described["relations_left_out"]) == (2, 1)
    assert knowledge.relation_names == ["RO", "inverse_isa", "isa"]
    assert list(zip(knowledge.heads, knowledge.relations, knowledge.tails)) == [(0, 2, 1), (1, 0, 0), (1, 1, 0)]

    assert compiled("--types", "all")[0] == ["C0001", "C0003", "C0004", "C0006"]
    ids, knowledge = compiled("--types", "CONC", "--edition", "mine")
    assert ids == ["C0003", "C0004"] and knowledge.description["edition"] == "mine"
    assert compiled("--language", "GER")[0] == ["C0001", "C0002"]


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("MRCONSO", NAMES + "C0007|ENG|P\n", r"MRCONSO.RRF:14: expected 18 fields .* found 3"),
        ("MRCONSO", NAMES + conso("C0001", "Again"), r"C0001 comes after C0006: sort the rows by CUI"),
        ("MRSTY", "C0004|T047|B|D|A||\n" + TYPES, r"C0001 comes after C0004"),
        ("MRREL", RELATIONS + "C1|C2\n", r"MRREL.RRF:7: expected 16 fields .* found 2"),
    ],
)
def test_malformed_files_are_named(folder, file, text, message):
    (folder / f"{file}.RRF").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read(folder)


def test_missing_files(folder, caplog):
    (folder / "MRREL.RRF").unlink()
    assert read(folder)[1] == [] and "no MRREL.RRF" in caplog.text
    (folder / "MRSTY.RRF").unlink()
    with pytest.raises(InputError, match="has no MRSTY.RRF"):
        read(folder)
