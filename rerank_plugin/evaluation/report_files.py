"""Recognizes the files that ``evaluate`` writes, so that it replaces nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rerank_plugin.evaluation.measures import parse
from rerank_plugin.files.errors import InputError
from rerank_plugin.files.outputs import FileKind, beginning

FIRST_CELLS = ("", "run", "labels")  # of the header of a table, before its measures
JSON_KEYS = ({"queries", "runs", "reported"}, {"queries", "runs", "measures"}, {"queries", "combinations"})


def _is_report(path: Path) -> bool:
    """Whether a file is one of measures: as JSON by its keys, as a table by a header that names measures."""
    text = beginning(path).decode(errors="replace")
    if text.startswith("{"):
        try:
            found = json.loads(path.read_bytes())
        except ValueError:
            return False
        return any(keys <= found.keys() for keys in JSON_KEYS)
    header, *rest = text.split("\n", 3)
    cells = [cell.strip() for cell in re.split(r"\||,|\s{2,}", header.strip().removeprefix("|").removesuffix("|"))]
    measures = [cell for cell in cells if _is_measure(cell.removesuffix(" change").removesuffix(" improved"))]
    of_pairs = cells[0] == "labels" and {"volume", "pairs"} & {*cells}
    of_subsets = any(line.startswith("| Number of queries |") for line in rest)
    return bool(measures and (cells[0] in FIRST_CELLS or measures == cells) or of_pairs or of_subsets)


def _is_measure(name: str) -> bool:
    try:
        parse(name)
    except InputError:
        return False
    return True


REPORT = FileKind("a table of measures", _is_report)
