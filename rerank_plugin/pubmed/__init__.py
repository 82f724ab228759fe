"""PubMed's distribution, mirrored and indexed: ``rerank-plugin pubmed``.

* `distribution`: names and order of its files, as the U.S. National Library of Medicine (NLM) publishes them
* `server`, `syncing`: requests to a server, and the files that a mirror lacks
* `mirror`: the folder of a mirror
* `selection`: the records that a filter selects
* `applying`: an index is built from a mirror, or brought up to date
"""
