"""Opens a vocabulary by its name; file names and first bytes decide the format."""

from __future__ import annotations

import re
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.files.text_files import beginning, is_input, kind_of, lines, plain_or_gz
from rerank_plugin.knowledge.entries import Source

SAMPLE = "sample"
EXPECTED = (
    "expected MeSH XML (desc2024.xml), MeSH ASCII (d2024.bin), a folder with descriptors.tsv, "
    f"a UMLS folder with MRCONSO.RRF, or {SAMPLE}"
)


def open_source(spec: str, language: str = "ENG") -> Source:
    """The vocabulary that ``spec`` names: a file, a folder, or ``sample`` (a folder of this name is ``./sample``).

    Args:
        language: the language of the names to read from UMLS, as its abbreviation there; other sources have one.

    Raises:
        InputError: the source does not exist, or its format is unknown.
    """
    from rerank_plugin.knowledge import mesh, sample_source, umls

    path = Path(spec)
    if spec == SAMPLE:
        return sample_source.source()
    if path.is_dir():
        if plain_or_gz(path / umls.NAMES):
            return umls.source(path, language)
        if plain_or_gz(path / mesh.DESCRIPTORS):
            return mesh.tsv_source(path)
        if plain_or_gz(path / "META" / umls.NAMES):
            raise InputError(f"{path}: the files are in the subfolder META; give {path / 'META'}")
        raise InputError(f"{path}: a folder without {umls.NAMES} or {mesh.DESCRIPTORS}; {EXPECTED}")
    if not is_input(path):
        raise InputError(f"{spec}: no such file or folder; {EXPECTED}")
    if kind_of(path) in (".rrf", ".tsv"):
        raise InputError(f"{path}: give the folder of the file: {path.parent}")
    head = beginning(path).lstrip()
    if head.startswith(mesh.BEGIN.encode()):
        return mesh.ascii_source(path)
    if head.startswith(b"<") or kind_of(path) == ".xml":
        return mesh.xml_source(path)
    next(lines(path), None)  # an error names the damage of a damaged file
    raise InputError(f"{path}: unknown format; {EXPECTED}")


def edition_of(spec: str) -> str:
    """The edition in a path, as 2024 in desc2024.xml or 2023AB in umls/2023AB/META; "" for none."""
    editions = re.findall(r"(?<!\d)((?:19|20)\d\d(?:A[AB])?)(?!\d)", spec)
    return editions[-1] if editions else ""
