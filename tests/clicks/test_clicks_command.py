"""The command that converts and simulates click logs, its user model, and a Delta trained on clicks."""

import gzip
import json

import numpy as np
import pytest

from rerank_plugin.base.errors import InputError
from rerank_plugin.clicks import __main__ as clicks
from rerank_plugin.clicks.logs import read
from rerank_plugin.clicks.simulation import ClickModel, all_judgments, attractiveness, sessions, simulate
from rerank_plugin.corpora import Query, judgments, queries, queries_and_judgments
from rerank_plugin.corpora.formats import beir
from rerank_plugin.corpora.specs import SAMPLE
from tests.evaluation.runs import ranked
from tests.processes import inside

# ---- simulated users ----


def test_attractiveness_by_hand():
    # noise 0.2, grades up to 3: 0.2 + 0.8 * (0, 1, 3, 7) / 7
    probabilities = attractiveness(np.array([0, 1, 2, 3, -1, 9]), 3, 0.2)
    assert probabilities == pytest.approx([0.2, 0.3142857, 0.5428571, 1, 0.2, 1])
    assert attractiveness(np.array([0, 1]), 1, 0.0).tolist() == [0, 1]
    assert attractiveness(np.array([0.0, 50.5, 101.0]), 101, 0.0) == pytest.approx([0, 2**-50.5, 1], rel=1e-9)


def test_sessions_like_a_plain_loop():
    """The same draws, session by session and document by document."""
    users, documents = ClickModel(sessions=40, eta=0.7), 30
    chance = np.random.default_rng(5)
    ranks = chance.permuted(np.tile(np.arange(1.0, documents + 1), (users.sessions, 1)), axis=1)
    attractive, available = chance.random(documents) / 8, chance.random(documents) < 0.5
    counts = sessions(ranks, attractive, available, users, np.random.default_rng(9))

    draws = np.random.default_rng(9)
    first, second = draws.random(ranks.shape), draws.random(ranks.shape)
    shown, clicked, full_text = np.zeros((3, documents), int)
    logged = 0
    for session in range(users.sessions):
        on = [d for d in range(documents) if first[session, d] < (1 / ranks[session, d]) ** users.eta * attractive[d]]
        logged += bool(on)
        for d in range(documents) if on else ():
            shown[d] += ranks[session, d] <= 20 or d in on
            clicked[d] += d in on
            full_text[d] += d in on and available[d] and second[session, d] < attractive[d]
    assert [count.tolist() for count in counts] == [shown.tolist(), clicked.tolist(), full_text.tolist()]
    assert 0 < logged < users.sessions and full_text.sum() > 0


def test_clicks_follow_the_model():
    """Over many sessions each rank is clicked as often as eta and noise say, within five standard deviations."""
    documents = [f"d{n:02}" for n in range(40)]
    judged = {"q": {document: n % 3 for n, document in enumerate(documents)}}
    users = ClickModel(sessions=20_000, eta=0.5, noise=0.1, depth=30)
    ((query, counts, available),) = simulate([Query("q", "x")], judged, {"q": ranked(*documents)}, users, seed=1)
    assert query.id == "q" and counts.documents == documents[:30]
    for at in range(30):
        likely = (0.1 + 0.9 * (0, 1 / 3, 1)[at % 3]) / (at + 1) ** 0.5
        error = 5 * (20_000 * likely * (1 - likely)) ** 0.5
        assert abs(counts.summary_clicks[at] - 20_000 * likely) <= error, at
        again = 0.1 + 0.9 * (0, 1 / 3, 1)[at % 3]
        expected = counts.summary_clicks[at] * again * available[at]
        assert abs(counts.full_text_clicks[at] - expected) <= 5 * (expected * (1 - again)) ** 0.5, at
        if at >= 20:
            assert counts.impressions[at] == counts.summary_clicks[at]  # below the first page: only when clicked
    assert len(set(counts.impressions[:20].tolist())) == 1 and 5 < available.sum() < 25


def test_without_a_run_all_judged_documents_are_seen_alike():
    judged = {"q": {f"d{n}": 1 for n in range(8)}}
    users = ClickModel(sessions=4000, noise=0.0)
    ((_, counts, _),) = simulate([Query("q", "x")], judged, None, users, seed=2)
    looked = sum(1 / rank for rank in range(1, 9)) / 8
    deviation = (4000 * looked * (1 - looked)) ** 0.5
    assert np.abs(counts.summary_clicks - 4000 * looked).max() < 5 * deviation


