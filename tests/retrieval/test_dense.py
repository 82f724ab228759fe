"""Dense retrieval against the model's scores of every document, over indexes with many ties, by one list and many."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rerank_plugin import rerankers
from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.vector_store_writer import ListsConfig
from rerank_plugin.models import checkpoint
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import from_checkpoint
from rerank_plugin.retrieval import dense
from rerank_plugin.retrieval.dense import DenseConfig
from tests import annotated, small
from tests.conformance.models import Case, make
from tests.devices import DEVICE
from tests.models import encodable

QUERIES = ("aspirin heart attack", "risk", "Women who smoke, risk of stroke", "migraine zyzzyva", "aspirin " * 40)
UNKNOWN = ("xylitol", "", "zyzzyva quokka")  # not in the vocabulary


def documents():
    """600 documents: 200 of random words, 200 that are each a word of theirs again and again, 100 twins, 100 empty."""
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(small.KNOWN_WORDS, size)) for size in random.integers(1, 30, 200)]
    texts += [texts[number % 7] for number in range(200)] + ["aspirin heart attack"] * 100 + [""] * 100
    numbers = random.permutation(len(texts))
    return [
        (f"{'Zaé'[number % 3]}{7 ** (number % 90) % 1009}-{number}", text, "") for number, text in zip(numbers, texts)
    ]


@pytest.fixture(scope="module")
def vectors():
    return small.word_vectors(small.KNOWN_WORDS, 12, 3)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, vectors):
    """An index that is encoded by two checkpoints, whose vectors are in one list, and in nine."""
    folder = tmp_path_factory.mktemp("dense")
    forward = encodable.build_index(folder / "index", documents())
    made = SimpleNamespace(folder=folder / "index", forward=forward, models={})
    for name, seed, lists in (("one", 1, 1), ("nine", 2, 9)):
        checkpoint.save_checkpoint(folder / name, encodable.ktrel(vectors, seed, heads=2), vectors, {})
        made.models[name] = folder / name
        encode(made, name, lists)
    return made


def opened(workspace, name="one", **more):
    return DenseConfig(str(workspace.models[name]), **more).open(workspace)


def brute_force(workspace, name, text, depth):
    """The ids and scores of the reranker over every document, by plain sorting."""
    reranker = from_checkpoint(workspace.forward, workspace.models[name], RerankerOptions())
    rows = np.arange(len(workspace.forward))
    scores = reranker.score(Query("q", text), Candidates(workspace.forward, rows, np.zeros(len(rows))))
    pairs = zip(scores.tolist(), (id.encode() for id in workspace.forward.ids.take(rows)))
    return [(id.decode(), score) for score, id in sorted(pairs, reverse=True)[:depth]]


def found(stage, text, depth):
    candidates = stage.search(Query("q", text), depth)
    return list(zip(candidates.ids, candidates.first_stage_scores.tolist()))


@pytest.mark.parametrize("name", ["one", "nine"])
@pytest.mark.parametrize("text", QUERIES)
def test_flat_search_is_the_model_s_order_of_the_whole_collection(workspace, name, text):
    """Scores bit for bit, too; half of the cuts fall into groups of equal scores."""
    stage = opened(workspace, name, kind="flat")
    whole = brute_force(workspace, name, text, 1000)
    scores = [score for _, score in whole]
    tied = [depth for depth in range(1, len(whole)) if scores[depth - 1] == scores[depth]]
    assert len(whole) == 600 and len(tied) > 150
    for depth in {1, 20, 150, 599, 600, 1000, *tied[:: len(tied) // 6]}:
        assert found(stage, text, depth) == whole[:depth]


@pytest.mark.parametrize("feedback", [0, 3])
@pytest.mark.parametrize("text", UNKNOWN)
def test_a_query_without_known_words_finds_nothing_and_is_said_once(workspace, caplog, text, feedback):
    stage = opened(workspace, feedback=feedback)
    with caplog.at_level(logging.WARNING):
        assert [len(stage.search(Query("q", text), 10)), len(stage.search(Query("q", text), 10))] == [0, 0]
    assert len(caplog.records) == 1 and "knows none of its words" in caplog.text


CONCEPT_QUERIES = ("aspirin after heart attack in women", "myocardial infarction")  # the latter as a concept only


def with_concepts(folder, vectors, parts="both", a=1.0, b=1.0):
    """An index encoded by a KTRel that reads concepts, and weighs its parts by a and b."""
    index = annotated.build_index(folder / "index")
    ids = [f"H{number:02}" for number in range(1, 11)]
    model = encodable.ktrel(
        vectors, seed=3, concept_ids=ids, concepts=len(ids), concept_dimension=4, heads=2, parts=parts,
        document_concepts=12, query_concepts=6,
    )  # fmt: skip
    if parts == "both":
        with torch.no_grad():
            model.a.fill_(a)
            model.b.fill_(b)
    checkpoint.save_checkpoint(folder / "model", model, vectors, {})
    made = SimpleNamespace(folder=index.folder, forward=index.forward, models={"model": folder / "model"})
    made.model = encode(made, "model")
    return made


def encode(workspace, name, lists=1):
    encoder = IndexEncoder(workspace.forward, workspace.models[name])
    encoder.encode(lists=ListsConfig(lists, floor=0))
    return encoder.model


@pytest.mark.parametrize("parts", ["both", "concepts"])
def test_models_that_read_concepts_retrieve_by_them(tmp_path, vectors, parts):
    workspace = with_concepts(tmp_path, vectors, parts)
    stage = opened(workspace, "model")
    for text in CONCEPT_QUERIES:
        for depth in (1, 4, 100):
            assert found(stage, text, depth) == brute_force(workspace, "model", text, depth)
    sizes = [len(stage.search(Query("q", text), 3)) for text in (CONCEPT_QUERIES[1], "zyzzyva")]
    assert sizes == [3, 0]


# Feedback.


def all_vectors(stage):
    """The vectors that the codes of all documents stand for, float32 [R, E]."""
    return stage.store.decode(np.arange(len(stage.store)))


def plain_feedback(model, documents, text, stage, weight, count):
    """Scores of all documents, float64 [R], by the two searches written out.

    Each part's unit vector of the query gets the mean of the same part of the best documents, and is then weighed by a
    or b. Of the documents the best are those of the stage without feedback.
    """
    words = stage.encoder.reranker.builder.query(stage.forward.query(text))
    parts = [(model.words, words.ids, words.mask, "a"), (model.concepts, words.concepts, words.concept_mask, "b")]
    best, scores, start = stage.search(Query("q", text), count).rows, np.zeros(len(documents)), 0
    for part, ids, mask, factor in parts:
        if part is None:
            continue
        size = part.embeddings.shape[1]
        of_part = documents[:, start : start + size].astype(np.float64)
        with torch.inference_mode():
            query = part(torch.from_numpy(ids)[None], torch.from_numpy(mask)[None])[0].double().numpy()
        moved = query + weight * of_part[best].mean(axis=0)
        scores += getattr(model, factor).item() * (of_part @ moved)
        start += size
    return scores


@pytest.mark.parametrize("weight", [0.0, 0.8])
@pytest.mark.parametrize("text", QUERIES[:4])
def test_feedback_moves_the_query_towards_the_best_documents(workspace, text, weight):
    """Over many ties, so the scores of the ranks are compared, and which documents have them."""
    without, stage = opened(workspace), opened(workspace, feedback=7, feedback_weight=weight)
    model = stage.encoder.reranker.module
    expected = plain_feedback(model, all_vectors(stage), text, without, weight, 7)
    result = stage.search(Query("q", text), 50)
    np.testing.assert_allclose(result.first_stage_scores, np.sort(expected)[::-1][:50], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.first_stage_scores, expected[result.rows], rtol=1e-5, atol=1e-5)
    assert result.order(result.first_stage_scores).tolist() == list(range(50))


def test_feedback_weighs_the_parts_as_the_model_does(tmp_path, vectors):
    workspace = with_concepts(tmp_path, vectors, a=2.0, b=0.25)
    without, stage = opened(workspace, "model"), opened(workspace, "model", feedback=2, feedback_weight=1.5)
    for text in CONCEPT_QUERIES:
        expected = plain_feedback(workspace.model, all_vectors(stage), text, without, 1.5, 2)
        result = stage.search(Query("q", text), 100)
        # A query's numbers have 15 bits: of the largest, which is 2, a half of the last is 3e-5
        np.testing.assert_allclose(result.first_stage_scores, np.sort(expected)[::-1], rtol=1e-5, atol=1e-4)


# Inverted lists.


@pytest.mark.parametrize("nprobe", [1, 3])
def test_documents_that_some_lists_give_have_the_model_s_scores_in_order(workspace, nprobe):
    stage = opened(workspace, "nine", nprobe=nprobe)
    for text in QUERIES:
        whole = dict(brute_force(workspace, "nine", text, 1000))
        hits = found(stage, text, 20)
        assert len(hits) == 20
        assert hits == sorted(hits, key=lambda hit: (hit[1], hit[0].encode()), reverse=True)
        assert hits == [(id, whole[id]) for id, _ in hits]


@pytest.mark.parametrize("feedback", [0, 3])
def test_a_device_finds_what_all_lists_hold(workspace, feedback):
    """Documents and scores, to the last bit; and re-ranking by the vectors on the device, too."""
    options = {"kind": "flat", "feedback": feedback}
    stages = opened(workspace, **options), opened(workspace, device=DEVICE, **options)
    for depth in (1, 4, 1000):
        plain, on_device = (stage.search(Query("q", "heart attack in women"), depth) for stage in stages)
        assert on_device.rows.tolist() == plain.rows.tolist()
        assert on_device.first_stage_scores.tobytes() == plain.first_stage_scores.tobytes()
    scorers = [
        rerankers.load(str(workspace.models["one"]), workspace.forward, RerankerOptions(name))
        for name in ("cpu", DEVICE)
    ]
    queries, candidates = [Query("q", "heart"), Query("r", "women and stroke")], [plain, plain.take(np.array([0]))]
    expected, actual = (scorer.score_many(queries, candidates) for scorer in scorers)
    assert type(scorers[1].fast).__name__ == "EncodedOnDevice"
    assert [scores.tobytes() for scores in actual] == [scores.tobytes() for scores in expected]


def test_a_device_that_is_not_there_is_named(workspace):
    with pytest.raises(InputError, match="cannot use the device 'abacus'"):
        opened(workspace, device="abacus")


def test_more_probes_find_more(workspace, monkeypatch):
    """By default as many lists are read as the store says: here all."""
    monkeypatch.setattr(dense, "MORE", 1)  # more lists are read where they hold fewer documents than asked for
    depth, totals = 40, []
    for nprobe in (1, 3, 9):
        stage = opened(workspace, "nine", nprobe=nprobe)
        totals.append(sum(score for text in QUERIES for _, score in found(stage, text, depth)))
    assert totals == sorted(totals) and totals[0] < totals[-1]
    for text in QUERIES:
        assert found(opened(workspace, "nine"), text, depth) == brute_force(workspace, "nine", text, depth)


def test_candidates_of_others_get_their_scores(workspace):
    """Those that one list does not find rank by their scores among those that it finds."""
    stage, text = opened(workspace, "nine", nprobe=1), QUERIES[2]
    encoded, whole = stage.read(Query("q", text)), dict(brute_force(workspace, "nine", text, 1000))
    alone = stage.nearest(encoded, 400)
    others = np.setdiff1d(np.arange(600), alone.rows)[::3]
    together = stage.nearest(encoded, 400, candidates=np.concatenate([others, alone.rows[:3]]))
    scores = sorted(
        (whole[id] for id in workspace.forward.ids.take(np.concatenate([alone.rows, others]))), reverse=True
    )
    assert together.first_stage_scores.tolist() == scores[:400] != alone.first_stage_scores.tolist()
    assert set(together.rows) & set(others) and len(set(together.rows)) == 400


# What is refused.


def test_what_is_missing_names_the_command_that_makes_it(workspace, tmp_path, vectors):
    checkpoint.save_checkpoint(tmp_path / "other", encodable.ktrel(vectors, seed=9), vectors, {})
    workspace.models["other"] = tmp_path / "other"
    command = f"rerank-plugin index --encode {tmp_path / 'other'} --index {workspace.folder}"
    with pytest.raises(InputError, match=f"holds no encodings by .*; encode it with: {command}$"):
        opened(workspace, "other")
    del workspace.models["other"]


def test_models_whose_score_is_no_inner_product_are_refused(workspace, tmp_path, vectors):
    for name, model in [("sevmos", make(Case("sevmos", {"filters": 5}), vectors)), ("delta", small.delta(vectors))]:
        checkpoint.save_checkpoint(tmp_path / name, model, vectors, {})
        with pytest.raises(InputError, match=f"the score of the model '{name}' is no inner product"):
            DenseConfig(str(tmp_path / name)).open(workspace)


def test_settings_are_refused_by_name(workspace):
    for wrong, said in [
        ({"checkpoint": ""}, "dense:CHECKPOINT"),
        ({"kind": "annoy"}, "unknown index of vectors 'annoy'; known: flat, ivf"),
        ({"nprobe": 0}, "nprobe is 0: it must be at least 1"),
    ]:
        with pytest.raises(InputError, match=said):
            DenseConfig(**{"checkpoint": "x", **wrong})
