"""The exception for invalid user input, the message for unknown names, and the line for every other exception.

Errors of the system, of memory and of Java have causes outside this program: the line names the file and the cure.
Anything else is a fault of this program, and the line says where to report it.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class InputError(ValueError):
    """Invalid user input: a file, an id or an option.

    The message is one line with the problem, the place (file:line or id) and the remedy. Commands print it to stderr
    and exit with status 2; library callers catch it as a ``ValueError``.
    """


class UnavailableError(InputError):
    """A part of what is searched does not answer at present; trying again may help.

    Attributes:
        shards: the numbers of the shards that do not answer.
    """

    def __init__(self, message: str, shards: Iterable[int] = ()):
        super().__init__(message)
        self.shards = frozenset(shards)


class SystemFailure(InputError, OSError):
    """An error of the system, such as too many open files or no permission: the file itself may be sound.

    Attributes:
        errno: the number of the error.
    """

    def __init__(self, message: str, number: int | None = None):
        super().__init__(message)
        self.errno = number


def one_line(error: BaseException) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())


def kind_and_message(error: BaseException) -> str:
    """The kind and the message of an error, on one line; its ``repr`` may hold the whole content of a file."""
    return f"{type(error).__name__}: {one_line(error)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to ``name``; None if none is close."""
    return next(iter(get_close_matches(name, list(known), 1)), None)


def unknown(kind: str, name: str, names: Iterable[str], *forms: str) -> str:
    """The message for an unknown name: the closest of ``names``, and all valid names, ``forms`` (patterns) included."""
    known, prefix = list(names), name.partition(":")[0]
    near = nearest(prefix, (known_name.partition(":")[0] for known_name in known))
    hint = f": did you mean '{near}'? Known" if near and near != prefix else "; known"
    return f"unknown {kind} '{name}'{hint}: {', '.join([*known, *forms])}"


PACKAGE = Path(__file__).parents[1]
CURES = {
    errno.ENOSPC: "free space, or choose another place",
    errno.EDQUOT: "free space, or choose another place",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or choose another place",
    errno.ENAMETOOLONG: "names of files have at most 255 bytes: shorten it",
    errno.EACCES: "check its permissions, or choose another place",
    errno.EPERM: "check its permissions, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "name a file",
    errno.ELOOP: "check its symbolic links",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "free memory, or give less at once",
    errno.EBADF: "redirect it to a file, or to /dev/null",
    errno.EIO: "check the disk",
    errno.ESTALE: "the file system was changed meanwhile: start again",
    errno.EADDRINUSE: "choose another port",
}
# What the system says of a file that is missing, or is no file: it was not copied, or is damaged.
DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV}
MEMORY = "memory is exhausted: free memory, or give less at once (a lower depth, batch size or number of threads)"
# Beginnings and parts of messages of libraries that have no class of their own for an exhausted machine.
EXHAUSTED = ("can't allocate memory", "not enough memory", "out of memory", "std::bad_alloc", "can't start new thread")
JAVA_CURES = {
    "OutOfMemoryError": "give Java more memory, as with RERANK_PLUGIN_JVM_OPTIONS=-Xmx8g",
    "TooManyClauses": "shorten the query",
    "TooManyNestedClauses": "shorten the query",
    "InvalidPathException": "rename the file, or set LC_ALL=C.UTF-8",
}
JAVA_CURE = "the Lucene index may be damaged: check it with rerank-plugin index --verify, and build it again"
FAULT = "this is a fault of rerank_plugin"  # the beginning of a line about one
LONGEST = 300  # characters of another program's message


def describe_error(error: BaseException) -> str:
    """One line about an exception: the problem, the file or the place in this program, and the cure."""
    if isinstance(error, InputError):
        return one_line(error)
    if _is_java(error):
        return str(system_failure(error) or _of_java(error))
    if isinstance(error, OSError) and error.errno is not None:
        return _of_system(error)
    if isinstance(error, MemoryError) or any(part in str(error).lower() for part in EXHAUSTED):
        return f"{_at_file(error)}{MEMORY}"
    if isinstance(error, RecursionError):
        return f"{_at_file(error)}brackets or tags are nested too deeply to be read: check the file"
    return _fault(error)


def damage(error: BaseException) -> str:
    """What an exception says of a file that could not be read, for a message with the command that makes it again.

    Raises:
        SystemFailure: the exception is the system's, as too many open files or no permission, which says nothing of the
            file and which no command mends.
    """
    if (failure := system_failure(error)) is not None:
        raise failure from None
    message = one_line(error)
    return message if message and isinstance(error, (OSError, ValueError)) else kind_and_message(error)


def system_failure(error: BaseException) -> SystemFailure | None:
    """An error of the system as one line with its cure; None for a missing or damaged file, and for any other."""
    if isinstance(error, SystemFailure):
        return error
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (isinstance(error, OSError) or _is_java(error)):  # libraries only quote the system
        message = str(error).replace("AccessDeniedException", os.strerror(errno.EACCES))
        number = next((number for number in CURES if os.strerror(number) in message), None)
    if number is None or number in DAMAGE:
        return None
    if isinstance(error, OSError) and error.errno is not None:
        return SystemFailure(_of_system(error), number)
    lines = [line.strip() for line in message.splitlines()]
    message = next((line for line in lines if os.strerror(number) in line), lines[0])  # of Java's, the cause
    return SystemFailure(f"{message:.{LONGEST}}: {CURES[number]}", number)


def _is_java(error: BaseException) -> bool:
    java = sys.modules.get("jnius")
    return java is not None and isinstance(error, java.JavaException)


def _of_system(error: OSError) -> str:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    place = f"{' and '.join(names)}: " if names else _at_file(error)
    cure = CURES.get(error.errno or 0)
    return f"{place}{error.strerror or error}" + (f": {cure}" if cure else "")


def _of_java(error: BaseException) -> str:
    """The line about a JavaException; its message may hold the whole trace of Java's stack."""
    message = str(error).partition("\n")[0].strip()
    name = (getattr(error, "classname", None) or "").rpartition(".")[2].rpartition("$")[2]
    if not name:  # pyjnius found no method for the arguments
        return _fault(error)
    return f"{_at_file(error)}Java failed: {message:.{LONGEST}}: {JAVA_CURES.get(name, JAVA_CURE)}"


def _fault(error: BaseException) -> str:
    from rerank_plugin import __version__  # here, as the package names modules that import this one

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if PACKAGE in Path(frame.filename).parents]
    place = ""
    if frames:
        place = f" at {Path(frames[-1].filename).relative_to(PACKAGE.parent)}:{frames[-1].lineno}"
    return (
        f"{FAULT} {__version__}: {type(error).__name__}{place}: {one_line(error):.{LONGEST}}; "
        "please report this line with the command"
    )


def _at_file(error: BaseException) -> str:
    """The file or folder that was being read or written, with a colon: the ``path`` of the innermost of our functions
    that has such a variable.
    """
    place = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if PACKAGE in Path(frame.f_code.co_filename).parents:
            for name in ("path", "folder"):
                if isinstance(value := frame.f_locals.get(name), (str, Path)):
                    place = f"{value}: "
    return place
