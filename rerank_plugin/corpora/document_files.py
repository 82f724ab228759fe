"""Files of documents, of a file or a folder, in the format that their names tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rerank_plugin.corpora.problems import Problems
from rerank_plugin.corpora.register import CORPUS, Format, document_formats, of_suffix
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.records import Document
from rerank_plugin.files.text_files import kind_of, with_suffix


def documents(path: Path, problems: Problems, ids_required: bool = True) -> Iterator[Document]:
    """Stream the documents of a file, or of a folder of files in one format."""
    if path.is_dir():
        of_files, files = _of_folder(path)
    else:
        of_files, files = of_suffix(kind_of(path), CORPUS), [path]
        if of_files is None:
            raise InputError(f"{path}: documents are read from {_named()}: rename or convert it")
    return of_files.reader.documents(files, problems, ids_required)


def _of_folder(folder: Path) -> tuple[Format, list[Path]]:
    found = [(one, _files(folder, one)) for one in document_formats()]
    found = [(one, files) for one, files in found if files]
    if not found:
        raise InputError(f"{folder}: no documents in this folder: expected corpus.jsonl[.gz] (BEIR), {_named()}")
    if len(found) > 1:
        both = " and ".join(f"{one.name} ({files[0].name})" for one, files in found[:2])
        raise InputError(f"{folder}: holds both {both}: move one kind elsewhere")
    return found[0]


def _files(folder: Path, of_files: Format) -> list[Path]:
    """The files of one format; below the folder they are ordered by name, as NLM numbers them, and not by folder."""
    found = with_suffix(folder, *of_files.suffixes)
    if found or not of_files.subfolders:
        return found
    below = [
        path for inner in sorted(folder.iterdir()) if inner.is_dir() for path in with_suffix(inner, *of_files.suffixes)
    ]
    return sorted(below, key=lambda path: path.name)


def _named() -> str:
    """The names of files of documents, for messages."""
    return ", ".join(
        f"{' '.join(f'*{suffix}[.gz]' for suffix in one.suffixes)} ({one.name})" for one in document_formats()
    )
