"""Simulated users of a running service, who search, look down the list and click, over HTTP: docs/learning-from-use.md.

They behave as those of `rerank_plugin.clicks.simulation` (the position-based model), and see what the service
shows at that moment. A document without a judgment is not relevant to them.

python -m experiments.click_simulator --url http://localhost:8080 --index sample --queries sample:train --seed 42
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import httpx
import numpy as np

import rerank_plugin as rp
from rerank_plugin.base.progress import progress
from rerank_plugin.base.records import Judgments
from rerank_plugin.clicks.simulation import Users, attractiveness
from rerank_plugin.corpora import queries_and_judgments
from rerank_plugin.options import run

DWELL = 20.0  # seconds, the mean; a document of the highest grade is read twice as long as others


class Clicked(NamedTuple):
    """What a user clicked on: its place in the list, from 0 on, and the seconds that it was open."""

    place: int
    dwell: float


def clicks(grades: np.ndarray, highest: float, users: Users, generator: np.random.Generator) -> list[Clicked]:
    """The clicks of one user on a list of documents with these grades [n], from the top down."""
    attractive = attractiveness(grades, highest, users.noise)  # [n]
    looked = np.arange(1.0, len(grades) + 1) ** -users.eta  # P(look) [n]
    places = np.flatnonzero(generator.random(len(grades)) < looked * attractive)
    seconds = generator.exponential(DWELL * (1 + attractive[places]))
    return [Clicked(int(place), round(float(dwell), 1)) for place, dwell in zip(places, seconds)]


def simulate(
    service: httpx.Client, index: str, queries: list[rp.Query], judgments: Judgments, users: Users, seed: int
) -> Iterator[int]:
    """Let every query be searched by as many users as ``users`` says, in random order; each one's number of clicks.

    Raises:
        InputError: the service refuses a request.
    """
    generator = np.random.default_rng(seed)
    highest = max(max(of_query.values()) for of_query in judgments.values())
    for number, at in enumerate(generator.permutation(np.tile(np.arange(len(queries)), users.sessions))):
        query = queries[at]
        asked = {"query": query.text, "hits": users.depth, "fields": "id"}
        found = _checked(service.get(f"/v1/{index}/search", params=asked)).json()
        shown = [one["docid"] for one in found["candidates"]]
        grades = np.array([judgments[query.id].get(docid, 0) for docid in shown], np.float64)
        made = clicks(grades, highest, users, generator)
        for place, dwell in made:
            sent = {"query": query.text, "shown": shown, "clicked": shown[place], "position": place + 1}
            sent |= {"session": f"{seed} {number}", "dwell": dwell}
            _checked(service.post(f"/v1/{index}/click", json=sent))
        yield len(made)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        raise rp.InputError(f"{answer.url} answered with status {answer.status_code}: {answer.text}")
    return answer


def arguments():
    parser = argparse.ArgumentParser(prog="python -m experiments.click_simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://localhost:8080", help="of a service with --click-log")
    parser.add_argument("--token", help="of the service, where it has one")
    parser.add_argument("--index", default="sample", help="its name in the service")
    parser.add_argument("--queries", default="sample:train", help="judged queries, which the users search")
    parser.add_argument("--sessions", type=int, default=30, help="users of each query")
    parser.add_argument("--eta", type=float, default=1.0, help="rank r is looked at with probability 1/r^eta")
    parser.add_argument("--noise", type=float, default=0.03, help="probability to click what is not relevant")
    parser.add_argument("--depth", type=int, default=20, help="documents that are shown")
    parser.add_argument("--seed", type=int, default=42)
    return parser


def main(argv: list[str] | None = None) -> None:
    options = arguments().parse_args(argv)
    users = Users(options.sessions, options.eta, options.noise, options.depth)
    queries, judgments = queries_and_judgments(options.queries)
    headers = {"X-API-Key": options.token} if options.token else {}
    try:
        with httpx.Client(base_url=options.url, headers=headers, timeout=60) as service:
            simulated = simulate(service, options.index, queries, judgments, users, options.seed)
            made = list(progress(simulated, "searching", "sessions", total=len(queries) * users.sessions))
    except httpx.TransportError as error:
        raise rp.InputError(f"{options.url} does not answer ({error}): start the service there") from None
    print(f"{options.url}: {len(made):,} sessions, {sum(map(bool, made)):,} with a click, {sum(made):,} clicks")


if __name__ == "__main__":
    run(main)
