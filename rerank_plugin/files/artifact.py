"""Folders that are written once: what each kind holds is declared, and how it is read, sealed and verified follows.

An :class:`Artifact` declares a folder's description, a JSON object with types of its entries, and the files beside it.
From the declaration follow

* ``seal``, which writes the description with the size and checksum of each file, and with a checksum of its own;
* ``read``, which reads the description, and ``open``, which also compares the files with it and opens the arrays and
  string tables, after checks of all that a compiled loop relies on;
* ``verify``, which reads every byte;
* whether another command's output may replace the folder (:class:`~rerank_plugin.files.outputs.FolderKind`).

Whatever is wrong is one `InputError`, which names the file and how it is made again. Files are regular files.

Sizes have letters. ``"Q+1 E"`` is the shape of an array, whose letters have the same size everywhere in a folder: one
that the caller gives, a number or the length of a list in the description, or that of the array that names it first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.files.arrays import are_below, are_finite, are_offsets, are_sorted, open_array
from rerank_plugin.files.checksums import SEAL, check_once, describe_file, describe_parts, fault, is_sound, sealed
from rerank_plugin.files.downloads import check_downloaded
from rerank_plugin.files.outputs import TEMPORARY, FolderKind, matches, restore_interrupted
from rerank_plugin.files.regular_files import regular
from rerank_plugin.files.string_table import StringTable

log = logging.getLogger(__name__)

FILES: str = "files"  # entries of every description: of the files, and of the format
FORMAT_VERSION: str = "format_version"
SIZE, FILE_CHECKSUM = "bytes", "blake2b"  # of the entries of a file
DAMAGED = "it is damaged, or not copied completely"


@dataclass(frozen=True)
class Array:
    """An array of an artifact, the file ``NAME.npy``."""

    dtype: Any
    shape: str  # a letter, or a letter and what is added to its size, for each axis
    below: str | None = None  # the size that the values, which are not negative, are below
    offsets: str | None = None  # the size that the values are offsets in, from 0 to it
    increasing: bool = False  # whether no value is below the one before
    finite: bool = False  # whether no value is infinite or NaN
    optional: bool = False  # whether the file may be missing

    def lengths(self, sizes: Mapping[str, int]) -> list[int | None]:
        """The length of each axis; None for one that no other array has."""
        return [_size(term, sizes) for term in self.shape.split()]

    def is_sound(self, values: np.ndarray, sizes: Mapping[str, int]) -> bool:
        """Whether the values are what is declared."""
        return (
            (self.offsets is None or are_offsets(values.ravel(), sizes[self.offsets]))
            and (self.below is None or are_below(values, _size(self.below, sizes) or 0))
            and (not self.increasing or are_sorted(values))
            and (not self.finite or are_finite(values))
        )


class Opened(NamedTuple):
    """An artifact opened for reading; arrays are memory-mapped."""

    folder: Path
    description: dict[str, Any]
    arrays: dict[str, np.ndarray]  # by name, in the order of the declaration
    strings: dict[str, StringTable]
    sizes: dict[str, int]  # by letter


@dataclass(frozen=True)
class Artifact(FolderKind):
    """The declaration of a kind of folder.

    Attributes:
        keys: the entries by which the folder is known, with type hints (:func:`has_type`).
        entries: the others that every description of this version has.
        files: patterns of the files besides arrays and string tables.
        again: how the folder is made again, the end of messages.
        optional: entries that a description may have.
        arrays, strings: by name; of a string table the letter of its number of strings.
        sizes: letters whose size an entry gives, as a number or as the length of a list.
        check: whether arrays that are as declared, and sizes by letter, fit together.
        version: of the format, the entry ``format_version``.
        seal_entry: the entry with the description's own checksum.
        editable: whether users may take that entry out, which is logged; other kinds are refused without it.
        shared: whether users share such folders, so that a download may have left pages or pointers in place of files.
        sampled: whether large files are compared by a sample of their bytes when they are opened.
        apart: patterns of files whose checksums are elsewhere.
    """

    keys: Mapping[str, Any]
    entries: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    listed: str | None = None
    again: str = "make it again"
    optional: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    strings: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Mapping[str, np.ndarray], Mapping[str, int]], bool] | None = None
    version: int | None = None
    seal_entry: str = SEAL
    editable: bool = False
    shared: bool = False
    sampled: bool = False
    apart: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        tables = (f"{name}.{part}.npy" for name in self.strings for part in ("bytes", "offsets", "hashes", "rows"))
        return (*self.files, *(f"{name}.npy" for name in self.arrays), *tables)

    def seal(
        self, folder: Path, description: Mapping[str, Any], files: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Write the description of a folder whose files are written; returns it.

        Args:
            description: JSON values; version, files and checksum are added or replaced.
            files: what `describe` gives for them, if it is known.
        """
        files = self.describe(folder) if files is None else files
        version = {} if self.version is None else {FORMAT_VERSION: self.version}
        written = sealed({**description, **version, FILES: files}, self.seal_entry)
        text = json.dumps(written, indent=1, ensure_ascii=False)
        (folder / self.description).write_text(text, encoding="utf-8")
        return written

    def describe(
        self, folder: Path, names: Iterable[str] | None = None, known: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, dict[str, Any]]:
        """Size and checksum of files of a folder, by default of all that its description lists.

        Args:
            known: those that are not read again.
        """
        names = self.list_files(folder) if names is None else sorted(names)
        return {name: known.get(name) or self._describe(folder / name) for name in names}

    def _describe(self, path: Path) -> dict[str, Any]:
        return describe_file(path) | (describe_parts(path, path.stat().st_size) if self.sampled else {})

    def read(self, folder: str | Path, again: str | Callable[[dict[str, Any]], str] = "") -> dict[str, Any]:
        """The description of a folder, whose files are not looked at.

        Args:
            again: the end of messages, or what gives it for a description.

        Raises:
            InputError: the folder is of another kind, of another version, or its description is damaged.
        """
        folder, end = restore_interrupted(folder), again if callable(again) else lambda _: again or self.again
        path = folder / self.description
        if self.shared:
            check_downloaded(folder)
        if not path.exists():
            there = f"it holds no {self.description}" if folder.is_dir() else "there is no such folder"
            raise InputError(f"{folder} is not {self.name}: {there}; {end({})}")
        description = read_object(path, end({}))
        self._check_entries(path, description, end(description))
        return description

    def _check_entries(self, path: Path, description: dict[str, Any], again: str) -> None:
        """Check version, checksum and types of a description."""
        if self.version is not None and (found := description.get(FORMAT_VERSION)) != self.version:
            raise InputError(
                f"{path.parent} is {self.name} of format {found}, this program reads {self.version}; {again}"
            )
        if self.seal_entry in description and not is_sound(description, self.seal_entry):
            or_use = f", or take out its entry {self.seal_entry!r} to use it as it is" if self.editable else ""
            raise InputError(f"{path} was changed since it was written: {again}{or_use}")
        required = {**self.keys, **self.entries, **({} if self.editable else {FILES: dict[str, dict[str, Any]]})}
        check_entries(path, description, dict.fromkeys(required, Any), again)
        if self.seal_entry not in description:
            if not self.editable:
                raise InputError(f"{path} has no checksum; {again}")
            _warn_unsealed(str(path))
        typed = {FILES: dict[str, dict[str, Any]], **self.optional, **required}
        check_entries(path, description, {name: typed[name] for name in typed if name in description}, again)
        for name, file in description.get(FILES, {}).items():
            if not (has_type(file.get(SIZE), int) and has_type(file.get(FILE_CHECKSUM), str)):
                raise InputError(f"{path} has no size or checksum of {name}; {again}")
        if not self.editable and (lacking := self._needed() - description[FILES].keys()):
            raise InputError(f"{path} does not list {min(lacking)}; {again}")

    def check_files(self, folder: Path, description: Mapping[str, Any], again: str = "") -> None:
        """Compare the files of a folder with its description.

        Raises:
            InputError: names the first file that differs.
        """
        for name, file in description.get(FILES, {}).items():
            if (wrong := fault(folder / name, file, whole=not self.sampled)) is not None:
                raise InputError(
                    f"{folder / name} {wrong}, expected {file[SIZE]} bytes as they were written: {DAMAGED}; "
                    f"{again or self.again}"
                )

    def open(
        self, folder: str | Path, again: str = "", description: dict[str, Any] | None = None, **sizes: int | None
    ) -> Opened:
        """Open a folder: its description, and its arrays and string tables after all checks.

        Args:
            again: the end of messages.
            description: what :meth:`read` gives, if it was read already, or if another file has it.
            sizes: of letters, as far as the caller knows them.

        Raises:
            InputError: as :meth:`read`; or a file differs from its description, or is not as it is declared.
        """
        folder, again = Path(folder), again or self.again
        description = self.read(folder, again) if description is None else description
        self.check_files(folder, description, again)
        known = {letter: size for letter, size in sizes.items() if size is not None}
        try:
            for letter, entry in self.sizes.items():
                size = description[entry] if isinstance(description[entry], int) else len(description[entry])
                if known.setdefault(letter, size) != size:
                    raise ValueError(f"it has {size} {entry}, expected {known[letter]}")
            strings = {}
            for name, letter in self.strings.items():
                strings[name] = StringTable(folder, name, rows=known.get(letter))
                known[letter] = len(strings[name])
            arrays = {}
            for name, array in self.arrays.items():
                path, lengths = folder / f"{name}.npy", array.lengths(known)
                if array.optional and not path.exists():
                    continue
                arrays[name] = open_array(path, dtype=array.dtype, shape=lengths)
                for term, length, found in zip(array.shape.split(), lengths, arrays[name].shape):
                    if length is None:
                        known[term[0]] = found - _added(term)
            paths = [folder / f"{name}.npy" for name in arrays]
            if paths and not check_once(paths, lambda: self._fit(arrays, known), repr(self.arrays), known):
                raise ValueError("its arrays do not fit together")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{folder} cannot be read ({damage(error)}); {again}") from None
        return Opened(folder, description, arrays, strings, known)

    def _fit(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> bool:
        sound = all(self.arrays[name].is_sound(values, sizes) for name, values in arrays.items())
        return sound and (self.check is None or self.check(arrays, sizes))

    def verify(self, folder: Path, again: str = "", **sizes: int | None) -> int:
        """Open a folder and read every byte of it; returns the number of its files.

        Raises:
            InputError: as :meth:`open`; or a file is not listed.
        """
        files = self.open(folder, again, None, **sizes).description.get(FILES, {})
        if others := sorted({*self.list_files(folder, foreign=True)} - files.keys()):
            wrong = f"is not listed in {self.description}: {again or self.again}, or remove it"
            raise InputError(f"{folder / others[0]} {wrong}")
        self.compare(folder, files, again)
        return len(files) + 1

    def compare(self, folder: Path, files: Mapping[str, Mapping[str, Any]], again: str = "") -> None:
        """Read every byte of files; an `InputError` names the first that is not as described."""
        for name, file in sorted(files.items()):
            try:
                found = self._describe(folder / name)
            except OSError as error:
                raise InputError(f"{folder / name} cannot be read ({damage(error)}); {again or self.again}") from None
            if {entry: found.get(entry) for entry in file} != file:
                raise InputError(f"{folder / name} does not match its checksum: {again or self.again}")

    def _needed(self) -> set[str]:
        """The names of the files that the program opens."""
        tables = (f"{name}.{part}.npy" for name in self.strings for part in ("bytes", "offsets"))
        return {*(name for name in self.files if "*" not in name), *(f"{name}.npy" for name in self.arrays), *tables}

    def list_files(self, folder: Path, foreign: bool = False) -> list[str]:
        """The files that a folder has, apart from temporary ones and those with checksums elsewhere, by name.

        Args:
            foreign: with files that this kind of folder does not have.
        """
        names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())
        return [
            name
            for name in names
            if name != self.description
            and not any(map(TEMPORARY.fullmatch, name.split("/")))
            and not any(matches(name, pattern) for pattern in self.apart)
            and (foreign or any(matches(name, pattern) for pattern in self.patterns))
        ]


