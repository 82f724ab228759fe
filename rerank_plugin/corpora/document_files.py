"""Which reader a file or folder of documents needs, told by its names."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

from rerank_plugin.corpora import jsonl
from rerank_plugin.corpora.problems import Problems
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Document
from rerank_plugin.files.text_files import kind_of, plain_or_gz, with_suffix

JSON_LINES = (".jsonl", ".json", ".ndjson")
XML = (".xml",)


def documents(
    path: Path, problems: Problems, ids_required: bool = True, split: str | None = None
) -> Iterator[Document]:
    """Stream the documents of a file, of a BEIR folder, or of a folder of PubMed XML or JSON lines files.

    The splits of a BEIR folder share its documents.
    """
    corpus = plain_or_gz(path / "corpus.jsonl")
    if corpus is not None:
        return jsonl.documents([corpus], problems, ids_required)
    if split is not None:
        raise InputError(f"{path}:{split}: only a BEIR folder has splits, and there is no corpus.jsonl[.gz] in {path}")
    json_lines, xml = _files(path)
    if xml and json_lines:
        raise InputError(
            f"{path}: holds both XML ({xml[0].name}) and JSON lines ({json_lines[0].name}): move one kind elsewhere"
        )
    if json_lines:
        return jsonl.documents(json_lines, problems, ids_required)
    if xml:
        from rerank_plugin.corpora import pubmed_xml

        return pubmed_xml.documents(xml, problems, ids_required)
    wanted = "corpus.jsonl[.gz] (a BEIR folder), *.xml[.gz] (PubMed) or *.jsonl[.gz]"
    if path.is_dir():
        raise InputError(f"{path}: no documents in this folder: expected {wanted}")
    raise InputError(f"{path}: documents are read from *.xml[.gz] (PubMed) and *.jsonl[.gz]: rename or convert it")


def _files(path: Path) -> tuple[list[Path], list[Path]]:
    if path.is_dir():
        # NLM's own tree has the folders baseline and updatefiles, numbered through: order by name, not by folder.
        below = [file for folder in sorted(path.iterdir()) if folder.is_dir() for file in with_suffix(folder, *XML)]
        return with_suffix(path, *JSON_LINES), with_suffix(path, *XML) or sorted(below, key=lambda file: file.name)
    return [path] * (kind_of(path) in JSON_LINES), [path] * (kind_of(path) in XML)
