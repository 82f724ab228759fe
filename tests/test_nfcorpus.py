"""NFCorpus through the commands: BM25 comes out where it is published, by folder and by ir-datasets id alike."""

import json
import shutil

import pytest

from tests.conftest import REAL_DATA
from tests.processes import Commands

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not (REAL_DATA / "nfcorpus").is_dir(), reason="needs ../shared/data/nfcorpus"),
]


def measure(process, corpus, topics):
    """nDCG@10 and AP of BM25's top 500 over the contents."""
    process.line(f"index --corpus {corpus} --index index --overwrite")
    process.line(f"search --index index --queries {topics} --output bm25.run --overwrite")
    return json.loads(process.line(f"evaluate --qrels {topics} bm25.run --measures nDCG@10 AP --format json"))


def test_bm25_is_where_it_is_published(tmp_path):
    """0.3205 nDCG@10 and 0.150 AP (k1 0.9, b 0.4, Porter stems); BEIR publishes 0.32."""
    shutil.copytree(REAL_DATA / "ir_datasets", tmp_path / "ir_datasets")
    with Commands(tmp_path, IR_DATASETS_HOME=str(tmp_path / "ir_datasets")) as process:
        folder = measure(process, REAL_DATA / "nfcorpus", f"{REAL_DATA / 'nfcorpus'}:test")
        by_id = measure(process, "beir/nfcorpus/test", "beir/nfcorpus/test")
    assert folder["queries"] == 323
    values = folder["runs"]["bm25.run"]
    assert values["nDCG@10"] == pytest.approx(0.3205, abs=0.001)
    assert values["AP"] == pytest.approx(0.150, abs=0.001)
    assert by_id == folder
