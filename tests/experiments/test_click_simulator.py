"""Learning from use: simulated users of a live service, and the model trained on their clicks."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

import rerank_plugin as rp
from experiments import click_simulator
from rerank_plugin.clicks.logs import read
from rerank_plugin.clicks.simulation import ClickModel
from rerank_plugin.corpora import queries
from rerank_plugin.service.config import ServiceConfig
from tests.evaluation.runs import ranked
from tests.processes import inside
from tests.service.live import serving

TOKEN = {"X-API-Key": "geheim"}
TEST = "sample:test"


def test_users_click_with_the_probabilities_of_the_position_based_model():
    """Within five standard deviations; with the second place looked at by half, and grades 0, 1, 2 of 2."""
    users, generator, drawn = ClickModel(noise=0.1), np.random.default_rng(1), 5000
    sessions = [click_simulator.clicks(np.array([2.0, 2, 1, 0]), 2, users, generator) for _ in range(drawn)]
    for place, likely in enumerate((1, 1 / 2, 1 / 3 * (0.1 + 0.9 / 3), 1 / 4 * 0.1)):
        clicked = sum(any(click.place == place for click in session) for session in sessions)
        assert abs(clicked - drawn * likely) <= 5 * (drawn * likely * (1 - likely)) ** 0.5
    seconds = [click.dwell for session in sessions for click in session if click.place == 0]
    assert np.mean(seconds) == pytest.approx(2 * click_simulator.DWELL, rel=0.1)


def test_a_missing_service_is_named():
    with pytest.raises(rp.InputError, match="http://127.0.0.1:1 does not answer"):
        click_simulator.main(["--url", "http://127.0.0.1:1"])


def served_run(service):
    """The first ten documents of each test query, as the service ranks them now."""
    run = {}
    every = queries(TEST)
    for start in range(0, len(every), 10):
        batch = every[start : start + 10]
        parameters = {"query": [query.text for query in batch], "fields": "id"}
        answer = service.get("/v1/sample/search", params=parameters).json()
        run |= {
            query.id: ranked(*(hit["docid"] for hit in result["candidates"]))
            for query, result in zip(batch, answer["results"])
        }
    return run


def test_a_model_learns_from_the_use_of_the_service_and_takes_its_place(tmp_path, sample_index, capsys):
    """The page's loop, small: serve, collect, clicks, train, and replace the model while others search."""
    inside(tmp_path, "embed words --corpus sample --min-count 3 --dimension 100 --epochs 20 --output words")
    rp.Reranker.load("delta").save_pretrained(tmp_path / "live")
    config = ServiceConfig(
        {"sample": str(sample_index)}, {"live": str(tmp_path / "live")}, token="geheim", deadline=60,
        click_log=str(tmp_path / "clicks.tsv"),
    )  # fmt: skip
    with serving(config, headers=TOKEN) as service:
        before = served_run(service)
        click_simulator.main(["--url", str(service.base_url), "--token", "geheim", "--sessions", "6"])
        printed = re.search(r"540 sessions, (\d+) with a click, ([\d,]+) clicks", capsys.readouterr().out)
        logged = read(tmp_path / "clicks.tsv").queries.values()
        assert {query.text for query in logged} <= {query.text for query in queries("sample:train")}
        assert len(logged) > 80
        assert sum(counts.clicked for query in logged for counts in query.documents.values()) > 100
        clicked = sum(counts.summary_clicks for query in logged for counts in query.documents.values())
        shown = sum(max(counts.impressions for counts in query.documents.values()) for query in logged)
        assert (shown, clicked) == tuple(int(number.replace(",", "")) for number in printed.groups())
        inside(tmp_path, "clicks --log clicks.tsv --output learned --min-documents 20 --min-clicked 2")
        inside(
            tmp_path,
            f"train --model delta --set filters=8 --lexical-features lex3 --index {sample_index} --words words "
            "--train learned:train --validation learned:dev --train-run learned/runs/train.run "
            "--validation-run learned/runs/dev.run --epochs 3 --pairs-per-query 25 --output trained",
        )
        rp.Reranker.load(str(tmp_path / "trained")).save_pretrained(tmp_path / "live", overwrite=True)
        stop, statuses = Event(), []

        def search():
            while not stop.is_set():
                parameters = {"query": f"diabetes {len(statuses)}"}
                statuses.append(service.get("/v1/sample/search", params=parameters).status_code)

        with ThreadPoolExecutor(2) as clients:
            searching = [clients.submit(search) for _ in range(2)]
            assert service.post("/admin/reload").status_code == 200
            stop.set()
        assert not any(future.exception() for future in searching) and {*statuses} == {200}
        after = served_run(service)
    with rp.Searcher(sample_index, reranker=str(tmp_path / "trained")) as searcher:
        for query in queries(TEST)[:3]:  # what is served now is what was trained
            assert [hit.docid for hit in searcher.search(query.text, 10)] == list(after[query.id].doc_ids)
    measured = rp.evaluate_runs(TEST, {"before": before, "after": after}, ["nDCG@10"])["runs"]
    assert measured["after"]["nDCG@10"] > measured["before"]["nDCG@10"], measured
