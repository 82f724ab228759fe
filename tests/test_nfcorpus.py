"""NFCorpus through the commands: BM25 comes out where it is published, by folder and by ir-datasets id alike."""

import json
import shutil

import pytest

from tests.conftest import REAL_DATA
from tests.test_commands import command

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not (REAL_DATA / "nfcorpus").is_dir(), reason="needs ../shared/data/nfcorpus"),
]


def measure(folder, corpus, topics):
    """nDCG@10 and AP of BM25's top 500 over the contents."""
    for line in (
        f"index --corpus {corpus} --index index --overwrite",
        f"search --index index --queries {topics} --output bm25.run --overwrite",
        f"evaluate --qrels {topics} bm25.run --measures nDCG@10 AP --format json",
    ):
        said = command(folder, line, IR_DATASETS_HOME=str(folder / "ir_datasets"))
    return json.loads(said)


def test_bm25_is_where_it_is_published(tmp_path):
    """0.3205 nDCG@10 and 0.150 AP (k1 0.9, b 0.4, Porter stems); BEIR publishes 0.32."""
    shutil.copytree(REAL_DATA / "ir_datasets", tmp_path / "ir_datasets")
    folder = measure(tmp_path, REAL_DATA / "nfcorpus", f"{REAL_DATA / 'nfcorpus'}:test")
    assert folder["queries"] == 323
    values = folder["runs"]["bm25.run"]
    assert values["nDCG@10"] == pytest.approx(0.3205, abs=0.001)
    assert values["AP"] == pytest.approx(0.150, abs=0.001)
    by_id = measure(tmp_path, "beir/nfcorpus/test", "beir/nfcorpus/test")
    assert by_id == folder
