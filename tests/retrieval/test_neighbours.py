"""Retrieval by the judgments of similar queries: by hand, against a plain twin, and what is damaged or missing."""

import json
import math
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.records import Query
from rerank_plugin.encoding.index_encoder import IndexEncoder, write_judged
from rerank_plugin.models import checkpoint
from rerank_plugin.retrieval.dense import QueryEncoder
from rerank_plugin.retrieval.neighbours import NeighboursConfig, judged_folder, unit
from tests import small
from tests.models import encodable

WORDS = small.KNOWN_WORDS
UNKNOWN = "zyzzyva quokka"


def texts(count=40, seed=7):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, size)) for size in random.integers(1, 6, count)]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbours")
    words = small.word_vectors(WORDS, 12, 3)
    documents = [(f"{'aZé'[number % 3]}-{number}", text, "") for number, text in enumerate(texts(50, 8))]
    made = SimpleNamespace(folder=folder / "index", forward=encodable.build_index(folder / "index", documents))
    checkpoint.save_checkpoint(folder / "model", encodable.ktrel(words, 1, heads=2), words, {})
    made.model = folder / "model"
    made.encoder = QueryEncoder(made.forward, made.model)
    IndexEncoder(made.forward, made.model).encode()
    made.store = IndexEncoder(made.forward, made.model).store()
    random = np.random.default_rng(3)
    made.queries = [Query(f"q{number}", text) for number, text in enumerate(texts())]
    ids = [id for id, _, _ in documents] + ["not-in-the-index"]
    made.judgments = {
        query.id: {
            str(id): int(random.integers(-1, 3)) for id in random.choice(ids, random.integers(1, 9), replace=False)
        }
        for query in made.queries
    }
    made.judgments["q3"] = {ids[0]: 0}  # nothing relevant
    half = len(made.queries) // 2
    sets = [("first", made.queries[:half], made.judgments), ("second", made.queries[half:], made.judgments)]
    made.kept = write_judged(made.forward, made.encoder, [*sets, ("unknown", [Query("q0", UNKNOWN)], made.judgments)])
    return made


def relevant(workspace, query_id):
    judged = workspace.judgments[query_id].items()
    return {id for id, grade in judged if grade > 0} - {"not-in-the-index"}


def plain(workspace, text, neighbours, power, documents, temperature, ranked=None):
    """Scores by id: the docstring's formula, query by query and document by document; ``ranked`` are scores by row."""
    query = workspace.encoder.encode(text).astype(np.float64)
    vectors = workspace.store.decode(np.arange(len(workspace.store))).astype(np.float64)
    ranked = ranked or {row: float(query @ one) for row, one in enumerate(vectors)}
    best = sorted(((score, row) for row, score in ranked.items()), reverse=True)[: documents or 1]
    share = {workspace.forward.ids[row]: math.exp((score / best[0][0] - 1) / temperature) for score, row in best}
    mass = sum(share.values())
    near = []
    for number, one in enumerate(workspace.queries):
        judged = relevant(workspace, one.id)
        other = workspace.encoder.encode(one.text).astype(np.float64)
        cosine = float(query @ other / np.linalg.norm(query) / np.linalg.norm(other))
        if judged:
            near.append((cosine, -number, judged))
    scores = {}
    for cosine, _, judged in sorted(near, key=lambda one: one[:2], reverse=True)[:neighbours]:
        weight = cosine**power / math.sqrt(len(judged)) if cosine > 0 else 0.0
        if documents:
            weight *= sum(share.get(id, 0.0) for id in judged) / mass
        for id in judged if weight else ():
            scores[id] = scores.get(id, 0.0) + weight
    return scores


