"""The folder of a mirror, in the layout of the distribution: whole files, their MD5, and what the server said of them.

=========================  =======================================================================================
``mirror.json``            the server, when it was asked last, and of each file its MD5, its size, the line of the
                           server's list, and the files that the server had
``baseline/``, ``updatefiles/``  ``NAME.xml.gz`` and ``NAME.xml.gz.md5``; ``NAME.xml.gz.part`` of a file that is being
                           fetched
=========================  =======================================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError, damage
from rerank_plugin.files.outputs import INNER, locked, replacing, writing_to
from rerank_plugin.pubmed.distribution import FOLDERS, MD5, SourceFile, md5_of

STATE, MIRROR_FORMAT = "mirror.json", 1
PART = ".part"
BLOCK = 1 << 20  # bytes that are read at once


class Mirror:
    """A folder with files of the distribution; it need not exist before something is written.

    Attributes:
        state: the content of ``mirror.json``.

    Raises:
        InputError: ``mirror.json`` cannot be read, or is of a newer program.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.read()

    def read(self) -> None:
        """Read ``mirror.json``."""
        self.state: dict[str, Any] = {
            "version": MIRROR_FORMAT,
            "base_url": None,
            "asked": None,
            "files": {},
            "listed": [],
        }
        path = self.folder / STATE
        try:
            state = json.loads(path.read_bytes())
            if (
                not isinstance(state, dict)
                or state.get("version") != MIRROR_FORMAT
                or not self.state.keys() <= state.keys()
            ):
                raise InputError(f"{path} is of another version of this program: move it away, and sync again")
            self.state = state
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({damage(error)}): delete it, and sync again") from None

    def path(self, file: SourceFile, suffix: str = "") -> Path:
        return self.folder / f"{file.path}{suffix}"

    def files(self, suffix: str = "") -> list[SourceFile]:
        """The whole files, in the order in which they are applied; or those of which there is one with this suffix."""
        paths = (path for folder in FOLDERS for path in (self.folder / folder).glob(f"*.xml.gz{suffix}"))
        names = ((path.name.removesuffix(suffix), path.parent.name) for path in paths)
        return sorted(file for name in names if (file := SourceFile.named(*name)))

    def listed(self) -> list[SourceFile]:
        """The files that the server had when it was asked last."""
        paths = (Path(path) for path in self.state["listed"])
        files = (SourceFile.named(path.name, path.parent.name) for path in paths)
        return sorted(file for file in files if file is not None)

    def holds(self, file: SourceFile, listed: str) -> bool:
        """Whether a file is here as it was verified, and the server's list says the same of it as then."""
        known = self.state["files"].get(file.path)
        try:
            return bool(known) and known["listed"] == listed and self.path(file).stat().st_size == known["bytes"]
        except OSError:
            return False

    def md5(self, file: SourceFile) -> str | None:
        """The MD5 beside a file, which the file need not have; None without one.

        Raises:
            InputError: it is of another form, or of another file.
        """
        try:
            return md5_of(self.path(file, MD5).read_text("utf-8", "replace"), file)
        except FileNotFoundError:
            return None

    def check(self, file: SourceFile) -> None:
        """Read a file and compare it with its MD5.

        Raises:
            InputError: it is damaged, or has no MD5.
        """
        path = self.path(file)
        try:
            expected = md5_of(self.path(file, MD5).read_text("utf-8", "replace"), file)
            if file_md5(path) == expected:
                return
        except OSError as error:
            raise InputError(f"{path}{MD5} cannot be read ({damage(error)}): delete both, and sync again") from None
        raise InputError(f"{path} is damaged (its MD5 is not {expected}): delete it, and sync again")

    def put(self, file: SourceFile, part: Path, md5: str, listed: str) -> None:
        """Give a verified file its name, beside its MD5."""
        with replacing(self.path(file, MD5), INNER, overwrite=True) as written:
            written.write(f"MD5({file.name})= {md5}\n".encode())
        with writing_to(part):
            os.replace(part, self.path(file))
        self.state["files"][file.path] = {"md5": md5, "bytes": self.path(file).stat().st_size, "listed": listed}
        self.write()

    def remove(self, file: SourceFile) -> None:
        """Remove a file that a newer baseline replaces; it goes last, so that what a kill has left is found again."""
        if self.state["files"].pop(file.path, None) is not None:
            self.write()
        for suffix in (PART, MD5, ""):
            self.path(file, suffix).unlink(missing_ok=True)

    def remove_begun(self, kept: Container[SourceFile]) -> None:
        """Remove what a killed run has left of files that are not here; but not of those to keep."""
        whole = self.files()
        for suffix in (PART, MD5):
            for file in self.files(suffix):
                if file not in kept and file not in whole:
                    self.path(file, suffix).unlink()

    def write(self) -> None:
        """Write ``mirror.json``."""
        with replacing(self.folder / STATE, INNER, overwrite=True) as file:
            file.write(json.dumps(self.state, indent=1).encode())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write in the mirror, by this process alone.

        Raises:
            InputError: it cannot be written, or another process writes in it.
        """
        with writing_to(self.folder):
            for folder in FOLDERS:
                (self.folder / folder).mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            self.read()  # as the process before has left it
            yield


def file_md5(path: Path) -> str:
    """The MD5 of a file, 32 digits."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while data := file.read(BLOCK):
            digest.update(data)
    return digest.hexdigest()
