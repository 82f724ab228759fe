"""Exported documents are read again as they were."""

import json

import pytest

from rerank_plugin.corpora import Document, Problems, documents
from rerank_plugin.corpora.exports import EXPORTS
from rerank_plugin.corpora.metadata import NAMES

RECORDS = [
    Document("31000001", "Früh: “A & B” 50% of x_1", "BACKGROUND: We looked; twice. RESULTS: \"Pain\", mostly.", {
        "date": "2019-03-14", "entry_date": "2019-02-28", "create_date": "2019-02-26", "journal": "J Test",
        "full_journal_title": "Journal of tests",
        "authors": ["Müller-Voss KA", "Tran B Jr", "Heart, Lung Group"],
        "full_names": ["Müller-Voss, Katrin A", "Tran, Bao Jr", "Heart, Lung Group"],
        "affiliation": "Clinic; Town.", "mesh": ["Aspirin", "Diabetes Mellitus, Type 2"], "major_topics": ["Aspirin"],
        "subheadings": ["Aspirin/adverse effects", "Aspirin/therapeutic use"], "types": ["Review", "Journal Article"],
        "languages": ["ger", "eng"], "keywords": ["pain, chronic"], "chemicals": ["Aspirin (all)", "Lipase"],
        "registry_numbers": ["0", "EC 3.1.1.3"], "electronic_date": "2018-12-31", "retracted": True,
        "notices": ["Retraction in: J Test. 2020;1(2):3. PMID: 12", "Erratum in: J Test. 2019;9:1. PMID: 11"],
        "volume": "380", "issue": "11", "pages": "1011-20", "issn": "0000-1234", "doi": "10.1000/x_1", "pmc": "PMC12",
        "original_title": "Früh", "other_abstract": "Wir sahen.", "pmid_version": 1,
        "url": "https://pubmed.ncbi.nlm.nih.gov/31000001/"}),
    Document("31000002", "Second", "", {
        "date": "2020-05", "authors": ["Roe A", "Doe J 3rd"], "types": ["Letter"], "languages": ["eng"], "pages": "e7",
        "retracted": False, "journal": "BMJ", "url": "https://pubmed.ncbi.nlm.nih.gov/31000002/"}),
    Document("31000003", "Third: only a year", "Text.", {
        "date": "2021", "types": ["Journal Article"], "retracted": False,
        "url": "https://pubmed.ncbi.nlm.nih.gov/31000003/"}),
]  # fmt: skip
LOST = {
    "ris": {"entry_date", "create_date", "electronic_date", "registry_numbers",
            "mesh", "major_topics", "subheadings", "chemicals", "retracted", "notices", "other_abstract",
            "pmid_version"},
    "nbib": {"pmid_version"}, "csv": set(), "json": set(),
}  # fmt: skip
"""What a format has no field for."""


@pytest.mark.parametrize("format", LOST)
def test_an_export_is_read_again(tmp_path, format):
    path = tmp_path / f"a.{format}"
    path.write_text("".join(EXPORTS[format].write(RECORDS)))
    problems = Problems()
    read = list(documents(str(path), problems))
    assert problems.total == 0
    for document, before in zip(read, RECORDS, strict=True):
        assert document[:3] == before[:3]
        kept = {name: value for name, value in before.metadata.items() if name not in LOST[format]}
        assert {name: value for name, value in document.metadata.items() if name not in LOST[format]} == kept


def test_every_metadata_is_tried():
    assert RECORDS[0].metadata.keys() == NAMES


def test_nbib_as_pubmed_writes_it():
    lines = "".join(EXPORTS["nbib"].write(RECORDS[:1])).splitlines()
    assert {"TI  - [Früh: “A & B” 50% of x_1].", "IS  - 0000-1234 (Print)", "DEP - 20181231", "AU  - Tran B Jr",
            "AID - 10.1000/x_1 [doi]",
            "RN  - EC 3.1.1.3 (Lipase)", "RN  - 0 (Aspirin (all))"} <= {*lines}  # fmt: skip


def test_bibtex():
    assert (
        "".join(EXPORTS["bibtex"].write([RECORDS[0]._replace(abstract="")]))
        == r"""@article{31000001,
  author = {Müller-Voss, Katrin A and Tran, Bao Jr and {Heart, Lung Group}},
  title = {[Früh: “A \& B” 50\% of x\_1].},
  journal = {Journal of tests},
  year = {2019},
  volume = {380},
  number = {11},
  pages = {1011--20},
  issn = {0000-1234},
  language = {ger, eng},
  keywords = {pain, chronic},
  pmcid = {PMC12},
  pmid = {31000001},
  month = {mar},
  doi = {10.1000/x_1},
  url = {https://pubmed.ncbi.nlm.nih.gov/31000001/},
}

"""
    )


@pytest.mark.parametrize("format", EXPORTS)
def test_no_documents(format):
    text = "".join(EXPORTS[format].write([]))
    assert json.loads(text) == [] if format == "json" else text.count("\n") <= 1
