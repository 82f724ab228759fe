"""KTRel over an index with concepts: what must not change a score, the twin, what is stored, and what is refused."""

import json
import logging

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.features.concept_vocabulary import ConceptVocabulary, _say_other
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Query
from rerank_plugin.indexes.stored_encodings import find_encodings
from rerank_plugin.knowledge.annotation import AnnotatorConfig
from rerank_plugin.models import checkpoints
from rerank_plugin.models.document_encodings import EncodedDocuments, weights_checksum
from rerank_plugin.models.ktrel.model import Ktrel, KtrelConfig
from rerank_plugin.rerankers.neural import NeuralReranker
from tests import annotated, small
from tests.models import encodable, plain_ktrel

QUERY = Query("q1", "aspirin after heart attack in women")
ONLY_CONCEPTS = Query("q2", "myocardial infarction")  # neither word is the model's
ONLY_WORDS = Query("q3", "risk of rest")
NEITHER = Query("q4", "zyzzyva")
QUERIES = [QUERY, ONLY_CONCEPTS, Query("q5", "attack or stroke"), Query("q6", "quokka warfarin in colon cancer")]
# Another order than the knowledge base's; it lacks H04 and H11, and the knowledge base lacks X1.
IDS = ["H09", "X1", "H02", "H01", "H10", "H08", "H07", "H03", "H06", "H05"]
SIZES = dict(heads=2, document_words=30, query_words=7, document_concepts=12, query_concepts=6)
PARTS = ("both", "concepts", "words")
every_parts = pytest.mark.parametrize("parts", PARTS)
with_concepts = pytest.mark.parametrize("parts", PARTS[:2])
every_path = pytest.mark.parametrize("path", ["module", "encoded"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("concepts") / "index"


@pytest.fixture(scope="module")
def index(folder):
    return annotated.build_index(folder).forward


def model_of(vectors, parts, ids=IDS, **more):
    sizes = {**SIZES, "parts": parts, **more}
    if parts != "words":
        sizes |= {"concepts": len(ids), "concept_dimension": 4}
    return encodable.ktrel(vectors, seed=3, concept_ids=ids, **sizes)


def reranker(path, parts, vectors, index, **more):
    build = encodable.encoded_reranker if path == "encoded" else encodable.module_reranker
    return build(model_of(vectors, parts, **more), vectors, index, threads=2)


def scores_of(one, query=QUERY, rows=None):
    return one.score(query, small.candidates(one.builder.index, rows))


def assert_same(found, expected, tolerance=2e-6):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def row_of(index, id):
    return int(index.rows([id])[0])


@pytest.fixture(scope="module")
def reference(index, vectors):
    """The modules' scores for QUERY; those of documents with something to read differ."""
    found = {parts: scores_of(reranker("module", parts, vectors, index)) for parts in PARTS}
    for parts, scores in found.items():
        assert scores.dtype == np.float32 and np.ptp(scores) > 0.3
        assert len(np.unique(scores.round(4))) >= (7 if parts == "concepts" else 9)
    return found


# The twin.


@every_parts
@every_path
def test_agrees_with_the_plain_one(index, vectors, parts, path):
    """The twin gets the ids of the concepts of each mention, which the model's own table turns into rows."""
    one = reranker(path, parts, vectors, index)
    model, knowledge = one.model, index.knowledge
    words_table = {word: row for row, word in enumerate(vectors.vocabulary.words)}

    def words(text):
        tokens = index.tokenizer.tokenize(text)
        return [model.words.embeddings.detach().numpy()[words_table.get(token, 0)] for token in tokens]

    def concepts(text):
        mentions = knowledge.annotator.annotate(text)
        ids = [knowledge.base.ids[row] for mention in mentions for row in mention.concepts]
        return [model.concepts.embeddings.detach().numpy()[IDS.index(id)] for id in ids if id in IDS]

    for query in QUERIES:
        if parts == "words" and query is ONLY_CONCEPTS:
            continue
        expected = []
        for _, title, abstract in small.DOCUMENTS:
            read = []
            if parts != "concepts":
                text = f"{title} {abstract}"
                layer = plain_ktrel.layer_of(model.words.layer)
                read.append((model.a.item(), words(query.text), words(text), layer, 2))
            if parts != "words":
                text = f"{title}\n{abstract}"
                layer = plain_ktrel.layer_of(model.concepts.layer)
                read.append((model.b.item(), concepts(query.text), concepts(text), layer, 2))
            expected.append(plain_ktrel.score(read))
        np.testing.assert_allclose(scores_of(one, query), expected, rtol=0, atol=2e-5)


# What must not change a score, by either path.


@every_path
@every_parts
def test_more_padding(index, vectors, reference, path, parts):
    for document_concepts, query_concepts in [(6, 3), (200, 64)]:
        one = reranker(
            path, parts, vectors, index, document_words=90, query_words=20,
            document_concepts=document_concepts, query_concepts=query_concepts,
        )  # fmt: skip
        assert_same(scores_of(one), reference[parts])


@with_concepts
def test_700_more_pads_that_are_named_after_a_concept(index, vectors, parts):
    """Of the module itself, which a reranker gives no more columns than its batch needs."""
    one = reranker("module", parts, vectors, index, document_concepts=720, query_concepts=720)
    terms = index.query(QUERY.text)
    padded = one.builder.build(terms, one.builder.query(terms), small.candidates(index))
    padded = padded._replace(
        document_concepts=padded.document_concepts.masked_fill(~padded.document_concept_mask, 3),
        query_concepts=padded.query_concepts.masked_fill(~padded.query_concept_mask, 3),
    )
    cut = padded.without_concept_padding()
    assert padded.document_concepts.shape[1] == 720 and cut.document_concepts.shape[1] == 4
    assert cut.query_concepts.shape[1] == cut.query_concept_mask.shape[1] == 2
    with torch.inference_mode():
        assert_same(one.model(padded).numpy(), one.model(cut).numpy())


@every_path
@every_parts
def test_other_batch_mates_permutations_and_repetitions(index, vectors, reference, path, parts):
    one, random = reranker(path, parts, vectors, index), np.random.default_rng(0)
    for rows in [[3], [4], [3, 0, 3], random.permutation(len(index)), *np.arange(len(index))[:, None]]:
        found = scores_of(one, rows=rows)
        assert found.shape == (len(rows),) and found.dtype == np.float32
        assert_same(found, reference[parts][rows])


@every_path
@every_parts
def test_several_queries_at_once_and_two_calls(index, vectors, path, parts):
    one = reranker(path, parts, vectors, index)
    found = one.score_many(QUERIES, [small.candidates(index) for _ in QUERIES])
    for query, scores in zip(QUERIES, found):
        assert_same(scores, scores_of(one, query))
        assert scores_of(one, query).tolist() == scores_of(one, query).tolist()


@with_concepts
def test_another_numbering_of_the_knowledge_base_is_the_same(index, vectors, reference, tmp_path, parts):
    other = annotated.build_index(tmp_path / "other", concepts=annotated.CONCEPTS[::-1]).forward
    assert other.concepts.tolist() != index.concepts.tolist()
    for path in ("module", "encoded"):
        assert_same(scores_of(reranker(path, parts, vectors, other)), reference[parts])


@with_concepts
def test_another_numbering_of_the_model_is_the_same(index, vectors, reference, parts):
    """Its rows and their ids permuted alike."""
    order, model = np.random.default_rng(1).permutation(len(IDS)), model_of(vectors, parts)
    with torch.no_grad():
        model.concepts.embeddings.copy_(model.concepts.embeddings[order].clone())
    model.concept_vocabulary = ConceptVocabulary([IDS[row] for row in order])
    assert_same(scores_of(encodable.module_reranker(model, vectors, index)), reference[parts])


# Documents and queries without concepts.


@every_path
def test_without_concepts_words_decide(index, vectors, path):
    """In the document, in the query, or in both: the score is that of the words, by the same weights."""
    both = reranker(path, "both", vectors, index)
    words = model_of(vectors, "words")
    words.load_state_dict({name: both.model.state_dict()[name] for name in words.state_dict()})
    words = encodable.module_reranker(words, vectors, index)
    without = [row_of(index, id) for id in ("é", "2")]
    assert_same(scores_of(both, rows=without), scores_of(words, rows=without))
    assert_same(scores_of(both, ONLY_WORDS), scores_of(words, ONLY_WORDS))
    assert np.ptp(scores_of(both, ONLY_WORDS)) > 0.1 and scores_of(both, rows=without)[0] == 0
    assert np.abs(scores_of(both) - scores_of(words)).max() > 0.1


@every_path
def test_a_document_without_concepts_has_cosine_0(index, vectors, path):
    one = reranker(path, "concepts", vectors, index)
    scores = scores_of(one, rows=[row_of(index, id) for id in ("2", "é", "9")])
    assert scores[:2].tolist() == [0, 0] and abs(scores[2]) > 0.1


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


def test_a_query_cut_at_its_words_is_not_said_of_concepts(index, vectors, caplog):
    with caplog.at_level(logging.WARNING):
        scores_of(reranker("module", "concepts", vectors, index, query_words=1))
        assert not caplog.messages
        scores_of(reranker("module", "both", vectors, index, query_words=1))
    assert "words longer" in caplog.text


# Encodings.


@every_parts
def test_encoded_scores_of_many_models_are_the_modules(index, vectors, parts):
    for seed in range(4):
        sizes = dict(heads=1 + seed % 2, feed_forward=1 + 3 * seed, concept_dimension=2 + 2 * seed)
        sizes |= dict(document_concepts=1 + 2 * seed, query_concepts=1 + seed)
        concepts = 0 if parts == "words" else len(IDS)
        model = encodable.ktrel(vectors, seed, concept_ids=IDS, parts=parts, concepts=concepts, **sizes)
        fast = encodable.encoded_reranker(model, vectors, index)
        plain = encodable.module_reranker(model, vectors, index)
        for query in QUERIES:
            assert_same(scores_of(fast, query), scores_of(plain, query), 1e-5)
        assert isinstance(fast.fast, EncodedDocuments)


def test_encodings_are_of_the_concepts_and_of_the_knowledge_base(index, vectors, tmp_path):
    model, other = model_of(vectors, "both"), model_of(vectors, "both", IDS[::-1])
    assert weights_checksum(model, vectors.vocabulary) != weights_checksum(other, vectors.vocabulary)
    same = annotated.build_index(tmp_path / "same").forward
    renamed = [one._replace(id=one.id.replace("H", "Z")) for one in annotated.CONCEPTS]
    changed = annotated.build_index(tmp_path / "changed", concepts=renamed).forward
    assert changed.concepts.tolist() == index.concepts.tolist()
    assert same.checksum == index.checksum != changed.checksum


def test_the_index_is_encoded_from_a_checkpoint(folder, index, vectors, tmp_path):
    from rerank_plugin.index import main

    model = model_of(vectors, "both")
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    main(["--encode", str(tmp_path / "c"), "--index", str(folder), "--overwrite", "--batch-size", "2"])
    assert find_encodings(index, weights_checksum(model, vectors.vocabulary), 10).shape == (len(index), 10)
    one = rerankers.load(f"ktrel:{tmp_path / 'c'}", index)
    assert_same(scores_of(one), scores_of(encodable.module_reranker(model, vectors, index)), 1e-5)
    assert isinstance(one.fast, EncodedDocuments)


# Checkpoints.


@pytest.fixture
def saved(vectors, tmp_path):
    checkpoints.save_checkpoint(tmp_path / "c", model_of(vectors, "both"), vectors, {})
    return tmp_path / "c"


@every_parts
def test_a_saved_model_scores_the_same(index, vectors, reference, tmp_path, parts):
    model = model_of(vectors, parts)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    assert (tmp_path / "c" / "concepts.txt").exists() == (parts != "words")
    if parts != "words":
        assert (tmp_path / "c" / "concepts.txt").read_text().split() == IDS
    names = {"both": ["ktrel"], "concepts": ["ktrel", "ktrel-c"], "words": ["ktrel", "ktrel-w"]}[parts]
    for spec in [*(f"{name}:{tmp_path / 'c'}" for name in names), str(tmp_path / "c")]:
        assert_same(scores_of(rerankers.load(spec, index)), reference[parts])
    for name in {"ktrel-c", "ktrel-w"} - set(names):
        with pytest.raises(InputError, match=f"the model 'ktrel' with parts {parts}, not '{name}'"):
            rerankers.load(f"{name}:{tmp_path / 'c'}", index)


def test_a_checkpoint_from_before_there_were_concepts(index, vectors, reference, tmp_path):
    checkpoints.save_checkpoint(tmp_path / "c", model_of(vectors, "words"), vectors, {})
    path = tmp_path / "c" / "config.json"
    config = json.loads(path.read_text())
    del config["config"]["document_concepts"], config["config"]["query_concepts"]
    path.write_text(json.dumps(config))
    assert_same(scores_of(rerankers.load(f"ktrel:{tmp_path / 'c'}", index)), reference["words"])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (None, "cannot read the concepts"),
        (IDS[:-1], "trained with 10 concepts but concepts.txt has 9"),
        ([*IDS, "H99"], "trained with 10 concepts but concepts.txt has 11"),
        ([*IDS[:-1], "H09"], "'H09' twice"),
        ([*IDS[:-1], ""], "concept 10 has the id ''"),
        ([*IDS[:-1], "a b"], "concept 10 has the id 'a b'"),
    ],
)
def test_wrong_concepts_in_a_checkpoint(saved, lines, said):
    if lines is None:
        (saved / "concepts.txt").unlink()
    else:
        (saved / "concepts.txt").write_text("".join(f"{line}\n" for line in lines), newline="")
    with pytest.raises(InputError, match=said) as raised:
        checkpoints.load_checkpoint(saved)
    assert str(saved) in str(raised.value)


