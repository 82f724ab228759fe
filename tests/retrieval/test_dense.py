"""Dense retrieval against the model's scores of every document, over indexes with many ties, and its approximations."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.indexes import nearest
from rerank_plugin.indexes.candidates import Candidates
from rerank_plugin.indexes.nearest import AnnConfig, build_ann
from rerank_plugin.indexes.stored_encodings import encodings_folder
from rerank_plugin.models import checkpoints
from rerank_plugin.rerankers import RerankerOptions
from rerank_plugin.rerankers.neural import from_checkpoint
from rerank_plugin.retrieval import dense
from rerank_plugin.retrieval.dense import DenseConfig
from rerank_plugin.retrieval.encoding import IndexEncoder
from tests import annotated, small
from tests.conformance.models import Case, make
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
    """An index that is encoded in both precisions by one checkpoint each."""
    folder = tmp_path_factory.mktemp("dense")
    forward = encodable.build_index(folder / "index", documents())
    made = SimpleNamespace(folder=folder / "index", forward=forward, models={})
    for name, seed, dtype in (("float32", 1, "float32"), ("float16", 2, "float16")):
        checkpoints.save_checkpoint(folder / name, encodable.ktrel(vectors, seed, heads=2), vectors, {})
        made.models[name] = folder / name
        encode(made, name, dtype)
    return made


def opened(workspace, name="float32", **more):
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


@pytest.mark.parametrize("name", ["float32", "float16"])
@pytest.mark.parametrize("text", QUERIES)
def test_flat_search_is_the_model_s_order_of_the_whole_collection(workspace, name, text):
    """Scores bit for bit, too; half of the cuts fall into groups of equal scores."""
    stage = opened(workspace, name)
    whole = brute_force(workspace, name, text, 1000)
    scores = [score for _, score in whole]
    tied = [depth for depth in range(1, len(whole)) if scores[depth - 1] == scores[depth]]
    assert len(whole) == 600 and len(tied) > 150
    for depth in {1, 20, 150, 599, 600, 1000, *tied[:: len(tied) // 6]}:
        assert found(stage, text, depth) == whole[:depth]


def test_the_order_is_kept_however_faiss_rounds(workspace, monkeypatch):
    """Products that are wrong by as much as rounding can make them, differently for each row."""
    stage = opened(workspace)
    text = QUERIES[0]
    encoding = stage.encoder.encode(text)
    longest = np.linalg.norm(stage.vectors, axis=1).max()
    margin = len(encoding) * 2.0**-24 * np.linalg.norm(encoding) * longest  # Higham, section 3.1
    wrong = np.random.default_rng(1).uniform(-margin, margin, len(workspace.forward))
    products = stage.vectors.astype(np.float64) @ encoding.astype(np.float64) + wrong

    def search(query, count, fits):
        order = np.argsort(-products, kind="stable")[:count]
        return order, products[order]

    monkeypatch.setattr(stage.searcher, "search", search)
    monkeypatch.setattr(dense, "MORE", 1)
    for depth in (1, 20, 99, 150, 300, 599):
        assert found(stage, text, depth) == brute_force(workspace, "float32", text, depth)


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
    checkpoints.save_checkpoint(folder / "model", model, vectors, {})
    made = SimpleNamespace(folder=index.folder, forward=index.forward, models={"model": folder / "model"})
    made.model = encode(made, "model")
    return made


def encode(workspace, name, dtype="float32"):
    one = IndexEncoder(workspace.forward, workspace.models[name])
    one.encode(dtype=dtype)
    return one.model


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
    expected = plain_feedback(model, np.asarray(stage.vectors), text, without, weight, 7)
    result = stage.search(Query("q", text), 50)
    np.testing.assert_allclose(result.first_stage_scores, np.sort(expected)[::-1][:50], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result.first_stage_scores, expected[result.rows], rtol=1e-5, atol=1e-5)
    assert result.order(result.first_stage_scores).tolist() == list(range(50))


def test_feedback_weighs_the_parts_as_the_model_does(tmp_path, vectors):
    workspace = with_concepts(tmp_path, vectors, a=2.0, b=0.25)
    without, stage = opened(workspace, "model"), opened(workspace, "model", feedback=2, feedback_weight=1.5)
    for text in CONCEPT_QUERIES:
        expected = plain_feedback(workspace.model, np.asarray(stage.vectors), text, without, 1.5, 2)
        result = stage.search(Query("q", text), 100)
        np.testing.assert_allclose(result.first_stage_scores, np.sort(expected)[::-1], rtol=1e-5, atol=1e-5)


# Approximate indexes.


@pytest.fixture(scope="module")
def approximate(workspace):
    """Both kinds for both precisions."""
    for name in workspace.models:
        for kind in nearest.ANN_KINDS:
            build_ann(*stored(workspace, name), AnnConfig(kind, nlist=9 if kind == "ivf" else None, threads=1))
    return workspace


def stored(workspace, name):
    """The folder and the vectors of the encodings."""
    one = IndexEncoder(workspace.forward, workspace.models[name])
    return encodings_folder(workspace.forward, one.key), one.vectors()


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_ivf_that_reads_all_groups_is_flat(approximate, name):
    flat, ivf = opened(approximate, name), opened(approximate, name, kind="ivf", nprobe=9)
    for text in QUERIES:
        for depth in (1, 20, 150, 599, 1000):
            assert found(ivf, text, depth) == found(flat, text, depth)


@pytest.mark.parametrize("kind", nearest.ANN_KINDS)
def test_what_an_approximation_finds_has_the_model_s_scores_in_order(approximate, kind):
    stage = opened(approximate, kind=kind, nprobe=1, ef_search=1)
    for text in QUERIES:
        whole = dict(brute_force(approximate, "float32", text, 1000))
        some = found(stage, text, 20)
        assert 0 < len(some) <= 20
        assert some == sorted(some, key=lambda one: (one[1], one[0].encode()), reverse=True)
        assert some == [(id, whole[id]) for id, _ in some]


def test_more_effort_finds_more(approximate):
    text, depth = QUERIES[2], 50
    best = {id for id, _ in brute_force(approximate, "float32", text, depth)}
    recalls = [
        len(best & {id for id, _ in found(opened(approximate, kind="ivf", nprobe=nprobe), text, depth)})
        for nprobe in (1, 3, 9)
    ]
    assert recalls == sorted(recalls) and recalls[0] < recalls[-1] == depth


def test_the_same_seed_groups_alike(approximate):
    """Built again in one thread, the file is the same."""
    folder, vectors = stored(approximate, "float32")
    before = (folder / "ivf" / "index.faiss").read_bytes()
    build_ann(folder, vectors, AnnConfig("ivf", nlist=9, threads=1), overwrite=True)
    assert (folder / "ivf" / "index.faiss").read_bytes() == before
    with pytest.raises(InputError, match="exists already.*overwrite"):
        build_ann(folder, vectors, AnnConfig("ivf", nlist=9))


def test_an_approximation_that_is_damaged_or_of_other_encodings_is_refused(approximate):
    folder, vectors = stored(approximate, "float32")
    build_ann(folder, vectors, AnnConfig("hnsw", threads=1), overwrite=True)
    path, described = folder / "hnsw" / "index.faiss", folder / "hnsw" / "ann.json"
    whole, text = path.read_bytes(), described.read_text()
    try:
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        path.write_bytes(damaged)
        said = "is damaged, or was built of other encodings; build it again with: rerank-plugin index --encode"
        with pytest.raises(InputError, match=said):
            opened(approximate, kind="hnsw")
        path.write_bytes(whole)
        for change in ({"encodings": "0" * 32}, {"kind": "ivf"}, {"format_version": 2}):
            described.write_text(json.dumps({**json.loads(text), **change}))
            with pytest.raises(InputError, match="built of other encodings"):
                opened(approximate, kind="hnsw")
        described.write_text("{")
        with pytest.raises(InputError, match="cannot be read"):
            opened(approximate, kind="hnsw")
    finally:
        path.write_bytes(whole)
        described.write_text(text)
    assert len(opened(approximate, kind="hnsw").search(Query("q", "aspirin"), 5)) == 5


# What is refused.


def test_what_is_missing_names_the_command_that_makes_it(workspace, tmp_path, vectors):
    checkpoints.save_checkpoint(tmp_path / "other", encodable.ktrel(vectors, seed=9), vectors, {})
    workspace.models["other"] = tmp_path / "other"
    command = f"rerank-plugin index --encode {tmp_path / 'other'} --index {workspace.folder}"
    with pytest.raises(InputError, match=f"holds no encodings by .*; encode it with: {command}$"):
        opened(workspace, "other")
    encode(workspace, "other")
    for kind in nearest.ANN_KINDS:
        said = f"holds no {kind} index of its vectors; build it with: {command} --ann {kind}$"
        with pytest.raises(InputError, match=said):
            opened(workspace, "other", kind=kind)


def test_models_whose_score_is_no_inner_product_are_refused(workspace, tmp_path, vectors):
    for name, model in [("sevmos", make(Case("sevmos", {"filters": 5}), vectors)), ("delta", small.delta(vectors))]:
        checkpoints.save_checkpoint(tmp_path / name, model, vectors, {})
        with pytest.raises(InputError, match=f"the score of the model '{name}' is no inner product"):
            DenseConfig(str(tmp_path / name)).open(workspace)


def test_devices_that_there_are_not(workspace, monkeypatch):
    faiss = nearest.faiss_module()
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    with pytest.raises(InputError, match="faiss cannot use cuda:1: it finds 1 GPUs.*vectors on the CPU"):
        opened(workspace, device="cuda:1")
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    with pytest.raises(InputError, match="faiss cannot use cuda: it finds 0 GPUs"):
        opened(workspace, device="cuda")
    with pytest.raises(InputError, match="the device 'mps' is unknown to dense retrieval"):
        opened(workspace, device="mps")


def test_settings_are_refused_by_name(workspace):
    for wrong, said in [
        ({"checkpoint": ""}, "dense:CHECKPOINT"),
        ({"kind": "annoy"}, "unknown index of vectors 'annoy'; known: flat, ivf, hnsw"),
        ({"nprobe": 0}, "nprobe and ef_search must be at least 1"),
        ({"feedback": -1}, "documents of the feedback and their weight"),
        ({"feedback_weight": float("nan")}, "documents of the feedback and their weight"),
    ]:
        with pytest.raises(InputError, match=said):
            DenseConfig(**{"checkpoint": "x", **wrong})
    with pytest.raises(InputError, match="unknown index of vectors 'flat'; known: ivf, hnsw"):
        AnnConfig("flat")
    for wrong in ({"nlist": 0}, {"links": 1}, {"ef_construction": 0}, {"threads": 0}):
        with pytest.raises(InputError, match="needs nlist, ef-construction and threads of 1 and links of 2"):
            AnnConfig("ivf", **wrong)
    with pytest.raises(InputError, match="1000 groups are too many for 600 documents"):
        build_ann(stored(workspace, "float32")[0], np.zeros((600, 3), np.float32), AnnConfig("ivf", 1000), True)


def test_missing_faiss_is_said_with_the_command_that_installs_it(workspace, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "faiss", None)
    assert len(opened(workspace).search(Query("q", QUERIES[0]), 5)) == 5  # a matrix product needs none
    with pytest.raises(InputError, match=r"dense retrieval needs faiss: pip install 'rerank_plugin\[dense\]'"):
        opened(workspace, "float16")