def test_queries_without_a_ranking_or_a_click_are_not_logged():
    judged = {"a": {"d": 1}, "b": {"d": 1}, "c": {"d": 0, "e": 1}}
    run = {"a": ranked("d"), "c": ranked("d", "x")}
    simulated = list(simulate([Query(id, id) for id in "abc"], judged, run, ClickModel(noise=0.0), seed=3))
    assert [query.id for query, _, _ in simulated] == ["a"]
    with pytest.raises(InputError, match="no document is judged relevant"):
        list(simulate([Query("a", "a")], {"a": {"d": 0}}, None, ClickModel(), seed=3))


def test_full_text_is_there_for_all_queries_or_for_none():
    documents = [f"d{n}" for n in range(20)]
    judged = {id: dict.fromkeys(documents, 1) for id in "abcdef"}
    simulated = simulate([Query(id, id) for id in judged], judged, None, ClickModel(), seed=4)
    by_document = {}
    for _, counts, available in simulated:
        for document, has_full_text in zip(counts.documents, available.tolist()):
            assert by_document.setdefault(document, has_full_text) == has_full_text
    assert len(set(by_document.values())) == 2


COUNTS, SHARES = "sessions and depth must be at least 1", "noise must be from 0 to 1, and eta 0 or more"


@pytest.mark.parametrize(
    "name, least, most, wrong, message",
    [
        ("sessions", 1, 10**6, [0, -1], COUNTS),
        ("depth", 1, 10**6, [0, -1], COUNTS),
        ("noise", 0.0, 1.0, [-0.01, 1.01, np.nan], SHARES),
        ("eta", 0.0, 100.0, [-0.01, np.inf, np.nan], SHARES),
    ],
)
def test_the_values_that_users_may_have(name, least, most, wrong, message):
    for allowed in (least, most):
        assert getattr(ClickModel(**{name: allowed}), name) == allowed
    for value in wrong:
        with pytest.raises(InputError, match=message):
            ClickModel(**{name: value})


def test_the_judgments_of_all_splits():
    judged_queries, judged = all_judgments("sample")
    assert judged_queries == queries("sample") and len(judged) == 150
    for split in beir.splits(SAMPLE):
        for query, of_query in judgments(f"sample:{split}").items():
            assert judged[query] == of_query
    assert all_judgments("sample:dev") == queries_and_judgments("sample:dev")


# ---- the command ----


def simulated(folder, name, *more):
    clicks.main(["--simulate", "sample", "--output", str(folder / name), *more])
    return folder / name


def test_the_seed_decides_what_is_simulated(tmp_path, capsys):
    first, repeated, other_seed = (
        simulated(tmp_path, name, "--seed", seed)
        for name, seed in (("a.tsv", "42"), ("b.tsv.gz", "42"), ("c.tsv", "1"))
    )
    assert capsys.readouterr().out.startswith(f"{first}: 150 queries, ")
    assert first.read_bytes() == gzip.decompress(repeated.read_bytes()) != other_seed.read_bytes()
    log = read(first)
    assert log.ids_given and {id: query.text for id, query in log.queries.items()} == {
        query.id: query.text for query in queries("sample")
    }
    with pytest.raises(InputError, match="exists already"):
        simulated(tmp_path, "a.tsv")


