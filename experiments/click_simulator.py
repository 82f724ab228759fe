"""Simulated users of a running service, who search and click over HTTP: docs/learning-from-use.md.

They follow the position-based model of `rerank_plugin.clicks.simulation`, on the current hits of the service. Documents
without a judgment are not relevant.

python -m experiments.click_simulator --url http://localhost:8080 --index sample --queries sample:train --seed 42
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import numpy as np

import rerank_plugin as rp
from rerank_plugin.base.records import Judgments
from rerank_plugin.base.terminal import progress
from rerank_plugin.clicks.simulation import ClickModel, attractiveness
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.options import run

DWELL = 20.0  # mean seconds; a document of the highest grade is read twice as long as a non-relevant one


class Clicked(NamedTuple):
    """A click: the place in the list, from 0 on, and the seconds that the document was open."""

    place: int
    dwell: float


def clicks(grades: np.ndarray, highest: float, users: ClickModel, generator: np.random.Generator) -> list[Clicked]:
    """The clicks of a user on a list of documents with these grades [n], from the top down."""
    attractive = attractiveness(grades, highest, users.noise)  # [n]
    examined = np.arange(1.0, len(grades) + 1) ** -users.eta  # examination probability [n]
    places = np.flatnonzero(generator.random(len(grades)) < examined * attractive)
    seconds = generator.exponential(DWELL * (1 + attractive[places]))
    return [Clicked(int(place), round(float(dwell), 1)) for place, dwell in zip(places, seconds)]


def simulate(
    service: httpx.Client, index: str, queries: list[rp.Query], judgments: Judgments, users: ClickModel, seed: int
) -> Iterator[int]:
    """Search every query for each of its simulated users, in random order; yields the number of clicks of each session.

    Raises:
        InputError: the service refuses a request.
    """
    generator = np.random.default_rng(seed)
    highest = max(max(of_query.values()) for of_query in judgments.values())
    sessions = generator.permutation(np.tile(np.arange(len(queries)), users.sessions))
    for number, place_of_query in enumerate(sessions):
        query = queries[place_of_query]
        parameters = {"query": query.text, "hits": users.depth, "fields": "id"}
        answer = _checked(service.get(f"/v1/{index}/search", params=parameters)).json()
        shown = [hit["docid"] for hit in answer["candidates"]]
        grades = np.array([judgments[query.id].get(docid, 0) for docid in shown], np.float64)
        clicked = clicks(grades, highest, users, generator)
        for place, dwell in clicked:
            body = {"query": query.text, "shown": shown, "clicked": shown[place], "position": place + 1}
            body |= {"session": f"{seed} {number}", "dwell": dwell}
            _checked(service.post(f"/v1/{index}/click", json=body))
        yield len(clicked)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise rp.InputError(f"{answer.url} answered with status {answer.status_code}: {answer.text}")
    return answer


def arguments():
    parser = argparse.ArgumentParser(prog="python -m experiments.click_simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://localhost:8080", help="address of a service with --click-log")
    parser.add_argument("--token", help="token of the service, if it has one")
    parser.add_argument("--index", default="sample", help="name of the index in the service")
    parser.add_argument("--queries", default="sample:train", help="judged queries that the users search")
    parser.add_argument("--sessions", type=int, default=30, help="users of each query")
    parser.add_argument(
        "--eta", type=float, default=1.0, help="exponent of the examination probability 1/r^eta of rank r"
    )
    parser.add_argument("--noise", type=float, default=0.03, help="probability of a click on a non-relevant document")
    parser.add_argument("--depth", type=int, default=20, help="hits shown")
    parser.add_argument("--seed", type=int, default=42)
    return parser


def main(argv: list[str] | None = None) -> None:
    options = arguments().parse_args(argv)
    users = ClickModel(options.sessions, options.eta, options.noise, options.depth)
    queries, judgments = queries_and_judgments(options.queries)
    headers = {"X-API-Key": options.token} if options.token else {}
    try:
        with httpx.Client(base_url=options.url, headers=headers, timeout=60) as service:
            simulated = simulate(service, options.index, queries, judgments, users, options.seed)
            counts = list(progress(simulated, "searching", "sessions", total=len(queries) * users.sessions))
    except httpx.TransportError as error:
        raise rp.InputError(f"{options.url} does not answer ({error}): start the service there") from None
    print(f"{options.url}: {len(counts):,} sessions, {sum(map(bool, counts)):,} with a click, {sum(counts):,} clicks")


if __name__ == "__main__":
    run(main)