@pytest.mark.parametrize(
    "settings",
    [(100, 4.0, 0, 1.0), (5, 1.0, 0, 1.0), (1, 2.0, 0, 1.0), (12, 0.5, 0, 1.0),
     (100, 4.0, 50, 0.1), (100, 2.0, 9, 0.5), (7, 1.0, 20, 0.05)],
)  # fmt: skip
def test_against_the_plain_formula(workspace, settings):
    stage = NeighboursConfig(str(workspace.model), *settings).open(workspace)
    for text in ("aspirin heart attack", "risk of stroke", texts()[0]):
        expected = plain(workspace, text, *settings)
        for depth in (1, 7, 1000):
            found = stage.search(Query("q", text), depth)
            assert len(found) == min(depth, len(expected)) > 0
            np.testing.assert_allclose(found.first_stage_scores, [expected[id] for id in found.ids], rtol=1e-3)
            pairs = list(zip(found.first_stage_scores.tolist(), (id.encode() for id in found.ids)))
            assert pairs == sorted(pairs, reverse=True)
            cut = [score for id, score in expected.items() if id not in found.ids]
            assert all(score <= pairs[-1][0] * 1.001 for score in cut)


def test_shares_of_another_ranking(workspace, tmp_path):
    """A run of three documents says whom to listen to; a query that it lacks, or has nothing for, finds nothing."""
    run, ids = tmp_path / "some.run", workspace.forward.ids
    ranked = {4: 8.0, 11: 7.5, 30: 2.0}
    lines = [f"q Q0 {ids[row]} {rank} {score} t\n" for rank, (row, score) in enumerate(ranked.items(), 1)]
    run.write_text("".join(lines), encoding="utf-8")
    stage = NeighboursConfig(str(workspace.model), 100, 3.0, 2, 0.2, (f"run:{run}",)).open(workspace)
    text = "aspirin heart attack"
    expected = plain(workspace, text, 100, 3.0, 2, 0.2, ranked)
    found = stage.search(Query("q", text), 1000)
    assert set(found.ids) == set(expected)
    np.testing.assert_allclose(found.first_stage_scores, [expected[id] for id in found.ids], rtol=1e-4)
    assert not len(stage.search(Query("other", text), 10))


def test_shares_of_two_rankings_are_their_mean(workspace, tmp_path):
    """A score is linear in the shares, so that of both is the mean of what each of them gives alone."""
    run, own = tmp_path / "some.run", f"dense:{workspace.model}"
    run.write_text("".join(f"q Q0 {workspace.forward.ids[row]} 1 {row} t\n" for row in (4, 11, 30)), encoding="utf-8")
    found = {}
    for rankings in ((own,), (f"run:{run}",), (own, f"run:{run}")):
        stage = NeighboursConfig(str(workspace.model), documents=9, rankings=rankings).open(workspace)
        best = stage.search(Query("q", "aspirin heart attack"), 1000)
        found[rankings] = dict(zip(best.ids, best.first_stage_scores.tolist()))
    first, second, both = found.values()
    assert set(both) == set(first) | set(second) and first.keys() != second.keys()
    for id, score in both.items():
        assert score == pytest.approx((first.get(id, 0) + second.get(id, 0)) / 2, rel=1e-5)


def here_index(folder, ids, titles=MappingProxyType({})):
    forward = encodable.build_index(folder, [(id, titles.get(id, "aspirin"), "") for id in ids])
    return SimpleNamespace(folder=folder, forward=forward)


def test_by_hand(workspace, tmp_path):
    """The query itself was judged: with one neighbour its cosine is 1, so each of its three documents has 1 / sqrt 3,
    and they come by decreasing id."""
    here = here_index(tmp_path / "index", "abcd")
    judged = {"q": {"b": 1, "a": 2, "d": 1, "c": 0}}
    write_judged(here.forward, QueryEncoder(here.forward, workspace.model), [("s", [Query("q", "heart")], judged)])
    found = NeighboursConfig(str(workspace.model), 1, documents=0).open(here).search(Query("q", "heart"), 10)
    assert found.ids == ["d", "b", "a"]
    np.testing.assert_allclose(found.first_stage_scores, 3**-0.5, rtol=1e-6)


def test_shares_by_hand(workspace, tmp_path):
    """Two judged queries have the words of the query; the model's best document is relevant for the second alone."""
    here = here_index(tmp_path / "index", "abcd", {"c": "heart"})
    encoder = QueryEncoder(here.forward, workspace.model)
    IndexEncoder(here.forward, workspace.model).encode()
    judged = [Query("one", "heart"), Query("two", "heart")]
    write_judged(here.forward, encoder, [("s", judged, {"one": {"a": 1, "b": 1}, "two": {"c": 1, "d": 2}})])
    stage = NeighboursConfig(str(workspace.model), documents=1).open(here)
    found = stage.search(Query("q", "heart"), 10)
    assert found.ids == ["d", "c"]
    np.testing.assert_allclose(found.first_stage_scores, 0.5**0.5, rtol=1e-6)  # all of the share, two documents
    assert stage.search(Query("q", "heart"), 1).ids == ["d"]


