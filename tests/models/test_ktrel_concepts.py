"""KTRel over an index with concepts: numberings, texts without concepts, what is stored, and what is refused."""

import logging

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.concepts.annotation import AnnotatorConfig
from rerank_plugin.inputs.concept_reader import ConceptVocabulary, _warn_other_annotation
from rerank_plugin.models.checkpoint import Checkpoint, save_checkpoint
from rerank_plugin.models.encoded_path import weights_checksum
from rerank_plugin.models.ktrel.config import KtrelConfig
from rerank_plugin.models.ktrel.model import Ktrel
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import annotated, small
from tests.conformance.models import CONCEPT_IDS as IDS
from tests.conformance.models import (
    KTREL,
    ROWS,
    Case,
    assert_same,
    inputs_of,
    make,
    make_own,
    opened,
    rounding,
    scores_of,
)
from tests.models.conftest import change_json
from tests.sealing import unsealed

ONLY_CONCEPTS = Query("q2", "myocardial infarction")  # neither word is the model's
ONLY_WORDS = Query("q3", "risk of rest")
NEITHER = Query("q4", "zyzzyva")
PARTS = {"both": "ktrel", "concepts": "ktrel-c", "words": "ktrel-w"}
every_parts = pytest.mark.parametrize("parts", PARTS)
with_concepts = pytest.mark.parametrize("parts", ["both", "concepts"])
every_path = pytest.mark.parametrize("path", ["module", "fast"])


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return annotated.build_index(tmp_path_factory.mktemp("concepts") / "index").forward


def model_of(vectors, parts, ids=IDS):
    model = make(Case(PARTS[parts], KTREL), vectors, seed=3)
    if parts != "words":
        model.concept_vocabulary = ConceptVocabulary(ids)
    return model


def reranker(path, parts, vectors, index):
    return opened(model_of(vectors, parts), path, index, vectors, threads=2)


def concepts_of(index):
    """The concepts of all documents, in their order."""
    return index.concept_lists(np.arange(len(index))).tokens.tolist()


@pytest.fixture(scope="module")
def reference(index, vectors):
    """The modules' scores for QUERY; those of documents with something to read differ."""
    found = {parts: scores_of(reranker("module", parts, vectors, index)) for parts in PARTS}
    assert all(np.ptp(scores) > 0.3 for scores in found.values())
    return found


@with_concepts
def test_another_numbering_of_the_knowledge_base_is_the_same(index, vectors, reference, tmp_path, parts):
    other = annotated.build_index(tmp_path / "other", concepts=annotated.CONCEPTS[::-1]).forward
    assert concepts_of(other) != concepts_of(index)
    for path in ("module", "fast"):
        assert_same(scores_of(reranker(path, parts, vectors, other)), reference[parts])


@with_concepts
def test_another_numbering_of_the_model_is_the_same(index, vectors, reference, parts):
    """Its rows and their ids permuted alike."""
    order, model = np.random.default_rng(1).permutation(len(IDS)), model_of(vectors, parts)
    with torch.no_grad():
        model.concepts.embeddings.copy_(model.concepts.embeddings[order].clone())
    model.concept_vocabulary = ConceptVocabulary([IDS[row] for row in order])
    assert_same(scores_of(opened(model, "module", index, vectors)), reference[parts])


# Documents and queries without concepts.


@every_path
def test_without_concepts_words_decide(index, vectors, path):
    """In the document, in the query, or in both: the score is that of the words, by the same weights."""
    both = reranker(path, "both", vectors, index)
    words = model_of(vectors, "words")
    words.load_state_dict({name: both.model.state_dict()[name] for name in words.state_dict()})
    words = opened(words, "module", index, vectors)
    without = [ROWS[id] for id in ("é", "2")]
    tolerance = rounding(Case("ktrel", KTREL), path)
    assert_same(scores_of(both, rows=without), scores_of(words, rows=without), tolerance)
    assert_same(scores_of(both, ONLY_WORDS), scores_of(words, ONLY_WORDS), tolerance)
    assert np.ptp(scores_of(both, ONLY_WORDS)) > 0.1 and scores_of(both, rows=without)[0] == 0
    assert np.abs(scores_of(both) - scores_of(words)).max() > 0.1


