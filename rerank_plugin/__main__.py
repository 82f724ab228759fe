"""The console script ``rerank-plugin``, and ``python -m rerank_plugin``: every command is a sub-command of it."""

from __future__ import annotations

import ast
import sys
import textwrap
from importlib import import_module
from pathlib import Path

from rerank_plugin import __version__
from rerank_plugin import options as commandline

PACKAGE = Path(__file__).parent
PROGRAM = 'if __name__ == "__main__":'  # ends the module of a command


def commands() -> dict[str, Path]:
    """The commands of the package and their files, by name."""
    files = [*PACKAGE.glob("[a-z]*.py"), *PACKAGE.glob("*/__main__.py")]
    found = {path.parent.name if path.stem == "__main__" else path.stem: path for path in files}
    return {name: path for name, path in sorted(found.items()) if PROGRAM in path.read_text(encoding="utf-8")}


def summary(path: Path) -> str:
    """What a command does, from the docstring of its file: the text after its name."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.split("\n\n")[0].partition("``: ")[2].replace("``", "")


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    known = commands()
    if argv[:1] and argv[0] in known:
        path = known[argv[0]].relative_to(PACKAGE).with_suffix("")
        import_module(".".join(["rerank_plugin", *path.parts])).main(argv[1:])
        return
    width = max(map(len, known)) + 4
    rows = [
        textwrap.fill(summary(path), 110, initial_indent=f"  {name:<{width - 2}}", subsequent_indent=" " * width)
        for name, path in known.items()
    ]
    parser = commandline.Parser(
        prog=commandline.called().rstrip(" ."),
        description="Neural re-ranking for Pyserini/Lucene. Each command has a --help of its own.",
        epilog="\n".join(["commands:", *rows]),
        formatter_class=commandline.HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rerank_plugin {__version__}")
    parser.add_argument("command", choices=known, metavar="COMMAND", help="what to do")
    if not argv:
        parser.print_help()
        return
    parser.parse_args(argv)


def console() -> None:
    """The entry point of the console script."""
    commandline.run(main)


if __name__ == "__main__":
    console()