def test_without_itself_a_judged_query_is_ranked_as_if_nobody_had_judged_it(workspace, tmp_path):
    """Also where the judged query is the nearest one, and no other neighbour is asked for."""
    index = {name: here_index(tmp_path / name, "abcdef") for name in ("all", "others")}
    queries = [Query("one", "heart attack"), Query("two", "heart"), Query("same", "attack heart")]
    judged = {"one": {"a": 1, "b": 1}, "two": {"b": 1, "c": 2}, "same": {"e": 1}}
    for name, kept in (("all", queries), ("others", queries[1:2])):
        write_judged(index[name].forward, QueryEncoder(index[name].forward, workspace.model), [("s", kept, judged)])
    config = NeighboursConfig(str(workspace.model), 1, documents=0, itself=False)
    found, expected = (
        one.open(index[name]).search(queries[0], 10)
        for name, one in (("all", config), ("others", NeighboursConfig(str(workspace.model), 1, documents=0)))
    )
    assert found.ids == expected.ids == ["c", "b"]
    assert found.first_stage_scores.tolist() == expected.first_stage_scores.tolist()


def test_what_is_kept(workspace):
    folder, count = workspace.kept
    described = json.loads((folder / "judged.json").read_text())
    usable = [query for query in workspace.queries if relevant(workspace, query.id)]
    assert count == described["queries"] == len(usable) < len(workspace.queries)
    assert described["sources"] == ["first", "second", "unknown"]
    vectors = np.load(folder / "vectors.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)


def test_unknown_words_find_nothing(workspace):
    stage = NeighboursConfig(str(workspace.model)).open(workspace)
    assert len(stage.search(Query("q", UNKNOWN), 10)) == len(stage.search(Query("q", ""), 10)) == 0


def test_unit():
    np.testing.assert_allclose(unit(np.array([3.0, 4.0], np.float32)), [0.6, 0.8])
    np.testing.assert_allclose(unit(np.array([3e25, 4e25], np.float32)), [0.6, 0.8])  # squares beyond float32
    assert unit(np.zeros(2, np.float32)) is None and unit(None) is None


def test_nothing_to_keep(workspace):
    with pytest.raises(InputError, match="exists already"):
        write_judged(workspace.forward, workspace.encoder, [("s", workspace.queries, workspace.judgments)])
    with pytest.raises(InputError, match="here: no query has a word"):
        unknown = [("here", [Query("q0", UNKNOWN)], workspace.judgments)]
        write_judged(workspace.forward, workspace.encoder, unknown, overwrite=True)


@pytest.mark.parametrize(
    "wrong",
    [{"neighbours": 0}, {"power": 0.0}, {"power": math.nan}, {"checkpoint": ""}, {"documents": -1}, {"temperature": 0}],
)
def test_wrong_options(wrong):
    with pytest.raises(InputError):
        NeighboursConfig(**{"checkpoint": "c", **wrong})


def test_what_an_index_lacks(tmp_path, workspace):
    here = here_index(tmp_path / "index", "a")
    encoder, config = QueryEncoder(here.forward, workspace.model), NeighboursConfig(str(workspace.model))
    with pytest.raises(InputError, match="holds no encodings"):
        config.open(here)
    IndexEncoder(here.forward, workspace.model).encode()
    with pytest.raises(InputError, match="holds no judged queries.*--judged QJ"):
        config.open(here)
    write_judged(here.forward, encoder, [("s", [Query("q", "heart")], {"q": {"a": 1}})])
    assert config.open(here).search(Query("q", "heart"), 5).ids == ["a"]
    (judged_folder(here.forward, encoder.key) / "rows.npy").unlink()
    with pytest.raises(InputError, match="rows.npy is missing.*: rerank-plugin index --encode .* --judged QJ"):
        config.open(here)
