"""``pytest --fast`` skips a test when it first asks for Java, a browser, a client, or a process of its own.

It also skips what a missing extra would give, so that it runs where only the extra ``dev`` is installed.
"""

import subprocess
import sys
from importlib.abc import MetaPathFinder

import pytest

from rerank_plugin.base.extras import EXTRA_OF

# Java and the browser take seconds to start, the frameworks seconds to import.
OF_TESTS = {"httpx", "ahocorasick"}  # what the extra test adds
LEFT_OUT = {
    "jnius", "pyserini", "pyterrier", "playwright", "schemathesis", "mcp", "cohere", "langchain_cohere", "litellm",
    "langchain_core", "llama_index", "haystack", "rerankers", "sentence_transformers", "transformers", "ray",
}  # fmt: skip


class _Skip(MetaPathFinder):
    """Skips the test that imports one of some modules."""

    def __init__(self, modules, reason):
        self.modules, self.reason = modules, reason

    def find_spec(self, fullname, path=None, target=None):
        if fullname in self.modules:
            pytest.skip(f"{fullname} {self.reason}", allow_module_level=True)


def leave_out():
    """Make the tests of this process skip as the docstring of this module says."""
    sys.meta_path.insert(0, _Skip(LEFT_OUT, "is left out by --fast"))
    sys.meta_path.append(_Skip({*EXTRA_OF, *OF_TESTS}, "is not installed"))
    subprocess.Popen.__init__ = _no_process  # the class stays: libraries make classes of it


def _no_process(*arguments, **options):
    pytest.skip("--fast starts no process")
