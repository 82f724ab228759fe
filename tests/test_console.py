"""The commands as sub-commands of one program, and what their messages call them."""

import re

import pytest

from rerank_plugin import __main__ as console
from rerank_plugin import __version__, search
from tests.processes import ROOT, run, status_of
from tests.test_startup import COMMANDS

PROGRAM = "python -m rerank_plugin"


def said(capsys, *argv, status=2):
    """What the program writes that runs in this process and ends with a status."""
    assert status_of(console.main, argv) == status
    return "".join(capsys.readouterr())


@pytest.fixture(params=["/usr/bin/rerank-plugin", str(ROOT / "rerank_plugin" / "__main__.py")])
def name(request, monkeypatch):
    """What a user typed before the name of the command: of the console script, or of the package."""
    monkeypatch.setattr("sys.argv", [request.param])
    return "rerank-plugin" if request.param.endswith("rerank-plugin") else PROGRAM


def test_every_command_is_listed_with_what_it_does(capsys, name):
    text = said(capsys, "--help", status=0)
    listed = re.findall(r"^  ([a-z]+)  +[a-z].{20,}", text.split("\ncommands:\n")[1], re.MULTILINE)
    assert listed == COMMANDS
    assert text.startswith(f"usage: {name} COMMAND")
    assert said(capsys, status=0) == text  # the name alone


def test_the_version(capsys):
    assert said(capsys, "--version", status=0) == f"rerank_plugin {__version__}\n"


@pytest.mark.parametrize(
    "line, fault",
    [
        (
            "serach",
            r"error: argument COMMAND: invalid choice: 'serach' \(.*\); did you mean search\? \(see {name} --help\)\n",
        ),
        ("search --depth x", r"error: argument --depth: invalid int value: 'x' \(see {name} search --help\)\n"),
        ("knowledge compile", r"error: the following .* --source, --output \(see {name} knowledge compile --help\)\n"),
        ("search --index no --query a", r"error: no index at no; build it with: {name} index --corpus C --index no\n"),
    ],
)
def test_errors_are_one_line_and_name_the_command_as_it_was_called(capsys, name, line, fault):
    assert re.fullmatch(fault.format(name=name), said(capsys, *line.split()))


@pytest.mark.parametrize("command", ["search", "knowledge", "embed"])
def test_help_names_the_command_as_it_was_called(capsys, name, command):
    text = said(capsys, command, "--help", status=0)
    assert text.startswith(f"usage: {name} {command} ") and "rerank_plugin." not in text.replace("`", "")


def test_all_texts_name_the_console_script():
    """`commandline.with_program_prefix` puts the name of a module in its place where one was called."""
    old_tables = ROOT / "rerank_plugin" / "benchmark" / "rows.py"
    sources = {*(ROOT / "rerank_plugin").rglob("*.py")} - {old_tables}
    assert not [path for path in sources if re.search(r"python -m rerank_plugin\.[a-z]", path.read_text("utf-8"))]


def test_a_module_still_calls_itself_one():
    assert run("-m", "rerank_plugin.search", status=2).endswith("(see python -m rerank_plugin.search --help)\n")


def test_a_sub_command_does_what_the_module_does(index_folder, capsys):
    line = ["--index", str(index_folder), "--query", "aspirin", "--show", "3"]
    search.main(line)
    assert run("-m", "rerank_plugin", "search", *line) == capsys.readouterr().out
