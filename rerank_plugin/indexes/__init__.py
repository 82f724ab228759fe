"""The index folder: segments and commits, building and updating them, Lucene, shards, candidates, stored encodings."""