def test_left_out_queries_are_reported(tmp_path, capsys):
    log = tmp_path / "log.tsv"
    texts = [f"word{n} gout" for n in range(7)] + ["one two three four five six seven", "Word1 Gout"]  # which are kept
    texts += ["a AND b", "gout[ti]", "Smith JA", "a b c d e f g h", "?"]
    sizes = [*((text, 21, 3) for text in texts), ("few", 20, 3), ("rarely", 30, 2)]  # documents, and those clicked
    log.write_text(
        "query\tdocument\timpressions\tsummary_clicks\tfull_text_clicks\tfull_text\n"
        + "".join(f"{text}\td{n}\t1\t{int(n < clicked)}\t0\t0\n" for text, of, clicked in sizes for n in range(of))
    )
    clicks.main(["--log", str(log), "--output", str(tmp_path / "made"), "--formula", "d17", "--mu", "0.5"])
    assert capsys.readouterr().out.splitlines() == [
        f"{log}: 16 queries",
        "  left out, boolean expressions (AND, OR, NOT): 1",
        "  left out, queries with field tags: 1",
        "  left out, author searches: 1",
        "  left out, not 1 to 7 words: 2",
        "  left out, fewer than 21 documents: 1",
        "  left out, fewer than 3 clicked documents: 1",
        "  merged, as they differ in letter case only: 1",
        f"{tmp_path / 'made'}:train: 5 queries, 105 documents, 15 of them relevant",
        f"{tmp_path / 'made'}:dev: 1 queries, 21 documents, 3 of them relevant",
        f"{tmp_path / 'made'}:test: 2 queries, 42 documents, 6 of them relevant",
    ]
    # word1 gout was clicked twice as often: (0.5 + 1/15) * 2; the others once
    grades = {level for name in ("train", "dev", "test") for judged in judgments(f"{tmp_path / 'made'}:{name}").values()
              for level in judged.values()}  # fmt: skip
    assert sorted(grades) == pytest.approx([0, 0.5 + 1 / 15, 1 + 2 / 15])
    clicks.main(["--log", str(log), "--output", str(tmp_path / "loose"), "--keep-boolean", "--keep-field", "--balance",
                 "1", "--keep-author", "--max-words", "8", "--min-documents", "20", "--min-clicked", "2"])  # fmt: skip
    output = capsys.readouterr().out
    assert output.count("left out") == 3 and "not 1 to 8 words: 1\n" in output  # without any word
    assert ":train: 8 queries, 16 documents, 8 of them relevant" in output and ":test: 3 queries" in output


@pytest.mark.parametrize(
    "line, message",
    [
        ("clicks --log none.tsv --output made", "none.tsv: cannot be read"),
        ("clicks --simulate sample --output log.tsv --sessions 0", "--sessions must be at least 1"),
        ("clicks --simulate sample --output log.tsv --noise 2", "noise must be from 0 to 1"),
        ("clicks --simulate nothing.here? --output log.tsv", "is not a file, a folder or an ir-datasets id"),
        ("clicks --log a.tsv --run b.run --output made", "--run needs --simulate"),
        ("clicks --output made", "one of the arguments --log --simulate is required"),
        ("clicks --log a.tsv --output made --lambda 0", "lambda is 0.0: it must be above 0"),
    ],
)
def test_refusals(refused, line, message):
    assert message in refused(line)


# ---- from searching to an evaluated model ----


def test_a_delta_that_learned_from_clicks_ranks_what_others_click_on(tmp_path, sample_index, sample_words):
    """Searches, simulated users, judgments, training, and a re-ranking of the logged documents of unseen queries."""
    (tmp_path / "index").symlink_to(sample_index)
    inside(tmp_path, "search --index index --queries sample --output bm25.run")
    inside(tmp_path, "clicks --simulate sample --run bm25.run --output log.tsv --seed 42")
    output = inside(tmp_path, "clicks --log log.tsv --output clicks --seed 42")
    assert "left out, fewer than 21 documents: 4" in output and "clicks:train: 87 queries" in output
    train = (
        f"train --model delta --set filters=8 --lexical-features lex3 --index index --words {sample_words} "
        "--train clicks:train --validation clicks:dev --train-run clicks/runs/train.run "
        "--validation-run clicks/runs/dev.run --epochs 2 --pairs-per-query 25"
    )
    assert "validation nDCG@20 0." in inside(tmp_path, f"{train} --output delta")
    inside(
        tmp_path,
        "search --index index --queries clicks:test --run clicks/runs/test.run --reranker delta:delta "
        "--output delta.run",
    )
    report = json.loads(
        inside(
            tmp_path,
            "evaluate --qrels clicks:test delta.run --baseline clicks/runs/test.run --format json "
            "--measures nDCG@20 NDCG.20 AP P@5 ERR@20",
        )
    )
    assert report["queries"] == 29
    delta, by_id = report["runs"]["delta.run"], report["runs"]["clicks/runs/test.run"]
    assert all(delta[name] > by_id[name] + 0.1 for name in ("nDCG@20", "NDCG.20")) and delta["AP"] > by_id["AP"], report
