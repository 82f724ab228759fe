"""The stemmer that a tokenizer may have: Krovetz's, which [D18] 4.3.4 used for DRMM.

It is Lucene's KStem, which every installation has with the first stage; the C++ version needs a compiler. Krovetz's
stemmer (Viewing Morphology as an Inference Process, SIGIR 1993) looks its results up in a dictionary, so stems are
words: ``therapies`` gives ``therapy``, and ``women``, a word of the dictionary, stays.
"""

from __future__ import annotations

from functools import cache
from threading import Lock

STEMMERS = ("krovetz",)


@cache
def _kstem():
    """Lucene's stemmer; starts the JVM."""
    from rerank_plugin.java.jvm import start_jvm  # here, because only those who stem need Java

    start_jvm()
    from jnius import JavaClass, JavaMethod, MetaJavaClass

    # Lucene keeps it to its package: from outside there is a filter for streams of tokens only, ten calls a word.
    class KStemmer(JavaClass, metaclass=MetaJavaClass):
        __javaclass__ = "org/apache/lucene/analysis/en/KStemmer"
        __javaconstructor__ = (("()V", False),)
        stem = JavaMethod("(Ljava/lang/String;)Ljava/lang/String;")

    return KStemmer()


_lock = Lock()  # the stemmer keeps its state between steps


def krovetz(word: str) -> str:
    """The stem of a word in lower case. A word with other characters than a to z is its own, as in Lucene.

    Raises:
        InputError: there is no Java to run Lucene's stemmer.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    with _lock:
        return _kstem().stem(word)