def test_a_model_whose_concepts_have_no_names_is_not_saved(vectors, tmp_path):
    model = model_of(vectors, "both")
    model.concept_vocabulary = None
    with pytest.raises(ValueError, match="without names"):
        checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    with pytest.raises(InputError, match="3 concepts are named, expected 10"):
        config = KtrelConfig(concepts=10, concept_dimension=4)
        Ktrel(config, torch.from_numpy(vectors.matrix), None, ConceptVocabulary(IDS[:3]))


def test_an_annotation_that_is_none(saved):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "annotation": "as ever"}))
    with pytest.raises(InputError, match="'annotation' is no settings"):
        checkpoints.load_checkpoint(saved)


# Indexes that do not fit.


def test_an_index_without_concepts(saved, tmp_path):
    bare = encodable.build_index(tmp_path / "bare")
    with pytest.raises(
        InputError, match=f"the index holds no concepts: build {tmp_path / 'bare'} with a knowledge base"
    ):
        rerankers.load(f"ktrel:{saved}", bare)


def test_no_concept_in_common(index, vectors):
    model = model_of(vectors, "both", [f"C{number}" for number in range(10)])
    with pytest.raises(InputError, match="none of the model's 10 concepts .such as C0 C1 C2. is in the knowledge base"):
        NeuralReranker(model, vectors.vocabulary, index)


