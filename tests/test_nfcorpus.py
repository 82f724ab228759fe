"""NFCorpus through the commands: BM25 comes out where it is published, by folder and by ir-datasets id alike."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin

PROJECT = Path(rerank_plugin.__file__).parents[1]
DATA = PROJECT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not (DATA / "nfcorpus").is_dir(), reason="needs ../shared/data/nfcorpus"),
]


def command(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "IR_DATASETS_HOME": str(folder / "ir_datasets")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def measure(folder, corpus, topics):
    """nDCG@10 and AP of BM25's top 500 over the contents."""
    command(folder, "rerank_plugin.index", "--corpus", corpus, "--index", "index", "--overwrite")
    command(
        folder, "rerank_plugin.search", "--index", "index", "--queries", topics, "--output", "bm25.run", "--overwrite"
    )
    said = command(
        folder,
        "rerank_plugin.evaluate",
        "--qrels",
        topics,
        "bm25.run",
        "--measures",
        "nDCG@10",
        "AP",
        "--format",
        "json",
    )
    return json.loads(said)


def test_bm25_is_where_it_is_published(tmp_path):
    """0.3205 nDCG@10 and 0.150 AP (k1 0.9, b 0.4, Porter stems); BEIR publishes 0.32."""
    shutil.copytree(DATA / "ir_datasets", tmp_path / "ir_datasets")
    folder = measure(tmp_path, str(DATA / "nfcorpus"), f"{DATA / 'nfcorpus'}:test")
    assert folder["queries"] == 323
    values = folder["runs"]["bm25.run"]
    assert values["nDCG@10"] == pytest.approx(0.3205, abs=0.001)
    assert values["AP"] == pytest.approx(0.150, abs=0.001)
    by_id = measure(tmp_path, "beir/nfcorpus/test", "beir/nfcorpus/test")
    assert by_id == folder
