"""The Krovetz stemmer, an option of the tokenizer, which [D18] 4.3.4 used for DRMM.

The implementation is Lucene's KStem, which the first stage needs anyway; the C++ version needs a compiler. Krovetz's
stemmer (Viewing Morphology as an Inference Process, SIGIR 1993) looks its results up in a dictionary, so stems are
words: ``therapies`` becomes ``therapy``; ``women``, a word of the dictionary, stays.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

STEMMERS = ("krovetz",)


@cache
def _kstem() -> Any:
    """Lucene's stemmer; starts the JVM."""
    from rerank_plugin.java.jvm import start_jvm  # only stemming needs Java

    start_jvm()
    from jnius import JavaClass, JavaMethod, MetaJavaClass

    # The class is private to its Lucene package; its public token filter takes ten calls a word.
    class KStemmer(JavaClass, metaclass=MetaJavaClass):
        __javaclass__ = "org/apache/lucene/analysis/en/KStemmer"
        __javaconstructor__ = (("()V", False),)
        stem = JavaMethod("(Ljava/lang/String;)Ljava/lang/String;")

    return KStemmer()


_lock = Lock()  # the stemmer is not thread-safe: it keeps state during a word


def krovetz(word: str) -> str:
    """The stem of a lower-case word. Words with characters other than a to z stay as they are, as in Lucene.

    Raises:
        InputError: Java for Lucene's stemmer is missing.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    with _lock:
        return _kstem().stem(word)
