"""Medical concepts: a vocabulary such as MeSH or UMLS, compiled to a folder that opens at once.

* `entries`: a concept and a relation, as the readers give them
* `sources`: which reader the name of a source means; the readers are `mesh`, `umls` and `sample_source`
* `compiling`: writes a source as a folder
* `knowledge_base`: such a folder, opened for reading
* `annotation`: marks concepts in texts; `normalization`, `term_arrays`, `matching` are its parts
* `transe`, `concept_vectors`: vectors of concepts, by ``rerank-plugin embed concepts``

Nothing here needs Java.
"""
