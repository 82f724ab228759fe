"""MkDocs hooks: pages of the repository's root join those of docs/, in the order that docs/README.md lists all of them.

A link to any other file of the repository becomes its path as code, since no such file is on the site. A page that
fetches something from another host when it is read fails the build.
"""

import re
from pathlib import Path
from posixpath import dirname, relpath

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pymdownx.slugs import slugify

DOCS = Path(__file__).resolve().parent
PAGES = {"index.md": "README.md", "LICENSE.md": "LICENSE", "CITATION.md": "CITATION.cff"}
PAGES |= {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
FILES = {uri: DOCS.parent / name for uri, name in PAGES.items()}
LINK = re.compile(r"(\[[^\[\]]*)?\]\(([^()\s#]+)(#[^()\s]*)?\)")  # without its text where that is a picture
SOURCE = re.compile(r"\b(src|srcset|href)=\"([^\"#]+)\"")
FETCHED = re.compile(r"<(?!a\b)\w+\b[^>]*\b(?:src|srcset|href)=[\"']?((?:https?:)?//[^\s\"'>]+)")


def on_config(config):
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")  # anchors as GitHub makes them
    _, *sections = re.split(r"^## (.+)$", (DOCS / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    lists = [[{text[1:]: _uri(DOCS / link)} for text, link, _ in LINK.findall(part)] for part in sections[1::2]]
    sections = [{title: pages} for title, pages in zip(sections[::2], lists) if pages]
    config.nav = [{"Home": "index.md"}, *sections, {"All pages": "README.md"}]


def on_files(files, config):
    files.remove(files.get_file_from_path("README.md"))  # the root's README.md is the home page in its place
    files.append(File("README.md", config.docs_dir, config.site_dir, False, dest_uri="pages.html"))
    for uri, path in FILES.items():
        text = path.read_text("utf-8")
        content = text if path.suffix == ".md" else f"# {path.stem.capitalize()}\n\n```text\n{text}```\n"
        files.append(File.generated(config, uri, content=content))


def on_page_markdown(markdown, page, **_):
    uri = page.file.src_uri
    folder = FILES.get(uri, DOCS / uri).parent

    def moved(link):
        found = (folder / link).exists() and _uri(folder / link)
        return found and relpath(found, dirname(uri) or ".")

    def rewritten(match):
        text, link, anchor = match.groups(default="")
        if target := moved(link):
            return f"{text}]({target}{anchor})"
        if text and (folder / link).exists():
            path, text = (folder / link).resolve().relative_to(DOCS.parent).as_posix(), text[1:].replace("\\", "")
            return f"`{path}`" if path.endswith(text) else f"{text} (`{path}`)"
        return match[0]

    markdown = SOURCE.sub(lambda match: f'{match[1]}="{moved(match[2]) or match[2]}"', markdown)
    return LINK.sub(rewritten, markdown)


def on_post_page(output, page, **_):
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} fetches {found[1]}: keep such files in docs/")


def _uri(path):
    """The name of a file among MkDocs' sources; None if it is not one."""
    path = path.resolve()
    of_docs = path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else None
    return {file: uri for uri, file in FILES.items()}.get(path, of_docs)
