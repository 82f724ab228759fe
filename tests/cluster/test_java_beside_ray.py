"""A cluster that a command starts: Java runs before Ray in one process, and only this machine reaches it."""

import pytest

from tests.processes import run

PROGRAM = """
from rerank_plugin.java.jvm import java_class, start_jvm
start_jvm()
random = java_class("java.util.Random")
from rerank_plugin.cluster.connection import connect, disconnect
connect("local")
import psutil, ray
ray.get(ray.remote(num_cpus=0)(lambda: None).remote())
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
listening = {end.laddr.ip for one in processes for end in one.net_connections("inet") if end.status == "LISTEN"}
assert listening == {"127.0.0.1", "::ffff:127.0.0.1"}, listening
for _ in range(5):  # compiled loops in several threads, which the garbage collector stops
    random().ints(1_000_000).parallel().sorted().sum()
    disconnect()
print("alive")
"""


def test_java_goes_on_beside_ray_which_listens_at_the_loopback_address_only(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    assert "alive" in run("-c", PROGRAM, folder=tmp_path, RAY_AUTH_MODE="disabled")
