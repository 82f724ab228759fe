"""Documentation: the commands of a user's pages run, those of other pages parse, and links resolve.

The shell blocks of a page run as one script in which ``python`` only logs its arguments, so that variables and loops
are expanded as for a reader. Then the command's own parser parses each logged command line.
"""

import argparse
import importlib.util
import re
import shutil
from types import SimpleNamespace

import pytest

import rerank_plugin as rp
from tests.conftest import pyserini_searcher
from tests.pages import Reader
from tests.processes import ROOT, Commands, run

DOCS = ROOT / "docs"
RESULTS = [path for name in ("README.md", "results/*.md") for path in sorted((ROOT / "experiments").glob(name))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")), *RESULTS]
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
# Around the commands of a page: programs that would download, install or change something do nothing.
LOGGING_SHELL = """\
set -euo pipefail
python() {{ printf '%s\\0' "$@" $'\\n' >> {log}; }}  # in one write: a server in the background is beside others
.venv/bin/python() {{ python "$@"; }}
rerank-plugin() {{ python -m "rerank_plugin.$1" "${{@:2}}"; }}
for program in make pip hf curl unzip tar gzip zcat awk hey source .venv/bin/ruff .venv/bin/pre-commit; do
    eval "$program() {{ :; }}"
done
mkdir -p runs data/nfcorpus/qrels
"""
PARTS = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A file of an example: its path, what is remarked on it, and its text.
EXAMPLE_FILE = re.compile(r"^`([\w./-]+)`[^`]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Pages whose commands only parse: they need collections or machines that the tests lack, or another test runs them.
PARSED = {*RESULTS, ROOT / "CONTRIBUTING.md"}
PARSED |= {DOCS / f"{name}.md" for name in ("cluster", "service")}
FOLLOWED = [page for page in (*PAGES, ROOT / "examples" / "first_look.ipynb") if page not in PARSED]


def blocks(page, kind):
    return [code for language, code in PARTS.findall(page.read_text("utf-8")) if language == kind]


def command_lines(page, folder):
    """The arguments of every ``python`` of a page, as the shell passes them."""
    log = folder / "log"
    log.write_text("")
    run("-", program="bash", text=LOGGING_SHELL.format(log=log) + "\n".join(blocks(page, "sh")), folder=folder)
    return [line.split("\0") for line in log.read_text("utf-8").split("\0\n\0") if line]


class ParsedError(Exception):
    """Raised when a command line is parsed, so that the command does not run."""


def parse(arguments, monkeypatch):
    """Let a command parse its arguments.

    Raises:
        ParsedError: the arguments are valid.
    """

    def parse_args(parser, argv=None, namespace=None):
        unknown = parser.parse_known_args(argv, namespace)[1]
        if unknown:
            parser.error(f"unknown: {unknown}")
        raise ParsedError

    name = arguments[1]
    if importlib.util.find_spec(name).submodule_search_locations is not None:
        name += ".__main__"
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    importlib.import_module(name).main(arguments[2:])


@pytest.mark.parametrize("page", sorted(PARSED), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_parses(page, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    for arguments in command_lines(page, tmp_path):
        if arguments[:1] == ["-m"] and arguments[1].startswith(("rerank_plugin.", "experiments")):
            try:
                parse(arguments, monkeypatch)
            except ParsedError:
                continue
            except SystemExit:
                pytest.fail(f"{' '.join(arguments)}\n{capsys.readouterr().err}")
            pytest.fail(f"{' '.join(arguments)}: ran without parsing its arguments")


def test_an_invalid_command_does_not_parse(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        '```sh\nD=a\nfor x in 1 2; do\n    python -m rerank_plugin.fuse $D "b c" \\\n        --kk $x\ndone\n```\n'
    )
    lines = command_lines(page, tmp_path)
    assert lines == [["-m", "rerank_plugin.fuse", "a", "b c", "--kk", number] for number in "12"]
    with pytest.raises(SystemExit):
        parse(lines[0], monkeypatch)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("pages"), without=() if pyserini_searcher() else ("from pyserini",))


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_runs_and_prints_what_it_shows(page, reader):
    reader.follow(page)


@pytest.mark.parametrize(
    "page, fault",
    [
        ("```sh\necho 0.50 a\n```\n\n```text\n0.51 ...\n```\n", None),
        ("```sh\necho 0.50\n```\n\n```text\n0.55\n```\n", "0.55"),
        ("```sh\nrerank-plugin search --hits 3 | cat\n```\n", "--hits"),
        ("```sh\nx=1\n```\n```python\nprint(y)\n```\n", "name 'y'"),
        ("```sh\npip install '.[all,nothing]'\n```\n", "nothing"),
    ],
)
def test_a_page_that_fails_is_seen(page, fault, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(page)
    if fault is None:
        Reader(tmp_path).follow(path)
    else:
        with pytest.raises(AssertionError, match=fault):
            Reader(tmp_path).follow(path)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with the files of CONTRIBUTING's examples, and beside them a copy of the package and its tests."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("rerank_plugin", "tests"):
        shutil.copytree(ROOT / name, folder / name)  # with the compiled kernels
    for name, text in EXAMPLE_FILE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert not path.exists(), name
        path.write_text(text, "utf-8")
    return folder


def test_the_examples_of_contributing_pass_their_tests(examples):
    """And the model those of its weights, which every model has to pass."""
    tests = [path for path in examples.rglob("test_*.py") if not (ROOT / path.relative_to(examples)).exists()]
    assert {path.name for path in tests} >= {"test_mean_match.py", "test_coverage.py"}
    paths = (examples, examples / "my-rerankers")
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", examples)
    names = " or ".join(["mean-match", *(path.stem for path in tests)])
    tests.append(examples / "tests" / "conformance" / "test_weights.py")
    run("-m", "pytest", *options, *tests, "-k", names, folder=examples, paths=paths)


def test_every_file_that_contributing_names_exists(examples):
    """In the repository or the package, unless an example makes it."""
    names = re.findall(r"`([\w/.-]+/[\w./-]*\w\.\w+)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    folders = (ROOT, ROOT / "rerank_plugin", examples)
    missing = {name for name in names if not any((folder / name).exists() for folder in folders)}
    assert len(names) > 40 and missing == {"tests/models/test_NAME.py"}


def test_the_example_of_a_reranker_is_found_by_its_class_and_by_its_entry_point(examples, sample_index):
    source, site = examples / "my-rerankers", examples / "site"
    pip = ["pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    run("-m", *pip, "--no-build-isolation", "--target", site, source)
    with Commands(site, [site, ROOT]) as process:
        assert "query-coverage" in process.run("search", "--list-rerankers").split()
        search = ("search", "--index", sample_index, "--query", "heart attack aspirin", "--reranker")
        lists = [process.run(*search, name) for name in ("my_rerankers.coverage:QueryCoverage", "query-coverage")]
    assert lists[0] == lists[1] and "3.0" in lists[0]


def test_the_pages_list_every_public_name():
    page = (DOCS / "api.md").read_text("utf-8")
    assert not [name for name in rp.__all__ if not re.search(rf"\b{name}\b", page)]
    reference = (DOCS / "reference.md").read_text("utf-8")
    assert sorted(re.findall(r"^::: rerank_plugin\.(\w+)$", reference, re.MULTILINE)) == rp.__all__


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_resolves():
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]:
        for link in LINK.findall(page.read_text("utf-8")):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not link.startswith("http") and not (target.exists() and (not anchor or anchor in anchors(target))):
                broken.append((page.name, link))
    assert not broken


def test_the_reading_order_lists_every_page():
    listed = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "README.md").read_text("utf-8"))}
    assert not {*DOCS.rglob("*.md")} - listed - {DOCS / "README.md"}


@pytest.fixture(scope="module")
def hooks():
    pytest.importorskip("mkdocs", reason="make docs installs it")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page, text, on_the_site",
    [
        (
            "index.md",
            "[a](docs/api.md#search), ![b](docs/models/models.png)",
            "[a](api.md#search), ![b](models/models.png)",
        ),
        ("index.md", '<img src="docs/models/models.png">', '<img src="models/models.png">'),
        ("index.md", "[![a](docs/models/models.png)](LICENSE)", "[![a](models/models.png)](LICENSE.md)"),
        ("models/delta.md", "[a](../../README.md), [b](README.md)", "[a](../index.md), [b](README.md)"),
        (
            "CHANGELOG.md",
            "[pages](docs/README.md), [site](https://a.org/b)",
            "[pages](README.md), [site](https://a.org/b)",
        ),
        ("api.md", r"[tests/test\_docs.py](../tests/test_docs.py)", "`tests/test_docs.py`"),
        ("api.md", "[the tests](../tests), [gone](../gone.md)", "the tests (`tests`), [gone](../gone.md)"),
    ],
)
def test_links_that_leave_the_pages(page, text, on_the_site, hooks):
    assert hooks.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page))) == on_the_site


def test_no_page_of_the_site_fetches_from_another_host(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="api.md"))
    hooks.on_post_page('<a class="b" href="https://a.org"><img src="a.png"></a>', page)
    for fetching in (
        '<img src="https://a.org/b.png">',
        "<link rel=x href=//a.org/b.css>",
        '<script src="http://a.org/b.js">',
    ):
        with pytest.raises(hooks.PluginError, match=r"api\.md fetches .*//a\.org/b"):
            hooks.on_post_page(fetching, page)
