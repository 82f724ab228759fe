"""Start-up is felt on the command line: what each entry imports is watched here, not the clock."""

import ast
import json
import re
import sys
from configparser import ConfigParser
from importlib.metadata import packages_distributions

import pytest

from rerank_plugin.base.extras import EXTRA_OF
from tests.processes import ROOT, run

HEAVY = set("torch jnius pyserini ir_datasets ir_measures gensim matplotlib scipy lxml safetensors ot".split())
# What comes with a library of its extra.
BROUGHT = {"starlette", "pydantic", "pandas"}
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
        (("rerank_plugin.rerankers.neural", "rerank_plugin.models.delta.fast"), {"torch", "jnius", "pyserini"}),
        (
            (
                "rerank_plugin.models.delta.model",
                "rerank_plugin.models.checkpoint",
                "rerank_plugin.inputs.lexical_features",
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
    modules = imported(f"from rerank_plugin.search import main; main({line!r})")
    assert "jnius" in modules and not {"torch", "pyserini", "openai"} & modules


def test_delta_re_ranks_texts_where_no_extra_is_installed():
    code = f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({sorted(EXTRA_OF)}, None))
        from rerank_plugin import *
        texts = ["Aspirin tablets are white.", "Low-dose aspirin prevents a second myocardial infarction."]
        print([one.index for one in Reranker.load("delta").rerank("aspirin after a heart attack", texts)])
    """
    assert run("-c", code) == "[1, 0]\n"


def setup():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def packages(requirements):
    """The packages that requirements name, those of our own extras included."""
    names = set()
    for line in filter(None, requirements.splitlines()):
        if extra := re.fullmatch(r"rerank_plugin\[(.+)\]", line):
            extras = setup()["options.extras_require"]
            names.update(*(packages(extras[name]) for name in extra[1].split(", ")))
        else:
            names.add(re.match(r"[\w-]+", line)[0].replace("_", "-"))
    return names


def test_every_library_is_of_the_base_or_of_an_extra_that_installs_it():
    trees = (ast.parse(path.read_text("utf-8")) for path in (ROOT / "rerank_plugin").rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    imported = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"rerank_plugin"}
    base = packages(setup()["options"]["install_requires"])
    assert imported - EXTRA_OF.keys() == base | {"llvmlite"}  # numba's own
    pytest.importorskip("ot")  # without what the extras install, nothing tells which packages give their modules
    extras, known = setup()["options.extras_require"], packages_distributions()
    of_package = {module: {one.replace("_", "-") for one in [module, *known.get(module, [])]} for module in EXTRA_OF}
    assert {
        module for module, extra in EXTRA_OF.items() if of_package[module].isdisjoint(packages(extras[extra]))
    } == BROUGHT


def test_every_extra_is_in_the_table_of_the_page():
    page = (ROOT / "docs" / "installing.md").read_text("utf-8")
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall("[a-z-]+", row)} == set(setup()["options.extras_require"])


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
