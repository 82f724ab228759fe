"""Start-up is felt on the command line: what each entry imports is watched here, not the clock."""

import json

import pytest

from tests.processes import ROOT, run

HEAVY = set("torch jnius pyserini ir_datasets ir_measures gensim matplotlib scipy lxml safetensors faiss".split())
COMMANDS = sorted(
    {path.stem for path in (ROOT / "rerank_plugin").glob("[a-z]*.py") if path.stem != "options"}
    | {path.parent.name for path in (ROOT / "rerank_plugin").glob("*/__main__.py")}
)


def imported(code):
    """The top-level modules in memory after some code ran in a fresh Python."""
    report = "\nimport json, sys; print('\\n' + json.dumps([name.split('.')[0] for name in sys.modules]))"
    return set(json.loads(run("-c", code + report).splitlines()[-1]))


@pytest.mark.parametrize(
    "modules, too_much",
    [
        (("rerank_plugin", "rerank_plugin.corpora", "rerank_plugin.sample.generator"), HEAVY | {"numpy"}),
        (("rerank_plugin.rerankers",), {"torch", "jnius", "pyserini"}),
        (("rerank_plugin.rerankers.neural", "rerank_plugin.models.delta.fused"), {"torch", "jnius", "pyserini"}),
        (
            (
                "rerank_plugin.models.delta.model",
                "rerank_plugin.models.checkpoints",
                "rerank_plugin.features.lexical_features",
                "rerank_plugin.training.trainer",
                "rerank_plugin.indexes.index_folder",
            ),
            {"jnius", "pyserini"},
        ),
    ],
)
def test_modules_import_nothing_that_they_do_not_need(modules, too_much):
    assert not imported("import " + ", ".join(modules)) & too_much


def test_a_query_with_delta_needs_no_torch(index_folder):
    line = ["--index", str(index_folder), "--query", "aspirin", "--reranker", "delta"]
    found = imported(f"from rerank_plugin.search import main; main({line!r})")
    assert "jnius" in found and not {"torch", "pyserini", "openai"} & found


def test_help_imports_nothing_heavy():
    """All commands in one process, each blamed for what is in memory after it and was not before."""
    assert {"index", "search", "knowledge"} <= set(COMMANDS)
    code = f"""if True:
        import contextlib, io, json, runpy, sys
        heavy, blamed = {sorted(HEAVY)}, {{}}
        for command in {COMMANDS}:
            sys.argv = [command, "--help"]
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
                runpy.run_module("rerank_plugin." + command, run_name="__main__")
            found = [name for name in heavy if name in sys.modules]
            if found or not said.getvalue().startswith(("usage:", "error:")):
                blamed[command] = found
            heavy = [name for name in heavy if name not in found]
        print(json.dumps(blamed))
    """
    assert json.loads(run("-c", code)) == {}
