"""The forms by which values of metadata are searched."""

import pytest

from rerank_plugin.base.filters import folded
from rerank_plugin.base.metadata_fields import author_forms, journal_forms, lucene_fields


@pytest.mark.parametrize(
    "forms_of, value, forms",
    [
        (author_forms, "Smith JA", "smith|smith j|smith ja"),
        (author_forms, "Smith, John A", "smith john a|john a smith|smith|smith j|smith ja"),
        (author_forms, "Müller K", "muller|muller k|mueller|mueller k"),
        (author_forms, "O'Brien-van der Berg J-P", "obrien van der berg|obrien van der berg j|obrien van der berg jp"),
        (author_forms, "King ML Jr", "king|king m|king ml|king jr|king m jr|king ml jr"),
        (author_forms, "The Heart Group", "the heart group"),
        (author_forms, "Plato", "plato"),
        (journal_forms, "The New England journal of medicine", "the new england journal of medicine|"
         "new england journal of medicine|nejm"),
        (journal_forms, "BMJ (Clinical research ed.)", "bmj clinical research ed|bmj"),
        (journal_forms, "medRxiv : the preprint server", "medrxiv the preprint server|medrxiv"),
    ],
)  # fmt: skip
def test_forms(forms_of, value, forms):
    assert forms_of(value) == tuple(forms.split("|"))


@pytest.mark.parametrize(
    "value, form",
    [("Weißbäcker  Ä.", "weissbacker a"), ("Ménière's", "menieres"), ("+++", "+++"), ("Łódź/Øre", "lodz ore")],
)
def test_folded(value, form):
    assert folded(value) == form


def test_fields_of_a_record():
    fields = lucene_fields({
        "authors": ["Smith JA", "Roe A"], "retracted": False, "types": ["Randomized Controlled Trial"],
        "languages": ["ger"], "subheadings": ["Aspirin/adverse effects"], "mesh": ["Aspirin"], "keywords": ["pain"],
        "url": "https://pubmed.ncbi.nlm.nih.gov/12/", "doi": "10.1/ABC", "notices": ["Retraction in: J. PMID: 3"],
        "other_abstract": "Palabras.", "date": "2019-03",
    })  # fmt: skip
    assert fields == {
        "authors": "smith ja\nroe a", "author_names": "smith\nsmith j\nsmith ja\nroe\nroe a",
        "first_author": "smith\nsmith j\nsmith ja", "retracted": "no", "types": "randomized controlled trial",
        "type_names": "randomized controlled trial\nrct\nrandomised controlled trial\ncontrolled clinical trial\n"
        "clinical trial", "languages": "ger", "language_names": "ger\nde\ngerman", "mesh": "aspirin",
        "subheadings": "aspirin/adverse effects\nadverse effects", "keywords": "pain", "pmid": "12", "doi": "10.1/abc",
        "notices": "retraction in", "subjects": "Aspirin. pain", "other_text": "Palabras.. pain", "date": "2019-03",
    }  # fmt: skip
    assert lucene_fields(None) == {}
