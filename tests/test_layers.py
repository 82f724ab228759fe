"""Folders depend downward only (.importlinter), modules on no circle, and what a string names is there."""

import ast
import re
from configparser import ConfigParser
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import rerank_plugin
from tests.processes import ROOT, run

PACKAGE = ROOT / "rerank_plugin"
CONTRACTS = ROOT / ".importlinter"
NAMED = re.compile(r"(?<![\w./@-])rerank_plugin(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)*")
FLAG = re.compile(r"(?<![\w-])--[a-z]")
# A whole command to run; an option of Java.
COMMAND_LINE = re.compile(r"rerank-plugin [a-z]|^hf download |(?:with: |^)\{\} --|=ALL-UNNAMED$")
# Groups of entry points that are not called like a module.
GROUPS = {"rerank_plugin.first_stages", "rerank_plugin.formats", "rerank_plugin.openers"}
# Modules with a register, which may name what stands above them: the group of entry points, and the folder of openers.
REGISTERS = {"rerank_plugin.models.register", "rerank_plugin.indexes.locations"}


def layers() -> list[set[str]]:
    """The modules and folders of each layer, from the top."""
    config = ConfigParser()
    config.read(CONTRACTS)
    lines = config["importlinter:contract:layers"]["layers"].strip().splitlines()
    return [{name.strip() for name in line.split("|")} for line in lines]


def commands() -> set[str]:
    folders = {name for name in layers()[0] if (PACKAGE / f"{name}.py").exists()}
    assert folders == layers()[0]
    return {f"rerank_plugin.{name}" for name in layers()[0]} | {
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PACKAGE.rglob("__main__.py")
    }


def height(module: str) -> int:
    """The number of a module's layer, counted from the top; the package itself stands above all."""
    parts = module.split(".")
    return next((number for number, layer in enumerate(layers()) if parts[1:2] and parts[1] in layer), -1)


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("rerank_plugin", cache_dir=None)


def test_the_contracts_hold():
    """In a process of its own: the linter sets up logging anew, and would take pytest's away."""
    code = (
        "import sys; from importlinter import cli; "
        "sys.exit(cli.lint_imports(config_filename=sys.argv[1], no_cache=True))"
    )
    run("-c", code, CONTRACTS)


def test_every_module_is_of_the_core_or_of_a_satellite(graph):
    config = ConfigParser()
    config.read(CONTRACTS)
    core = config["importlinter:contract:core"]
    named = {name for key in ("source_modules", "forbidden_modules") for name in core[key].split()}
    assert not [name for name in named if name not in graph.modules]
    folders = {"rerank_plugin", "rerank_plugin.__main__", "rerank_plugin.models", "rerank_plugin.rerankers"}
    parents = {module: {module.rsplit(".", n)[0] for n in range(module.count("."))} for module in graph.modules}
    assert not [module for module, above in parents.items() if not named & above and module not in folders]


def test_no_modules_import_each_other_in_a_circle(graph):
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises a CycleError that names the circle


def test_the_package_knows_nothing_outside_the_wheel():
    outside = re.compile(r"^\s*(?:from|import) +(?:experiments|tests)\b", re.MULTILINE)
    assert not [module for module, path in sources() if outside.search(path.read_text("utf-8"))]


def test_nothing_imports_a_command(graph):
    importers = {command: graph.find_modules_that_directly_import(command) for command in commands()}
    assert not {command: found for command, found in importers.items() if found}


def sources():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def strings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def split_name(name: str) -> tuple[str, list[str]]:
    """The longest module that a dotted name begins with, and the names that follow."""
    dotted, *objects = name.split(":")
    parts = dotted.split(".")
    end = len(parts)
    while end > 1 and not module_file(".".join(parts[:end])):
        end -= 1
    return ".".join(parts[:end]), [*parts[end:], *objects]


def module_file(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def defined(path: Path) -> set[str]:
    """The names at the top of a module, imported ones included."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
    return found


def resolves(name: str) -> bool:
    """Whether a string names a module, something in a module, or several things of one: ``package.module:One:Two``."""
    if name in GROUPS:
        return True
    module, objects = split_name(name)
    if not objects:
        return module != "rerank_plugin"
    wanted = objects if ":" in name else objects[:1]  # of a.module.Class.method the class is looked for
    if module == "rerank_plugin":
        return set(wanted) <= set(rerank_plugin.__all__)
    return set(wanted) <= defined(module_file(module))


def test_what_strings_and_the_documentation_name_is_there():
    texts = [(module, text) for module, path in sources() for text in strings(path)]
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts += [(page.name, page.read_text("utf-8")) for page in pages]
    assert not [(where, name) for where, text in texts for name in NAMED.findall(text) if not resolves(name)]


def test_strings_that_load_a_module_name_nothing_above_them():
    upward = [
        (module, text)
        for module, path in sources()
        if module not in REGISTERS
        for text in strings(path)
        if NAMED.fullmatch(text) and text not in GROUPS and height(split_name(text)[0]) < height(module)
    ]
    assert not upward


def messages(path: Path) -> list[str]:
    """The strings of a module that are no docstrings, with {} for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out.update(map(id, node.values))
            found.append("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values))
    return found + [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out
    ]


def test_libraries_speak_of_fields_and_not_of_flags():
    library = [(module, path) for module, path in sources() if module not in commands() | {"rerank_plugin.options"}]
    said = [
        (module, text)
        for module, path in library
        for text in messages(path)
        if FLAG.search(text) and not COMMAND_LINE.search(text)
    ]
    assert not said


@pytest.mark.parametrize(
    "name, there",
    [
        ("rerank_plugin.models.delta.model:Delta:DeltaConfig", True),
        ("rerank_plugin.models.delta.model:Delta:Gone", False),
        ("rerank_plugin.indexes.index_folder.Index.first_stage", True),
        ("rerank_plugin.nowhere", False),
        ("rerank_plugin.files.gone", False),
    ],
)
def test_what_resolves(name, there):
    assert resolves(name) is there
