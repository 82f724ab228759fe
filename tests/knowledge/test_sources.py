import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.knowledge.sources import edition_of, open_source


@pytest.mark.parametrize(
    "name, text, spec, message",
    [
        ("other.txt", "words", "other.txt", "unknown format"),
        ("a/MRCONSO.RRF", "C1|", "a/MRCONSO.RRF", "give the folder of the file: .*/a$"),
        ("a/other.txt", "", "a", "without MRCONSO.RRF or descriptors.tsv"),
        ("META/MRCONSO.RRF", "", "", "give .*META"),
        ("other.txt", "", "gone", "no such file or folder; expected MeSH XML"),
    ],
)
def test_unknown_sources_are_errors(put, tmp_path, name, text, spec, message):
    put(name, text)
    with pytest.raises(InputError, match=message):
        open_source(str(tmp_path / spec))


def test_a_damaged_gzip_file_is_an_error(tmp_path):
    (tmp_path / "cut.bin.gz").write_bytes(b"\x1f\x8b\x08no gzip")
    with pytest.raises(InputError, match="damaged gzip file"):
        open_source(str(tmp_path / "cut.bin.gz"))


@pytest.mark.parametrize(
    "spec, edition",
    [
        ("desc2024.xml", "2024"),
        ("/data/2023AB/META", "2023AB"),
        ("umls-2024AA-full", "2024AA"),
        ("mesh", ""),
        ("d20241.bin", ""),
    ],
)
def test_the_edition_comes_from_the_path(spec, edition):
    assert edition_of(spec) == edition


def test_the_bundled_vocabulary_has_lay_and_expert_names():
    source = open_source("sample")
    concepts = list(source.concepts)
    by_name = {concept.name: concept for concept in concepts}
    assert len(by_name) == len(concepts) == len({concept.id for concept in concepts}) > 150
    infarction = by_name["myocardial infarction"]
    assert infarction.synonyms[0] == "heart attack" and infarction.semantic_types == ("condition",)
    ids = {concept.id for concept in concepts}
    relations = list(source.relations)
    assert {relation.relation for relation in relations} == {"broader", "concerns"}
    assert all(relation.head in ids and relation.tail in ids for relation in relations)
    assert (infarction.id, "broader", by_name["coronary disease"].id) in relations
    assert (by_name["coronary stenting"].id, "concerns", infarction.id) in relations
