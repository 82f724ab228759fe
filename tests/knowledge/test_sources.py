import gzip

import pytest

from rerank_plugin.files.errors import InputError
from rerank_plugin.knowledge.sources import edition_of, open_source
from tests.knowledge import test_mesh, test_umls

XML = test_mesh.XML


@pytest.mark.parametrize(
    "name, text, format",
    [
        ("desc2024.xml", XML, "mesh-xml"),
        ("no-suffix", "\ufeff  " + XML.split("\n", 1)[1], "mesh-xml"),
        ("desc.xml.gz", XML, "mesh-xml"),
        ("d2024.bin", test_mesh.RECORDS, "mesh-ascii"),
        ("d2024.bin.gz", test_mesh.RECORDS, "mesh-ascii"),
        ("tsv/descriptors.tsv", test_mesh.HEADER + test_mesh.ROWS, "mesh-tsv"),
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
    "name, data, spec, message",
    [
        ("other.txt", b"words", "other.txt", "format is not known"),
        ("a/MRCONSO.RRF", b"C1|", "a/MRCONSO.RRF", "give the folder that it is in: .*/a$"),
        ("cut.bin.gz", b"no gzip", "cut.bin.gz", "damaged gzip file"),
        ("a/other.txt", b"", "a", "without MRCONSO.RRF or descriptors.tsv"),
        ("META/MRCONSO.RRF", b"", "", "give .*META"),
        ("other.txt", b"", "gone", "no such file or folder; expected MeSH XML"),
    ],
)
def test_what_is_not_known_is_said(tmp_path, name, data, spec, message):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message):
        open_source(str(tmp_path / spec))


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
