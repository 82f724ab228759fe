"""Medical concepts in texts: a compiled knowledge base, opened for reading (`knowledge_base`), and what finds them.

`annotation` marks concepts in texts, with `word_forms`, `term_arrays` and `matching`; `headings` looks up those of
MeSH for queries. :mod:`rerank_plugin.knowledge` compiles knowledge bases. Nothing here needs Java.
"""
