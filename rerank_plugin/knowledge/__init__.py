"""Sources of medical concepts: a vocabulary such as MeSH or UMLS, compiled to a memory-mapped folder.

* `entries`: the records of the readers, concepts and relations
* `sources`: the reader for the name of a source; the readers are `mesh`, `umls` and `sample_source`
* `compiling`: compiles a source to a folder
* `transe`, `concept_vectors`: vectors of concepts, for ``rerank-plugin embed concepts``

:mod:`rerank_plugin.concepts` reads the folder. Nothing here needs Java.
"""