@every_path
@every_parts
def test_queries_the_model_can_and_cannot_read(index, vectors, caplog, path, parts):
    """Words it does not know do no harm where there are concepts, and the other way round."""
    one = reranker(path, parts, vectors, index)
    read = {"both": (True, True), "concepts": (True, False), "words": (False, True)}[parts]
    ranked_first = small.candidates(index).first_stage_scores.tolist()
    for query, is_read in zip((ONLY_CONCEPTS, ONLY_WORDS, NEITHER), (*read, False)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            scores = scores_of(one, query)
        assert (scores.tolist() != ranked_first) == is_read, query
        assert bool(caplog.messages) == (not is_read)
    items = {"both": "words and concepts", "concepts": "concepts", "words": "words"}[parts]
    assert f"query q4: the model knows none of its {items};" in caplog.text


# Encodings.


def test_encodings_are_of_the_concepts_and_of_the_knowledge_base(index, vectors, tmp_path):
    model, other = model_of(vectors, "both"), model_of(vectors, "both", IDS[::-1])
    assert weights_checksum(model, vectors.vocabulary) != weights_checksum(other, vectors.vocabulary)
    same = annotated.build_index(tmp_path / "same").forward
    renamed = [one._replace(id=one.id.replace("H", "Z")) for one in annotated.CONCEPTS]
    changed = annotated.build_index(tmp_path / "changed", concepts=renamed).forward
    assert concepts_of(changed) == concepts_of(index)
    assert same.checksum == index.checksum != changed.checksum


# Checkpoints.


@pytest.fixture
def saved(vectors, tmp_path):
    save_checkpoint(tmp_path / "c", model_of(vectors, "both"), vectors, {})
    return tmp_path / "c"


@every_parts
def test_a_saved_model_scores_the_same(index, vectors, reference, tmp_path, parts):
    model = model_of(vectors, parts)
    save_checkpoint(tmp_path / "c", model, vectors, {})
    assert (tmp_path / "c" / "concepts.txt").exists() == (parts != "words")
    if parts != "words":
        assert (tmp_path / "c" / "concepts.txt").read_text().split() == IDS
    opened(model, "fast", index, vectors)  # encodes the documents
    names = {"both": ["ktrel"], "concepts": ["ktrel", "ktrel-c"], "words": ["ktrel", "ktrel-w"]}[parts]
    for spec in [*(f"{name}:{tmp_path / 'c'}" for name in names), str(tmp_path / "c")]:
        assert_same(scores_of(rerankers.load(spec, index)), reference[parts], rounding(Case("ktrel", KTREL), "fast"))
    for name in {"ktrel-c", "ktrel-w"} - set(names):
        with pytest.raises(InputError, match=f"the model 'ktrel' with parts {parts}, not '{name}'"):
            rerankers.load(f"{name}:{tmp_path / 'c'}", index)


def test_a_checkpoint_from_before_there_were_concepts(index, vectors, tmp_path):
    save_checkpoint(tmp_path / "c", model_of(vectors, "words"), vectors, {})
    known = Checkpoint.open(tmp_path / "c").description["config"]
    before = {name: value for name, value in known.items() if name not in ("document_concepts", "query_concepts")}
    change_json(tmp_path / "c" / "config.json", config=before)
    expected = scores_of(opened(make_own(Case("ktrel-w", KTREL), vectors, seed=3), "module", index, vectors))
    assert_same(scores_of(rerankers.load(f"ktrel:{tmp_path / 'c'}", index)), expected)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (None, "cannot read .*concepts.txt"),
        (IDS[:-1], "trained with 10 concepts but concepts.txt has 9"),
        ([*IDS, "H99"], "trained with 10 concepts but concepts.txt has 11"),
        ([*IDS[:-1], "H09"], "'H09' twice"),
        ([*IDS[:-1], ""], "concept 10 has the id ''"),
        ([*IDS[:-1], "a b"], "concept 10 has the id 'a b'"),
    ],
)
def test_wrong_concepts_in_a_checkpoint(saved, lines, said):
    unsealed(saved)
    if lines is None:
        (saved / "concepts.txt").unlink()
    else:
        (saved / "concepts.txt").write_text("".join(f"{line}\n" for line in lines), newline="")
    for read in (Checkpoint.module, Checkpoint.read):
        with pytest.raises(InputError, match=said) as raised:
            read(Checkpoint.open(saved))
        assert str(saved) in str(raised.value)


def test_a_model_whose_concepts_have_no_names_is_not_saved(vectors, tmp_path):
    model = model_of(vectors, "both")
    model.concept_vocabulary = None
    with pytest.raises(ValueError, match="without names"):
        save_checkpoint(tmp_path / "c", model, vectors, {})
    with pytest.raises(InputError, match="3 concepts are named, expected 10"):
        config = KtrelConfig(concepts=10, concept_dimension=4)
        Ktrel(config, torch.from_numpy(vectors.matrix), None, ConceptVocabulary(IDS[:3]))


def test_an_annotation_that_is_none(saved):
    change_json(saved / "config.json", annotation="as ever")
    with pytest.raises(InputError, match='annotation is "as ever", expected an object'):
        Checkpoint.open(saved).module()


# Indexes that do not fit.


def test_no_concept_in_common(index, vectors):
    model = model_of(vectors, "both", [f"C{number}" for number in range(10)])
    with pytest.raises(InputError, match="none of the model's 10 concepts .such as C0 C1 C2. is in the knowledge base"):
        NeuralReranker(model, vectors.vocabulary, index)


def test_another_annotation_is_said_once(index, vectors, tmp_path, caplog):
    model = model_of(vectors, "both")
    model.concept_vocabulary = ConceptVocabulary(IDS, index.knowledge.settings)
    save_checkpoint(tmp_path / "c", model, vectors, {})
    annotation = Checkpoint.open(tmp_path / "c").description["annotation"]
    assert annotation == index.knowledge.settings and "threshold" in annotation
    other = annotated.build_index(tmp_path / "other", config=AnnotatorConfig(candidates=1)).forward
    _warn_other_annotation.cache_clear()
    with caplog.at_level(logging.WARNING):
        rerankers.load(f"ktrel:{tmp_path / 'c'}", index)
        assert not caplog.messages
        for _ in range(2):
            rerankers.load(f"ktrel:{tmp_path / 'c'}", other)
    assert len(caplog.messages) == 1 and "candidates 8, here 1" in caplog.text and "window" not in caplog.text


# Training.


@every_parts
def test_sparse_gradients_are_the_dense_ones(index, vectors, parts):
    gradients = []
    for sparse in (False, True):
        model = model_of(vectors, parts)
        tables = [part for part in (model.words, model.concepts) if part is not None]
        for part in tables:
            assert part.sparse_gradients is False
            part.sparse_gradients = sparse
        scores = model(inputs_of(opened(model, "module", index, vectors)))
        (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
        assert all(part.embeddings.grad.is_sparse == sparse for part in tables)
        gradients.append([part.embeddings.grad.to_dense() for part in tables])
    for dense, sparse in zip(*gradients):
        torch.testing.assert_close(sparse, dense)
