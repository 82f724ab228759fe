"""Java that runs before Ray: both in one process."""

import pytest

from tests.processes import run

PROGRAM = """
from rerank_plugin.java.jvm import java_class, start_jvm
start_jvm()
random = java_class("java.util.Random")
from rerank_plugin.cluster.connection import connect, disconnect
connect("local")
for _ in range(20):  # compiled loops in several threads, which the garbage collector stops
    random().ints(4_000_000).parallel().sorted().sum()
    disconnect()
print("alive")
"""


def test_java_goes_on_after_ray_is_connected(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    assert "alive" in run("-c", PROGRAM, folder=tmp_path, RAY_AUTH_MODE="disabled")
