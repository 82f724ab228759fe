"""Loss of the hybrid by reading some lists, by hand and over an index of the sample in lists."""

import shutil

import numpy as np
import pytest

import rerank_plugin as rp
from experiments import needles
from rerank_plugin.encoding.index_encoder import IndexEncoder
from rerank_plugin.indexes.index_folder import Index
from rerank_plugin.indexes.vector_store_writer import ListsConfig


def ranked(*ids):
    return rp.RankedList(list(ids), np.arange(len(ids), 0, -1, np.float32))


def test_differences_are_counted_by_query():
    """Average precision: query a falls from 1 to 1/2, b rises from 1/2 to 1, c falls from 1 to 0, d stays at 1."""
    judged = {query: {"x": 1} for query in "abcd"}
    exact = {"a": ranked("x", "y"), "b": ranked("y", "x"), "c": ranked("x"), "d": ranked("x")}
    some = {"a": ranked("y", "x"), "b": ranked("x", "y"), "c": ranked("y"), "d": ranked("x")}
    rows = {row[3]: row[4:-1] for row in needles.compared("name", judged, {needles.ALL: exact, "7": some})}
    assert rows["AP"] == ["0.8750", "0.6250", "-0.2500", "2", "1"]
    assert rows["R@1000"] == ["1.0000", "0.7500", "-0.2500", "1", "0"]


@pytest.fixture(scope="module")
def in_lists(sample_index, tmp_path_factory):
    folder = shutil.copytree(sample_index, tmp_path_factory.mktemp("needles") / "index")
    IndexEncoder(Index(folder).forward, "ktrel").encode(lists=ListsConfig(lists=20, probes=2, floor=0.0))
    return folder


def test_the_command_compares_with_all_lists(in_lists, capsys):
    command = ["--index", str(in_lists), "--queries", "sample:test", "--most", "12", "--nprobe", "1", "20"]
    needles.main(command)
    lines = capsys.readouterr().out.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| sample")]
    assert [row[1:4] for row in table] == [["12", lists, name] for lists in ("1", "20") for name in needles.MEASURES]
    one, all_lists = table[:3], table[3:]
    assert all(row[4] == row[5] and row[6:] == ["+0.0000", "0", "0", "1"] for row in all_lists)
    assert any(row[7:9] != ["0", "0"] for row in one), "a search of one list misses documents"