@cache
def _warn_unsealed(path: str) -> None:
    log.warning("%s has no checksum: changes of it are not noticed", path)


def read_object(path: Path, again: str, keys: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        again: what to do about a file that cannot be read, the end of messages.
        keys: entries that it has, with type hints.

    Raises:
        InputError: the file is not regular or cannot be read, or holds another value, or an entry is of another type.
    """
    try:
        found = json.loads(regular(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({damage(error)}); {again}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} cannot be read (it holds {_short(found)}, expected an object); {again}")
    check_entries(path, found, keys, again)
    return found


def check_entries(path: Path, found: Mapping[str, Any], keys: Mapping[str, Any], again: str) -> None:
    """Check that an object has entries, with type hints; an `InputError` names the first that it lacks."""
    if lacking := [name for name in keys if name not in found]:
        raise InputError(f"{path} lacks {' and '.join(lacking)}; {again}")
    for name, hint in keys.items():
        if not has_type(found[name], hint):
            raise InputError(f"{path}: {name} is {_short(found[name])}, expected {type_name(hint)}; {again}")


def _added(term: str) -> int:
    return int(term[1:] or 0)


def _size(term: str, sizes: Mapping[str, int]) -> int | None:
    return sizes[term[0]] + _added(term) if term[0] in sizes else None


def has_type(value: object, hint: Any) -> bool:
    """Whether a JSON value, in which lists may be tuples, fits a type hint.

    Hints are bool, int, float, str, dict, list and tuple, with or without the types of their values, unions, and Any.
    """
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(has_type(value, option) for option in get_args(hint))
    if (origin := get_origin(hint)) is not None:
        values = value.values() if isinstance(value, dict) else value
        item = get_args(hint)[1 if origin is dict else 0]
        return isinstance(value, origin) and all(has_type(one, item) for one in values)  # type: ignore[attr-defined]
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def type_name(hint: Any) -> str:
    """A type hint in the words of JSON."""
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    words |= {dict: "an object", list: "a list", tuple: "a list", type(None): "null"}
    if isinstance(hint, UnionType):
        return " or ".join(map(type_name, get_args(hint)))
    return words.get(get_origin(hint) or hint, str(hint))


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text:.37}..."
