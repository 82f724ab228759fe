"""Some attacks on a service, and an end of the service that they have to see."""

import random

import pytest

from tests.campaign.hostile import ATTACKS, Served


@pytest.fixture(scope="module")
def served(index_folder, tmp_path_factory):
    made = Served(index_folder, tmp_path_factory.mktemp("served"))
    yield made
    made.close()


@pytest.mark.parametrize("name", ["nested", "bomb", "unfinished headers", "broken connections"])
def test_no_attack_stops_others(served, name):
    assert not served.faults(ATTACKS[name], random.Random(0))


def test_an_end_of_the_service_is_seen(served):
    assert served.faults(lambda client, chance: served.process.kill(), random) == ["the service ended with status -9"]
