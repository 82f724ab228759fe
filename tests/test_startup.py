"""Start-up is felt on the command line: what each entry imports is watched here, not the clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rerank_plugin

HEAVY = {
    "torch",
    "jnius",
    "pyserini",
    "ir_datasets",
    "ir_measures",
    "gensim",
    "matplotlib",
    "scipy",
    "lxml",
    "safetensors",
    "faiss",
}
COMMANDS = (
    "index",
    "search",
    "train",
    "evaluate",
    "embed",
    "bench",
    "weak",
    "clicks",
    "experiment",
    "fuse",
    "knowledge",
)


def imported(code):
    """Top-level modules in memory after some code ran in a fresh Python."""
    environment = {**os.environ, "PYTHONPATH": str(Path(rerank_plugin.__file__).parents[1])}
    report = (
        "import sys, atexit; atexit.register(lambda: print('\\n' + ' '.join({m.split('.')[0] for m in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", report + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_imports_nothing_heavy():
    assert not imported("import rerank_plugin") & (HEAVY | {"numpy"})


def test_rerankers_need_neither_java_nor_torch_until_one_is_loaded():
    assert not imported("import rerank_plugin.rerankers") & {"torch", "jnius", "pyserini"}


def test_models_features_and_training_need_no_java():
    modules = (
        "models.delta.model rerankers.neural features.lexical_features training.trainer models.checkpoints "
        "indexes.index_folder"
    )
    code = "import " + ", ".join(f"rerank_plugin.{module}" for module in modules.split())
    assert not imported(code) & {"jnius", "pyserini"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_imports_nothing_heavy(command):
    code = (
        f"import sys, runpy; sys.argv = ['{command}', '--help']; "
        f"runpy.run_module('rerank_plugin.{command}', run_name='__main__')"
    )
    assert not imported(code) & HEAVY
