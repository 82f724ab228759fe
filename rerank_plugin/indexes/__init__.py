"""The index folder: the Lucene writer, the forward index, candidates, stored encodings."""
