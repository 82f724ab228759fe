"""Headings of MeSH, and strategies over an index that has them."""

import pytest

import rerank_plugin as rp
from rerank_plugin.base.filters import Filter
from rerank_plugin.base.records import Document, Query
from rerank_plugin.concepts.annotation import Annotator
from rerank_plugin.concepts.headings import Headings
from rerank_plugin.corpora import Problems
from rerank_plugin.indexes.building import build_single
from rerank_plugin.knowledge.entries import Concept, Relation
from rerank_plugin.ranking.reading import read
from rerank_plugin.strategies.syntax import Reader
from tests.annotated import knowledge_base

CONCEPTS = [
    Concept("D1", "Heart Diseases", ("Cardiac Diseases",)),
    Concept("D2", "Myocardial Ischemia", ("Ischemic Heart Disease",)),
    Concept("D3", "Myocardial Infarction", ("Heart Attack", "Infarction, Myocardial")),
    Concept("D4", "Aspirin", ("Acetylsalicylic Acid",)),
]
RELATIONS = [Relation("D2", "parent", "D1"), Relation("D3", "parent", "D2")]
METADATA = [["Heart Diseases"], ["Myocardial Infarction"], ["Aspirin"], ["Myocardial Ischemia", "Aspirin"], None]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mesh")
    annotator = Annotator(knowledge_base(folder / "kb", CONCEPTS, RELATIONS), threads=1)
    documents = [
        Document(
            str(row), "A trial" if row else "A heart attack", "",
            {"mesh": mesh, "subheadings": [f"{mesh[0]}/prevention & control"]} if mesh else None,
        )
        for row, mesh in enumerate(METADATA)
    ]  # fmt: skip
    build_single(documents, folder / "index", "tests", Problems(), annotator=annotator)
    return rp.Index(folder / "index")


@pytest.mark.parametrize(
    "strategy, read_as, rows",
    [
        ("cardiac diseases[mh]", '"Heart Diseases"[mh]', [0, 1, 3]),
        ("cardiac diseases/prevention and control[mh]", '"Heart Diseases/prevention and control"[mh]', [0, 1, 3]),
        ("heart diseases/pc[mh:noexp]", '"heart diseases/prevention & control"[mh:noexp]', [0]),
        ("pc[sh]", '"prevention & control"[sh]', [0, 1, 2, 3]),
        ("heart diseases[mh:noexp]", '"heart diseases"[mh:noexp]', [0]),
        (
            "heart attack AND trial",
            '("Myocardial Infarction"[mh] OR "Myocardial Infarction" OR (heart AND attack)) AND trial',
            [1],
        ),
        ("aspirin OR zzz", "Aspirin[mh] OR aspirin OR zzz", [2, 3]),
        ('"heart attack" OR zzz', '"heart attack" OR zzz', [0]),  # quotes turn the mapping off
        ("(heart attack)[ti]", "heart[ti] AND attack[ti]", [0]),
        ("myocardial ischemia[majr] OR heart*[mh]", '"Myocardial Ischemia"[majr] OR heart*[mh:noexp]', [0]),
    ],
)
def test_strategies_find_headings(index, strategy, read_as, rows):
    reader = Reader(Headings.of(index.knowledge))
    tree = reader.read(strategy)
    assert str(tree) == read_as and index.matches(Filter((), strategy=tree)).fits.nonzero()[0].tolist() == rows


def test_what_is_below_a_heading_is_found_once(index):
    headings = Headings.of(index.knowledge)
    (below,) = {id(headings.below("Myocardial Ischemia")) for _ in range(2)}
    assert below


def test_the_mapping_can_be_switched_off(index):
    query = Query("q", "heart attack AND trial")
    assert read(index, query, term_mapping=False).read_as == "heart AND attack AND trial"
    mapped = read(index, query)
    assert mapped.matches == 1 and mapped.query.text == "Myocardial Infarction heart attack trial"  # these rank
