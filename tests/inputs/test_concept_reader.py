"""The concepts a model is given, against a plain twin, and the vocabulary that numbers them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rerank_plugin.base.errors import InputError
from rerank_plugin.inputs.builder import InputBuilder, Inputs, concept_tensors
from rerank_plugin.inputs.concept_reader import ConceptReader, ConceptVocabulary
from tests import annotated, small

ALL = [concept.id for concept in annotated.CONCEPTS]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return annotated.build_index(tmp_path_factory.mktemp("concepts") / "index").forward


def test_golden_ids(index):
    """MED-14 is annotated H03 H04 H03 H01 H04 H10, and 9 H02 H01 H02 H01; the model lacks H04."""
    vocabulary = ConceptVocabulary(["H10", "H01", "H02", "H03"])
    rows = index.rows(["MED-14", "é", "9"])
    ids, mask = ConceptReader(index, vocabulary, 5, 2).documents(small.candidates(index, rows))
    assert (ids.dtype, mask.dtype) == (np.int64, bool)
    assert ids.tolist() == [[3, 3, 1, 0, 0], [0, 0, 0, 0, 0], [2, 1, 2, 1, 0]]
    assert mask.sum(axis=1).tolist() == [4, 0, 4] and mask[0].tolist() == [True] * 4 + [False]
    ids, mask = ConceptReader(index, vocabulary, 2, 2).documents(small.candidates(index, rows))
    assert ids.tolist() == [[3, 3], [0, 0], [2, 1]] and mask.all(axis=1).tolist() == [True, False, True]


def test_golden_queries(index):
    reader = ConceptReader(index, ConceptVocabulary(["H10", "H01", "H02", "H03"]), 5, 2)
    for text, ids, known in [
        ("women: aspirin after heart attack, stroke", [2, 1], 2),
        ("attack", [0, 0], 1),
        ("xylitol", [0, 0], 0),
        ("", [0, 0], 0),
    ]:
        found, mask = reader.query(text)
        assert (found.tolist(), mask.tolist()) == (ids, [place < known for place in range(2)]), text


def test_a_model_that_knows_all(index):
    """The shorter way for it gives what the longer one does."""
    reader = ConceptReader(index, ConceptVocabulary(ALL), 3, 3)
    assert reader.knows_all
    fast = reader.documents(small.candidates(index))
    reader.knows_all = False
    for array, expected in zip(fast, reader.documents(small.candidates(index))):
        np.testing.assert_array_equal(array, expected)


@given(data=st.data())
def test_any_model_reads_what_the_plain_one_does(index, data):
    known = data.draw(st.lists(st.sampled_from([*ALL, "X1", "X2"]), unique=True, min_size=1))
    if not set(known) & set(ALL):
        known.append("H01")
    longest, query_longest = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    rows = data.draw(st.lists(st.integers(0, len(index) - 1), max_size=6))
    reader = ConceptReader(index, ConceptVocabulary(known), longest, query_longest)
    ids, mask = reader.documents(small.candidates(index, np.array(rows, np.int64)))
    base = index.knowledge.base
    assert ids.shape == mask.shape == (len(rows), longest)
    for row, row_ids, inside in zip(rows, ids.tolist(), mask.tolist()):
        concepts, starts, lengths = index.concept_lists(np.array([row]))
        stored = concepts[starts[0] : starts[0] + lengths[0]]
        expected = [known.index(base.ids[int(number)]) for number in stored if base.ids[int(number)] in known][:longest]
        assert row_ids == expected + [0] * (longest - len(expected))
        assert inside == [place < len(expected) for place in range(longest)]
    text = data.draw(st.sampled_from(["heart attack or attack", "women who smoke", "colon cancer and stroke", "diet"]))
    expected = [base.ids[row] for mention in index.knowledge.annotator.annotate(text) for row in mention.concepts]
    expected = [known.index(id) for id in expected if id in known][:query_longest]
    ids, mask = reader.query(text)
    assert ids[mask].tolist() == expected and mask.tolist() == sorted(mask.tolist(), reverse=True)


def test_what_the_builder_counts_as_known(index):
    words = small.word_vectors(["aspirin", "women"], 2, 0).vocabulary
    reader = ConceptReader(index, ConceptVocabulary(ALL), 5, 5)
    text = "aspirin in women after heart attack"  # three concepts
    for concepts, reads_words, known, cut in [
        (None, True, 1, 4), (reader, True, 4, 4), (reader, False, 3, 0),
    ]:  # fmt: skip
        builder = InputBuilder(index, words, 5, 2, (), concepts=concepts, reads_words=reads_words)
        query = builder.query(index.query(text))
        assert (query.known, query.cut) == (known, cut)
        assert (query.concepts is None) == (query.concept_mask is None) == (concepts is None)


def test_stop_words_are_left_out_of_words_alone(index):
    words = small.word_vectors(["aspirin"], 2, 0).vocabulary
    reader = ConceptReader(index, ConceptVocabulary(ALL), 5, 5)
    builder = InputBuilder(index, words, 5, 4, (), frozenset(["women"]), reader)
    query = builder.query(index.query("women aspirin"))
    assert query.mask.sum() == 1 and query.concept_mask.sum() == 2


def test_inputs_with_concepts(index):
    """A batch taken apart and put together again; without concepts there are none."""
    words = small.word_vectors(["aspirin"], 2, 0).vocabulary
    reader = ConceptReader(index, ConceptVocabulary(ALL), 9, 7)
    builder = InputBuilder(index, words, 5, 4, (), concepts=reader)
    terms = [index.query(text) for text in ("aspirin in women", "stroke")]
    queries = [builder.query(one) for one in terms]
    built = [builder.build(one, query, small.candidates(index)) for one, query in zip(terms, queries)]
    both = Inputs.joined(built)
    assert both.document_concepts.shape == both.document_concept_mask.shape == (2 * len(index), 9)
    assert both.query_concepts.shape == both.query_concept_mask.shape == (2 * len(index), 7)
    for number, one in enumerate(built):
        rows = slice(number * len(index), (number + 1) * len(index))
        assert all(torch.equal(*pair) for pair in zip(both.take(rows), one))
    cut = both.without_common_padding()
    assert cut.document_concepts.shape == (2 * len(index), 6) and cut.query_concepts.shape == (2 * len(index), 2)
    assert cut.document_concepts[cut.document_concept_mask].tolist() == (
        both.document_concepts[both.document_concept_mask].tolist()
    )
    documents = builder.documents(small.candidates(index, [0, 3]))
    ids, mask, query_ids, query_mask = concept_tensors(documents, queries)
    assert query_ids[0].tolist() == queries[0].concepts.tolist() and query_mask[1].sum() == 1
    assert ids.tolist() == documents.concepts.tolist() and mask.tolist() == documents.concept_mask.tolist()
    plain = InputBuilder(index, words, 5, 4, ())
    built = [plain.build(one, plain.query(one), small.candidates(index)) for one in terms]
    assert Inputs.joined(built).query_concepts is None
    assert Inputs.joined(built).without_common_padding().document_concept_mask is None


def test_an_index_of_documents_without_concepts(tmp_path):
    index = annotated.build_index(tmp_path / "index", [("1", "quokka", ""), ("2", "", "")]).forward
    ids, mask = ConceptReader(index, ConceptVocabulary(ALL), 4, 4).documents(small.candidates(index))
    assert ids.shape == (2, 4) and not mask.any() and not ids.any()
    none = small.candidates(index, np.zeros(0, np.int64))
    assert ConceptReader(index, ConceptVocabulary(ALL), 4, 4).documents(none)[0].shape == (0, 4)


def test_the_vocabulary_is_a_file_of_ids(tmp_path):
    vocabulary = ConceptVocabulary(["D009203", "C0027051"], {"threshold": 0.7})
    vocabulary.save(tmp_path / "concepts.txt")
    assert (tmp_path / "concepts.txt").read_text() == "D009203\nC0027051\n"
    loaded = ConceptVocabulary.load(tmp_path / "concepts.txt", {"threshold": 0.7})
    assert (loaded.ids, loaded.annotation, len(loaded)) == (vocabulary.ids, vocabulary.annotation, 2)
    (tmp_path / "concepts.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match="concepts.txt"):
        ConceptVocabulary.load(tmp_path / "concepts.txt")


def test_numbers_of_a_knowledge_base(index):
    assert ConceptVocabulary(ALL).numbers(index.knowledge).tolist() == list(range(11))
    numbers = ConceptVocabulary(["H11", "X1", "H01"]).numbers(index.knowledge)
    assert numbers.dtype == np.int32 and numbers.tolist() == [2, *[-1] * 9, 0]
    assert ConceptVocabulary(ALL[::-1]).numbers(index.knowledge).tolist() == list(range(10, -1, -1))
