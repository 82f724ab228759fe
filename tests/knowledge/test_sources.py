import gzip

import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge.sources import edition_of, open_source
from tests.knowledge import test_mesh_ascii, test_mesh_tsv, test_mesh_xml, test_umls

XML = f"{test_mesh_xml.HEAD}{test_mesh_xml.HEART}</DescriptorRecordSet>"


@pytest.mark.parametrize(
    "name, text, format",
    [
        ("desc2024.xml", XML, "mesh-xml"),
        ("no-suffix", "\ufeff  " + XML.split("\n", 1)[1], "mesh-xml"),
        ("desc.xml.gz", XML, "mesh-xml"),
        ("d2024.bin", test_mesh_ascii.RECORDS, "mesh-ascii"),
        ("d2024.bin.gz", test_mesh_ascii.RECORDS, "mesh-ascii"),
        ("tsv/descriptors.tsv", test_mesh_tsv.HEADER + test_mesh_tsv.ROWS, "mesh-tsv"),
        ("umls/MRCONSO.RRF.gz", test_umls.NAMES, "umls"),
    ],
)
def test_formats_are_recognized(tmp_path, name, text, format):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    spec = path
    if "/" in name:
        spec = path.parent
        (spec / "MRSTY.RRF").write_text(test_umls.TYPES)
    source = open_source(str(spec))
    assert source.format == format
    assert next(source.concepts).name in ("Heart Diseases", "Myocardial infarction")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("other.txt", "words", "format is not known"),
        ("a/MRCONSO.RRF", "C1|", "give the folder that it is in: .*/a$"),
        ("cut.bin.gz", None, "damaged gzip file"),
    ],
)
def test_what_is_not_known_is_said(tmp_path, name, text, message):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if text else b"no gzip")
    with pytest.raises(InputError, match=message):
        open_source(str(path))


def test_folders_and_names_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="without MRCONSO.RRF or descriptors.tsv"):
        open_source(str(tmp_path))
    with pytest.raises(InputError, match="no such file or folder; expected MeSH XML"):
        open_source(str(tmp_path / "gone"))
    (tmp_path / "META").mkdir()
    (tmp_path / "META" / "MRCONSO.RRF").touch()
    with pytest.raises(InputError, match="give .*META"):
        open_source(str(tmp_path))


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
    assert {one.relation for one in relations} == {"broader", "concerns"}
    assert all(one.head in ids and one.tail in ids for one in relations)
    assert (infarction.id, "broader", by_name["coronary disease"].id) in relations
    assert (by_name["coronary stenting"].id, "concerns", infarction.id) in relations