def test_another_annotation_is_said_once(index, vectors, tmp_path, caplog):
    model = model_of(vectors, "both")
    model.concept_vocabulary = ConceptVocabulary(IDS, index.knowledge.settings)
    checkpoints.save_checkpoint(tmp_path / "c", model, vectors, {})
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    assert config["annotation"] == index.knowledge.settings and "threshold" in config["annotation"]
    other = annotated.build_index(tmp_path / "other", config=AnnotatorConfig(candidates=1)).forward
    _say_other.cache_clear()
    with caplog.at_level(logging.WARNING):
        rerankers.load(f"ktrel:{tmp_path / 'c'}", index)
        assert not caplog.messages
        for _ in range(2):
            rerankers.load(f"ktrel:{tmp_path / 'c'}", other)
    assert len(caplog.messages) == 1 and "candidates 8, here 1" in caplog.text and "window" not in caplog.text


# Training.


@every_parts
def test_every_parameter_has_a_gradient(index, vectors, parts):
    one = reranker("module", parts, vectors, index)
    terms = index.query(QUERY.text)
    scores = one.model(one.builder.build(terms, one.builder.query(terms), small.candidates(index)))
    (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
    assert not [name for name, one in one.model.named_parameters() if one.grad is None or one.grad.abs().max() < 1e-9]


@every_parts
def test_sparse_gradients_are_the_dense_ones(index, vectors, parts):
    gradients = []
    for sparse in (False, True):
        model = model_of(vectors, parts)
        tables = [part for part in (model.words, model.concepts) if part is not None]
        for part in tables:
            assert part.sparse_gradients is False
            part.sparse_gradients = sparse
        one = encodable.module_reranker(model, vectors, index)
        terms = index.query(QUERY.text)
        scores = model(one.builder.build(terms, one.builder.query(terms), small.candidates(index)))
        (scores * torch.linspace(-1, 2, len(scores))).sum().backward()
        assert all(part.embeddings.grad.is_sparse == sparse for part in tables)
        gradients.append([part.embeddings.grad.to_dense() for part in tables])
    for dense, sparse in zip(*gradients):
        torch.testing.assert_close(sparse, dense)
