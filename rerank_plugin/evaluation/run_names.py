"""Runs on the command line of ``evaluate``: names are the paths as given first, however they are written after that."""

from __future__ import annotations

import os

from rerank_plugin.files.errors import InputError


def comparisons(given: list[str], paths: list[str]) -> dict[str, list[str]]:
    """``--against`` as {run: baselines}, under the names of ``paths``."""
    result: dict[str, list[str]] = {}
    for one in given:
        run, equals, baselines = one.partition("=")
        names = [run, *baselines.split(",")]
        if not equals or not all(names):
            raise InputError(f"--against {one}: expected a run, =, and its baselines joined by commas")
        run, *baselines = (as_given(name, paths) for name in names)
        result.setdefault(run, []).extend(baselines)
    return result


def letters_of(given: list[str], paths: list[str]) -> dict[str, str]:
    """``--letters`` as {baseline: letter}, under the names of ``paths``."""
    result: dict[str, str] = {}
    for one in given:
        letter, equals, name = one.partition("=")
        if not letter or not name:
            raise InputError(f"--letters {one}: expected a letter, =, and a baseline; runs come before --letters")
        baseline = as_given(name, paths)
        if baseline in result:
            raise InputError(f"--letters {one}: {baseline} has the letter {result[baseline]} already")
        result[baseline] = letter
    if result:
        from rerank_plugin.evaluation.letters import check

        check(result, paths)
    return result


def as_given(name: str, paths: list[str]) -> str:
    """The same file as it is called in ``paths``, or ``name`` where it is not among them."""
    return next((path for path in paths if os.path.realpath(path) == os.path.realpath(name)), name)


def run_paths(runs: list[str], baseline: str | None) -> tuple[list[str], str | None]:
    """The runs to read, as the user wrote them, and the baseline's name among them; it goes first if it is another."""
    by_file: dict[str, str] = {}
    for path in runs:
        if by_file.setdefault(os.path.realpath(path), path) != path or runs.count(path) > 1:
            raise InputError(f"{path}: is given twice")
    if baseline is None:
        return runs, None
    known = by_file.get(os.path.realpath(baseline))
    return (runs, known) if known else ([baseline, *runs], baseline)
