"""Compiling a vocabulary, and opening it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.concepts.knowledge_base import KnowledgeBase, fold
from rerank_plugin.knowledge.entries import Concept, Relation, distinct
from tests.annotated import knowledge_base

CONCEPTS = (
    Concept("D1", "Heart Diseases", ("Cardiac Diseases", "heart disease"), ("C",)),
    Concept("D2", "Myocardial Infarction", ("Heart Attack", "MI"), ("C", "F")),
    Concept("D3", "Mitotic Index", ("MI", "mi"), ()),
    Concept("D4", "Crohn’s disease 🙂", (), ("D",)),
)
RELATIONS = (
    Relation("D2", "parent", "D1"),
    Relation("D1", "zzz", "D4"),
    Relation("D2", "parent", "D1"),
    Relation("D2", "aaa", "D1"),
    Relation("D3", "parent", "D3"),
    Relation("D3", "parent", "gone"),
    Relation("", "parent", "D1"),
)


def compiled(folder, concepts=CONCEPTS, relations=RELATIONS, **options):
    return knowledge_base(folder, concepts, relations, **options)


@pytest.fixture
def kb(tmp_path):
    """The folder of these concepts, compiled."""
    return compiled(tmp_path / "kb", edition="2024").folder


def test_a_compiled_vocabulary_is_read(kb):
    knowledge = KnowledgeBase(kb)
    assert len(knowledge) == 4
    assert knowledge.ids.find(["D3", "nothing", "D1"]).tolist() == [2, -1, 0]
    assert knowledge.term_offsets.tolist() == [0, 3, 6, 9, 10] and knowledge.term_offsets.dtype == np.uint64
    assert knowledge.concepts_of_terms(range(10)).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert knowledge.relation_names == ["aaa", "parent", "zzz"]
    edges = list(zip(knowledge.heads.tolist(), knowledge.relations.tolist(), knowledge.tails.tolist()))
    assert edges == [(0, 2, 3), (1, 0, 0), (1, 1, 0)]
    assert {knowledge.heads.dtype, knowledge.relations.dtype, knowledge.tails.dtype} == {np.dtype(np.int32)}
    described = knowledge.description
    assert (described["concepts"], described["terms"], described["relations"]) == (4, 10, 3)
    assert (described["relations_left_out"], described["edition"]) == (3, "2024")


@pytest.mark.parametrize(
    "name, rows", [(" heart  ATTACK", [1]), ("mi", [1, 2]), ("crohn’s disease 🙂", [3]), ("heart", []), ("", [])]
)
def test_names_are_found_in_any_case(kb, name, rows):
    assert KnowledgeBase(kb).rows_of_name(name) == rows


words = st.text(st.characters(exclude_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=1, max_size=8)


@settings(max_examples=40)
@given(st.dictionaries(words, st.tuples(words, st.lists(words, max_size=4), st.sets(words, max_size=2))), st.data())
def test_any_vocabulary_comes_back(tmp_path_factory, drawn, data):
    concepts = [Concept(id, *distinct(name, others), tuple(types)) for id, (name, others, types) in drawn.items()]
    folder = tmp_path_factory.mktemp("any") / "kb"
    if not concepts:
        with pytest.raises(InputError, match="no concept"):
            compiled(folder, concepts)
        return
    ids = st.sampled_from([*drawn, "no such id!"])
    relations = data.draw(st.lists(st.builds(Relation, ids, words, ids), max_size=6))
    knowledge = compiled(folder, concepts, relations)
    for row, concept in enumerate(concepts):
        assert (knowledge.ids[row], knowledge.names[row]) == (concept.id, concept.name)
        assert knowledge.terms_of(row) == [concept.name, *concept.synonyms]
        assert knowledge.semantic_types(row) == concept.semantic_types
        for term in (concept.name, *concept.synonyms):
            rows = [i for i, c in enumerate(concepts) if fold(term) in map(fold, (c.name, *c.synonyms))]
            assert knowledge.rows_of_name(term) == rows
    rows = zip(knowledge.heads.tolist(), knowledge.relations.tolist(), knowledge.tails.tolist())
    edges = {Relation(knowledge.ids[h], knowledge.relation_names[r], knowledge.ids[t]) for h, r, t in rows}
    assert edges == {edge for edge in relations if edge.head != edge.tail and {edge.head, edge.tail} <= drawn.keys()}
    assert len(knowledge.heads) == len(edges)


def test_the_checksum_is_of_the_content_and_not_of_the_batches(kb, tmp_path, monkeypatch):
    monkeypatch.setattr("rerank_plugin.knowledge.compiling.BATCH", 2)
    again = compiled(tmp_path / "again", relations=RELATIONS[::-1], edition="later")
    assert again.checksum == KnowledgeBase(kb).checksum
    changes = [
        {"concepts": (CONCEPTS[0]._replace(synonyms=("Cardiac Diseases", "heart diseasE")), *CONCEPTS[1:])},
        {"concepts": (CONCEPTS[0]._replace(semantic_types=("X",)), *CONCEPTS[1:])},
        {"relations": tuple(relation._replace(relation="isa") for relation in RELATIONS)},
    ]
    others = {compiled(tmp_path / str(number), **change).checksum for number, change in enumerate(changes)}
    assert len({again.checksum, *others}) == 4


def test_types_select_concepts_and_what_relates_them(tmp_path):
    knowledge = compiled(tmp_path / "kb", kept_types=frozenset({"F", "D"}))
    assert knowledge.ids.take(range(2)) == ["D2", "D4"]
    described = knowledge.description
    assert (described["concepts_left_out"], described["relations"], described["kept_types"]) == (2, 0, ["D", "F"])
    with pytest.raises(InputError, match="no concept to compile with the types to keep"):
        compiled(tmp_path / "none", kept_types=frozenset({"Q"}))


def test_a_folder_is_replaced_only_when_asked_and_by_what_is_sound(kb):
    with pytest.raises(InputError, match="exists already"):
        compiled(kb, CONCEPTS[:1])
    with pytest.raises(InputError, match=r"D1 \(Heart Diseases\) occurs twice"):
        compiled(kb, CONCEPTS[:1] * 2, overwrite=True)
    assert [path.name for path in kb.parent.iterdir()] == ["kb"] and len(KnowledgeBase(kb)) == 4
    assert len(compiled(kb, CONCEPTS[:1], overwrite=True)) == 1


def test_other_files_in_the_folder_are_ignored(kb):
    (kb / "cache.npy").write_bytes(b"anything")
    assert len(KnowledgeBase(kb)) == 4
